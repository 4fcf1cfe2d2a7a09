// Package require finds out whether this machine can run sandboxes without a daemon.
// It tries each thing on a small scale, and removes what it made.
package require

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/cgroup"
	"securebench/internal/sandbox/imagestore"
	"securebench/internal/sandbox/mountns"
	"securebench/internal/sandbox/oci"
)

// Config says what is checked.
type Config struct {
	Images  string // the folder of the image store; "" is its default
	Helper  string // the path of the static helper binary
	Runtime string // see [FindRuntime]
	Dir     string // where sandboxes are mounted
	Group   string // a control group whose name nothing else uses
	// IDBase and IDSize are how users are mapped where the kernel can.
	IDBase, IDSize int
	Getenv         func(string) string
}

// The names of requirements.
const (
	Helper     = "the helper program"
	Runtime    = "an OCI runtime"
	Mounts     = "the right to mount"
	Tmpfs      = "file systems in memory with bounds"
	Store      = "room for images"
	Overlay    = "overlay file systems"
	Groups     = "control groups"
	Processes  = "free process numbers"
	Sandbox    = "a sandbox that runs"
	Filter     = "a filter of system calls"
	Privileges = "a sandbox without privileges"
	Namespaces = "namespaces of its own"
	Limits     = "limits that are in place"
	Swap       = "a limit on swap"
	Users      = "users of their own"
	Counts     = "limits of this shell that suit"
	Tested     = "a kind of machine that was tested"
)

// requirement is one, and how it is found out.
type requirement struct {
	name     string
	needs    []string // what has to hold for it to be tried
	optional bool
	fix      string
	try      func(ctx context.Context) (found string, err error)
}

// checker is what the requirements share.
type checker struct {
	cfg     Config
	list    []sandbox.Requirement
	dir     string // where ns has its tmpfs
	images  string
	runtime oci.Runtime
	ns      *mountns.Namespace
	ids     *mountns.IDs
	group   *cgroup.Group
	version string // of the control groups
	seen    confinement
}

// Check tries every requirement. One that needs another that does not hold is not
// tried and does not hold either.
func Check(ctx context.Context, cfg Config) []sandbox.Requirement {
	if cfg.Getenv == nil {
		cfg.Getenv = func(string) string { return "" }
	}
	c := &checker{cfg: cfg}
	for _, r := range c.requirements() {
		c.list = append(c.list, c.check(ctx, r))
	}
	if err := c.close(ctx); err != nil {
		c.list = append(c.list, sandbox.Requirement{Name: "removing what was tried", Found: err.Error(), Fix: "securebench clean"})
	}
	return c.list
}

func (c *checker) requirements() []requirement {
	delegate := "boot with systemd, and with cgroup_enable=memory on the kernel's command line"
	mapping := "boot a kernel from 6.3 on: apt-get install -t bookworm-backports linux-image-amd64"
	overlay := "modprobe overlay; or set SECUREBENCH_IMAGES to a folder on ext4, xfs or btrfs"
	if mountns.Rootless() {
		delegate, mapping = "systemd-run --user --scope -p Delegate=yes securebench …", "sudo securebench …"
		overlay = "boot a kernel from 6.6 on; or " + overlay
	}
	return []requirement{
		{name: Helper, fix: "make build: it brings the helper along", try: c.findHelper},
		{name: Runtime, fix: "apt-get install crun", try: c.findRuntime},
		{name: Mounts, fix: "sudo securebench …; or SECUREBENCH_ROOTLESS=1 securebench …, after apt-get install uidmap", try: c.mount},
		{name: Tmpfs, needs: []string{Mounts}, fix: "use a kernel with CONFIG_TMPFS", try: c.tmpfs},
		{name: Store, fix: "make room, or set SECUREBENCH_IMAGES to a folder with room", try: c.store},
		{name: Overlay, needs: []string{Mounts, Store}, fix: overlay, try: c.overlay},
		{name: Groups, fix: delegate, try: c.groups},
		{name: Processes, fix: "sysctl -w kernel.pid_max=4194304 kernel.threads-max=131072", try: c.processes},
		{name: Users, needs: []string{Mounts, Overlay, Runtime}, optional: true, fix: mapping, try: c.users},
		{name: Counts, optional: true, fix: "ulimit -i 65536 -q 819200, in the shell that starts securebench", try: c.counts},
		{name: Tested, needs: []string{Runtime, Groups}, fix: "set sandbox.engine to native, if you want to try", try: c.test},
		{name: Sandbox, needs: []string{Helper, Runtime, Mounts, Tmpfs, Overlay, Groups}, fix: "apt-get install --reinstall crun", try: c.run},
		{name: Filter, needs: []string{Sandbox}, fix: "use a runtime and a kernel with seccomp: apt-get install crun", try: c.filter},
		{name: Privileges, needs: []string{Sandbox}, fix: "apt-get install crun", try: c.privileges},
		{name: Limits, needs: []string{Sandbox}, fix: delegate, try: c.limits},
		{name: Swap, needs: []string{Sandbox}, optional: true, fix: "swapoff -a, or boot with swapaccount=1", try: c.swap},
		{name: Namespaces, needs: []string{Sandbox}, fix: "use a kernel with CONFIG_NAMESPACES, and control group namespaces", try: c.namespaces},
	}
}

// check tries one requirement.
func (c *checker) check(ctx context.Context, r requirement) sandbox.Requirement {
	out := sandbox.Requirement{Name: r.name, Optional: r.optional}
	for _, need := range r.needs {
		if !c.holds(need) {
			out.Found, out.Fix = "not tried without "+need, "see "+need
			return out
		}
	}
	found, err := r.try(ctx)
	if err != nil {
		out.Found, out.Fix = strings.Join(strings.Fields(err.Error()), " "), r.fix
		return out
	}
	out.Holds, out.Found = true, found
	return out
}

func (c *checker) holds(name string) bool {
	return slices.ContainsFunc(c.list, func(r sandbox.Requirement) bool { return r.Name == name && r.Holds })
}

// close removes what the requirements made.
func (c *checker) close(ctx context.Context) error {
	var errs []error
	if c.group != nil {
		ctx = context.WithoutCancel(ctx)
		errs = append(errs, c.group.Kill(ctx), c.group.Remove(ctx))
	}
	if c.ns != nil {
		errs = append(errs, c.ns.Close())
	}
	errs = append(errs, c.ids.Close())
	return errors.Join(errs...)
}

func (c *checker) findHelper(context.Context) (string, error) {
	if c.cfg.Helper == "" {
		return "", errors.New("this build has none")
	}
	info, err := os.Stat(c.cfg.Helper)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return "", fmt.Errorf("%s is not a program", c.cfg.Helper)
	}
	program, err := elf.Open(c.cfg.Helper)
	if err != nil {
		return "", fmt.Errorf("%s is not a program: %w", c.cfg.Helper, err)
	}
	defer program.Close()
	// Sandboxes need not have the C library that it would be started with.
	if slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return "", fmt.Errorf("%s needs a C library: it was not built with CGO_ENABLED=0", c.cfg.Helper)
	}
	return "there", nil
}

func (c *checker) findRuntime(context.Context) (found string, err error) {
	c.runtime, err = FindRuntime(c.cfg.Runtime, c.cfg.Getenv)
	if err != nil {
		return "", err
	}
	return c.runtime.Name + " " + c.runtime.Version, nil
}

// mount makes a mount namespace, in a folder that others can pass through.
func (c *checker) mount(context.Context) (found string, err error) {
	if err := os.MkdirAll(c.cfg.Dir, 0o711); err != nil { //nolint:gosec // mapped users pass through it
		return "", err
	}
	// The host sees nothing of what is made there, so that nothing outlives this
	// process.
	c.dir = c.cfg.Dir
	if c.ns, err = mountns.New(c.dir); err != nil {
		return "", fmt.Errorf("%w, as user %d", err, os.Geteuid())
	}
	return fmt.Sprintf("user %d", os.Geteuid()), nil
}

func (c *checker) groups(context.Context) (string, error) {
	h, err := cgroup.Find()
	if err != nil {
		return "", err
	}
	if missing := h.Missing(); len(missing) > 0 {
		return "", fmt.Errorf("version %s, without %s", h.Version(), strings.Join(missing, " and "))
	}
	c.group, c.version = h.Group(c.cfg.Group), h.Version()
	return "version " + h.Version(), nil
}

// imagesDir is the folder of the image store.
func (c *checker) imagesDir() (string, error) {
	if c.cfg.Images != "" {
		return c.cfg.Images, nil
	}
	return imagestore.DefaultDir(c.cfg.Getenv)
}
