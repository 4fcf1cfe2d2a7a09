// Package oci writes the specification of a sandbox for an OCI runtime, and finds
// and calls the runtime.
package oci

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"securebench/internal/pathname"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/mountns"
)

// Box is what a specification is made of: everything is decided already, and every
// path on the host exists.
type Box struct {
	Root         string // the folder that is the sandbox's root
	ReadOnly     bool   // the root
	Args, Env    []string
	Dir          string // the working directory
	User         sandbox.User
	Capabilities []sandbox.Capability
	Mounts       []Mount
	Tracing      bool // for the seccomp profile
	Limits       sandbox.Limits
	Memory       int64  // bytes, that of tmpfs mounts included
	Cgroup       string // see [securebench/internal/sandbox/cgroup.Group.Path]
	// IDBase and IDSize map users, unless IDSize is 0.
	IDBase, IDSize int
	Users          string // the path of a user namespace with that mapping; "" is one of its own
	Peer           int    // a process whose network is shared; 0 is a network of its own
	// Dev is the folder that is /dev, furnished. If it is "", the runtime makes one, in
	// part of the host's devices, which all boxes then share.
	Dev      string
	Hostname string
}

// Mount is a mount besides those that every sandbox has.
type Mount struct {
	Target   string
	Source   string // a folder or file; "" is a tmpfs
	ReadOnly bool
	// For a tmpfs:
	Size, Inodes int64
	Mode         fs.FileMode
	User         sandbox.User
}

// terminals is how many pseudo-terminals a sandbox has. The machine has 3072 for all of
// them (kernel.pty.max).
const terminals = 128

// shmSize bounds /dev/shm in bytes; its pages count towards the memory limit.
const shmSize = 64 << 20

// Spec returns the specification. It is the same for equal boxes.
func (b Box) Spec() (*specs.Spec, error) {
	if err := b.check(); err != nil {
		return nil, fmt.Errorf("specifying a sandbox: %w", err)
	}
	linux, err := b.linux()
	if err != nil {
		return nil, fmt.Errorf("specifying a sandbox: %w", err)
	}
	process, err := b.process()
	if err != nil {
		return nil, fmt.Errorf("specifying a sandbox: %w", err)
	}
	return &specs.Spec{
		Version:  "1.0.2", // every runtime that there is knows it
		Root:     &specs.Root{Path: b.Root, Readonly: b.ReadOnly},
		Hostname: b.Hostname,
		Process:  process,
		Mounts:   b.mounts(),
		Linux:    linux,
	}, nil
}

// check refuses what would leave a box unbounded, or would not be started.
func (b Box) check() error {
	switch {
	case !path.IsAbs(b.Root) || path.Clean(b.Root) == "/":
		return fmt.Errorf("the root %q is not a folder of its own", b.Root)
	case len(b.Args) == 0:
		return fmt.Errorf("the command is empty")
	case b.Cgroup == "":
		return fmt.Errorf("there is no control group")
	case b.Memory <= 0 || b.Limits.Pids <= 0 || b.Limits.CPUs <= 0:
		return fmt.Errorf("memory (%d), processes (%d) or CPUs (%g) are not limited", b.Memory, b.Limits.Pids, b.Limits.CPUs)
	case b.User.UID < 0 || b.User.GID < 0:
		return fmt.Errorf("the user %d:%d is not valid", b.User.UID, b.User.GID)
	case b.IDSize > 0 && (b.IDBase <= 0 || b.User.UID >= b.IDSize || b.User.GID >= b.IDSize):
		return fmt.Errorf("the user %d:%d is not one of the %d that are mapped to %d and up", b.User.UID, b.User.GID, b.IDSize, b.IDBase)
	}
	for _, m := range b.Mounts {
		if err := m.check(); err != nil {
			return err
		}
	}
	return nil
}

func (m Mount) check() error {
	switch {
	case !path.IsAbs(m.Target) || path.Clean(m.Target) == "/":
		return fmt.Errorf("the mount target %q is not a place in the sandbox", m.Target)
	case pathname.Within(m.Target, "/proc", "/sys", "/dev"):
		return fmt.Errorf("the mount target %q belongs to the runtime", m.Target)
	case m.Source == "" && (m.Size <= 0 || m.Inodes <= 0):
		return fmt.Errorf("the tmpfs at %s has no bounds", m.Target)
	case m.Source != "" && !path.IsAbs(m.Source):
		return fmt.Errorf("the source %q of the mount at %s is not an absolute path", m.Source, m.Target)
	}
	return nil
}

// process is the command, and what it may do.
func (b Box) process() (*specs.Process, error) {
	limits, err := rlimits()
	score := oomScore
	return &specs.Process{
		User: specs.User{UID: uint32(b.User.UID), GID: uint32(b.User.GID), //nolint:gosec // checked
			AdditionalGids: []uint32{uint32(b.User.GID)}}, //nolint:gosec // checked
		Args:            b.Args,
		Env:             b.Env,
		Cwd:             b.Dir,
		Capabilities:    capabilities(b.Capabilities),
		Rlimits:         limits,
		NoNewPrivileges: true,
		OOMScoreAdj:     &score,
	}, err
}

// oomScore makes the kernel end a sandbox before the host's own processes when
// the whole machine is out of memory. A sandbox cannot lower its own.
const oomScore = 500

// capabilities are those of a command that runs as root. None are ambient or
// inheritable: a command of another user has none.
func capabilities(granted []sandbox.Capability) *specs.LinuxCapabilities {
	var names []string
	for _, c := range granted {
		names = append(names, "CAP_"+string(c))
	}
	slices.Sort(names)
	return &specs.LinuxCapabilities{Bounding: names, Effective: names, Permitted: names}
}

// rlimits are limits of single processes. All are set, so that a sandbox does not
// inherit what the shell that started this program happens to have; only what that one
// cannot raise counts. What bounds a sandbox is its control group.
func rlimits() ([]specs.POSIXRlimit, error) {
	const files, locked, stack, unlimited = 65536, 8 << 20, 8 << 20, unix.RLIM_INFINITY
	var list []specs.POSIXRlimit
	for _, r := range []struct {
		name       string
		resource   int
		soft, hard uint64
	}{
		{"RLIMIT_AS", unix.RLIMIT_AS, unlimited, unlimited},
		{"RLIMIT_CORE", unix.RLIMIT_CORE, 0, 0}, // a core file would show memory, and fill the disk
		{"RLIMIT_CPU", unix.RLIMIT_CPU, unlimited, unlimited},
		{"RLIMIT_DATA", unix.RLIMIT_DATA, unlimited, unlimited},
		{"RLIMIT_FSIZE", unix.RLIMIT_FSIZE, unlimited, unlimited},
		{"RLIMIT_MEMLOCK", unix.RLIMIT_MEMLOCK, locked, locked},
		{"RLIMIT_MSGQUEUE", unix.RLIMIT_MSGQUEUE, queueBytes, queueBytes},
		{"RLIMIT_NICE", unix.RLIMIT_NICE, 0, 0}, // no process goes before others
		{"RLIMIT_NOFILE", unix.RLIMIT_NOFILE, files, files},
		{"RLIMIT_NPROC", unix.RLIMIT_NPROC, unlimited, unlimited},
		{"RLIMIT_RTPRIO", unix.RLIMIT_RTPRIO, 0, 0}, // nor before all others
		{"RLIMIT_SIGPENDING", unix.RLIMIT_SIGPENDING, pendingSignals, pendingSignals},
		{"RLIMIT_STACK", unix.RLIMIT_STACK, stack, unlimited},
	} {
		var own unix.Rlimit
		if err := unix.Getrlimit(r.resource, &own); err != nil {
			return nil, fmt.Errorf("reading %s: %w", r.name, err)
		}
		list = append(list, specs.POSIXRlimit{Type: r.name, Soft: min(r.soft, own.Max), Hard: min(r.hard, own.Max)})
	}
	return list, nil
}

// mounts are the file systems that every sandbox has, and then the box's own, each
// after those that it lies in.
func (b Box) mounts() []specs.Mount {
	dev := specs.Mount{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}}
	if b.Dev != "" {
		dev.Type, dev.Source, dev.Options = "bind", b.Dev, []string{"bind", "rprivate", "nosuid"}
	}
	mounts := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		dev,
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts",
			Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5", fmt.Sprintf("max=%d", terminals)}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		{Destination: groupsFolder, Type: "cgroup", Source: "cgroup", Options: []string{"ro", "nosuid", "noexec", "nodev"}},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm",
			Options: []string{"nosuid", "noexec", "nodev", "mode=1777", fmt.Sprintf("size=%d", shmSize)}},
	}
	own := slices.Clone(b.Mounts)
	slices.SortStableFunc(own, func(a, b Mount) int { return strings.Compare(path.Clean(a.Target), path.Clean(b.Target)) })
	for _, m := range own {
		mounts = append(mounts, m.mount())
	}
	return mounts
}

func (m Mount) mount() specs.Mount {
	access := "rw"
	if m.ReadOnly {
		access = "ro"
	}
	if m.Source == "" {
		return specs.Mount{Destination: path.Clean(m.Target), Type: "tmpfs", Source: "tmpfs", Options: []string{
			access, "exec", "nosuid", "nodev", fmt.Sprintf("mode=%o", mountns.UnixMode(m.Mode)), fmt.Sprintf("size=%d", m.Size),
			fmt.Sprintf("nr_inodes=%d", m.Inodes), fmt.Sprintf("uid=%d", m.User.UID), fmt.Sprintf("gid=%d", m.User.GID)}}
	}
	return specs.Mount{Destination: path.Clean(m.Target), Type: "bind", Source: m.Source,
		Options: []string{"bind", "rprivate", access, "nosuid", "nodev"}}
}
