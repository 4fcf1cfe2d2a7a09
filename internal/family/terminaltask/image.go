package terminaltask

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"securebench/internal/family"
	"securebench/internal/family/sandboxed"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/verdict"
)

// inImage asks in a sandbox that has nothing but an image, once for all rows that
// ask the same.
func (s *scorer) inImage(ctx context.Context, image sandbox.Image, key string, ask func(*initproc.Client) ([]byte, error)) ([]byte, error) {
	return s.verifier.images.Ask(ctx, s.site.Site, image, stepLimit+sandboxed.StartLimit, map[string]any{"image": image.ID, "asked": key}, ask)
}

// lookAtImages finds out what the candidate must not decide, where it can have
// changed nothing: the user's home, and whether the checker's Python, or one that its
// tests start, loads what lies in the workspace.
func (s *scorer) lookAtImages(ctx context.Context) (err error) {
	if s.home, err = s.homeIn(ctx, s.image); err != nil {
		return err
	}
	if s.row.start != nil {
		if s.serviceHome, err = s.homeIn(ctx, s.c.Image); err != nil {
			return err
		}
	}
	folders := s.row.safePath(s.image.Path)
	found, err := s.inImage(ctx, s.image, "python "+folders, func(c *initproc.Client) ([]byte, error) {
		old, err := hasOldPython(ctx, c, s.user, folders)
		return map[bool][]byte{true: []byte("old")}[old], err
	})
	s.oldPython = string(found) == "old"
	return err
}

// homeIn returns the home of the row's user in an image.
func (s *scorer) homeIn(ctx context.Context, image sandbox.Image) (string, error) {
	if s.user.UID == 0 {
		return "/root", nil // no sandbox is needed
	}
	home, err := s.inImage(ctx, image, fmt.Sprintf("home %v", s.user), func(c *initproc.Client) ([]byte, error) {
		home, err := homeOf(ctx, c, s.user)
		return []byte(home), err
	})
	if plainPath(string(home)) != "" {
		return "/", err
	}
	return string(home), err
}

// clearRoots makes the captured paths that are no folders of the row's image, and so
// are not mounted, in an image of the checker's own what they are in the row's: else
// what that image has there would pass as the candidate's.
func (s *scorer) clearRoots(ctx context.Context) error {
	var changes bytes.Buffer
	tw := tar.NewWriter(&changes)
	for _, root := range s.bare {
		if s.row.elsewhere(root) {
			continue
		}
		h, data, err := s.inRowImage(ctx, root)
		if err != nil {
			return err
		}
		if h == nil {
			continue
		}
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if _, err := tw.Write(data); err != nil {
			return err
		}
	}
	if err := tw.Close(); err != nil {
		return err
	}
	err := s.site.checker.Client.Apply(ctx, &changes)
	if refused := (*initproc.ApplyError)(nil); errors.As(err, &refused) {
		return family.Fail(verdict.PackFault, "the captured path /%s cannot be made in the checker's image: %v", refused.Path, refused.Errno)
	}
	if err != nil {
		return fmt.Errorf("clearing the captured paths in the checker's image: %w", err)
	}
	return nil
}

// inRowImage returns what the row's image has at a path: the header and content of a
// file, or a deletion for nothing. Of a file that cannot be told it is nil.
func (s *scorer) inRowImage(ctx context.Context, name string) (*tar.Header, []byte, error) {
	var place initproc.Place
	content, err := s.inImage(ctx, s.c.Image, "file "+name, func(c *initproc.Client) ([]byte, error) {
		found, err := c.Destinations(ctx, []string{name})
		if err != nil || found[0].Missing || found[0].Path != name {
			return nil, err
		}
		data, ok, err := fileIn(ctx, c, name)
		if err != nil || !ok {
			return []byte("-"), err
		}
		return fmt.Appendf(nil, "%d %d %d\n%s", found[0].UID, found[0].GID, found[0].Mode, data), nil
	})
	below := strings.TrimPrefix(name, "/")
	switch {
	case err != nil:
		return nil, nil, err
	case len(content) == 0:
		return deletion(below), nil, nil
	}
	head, data, ok := bytes.Cut(content, []byte("\n"))
	if _, err := fmt.Sscanf(string(head), "%d %d %d", &place.UID, &place.GID, &place.Mode); !ok || err != nil {
		return nil, nil, nil
	}
	return &tar.Header{Typeflag: tar.TypeReg, Name: below, Uid: place.UID, Gid: place.GID, Mode: int64(place.Mode), Size: int64(len(data))}, data, nil
}
