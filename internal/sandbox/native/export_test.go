package native

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/cgroup"
	"securebench/internal/sandbox/owner"
)

// Bare returns a function that runs the command of a box with the runtime alone: with
// the specification, the root and the mounts that the box has, made once. close
// removes them.
func (e *Engine) Bare(ctx context.Context, spec sandbox.Spec) (run func() error, closeBox func() error, err error) {
	b, err := e.openBox(ctx, spec)
	if err != nil {
		return nil, nil, err
	}
	if err := b.writeSpec(0); err != nil {
		return nil, nil, err
	}
	n := 0
	run = func() error {
		n++
		cmd := exec.Command(e.runtime.Path, "--root", b.path("s"), "run", "--bundle", b.path(), fmt.Sprintf("%s-%d", b.id, n))
		if err := e.ns.Start(cmd); err != nil {
			return err
		}
		return cmd.Wait()
	}
	return run, func() error { return b.Close(ctx) }, nil
}

// FirstProcess is the process on this machine that is a box's command.
func FirstProcess(b sandbox.Box) int {
	p, err := b.(*box).started()
	if err != nil {
		return 0
	}
	return p.PID
}

// Mounts counts what is mounted for an engine.
func (e *Engine) Mounts() (n int, err error) {
	err = e.ns.Do(func() error {
		text, err := os.ReadFile("/proc/thread-self/mountinfo")
		n = strings.Count(string(text), " "+e.path()+"/")
		return err
	})
	return n, err
}

// GroupOf is the control group of a box.
func GroupOf(b sandbox.Box) *cgroup.Group { return b.(*box).group }

// GroupOfOwner is the name of a group that an engine of an owner may have.
func GroupOfOwner(o owner.Owner) string { return groupOf(o) }

// RuntimeID is what a runtime may know a container of an owner's by.
func RuntimeID(o owner.Owner) string {
	return path.Base(groupOf(o)) + idSeparator + newName()
}
