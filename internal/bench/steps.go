package bench

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/bare"
)

// closeTime bounds the removal of what a measurement made.
const closeTime = 30 * time.Second

// What is copied: as many files of this size as a small task has.
const (
	copyFiles = 10
	copySize  = 4 << 10
)

// copyLimit bounds what is read back.
const copyLimit = 16 << 20

// script tells when it has started, and leaves files in the root for the capture.
const script = `echo; i=0; while [ $i -lt 10 ]; do echo $i > /var/tmp/bench-$i; i=$((i+1)); done`

// steps measures the parts of a sandbox's life, with a workspace and a root that
// can be written.
func steps(ctx context.Context, e sandbox.Engine, img sandbox.Image, b budget) ([]Timing, error) {
	files, err := archive()
	if err != nil {
		return nil, err
	}
	var s series
	err = b.repeat(ctx, func(ctx context.Context) error { return life(ctx, e, img, files, &s) })
	return s.timings(), err
}

// life is one sandbox with its workspace, from making to removing.
func life(ctx context.Context, e sandbox.Engine, img sandbox.Image, files []byte, s *series) (err error) {
	at := time.Now()
	lap := func(name string) {
		now := time.Now()
		s.add(name, now.Sub(at))
		at = now
	}
	w, err := e.Workspace(ctx, sandbox.WorkspaceSpec{Labels: labels("workspace"), Owner: sandbox.Nobody})
	if err != nil {
		return fmt.Errorf("making a workspace: %w", err)
	}
	defer func() { err = errors.Join(err, remove(ctx, w)) }()
	lap("workspace")
	if err := w.Put(ctx, bytes.NewReader(files)); err != nil {
		return fmt.Errorf("copying in: %w", err)
	}
	lap("copy in")
	box, err := e.Open(ctx, sandbox.Spec{Labels: labels("agent"), Image: img, Command: []string{"sh", "-c", script}, User: &sandbox.User{},
		WritableRoot: true, Mounts: []sandbox.Mount{{Workspace: w, Target: "/workspace"}}})
	if err != nil {
		return fmt.Errorf("opening a sandbox: %w", err)
	}
	defer func() { err = errors.Join(err, remove(ctx, box)) }()
	first := &firstByte{}
	out, err := box.Run(ctx, sandbox.Streams{Stdout: first})
	if err == nil && (out.ExitCode != 0 || first.at.IsZero()) {
		err = fmt.Errorf("it ended with %s and exit code %d", out.End, out.ExitCode)
	}
	if err != nil {
		return fmt.Errorf("running a command: %w", err)
	}
	s.add("start", first.at.Sub(at))
	s.add("run", time.Since(first.at))
	at = time.Now()
	if err := w.Get(ctx, ".", copyLimit, io.Discard); err != nil {
		return fmt.Errorf("copying out: %w", err)
	}
	lap("copy out")
	if err := capture(ctx, box); err != nil {
		return err
	}
	lap("capture")
	if err := errors.Join(remove(ctx, box), remove(ctx, w)); err != nil {
		return err
	}
	lap("teardown")
	return nil
}

// capture reads what a command changed in the root.
func capture(ctx context.Context, box sandbox.Box) error {
	root, ok := box.(sandbox.RootReader)
	if !ok {
		return errors.New("the engine does not show what a command changed in its root")
	}
	changes, err := root.Changes(ctx, 1000)
	if err != nil {
		return fmt.Errorf("listing changes of the root: %w", err)
	}
	var paths []string
	for _, c := range changes {
		if c.Kind == sandbox.Added {
			paths = append(paths, c.Path)
		}
	}
	if err := root.Archive(ctx, paths, copyLimit, io.Discard); err != nil {
		return fmt.Errorf("reading changes of the root: %w", err)
	}
	return nil
}

// cycle measures whole sandboxes and the floor's, in turns.
func cycle(ctx context.Context, e sandbox.Engine, img sandbox.Image, f bare.Floor, b budget) (*Cycle, error) {
	var s series
	err := b.repeat(ctx, func(ctx context.Context) error {
		start := time.Now()
		if err := whole(ctx, e, img); err != nil {
			return err
		}
		s.add("box", time.Since(start))
		if f == nil {
			return nil
		}
		start = time.Now()
		if err := f.Cycle(ctx); err != nil {
			return err
		}
		s.add("floor", time.Since(start))
		return nil
	})
	if err != nil {
		return nil, err
	}
	t := s.timings()
	out := &Cycle{Box: t[0]}
	if f != nil {
		out.Bare, out.Floor = f.Name(), t[1]
		out.RatioP50, out.RatioP99 = per(t[0].P50, t[1].P50), per(t[0].P99, t[1].P99)
	}
	return out, nil
}

// whole is one sandbox without a workspace, whose command does nothing.
func whole(ctx context.Context, e sandbox.Engine, img sandbox.Image) (err error) {
	box, err := e.Open(ctx, sandbox.Spec{Labels: labels("cycle"), Image: img, Command: []string{"true"}})
	if err != nil {
		return fmt.Errorf("opening a sandbox: %w", err)
	}
	defer func() { err = errors.Join(err, remove(ctx, box)) }()
	out, err := box.Run(ctx, sandbox.Streams{})
	if err == nil && out.ExitCode != 0 {
		err = fmt.Errorf("running a command: it ended with %s and exit code %d", out.End, out.ExitCode)
	}
	return err
}

// remove closes a box or a workspace, also after ctx has ended.
func remove(ctx context.Context, c interface{ Close(context.Context) error }) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer stop()
	return c.Close(ctx)
}

func labels(role string) sandbox.Labels { return sandbox.Labels{Run: "bench", Role: role} }

// firstByte remembers when the first byte came.
type firstByte struct{ at time.Time }

func (f *firstByte) Write(p []byte) (int, error) {
	if f.at.IsZero() {
		f.at = time.Now()
	}
	return len(p), nil
}

// archive returns the files that are copied in.
func archive() ([]byte, error) {
	var buf bytes.Buffer
	t := tar.NewWriter(&buf)
	for i := range copyFiles {
		if err := t.WriteHeader(&tar.Header{Name: fmt.Sprintf("file-%d", i), Mode: 0o644, Size: copySize}); err != nil {
			return nil, fmt.Errorf("writing an archive: %w", err)
		}
		if _, err := t.Write(make([]byte, copySize)); err != nil {
			return nil, fmt.Errorf("writing an archive: %w", err)
		}
	}
	if err := t.Close(); err != nil {
		return nil, fmt.Errorf("writing an archive: %w", err)
	}
	return buf.Bytes(), nil
}
