package oci

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/opencontainers/runtime-spec/specs-go"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/cgroup"
	"securebench/internal/sandbox/mountns"
)

// Prepare makes the mount namespace of this thread (package mountns) fit for the
// runtime, and returns the runtime as it is called there. dir is a folder in it for
// this alone. One that has another wall between the command and the kernel is left as
// it is.
//
// The runtime's program is mounted read-only. A sandbox must not be able to write to
// it by way of the runtime's processes; unless it sees that nobody can, the runtime
// copies itself at every start.
func (r Runtime) Prepare(dir string) (Runtime, error) {
	if !r.Maps {
		return r, nil
	}
	prepared, err := r.prepare(dir)
	if err != nil {
		return r, fmt.Errorf("preparing a mount namespace for %s: %w", r.Name, err)
	}
	return prepared, nil
}

func (r Runtime) prepare(dir string) (Runtime, error) {
	groups, program := filepath.Join(dir, "cgroup"), filepath.Join(dir, r.Name)
	if err := errors.Join(os.MkdirAll(groups, 0o700), os.WriteFile(program, nil, 0o600)); err != nil {
		return r, err
	}
	if err := (*mountns.IDs)(nil).Bind(r.Path, program, true); err != nil {
		return r, err
	}
	version, err := cgroup.Narrow(groups)
	r.Path, r.groupsV2, r.filters = program, version == 2, &filters{}
	return r, err
}

// Spec returns the specification of a box as the runtime needs it to have the same
// effect as with others.
func (r Runtime) Spec(b Box) (*specs.Spec, error) {
	spec, err := b.Spec()
	if err != nil || r.Name != "crun" {
		return spec, err
	}
	if !r.groupsV2 {
		// With version 1, crun makes a folder that everybody can write to, and in the
		// copy by which that becomes read-only every hierarchy can be written to.
		spec.Mounts = slices.DeleteFunc(spec.Mounts, func(m specs.Mount) bool { return m.Destination == groupsFolder })
		spec.Linux.ReadonlyPaths = slices.DeleteFunc(spec.Linux.ReadonlyPaths, func(path string) bool { return path == groupsFolder })
	}
	if program, ok := r.filters.get(b); ok {
		spec.Annotations = map[string]string{"run.oci.seccomp_bpf_data": program}
	}
	return spec, nil
}

// filters are the programs that crun has made of seccomp profiles, which takes it a
// third of its time. It runs one that it is given.
type filters struct {
	mu   sync.Mutex
	made map[profile]string
}

// profile is what decides of a box which profile it has.
type profile struct{ tracing, chroot bool }

func profileOf(b Box) profile {
	return profile{b.Tracing, slices.Contains(b.Capabilities, sandbox.SysChroot)}
}

func (f *filters) get(b Box) (program string, ok bool) {
	if f == nil {
		return "", false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	program, ok = f.made[profileOf(b)]
	return program, ok
}

// maxProgram is as many bytes as the kernel takes of a filter.
const maxProgram = 4096 * 8

// Knows reports whether [Runtime.Started] has nothing to learn from a start of the box.
func (r Runtime) Knows(b Box) bool {
	if r.Name != "crun" || r.filters == nil {
		return true
	}
	_, known := r.filters.get(b)
	return known
}

// Started looks at how the runtime has started a box that runs, for those that come.
// It is called in the namespace.
func (r Runtime) Started(b Box, c Call) error {
	if r.Knows(b) {
		return nil
	}
	state := filepath.Join(c.State, c.ID)
	if _, err := os.Stat(filepath.Join(state, "status")); err != nil {
		return nil // it has not started, or has ended
	}
	program, err := os.ReadFile(filepath.Join(state, "seccomp.bpf")) //nolint:gosec // the runtime's
	if errors.Is(err, os.ErrNotExist) || err == nil && (len(program) == 0 || len(program)%8 != 0 || len(program) > maxProgram) {
		return nil // this version does it in another way
	}
	if err != nil {
		return fmt.Errorf("reading the filter that %s made: %w", r.Name, err)
	}
	r.filters.mu.Lock()
	defer r.filters.mu.Unlock()
	if r.filters.made == nil {
		r.filters.made = map[profile]string{}
	}
	r.filters.made[profileOf(b)] = base64.StdEncoding.EncodeToString(program)
	return nil
}
