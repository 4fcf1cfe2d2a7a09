package oci

import (
	"crypto/sha256"
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
// this only. One that has another wall between the command and the kernel is left as
// it is.
//
// The runtime's program is mounted read-only. A sandbox must not be able to write to
// it by way of the runtime's processes; unless it sees that no process can, the runtime
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
	if b.Dev != "" {
		hideFiles(spec, b.Dev+"/null")
	}
	if program, ok := r.filters.get(b); ok {
		spec.Annotations = map[string]string{"run.oci.seccomp_bpf_data": program}
	}
	return spec, nil
}

// hideFiles hides files behind a device of the sandbox's own. crun takes the host's, and
// a lock on a file that two sandboxes have is a message between them.
func hideFiles(spec *specs.Spec, null string) {
	spec.Linux.MaskedPaths = slices.DeleteFunc(spec.Linux.MaskedPaths, func(path string) bool {
		info, err := os.Stat(path)
		if err != nil || info.IsDir() {
			return false
		}
		spec.Mounts = append(spec.Mounts, specs.Mount{Destination: path, Type: "bind", Source: null,
			Options: []string{"bind", "rprivate", "ro", "nosuid", "noexec"}})
		return true
	})
}

// filters are the programs that crun has made of seccomp profiles, which takes it a
// third of its time. It runs one that it is given: one that it has made twice.
type filters struct {
	mu   sync.Mutex
	made map[profile]*made
}

// made is what crun has made of a profile.
type made struct {
	digest  [sha256.Size]byte
	program string // "" until it was made twice
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
	m := f.made[profileOf(b)]
	if m == nil || m.program == "" {
		return "", false
	}
	return m.program, true
}

// check compares the program of a box that was started with those of boxes before. nil is
// one that the runtime does not show.
func (f *filters) check(b Box, program []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	digest, m := sha256.Sum256(program), f.made[profileOf(b)]
	switch {
	case m == nil && program == nil:
		return nil // this version does it in another way
	case m == nil:
		if f.made == nil {
			f.made = map[profile]*made{}
		}
		f.made[profileOf(b)] = &made{digest: digest}
		return nil
	case m.digest != digest:
		return ErrFilter
	}
	m.program = base64.StdEncoding.EncodeToString(program)
	return nil
}

// maxProgram is as many bytes as the kernel takes of a filter.
const maxProgram = 4096 * 8

// ErrFilter says that a box has another filter of system calls than boxes before that
// were to have the same: something has changed one of the two.
var ErrFilter = errors.New("the filter of system calls is not the one that sandboxes before had; " +
	"look for who writes to this program's mounts, and start it again")

// Knows reports whether the runtime is given the filter of a box, or makes all itself.
func (r Runtime) Knows(b Box) bool {
	if r.Name != "crun" || r.filters == nil {
		return true
	}
	_, known := r.filters.get(b)
	return known
}

// errNotStarted says that there is nothing to be looked at.
var errNotStarted = errors.New("it has not started, or was removed")

// Started looks at how the runtime has started a box. Every box is looked at before its
// output counts: an error that wraps [ErrFilter] says that it is not confined as it should
// be. It is called in the namespace.
func (r Runtime) Started(b Box, c Call) error {
	if r.Name != "crun" || r.filters == nil {
		return nil
	}
	program, err := readProgram(filepath.Join(c.State, c.ID))
	if err == nil {
		err = r.filters.check(b, program)
	}
	if err != nil {
		return fmt.Errorf("looking at what %s has started: %w", r.Name, err)
	}
	return nil
}

// readProgram reads the filter that crun has given a container from its state; nil if
// there is none.
func readProgram(state string) ([]byte, error) {
	if _, err := os.Stat(filepath.Join(state, "status")); err != nil {
		return nil, errNotStarted
	}
	program, err := os.ReadFile(filepath.Join(state, "seccomp.bpf")) //nolint:gosec // the runtime's
	if errors.Is(err, os.ErrNotExist) || err == nil && (len(program) == 0 || len(program)%8 != 0 || len(program) > maxProgram) {
		return nil, nil
	}
	return program, err
}
