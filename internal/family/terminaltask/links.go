package terminaltask

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"securebench/internal/sandbox/initproc"
)

const (
	// linksAtOnce is how many links are looked at in one go.
	linksAtOnce = 64
	// maxRemovedLinks bounds the links that are removed, whose paths are kept until
	// all are known: a link through another one leads where that leads.
	maxRemovedLinks = 10_000
)

// errTooManyLinks means that there are more links to remove than can be.
var errTooManyLinks = errors.New("too many links lead where none may lead")

// linkBox is a sandbox in which a candidate's changes were made.
type linkBox interface {
	// Destinations returns where paths lead with all links followed.
	Destinations(ctx context.Context, paths []string) ([]initproc.Place, error)
	// Apply makes changes.
	Apply(ctx context.Context, changes io.Reader) error
}

// removeLinks removes those links of an archive of changes that are astray, which is
// asked with their path, their target and where they lead. It returns their paths.
func removeLinks(ctx context.Context, b linkBox, changes io.Reader, astray func(at, target string, to initproc.Place) (bool, error)) ([]string, error) {
	var all, some []string
	var targets []string
	look := func() error {
		leads, err := b.Destinations(ctx, some)
		if err != nil {
			return err
		}
		for i, at := range some {
			away, err := astray(at, targets[i], leads[i])
			if err != nil {
				return err
			}
			if away {
				all = append(all, at)
			}
		}
		if some, targets = nil, nil; len(all) > maxRemovedLinks {
			return errTooManyLinks
		}
		return nil
	}
	for tr := tar.NewReader(changes); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading the links of a candidate: %w", err)
		}
		if h.Typeflag != tar.TypeSymlink {
			continue
		}
		some, targets = append(some, "/"+h.Name), append(targets, h.Linkname)
		if len(some) == linksAtOnce {
			if err := look(); err != nil {
				return nil, err
			}
		}
	}
	if _, err := io.Copy(io.Discard, changes); err != nil {
		return nil, err
	}
	if err := look(); err != nil || len(all) == 0 {
		return nil, err
	}
	return all, deletePaths(ctx, b, all)
}

// deletePaths deletes paths.
func deletePaths(ctx context.Context, b linkBox, paths []string) error {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, p := range paths {
		if err := w.WriteHeader(deletion(p[1:])); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return b.Apply(ctx, &archive)
}
