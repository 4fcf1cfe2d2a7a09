package terminaltask

import (
	"context"
	"fmt"

	"securebench/internal/family/terminaltask/probe"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
)

// inImage asks in a sandbox that has nothing but an image, once for all rows that
// ask the same.
func (s *session) inImage(ctx context.Context, image sandbox.Image, key string, ask func(*initproc.Client) ([]byte, error)) ([]byte, error) {
	return s.verifier.once(image.ID+" "+key, func() ([]byte, error) {
		limits := s.site.Limits
		limits.Output, limits.Timeout = streams, stepLimit+startLimit
		b, err := s.site.Open(ctx, sandbox.Spec{Image: image, Workdir: "/", Limits: limits}, "probe", nil)
		if err != nil {
			return nil, err
		}
		defer func() { _ = b.Close(context.WithoutCancel(ctx)) }() // what is left is reaped
		return ask(b.Client)
	})
}

// lookAtImages finds out what the candidate must not decide, where it can have
// changed nothing: the user's home, and whether the checker's Python loads what
// lies in the workspace. Pytest does not, whatever Python it runs on.
func (s *session) lookAtImages(ctx context.Context) (err error) {
	if s.home, err = s.homeIn(ctx, s.image); err != nil {
		return err
	}
	if s.row.start != nil {
		if s.serviceHome, err = s.homeIn(ctx, s.c.Image); err != nil {
			return err
		}
	}
	if s.row.form == formPytest {
		return nil
	}
	folders := s.row.safePath(s.image.Path)
	found, err := s.inImage(ctx, s.image, "python "+folders, func(c *initproc.Client) ([]byte, error) {
		old, err := probe.OldPython(ctx, c, s.user, folders)
		return map[bool][]byte{true: []byte("old")}[old], err
	})
	s.oldPython = string(found) == "old"
	return err
}

// homeIn returns the home of the row's user in an image.
func (s *session) homeIn(ctx context.Context, image sandbox.Image) (string, error) {
	if s.user.UID == 0 {
		return "/root", nil // no sandbox is needed
	}
	home, err := s.inImage(ctx, image, fmt.Sprintf("home %v", s.user), func(c *initproc.Client) ([]byte, error) {
		home, err := probe.Home(ctx, c, s.user)
		return []byte(home), err
	})
	if plainPath(string(home)) != "" {
		return "/", err
	}
	return string(home), err
}
