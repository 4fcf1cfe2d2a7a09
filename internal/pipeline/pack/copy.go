package pack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"securebench/internal/digest"
	"securebench/internal/source"
)

// Copy calls write for the manifest and for each file of both lanes, by its path in a pack that
// has a file of rows. All are those that were loaded; otherwise the error is a [*ChangedError].
func (p *Pack) Copy(ctx context.Context, write func(name string, program bool, content io.Reader) error) error {
	manifest, err := readRegular(p.Location.Manifest, maxManifest)
	if err != nil {
		return err
	}
	if digest.Bytes(manifest) != p.Digests.Manifest {
		return &ChangedError{source.Pos{File: p.Location.Manifest}, "the manifest changed"}
	}
	if err := write(manifestName, false, bytes.NewReader(manifest)); err != nil {
		return err
	}
	for _, lane := range []struct {
		from, to string
		sums     map[string]string
	}{{p.PublicRoot(), p.Manifest.PublicRoot, p.PublicFiles}, {p.EvalRoot(), p.Manifest.EvalRoot, p.EvalFiles}} {
		if len(lane.sums) == 0 {
			continue
		}
		root, err := os.OpenRoot(lane.from)
		if err != nil {
			return withoutPath(err)
		}
		defer root.Close()
		for _, name := range slices.Sorted(maps.Keys(lane.sums)) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			err := CopyFile(root, name, lane.sums[name], func(program bool, content io.Reader) error { return write(path.Join(lane.to, name), program, content) })
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// CopyFile calls write for a file below root. It must have the digest sum, unless that is
// empty; otherwise the error is a [*ChangedError].
func CopyFile(root *os.Root, name, sum string, write func(program bool, content io.Reader) error) error {
	in, err := source.OpenIn(root, name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	h := sha256.New()
	if err := write(info.Mode()&0o111 != 0, io.TeeReader(in, h)); err != nil {
		return err
	}
	if sum != "" && digest.Format(h.Sum(nil)) != sum {
		return &ChangedError{source.Pos{File: filepath.Join(root.Name(), name)}, "the file changed"}
	}
	return nil
}
