// Package packimage builds the images that a pack brings along: one for each
// folder images/NAME that holds a Dockerfile.
//
// Building is a command of its own and never part of a run. It executes what
// the pack's author wrote, inside the engine's builder and with the engine's
// network.
package packimage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"securebench/internal/lazyregexp"
	"securebench/internal/source"
)

// Folder is the pack's folder with one folder for each image.
const Folder = "images"

// file is the name of the file that an image is built from.
const file = "Dockerfile"

// maxDockerfile bounds a Dockerfile in bytes.
const maxDockerfile = 1 << 20

// plain is what the id of a pack and the name of a folder must look like to be
// parts of an image's reference.
var plain = lazyregexp.New(`^[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*$`)

// Pack says whose images are meant.
type Pack struct {
	Dir     string // the folder of the manifest
	ID      string
	Version int64
}

// Image is one image of a pack.
type Image struct {
	Name string // of its folder
	Ref  string // which rows name
	Uses []string
}

// Ref returns the reference of an image: localhost/ID/NAME:VERSION. No public
// registry can serve that name, so what a row names is always what was built
// here.
func (p Pack) Ref(name string) string {
	return fmt.Sprintf("localhost/%s/%s:%d", p.ID, name, p.Version)
}

// Makes reports whether ref is an image of the pack.
func (p Pack) Makes(ref string) bool {
	name, ok := strings.CutPrefix(ref, "localhost/"+p.ID+"/")
	name, _, tagged := strings.Cut(name, ":")
	if !ok || !tagged || !plain.MatchString(name) || ref != p.Ref(name) {
		return false
	}
	_, err := os.Lstat(filepath.Join(p.Dir, Folder, name, file))
	return err == nil
}

// Claims reports whether ref is a name that only an image of the pack can have, and
// the pack has no recipe of it: another name or version was probably meant.
func (p Pack) Claims(ref string) bool {
	return strings.HasPrefix(ref, "localhost/"+p.ID+"/") && !strings.Contains(ref, "@") && !p.Makes(ref)
}

// Images returns the images of a pack, or those that are named, each after
// those that it is built from.
func (p Pack) Images(names ...string) ([]Image, error) {
	if !plain.MatchString(p.ID) {
		return nil, fmt.Errorf("the id of the pack, %q, cannot be part of an image's name: use lower-case letters, digits and single . _ or -", p.ID)
	}
	all, err := p.read()
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		for name := range all {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	o := order{pack: p, all: all, state: map[string]int{}}
	for _, name := range names {
		if all[name] == nil {
			return nil, fmt.Errorf("the pack has no image %q: there is no %s", name, filepath.Join(p.Dir, Folder, name, file))
		}
		if err := o.visit(name); err != nil {
			return nil, err
		}
	}
	return o.done, nil
}

// read reads every Dockerfile: the references that each is built from, by the
// name of the image.
func (p Pack) read() (map[string][]string, error) {
	dir := filepath.Join(p.Dir, Folder)
	root, err := p.open(Folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the pack has no images to build: there is no folder %s", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", dir, err)
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", dir, err)
	}
	all := map[string][]string{}
	for _, e := range entries {
		name := e.Name()
		if !e.IsDir() {
			return nil, fmt.Errorf("%s is not a folder: %s holds one folder for each image", filepath.Join(dir, name), dir)
		}
		if !plain.MatchString(name) {
			return nil, fmt.Errorf("the folder %s cannot be an image's name: use lower-case letters, digits and single . _ or -", filepath.Join(dir, name))
		}
		text, err := source.ReadFileIn(root, name+"/"+file, maxDockerfile)
		if err != nil {
			return nil, fmt.Errorf("reading the Dockerfile of image %q: %w", name, err)
		}
		all[name] = append([]string{}, bases(string(text))...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the pack has no images to build: the folder %s is empty", dir)
	}
	return all, nil
}

// open opens a folder of the pack by the names on the way to it; none of them
// may be a link: what a build sends to the engine is all from the pack.
func (p Pack) open(names ...string) (*os.Root, error) {
	root, err := os.OpenRoot(p.Dir)
	for _, name := range names {
		if err != nil {
			return nil, err
		}
		var info fs.FileInfo
		if info, err = root.Lstat(name); err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is %s, not a folder", name, source.FileType(info.Mode()))
		}
		parent := root
		if err == nil {
			root, err = parent.OpenRoot(name)
		}
		err = errors.Join(err, parent.Close())
	}
	return root, err
}

// from matches what an image is built from, and what it copies files from.
var from = lazyregexp.New(`(?mi)^[ \t]*(?:FROM(?:[ \t]+--\S+)*[ \t]+(\S+)|(?:COPY|ADD)\b.*?[ \t]--from=(\S+))`)

// bases returns the references that a Dockerfile is built from.
func bases(text string) []string {
	var out []string
	for _, m := range from.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1]+m[2])
	}
	return out
}

// The states of an image while images are ordered.
const (
	unvisited = iota
	open
	closed
)

type order struct {
	pack  Pack
	all   map[string][]string
	state map[string]int
	done  []Image
}

func (o *order) visit(name string) error {
	switch o.state[name] {
	case closed:
		return nil
	case open:
		return fmt.Errorf("image %q is built from itself", name)
	case unvisited:
	}
	o.state[name] = open
	img := Image{Name: name, Ref: o.pack.Ref(name)}
	for _, ref := range o.all[name] {
		for other := range o.all {
			if ref == o.pack.Ref(other) && !slices.Contains(img.Uses, ref) {
				img.Uses = append(img.Uses, ref)
				if err := o.visit(other); err != nil {
					return err
				}
			}
		}
	}
	slices.Sort(img.Uses)
	o.state[name] = closed
	o.done = append(o.done, img)
	return nil
}
