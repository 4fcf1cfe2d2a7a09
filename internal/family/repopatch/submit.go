package repopatch

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"securebench/internal/family"
	"securebench/internal/family/sandboxed"
	"securebench/internal/repository"
	"securebench/internal/repository/patchtext"
	"securebench/internal/sandbox"
	"securebench/internal/verdict"
)

// submit applies the candidate, and returns the patch that did. Git takes it as it
// is, or in the form that it would have written itself, if that has one meaning.
func (s *scorer) submit(ctx context.Context, git string, b base, patch []byte) ([]byte, error) {
	read, err := patchtext.Read(patch)
	bare := err == nil && read.Bare()
	if !bare {
		whole, ended := patchtext.Complete(patch)
		if ok, err := s.try(ctx, git, whole); ok || err != nil {
			if !ended {
				s.form = []string{patchtext.FinalNewline}
			}
			return whole, err
		}
		if err := s.untouched(ctx, b); err != nil {
			return nil, err
		}
	}
	var canonical []byte
	if err == nil {
		canonical, s.form, err = read.Canonical(b.file)
	}
	if err == nil && len(s.form) == 0 {
		s.form = []string{patchtext.Rewritten}
	}
	var why *patchtext.Unclear
	switch {
	case errors.As(err, &why) && (!bare || why.Ambiguous):
		return nil, family.Fail(verdict.PatchDoesNotApply, "the patch does not apply to the repository: %s", why.Why)
	case errors.As(err, &why):
		canonical = patch // what git makes of it
	case err != nil:
		return nil, err
	}
	ok, err := s.try(ctx, git, canonical)
	if err == nil && !ok {
		err = errUnapplied
	}
	return canonical, err
}

var errUnapplied = family.Fail(verdict.PatchDoesNotApply, "the patch does not apply to the repository")

// try gives a candidate to git, and reports whether that took it.
func (s *scorer) try(ctx context.Context, git string, patch []byte) (bool, error) {
	got, err := s.apply(ctx, git, patch, noLinks)
	switch {
	case err != nil:
		return false, err
	case got.End == sandbox.TimedOut:
		return false, family.Fail(verdict.PatchDoesNotApply, "git needs longer than %v for the patch", s.stepLimit())
	case got.ExitCode != 0 && sandboxed.Full(ctx, s.site.tree):
		return false, family.Fail(verdict.DiskLimit, "the patch does not fit into the limit of disk space")
	}
	return got.ExitCode == 0, nil
}

// untouched makes sure that a patch which does not apply left the base as it was.
func (s *scorer) untouched(ctx context.Context, b base) error {
	now, err := s.site.walk(ctx)
	if err == nil && (!maps.Equal(now.Entries, b.tree.Entries) || !maps.Equal(now.Odd, b.tree.Odd)) {
		err = errUnapplied
	}
	return err
}

// file returns what is at a path of the base. Of links it has no content.
func (b base) file(path string) (f patchtext.File, err error) {
	f.Mode = b.tree.Entries[path].Mode
	if set, changed := b.setup[path]; changed {
		f.Data = set.data
	} else if f.Mode != 0 && f.Mode != repository.Symlink {
		if f.Data, err = b.from.Content(path); err != nil {
			return f, fmt.Errorf("reading the pristine checkout: %w", err)
		}
	}
	return f, nil
}
