package terminaltask

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"securebench/internal/attended"
	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/sandboxed"
	"securebench/internal/piped"
	"securebench/internal/sandbox"
	"securebench/internal/verdict"
)

// serviceSpace is the workspace of the service's sandbox: its own, unless the row
// asks for one that both have.
func (s *scorer) serviceSpace() sandbox.Workspace {
	if s.row.start.shared {
		return s.site.tree
	}
	return s.site.own
}

// look reads what the service's workspace holds.
func (s *scorer) look(ctx context.Context) (base *candidate.Base, err error) {
	bounds := candidate.Bounds{Bytes: s.site.Limits.Disk, Files: s.site.Limits.Files}
	err = piped.Run(func(w io.Writer) error { return s.site.own.Get(ctx, ".", bounds.ArchiveSize(), w) }, func(r io.Reader) (err error) {
		base, err = candidate.ReadBase(r, bounds)
		return err
	})
	if errors.Is(err, sandbox.ErrTooLarge) {
		return nil, &family.Failure{Reason: verdict.DiskLimit, Message: "the row's service left more in the workspace than the disk limit allows"}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the workspace of the service: %w", err)
	}
	return base, nil
}

// follow makes what the service changed in its workspace until it was ready in the
// checker's as well. From then on its changes are its own: nothing that the
// checker looks at changes under its eyes.
func (s *scorer) follow(ctx context.Context) (err error) {
	ctx, cancel := attended.WithTimeoutCause(ctx, applyLimit, sandboxed.ErrSlow)
	defer cancel()
	if f, ok := s.site.service.Box.(sandbox.Freezer); ok {
		if err := f.Freeze(ctx); err != nil {
			return fmt.Errorf("pausing the service: %w", err)
		}
		defer func() {
			if terr := f.Thaw(context.WithoutCancel(ctx)); terr != nil {
				err = errors.Join(err, fmt.Errorf("resuming the service: %w", terr))
			}
		}()
	}
	now, err := s.look(ctx)
	if err != nil {
		return err
	}
	did := changedBetween(s.began, now)
	if did.none() {
		return nil
	}
	s.linked = false
	limit := candidate.Bounds{Bytes: s.site.Limits.Disk, Files: s.site.Limits.Files}.ArchiveSize()
	source := func(w io.Writer) error {
		return did.copy(func(w io.Writer) error { return s.site.own.Get(ctx, ".", limit, w) }, strings.TrimPrefix(s.row.workdir, "/"),
			func(r io.Reader) error { _, err := io.Copy(w, r); return err })
	}
	put := func(h *tar.Header) (string, string, bool) { return s.placing.judge(h, s.placing.lay) }
	if err := s.make(ctx, s.site.checker.Client, source, put, s.left.add); err != nil {
		return err
	}
	return s.removeLinks(ctx, source, put)
}
