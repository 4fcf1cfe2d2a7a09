package packlint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"securebench/internal/lazyregexp"
	"securebench/internal/packimage"
	"securebench/internal/pipeline/pack"
	"securebench/internal/redact"
	"securebench/internal/source"
)

// telling matches the names of tests and solutions in the folder that an image
// is built from.
var telling = lazyregexp.New(`(?i)^(?:tests?|solution)/|(?:^|/)(?:run[-_]tests?\.sh|test_outputs\.py|solution\.(?:sh|py|ya?ml)|solve\.sh)$`)

// recipe looks whether the pack makes an image that only it can make.
func (l *linter) recipe(row pack.Row) {
	n := row.Environment.Get("image")
	own := packimage.Pack{Dir: filepath.Dir(l.pack.Location.Manifest), ID: l.pack.Manifest.ID, Version: l.pack.Manifest.Version}
	if n == nil || n.Kind != source.String || !own.Claims(n.Text) {
		return
	}
	l.warn(n.Pos, "correct the name, or write the recipe "+own.Ref("NAME")+" as "+packimage.Folder+"/NAME/Dockerfile",
		"environment.image %s is an image of this pack, which has no recipe of it", redact.Quote(n.Text))
}

// walkImages walks through the folders that the images of a pack in a folder are built
// from, if it has any. Names are below them.
func walkImages(folder string, visit func(root *os.Root, name string, d fs.DirEntry, err error) error) error {
	root, err := os.OpenRoot(filepath.Join(folder, packimage.Folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the pack's images: %w", err)
	}
	defer root.Close()
	return fs.WalkDir(source.FS(root), ".", func(name string, d fs.DirEntry, err error) error { return visit(root, name, d, err) })
}

// images looks for names of tests and solutions in the folders that the images of a
// pack with trees are built from.
func (l *linter) images(trees bool) error {
	if !trees {
		return nil
	}
	folder := filepath.Dir(l.pack.Location.Manifest)
	dir := filepath.Join(folder, packimage.Folder)
	return walkImages(folder, func(_ *os.Root, name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if _, inside, _ := strings.Cut(name, "/"); telling.MatchString(inside) {
			l.warn(source.Pos{File: filepath.Join(dir, filepath.FromSlash(name))}, "remove it from the image's folder if it is",
				"this sounds like tests or a solution, which the agent can read in the image")
		}
		return nil
	})
}
