package scoring

import (
	"context"
	"errors"
	"fmt"

	"securebench/internal/agent/harness"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/workload"
	"securebench/internal/workspace"
)

// faults are what rows want of their images and cannot have: each is its row's own,
// and none ends a command. All of it is known from the pack and the images as they
// are on the engine; nothing that an agent or a candidate does can cause one.
type faults struct {
	images map[string]error // by reference
	users  map[workload.User]error
	looks  mountPoints
}

// ImageFault says why nothing can run in an image, or nil.
func (s *Scorer) ImageFault(ref string) error { return s.faults.images[ref] }

// Place is where the sandboxes of a task's agent are.
type Place struct {
	// Agent is the image that the agent runs in instead of the row's; "" is none.
	Agent string
	// Sandboxed says that there is such a sandbox for every task.
	Sandboxed bool
}

// Fault returns an error that wraps [sandbox.ErrUnusable] if the row of a task wants of
// an image what that cannot give, and any other error if the engine does not say.
func (s *Scorer) Fault(ctx context.Context, w *workload.Workload, t task.Task, at Place) error {
	if s.Engine == nil {
		return nil
	}
	env := t.Environment()
	if fam := w.Families[t.Family()]; fam.Images != nil {
		for _, ref := range fam.Images(t.TestSandbox()) {
			if s.faults.images[ref] != nil { // with a name that no record may have
				return sandbox.Unusable(errors.New("nothing can run in the image that the row's evaluation names (the run's warnings say which one and why)"))
			}
		}
	}
	for _, ref := range []string{env.Image, at.Agent} {
		if err := s.faults.images[ref]; err != nil {
			return err
		}
		if err := s.faults.users[workload.User{Image: ref, Name: env.User}]; err != nil {
			return err
		}
	}
	for _, m := range mounts(t, at) {
		fault, err := s.faults.looks.Fault(ctx, s.Images[m.image], m.target, m.exact)
		if err != nil {
			return err
		}
		if fault != nil {
			return fmt.Errorf("image %s has no place for the %s: %w (%s)", m.image, m.what, fault, m.fix)
		}
	}
	return nil
}

// mount is a folder that something is mounted at.
type mount struct {
	image, target, what, fix string
	exact                    bool // no link leads there
}

// mounts lists where the folders of a task are mounted. A workspace that is the
// candidate is also mounted where it is verified, and links on the way there would
// give its files two names.
func mounts(t task.Task, at Place) (out []mount) {
	env, tree := t.Environment(), t.Agent().Extraction().Kind == task.Workspace
	target := harness.MountTarget(t.Agent())
	if tree {
		out = append(out, mount{env.Image, target, "workspace",
			"set environment.workdir to a folder of the image, or to a path that it does not have", true})
	}
	if !at.Sandboxed {
		return out
	}
	image := env.Image
	if at.Agent != "" {
		image = at.Agent
	}
	if !tree || image != env.Image {
		out = append(out, mount{image, target, "workspace",
			"build the image with a folder at " + workspace.DefaultTarget + ", or with nothing there", false})
	}
	if dir := env.Checkout.Dir; dir != "" && image != env.Image {
		out = append(out, mount{image, dir, "repository", "build the image with nothing there, or set environment.workdir to another folder", false})
	}
	return out
}

// imageFault describes an image in which nothing can run.
func imageFault(ref string, err error) error {
	return fmt.Errorf("nothing can run in image %s: %w (correct the Dockerfile and build it again)", ref, err)
}

// userFault describes a user that an image does not have; other errors are the
// engine's.
func userFault(key workload.User, err error) (fault, other error) {
	if errors.Is(err, sandbox.ErrUnusable) {
		return fmt.Errorf("environment.user: %w (name a user of image %s, or UID:GID)", err, key.Image), nil
	}
	return nil, fmt.Errorf("looking up user %q in image %s: %w", key.Name, key.Image, err)
}
