package docker

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"securebench/internal/sandbox"
)

// shmSize bounds /dev/shm in bytes; its pages count to the memory limit.
const shmSize = 64 << 20

// box is one container.
type box struct {
	engine    *Engine
	name      string
	command   string // argv[0], for messages
	stdin     bool
	limits    sandbox.Limits
	workspace *workspace // nil without one

	ran    atomic.Bool
	closed atomic.Bool // Close has begun

	mu      sync.Mutex
	removed bool
}

var _ sandbox.Box = (*box)(nil)

// Open creates the container of a sandbox without starting it.
func (e *Engine) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	if err := checkSpec(spec); err != nil {
		return nil, fmt.Errorf("opening a sandbox: %w", err)
	}
	b := &box{engine: e, name: newName(), stdin: spec.Stdin || spec.Init,
		limits: spec.Limits.WithDefaults()}
	if spec.Workspace != nil {
		w, ok := spec.Workspace.(*workspace)
		if !ok || w.engine != e {
			return nil, errors.New("opening a sandbox: the workspace is of another engine")
		}
		b.workspace = w
	}
	var helper []mount.Mount
	argv := spec.Command
	if spec.Init {
		m, err := e.helperMount(ctx)
		if err != nil {
			return nil, fmt.Errorf("opening a sandbox: %w", err)
		}
		helper, argv = []mount.Mount{m}, append([]string{sandbox.HelperPath, "sandbox-init"}, argv...)
	}
	b.command = argv[0]
	facts, err := e.facts(ctx, spec.Image.ID)
	if err != nil {
		return nil, fmt.Errorf("opening a sandbox: %w", err)
	}
	opts := client.ContainerCreateOptions{
		Name:       b.name,
		Config:     e.boxConfig(spec, b, argv),
		HostConfig: e.boxHost(spec, b, facts.volumes),
	}
	opts.HostConfig.Mounts = append(opts.HostConfig.Mounts, helper...)
	if err := e.create(ctx, opts); err != nil {
		return nil, fmt.Errorf("opening a sandbox: %w", err)
	}
	return b, nil
}

// create creates a container, or leaves none behind. Both create and start
// outlive the context by a moment, see cancelAfter.
func (e *Engine) create(ctx context.Context, opts client.ContainerCreateOptions) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	cctx, cancel := cancelAfter(ctx)
	defer cancel()
	_, err := e.api.ContainerCreate(cctx, opts)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		return nil
	}
	return errors.Join(fmt.Errorf("creating a container: %w", err), e.removeContainer(ctx, opts.Name))
}

// checkSpec refuses what must not reach the engine.
func checkSpec(s sandbox.Spec) error {
	if s.Image.ID == "" {
		return errors.New("the image has no id")
	}
	if !s.Init && (len(s.Command) == 0 || s.Command[0] == "") {
		return errors.New("the command is empty")
	}
	for _, a := range slices.Concat(s.Command, s.Env) {
		if strings.ContainsRune(a, 0) {
			return errors.New("an argument or variable holds a NUL byte")
		}
	}
	for _, v := range s.Env {
		if i := strings.IndexByte(v, '='); i < 1 {
			return fmt.Errorf("%q is no NAME=VALUE", v)
		}
	}
	for _, c := range s.Capabilities {
		if !slices.Contains([]sandbox.Capability{sandbox.Kill, sandbox.SetGID, sandbox.SetUID, sandbox.SetPCap}, c) {
			return fmt.Errorf("capability %q is not one that a sandbox can have", c)
		}
	}
	if s.User != nil && (s.User.UID < 0 || s.User.GID < 0) {
		return fmt.Errorf("user %d:%d is negative", s.User.UID, s.User.GID)
	}
	if s.Workspace != nil {
		if s.Target == "/" {
			return errors.New("the workspace cannot be mounted at /")
		}
		if err := checkPath("workspace target", s.Target); err != nil {
			return err
		}
	}
	if s.Workdir == "" {
		return nil
	}
	return checkPath("working directory", s.Workdir)
}

// checkPath refuses paths in the container that are not plain, and those
// where runtimes had holes: a working directory in /proc/self/fd leads out of
// the container (CVE-2024-21626).
func checkPath(what, p string) error {
	if !path.IsAbs(p) || strings.ContainsAny(p, "\x00:,\\") || slices.Contains(strings.Split(p, "/"), "..") {
		return fmt.Errorf("the %s %q is not a plain absolute path", what, p)
	}
	clean := path.Clean(p)
	for _, bad := range []string{"/proc", "/sys", "/dev", sandbox.HelperDir} {
		if clean == bad || strings.HasPrefix(clean, bad+"/") {
			return fmt.Errorf("the %s %q is below %s", what, p, bad)
		}
	}
	return nil
}

// boxConfig is the part of a container that its command sees.
func (e *Engine) boxConfig(s sandbox.Spec, b *box, argv []string) *container.Config {
	user := s.Image.User
	if s.User != nil {
		user = *s.User
	}
	workdir := s.Workdir
	if workdir == "" && s.Workspace != nil {
		workdir = s.Target
	}
	if workdir == "" {
		workdir = "/"
	}
	return &container.Config{
		Hostname:     "sandbox",
		User:         userString(user),
		AttachStdin:  b.stdin,
		OpenStdin:    b.stdin,
		StdinOnce:    b.stdin,
		AttachStdout: true,
		AttachStderr: true,
		Env:          s.Env,
		Entrypoint:   argv, // all of it: the image's entrypoint and command are void
		Image:        s.Image.ID,
		WorkingDir:   workdir,
		Healthcheck:  &container.HealthConfig{Test: []string{"NONE"}},
		Labels:       e.labels(s.Labels),
	}
}

// boxHost is the part of a container that confines its command.
func (e *Engine) boxHost(s sandbox.Spec, b *box, volumes []string) *container.HostConfig {
	h := e.hardened(b.limits)
	h.Runtime = e.runtime
	h.ReadonlyRootfs = !s.WritableRoot
	for _, c := range s.Capabilities {
		h.CapAdd = append(h.CapAdd, string(c))
	}
	if s.Tracing {
		h.SecurityOpt = confined(e.seccompTracing)
	}
	var taken []string
	if s.Workspace != nil {
		target := path.Clean(s.Target)
		h.Mounts = append(h.Mounts, mount.Mount{Type: mount.TypeVolume, Source: b.workspace.name, Target: target,
			VolumeOptions: &mount.VolumeOptions{NoCopy: true}})
		taken = append(taken, target)
	}
	if !slices.Contains(taken, "/tmp") {
		h.Tmpfs = map[string]string{"/tmp": tmpfsOptions(b.limits)}
		taken = append(taken, "/tmp")
	}
	// A volume that the image declares would become an unbounded directory
	// on the engine's disk; an empty bounded one takes its place.
	for _, v := range volumes {
		if v = path.Clean("/" + v); !slices.Contains(taken, v) {
			taken = append(taken, v)
			h.Mounts = append(h.Mounts, mount.Mount{Type: mount.TypeTmpfs, Target: v,
				TmpfsOptions: &mount.TmpfsOptions{SizeBytes: b.limits.Disk, Mode: 0o1777}})
		}
	}
	return h
}

// hardened confines any container of ours, the trusted holder included.
func (e *Engine) hardened(l sandbox.Limits) *container.HostConfig {
	memory, off := l.Memory+l.Disk, false
	return &container.HostConfig{
		NetworkMode:    "none",
		IpcMode:        container.IPCModePrivate,
		CgroupnsMode:   container.CgroupnsModePrivate,
		CapDrop:        []string{"ALL"},
		SecurityOpt:    confined(e.seccomp),
		ReadonlyRootfs: true,
		ShmSize:        shmSize,
		LogConfig:      container.LogConfig{Type: "none"},
		RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyDisabled},
		Init:           &off,
		Resources: container.Resources{
			Memory:     memory,
			MemorySwap: memory, // memory and swap together: no swap
			NanoCPUs:   int64(min(l.CPUs, e.cpus) * 1e9),
			PidsLimit:  &l.Pids,
			Ulimits:    []*container.Ulimit{{Name: "core", Soft: 0, Hard: 0}},
		},
	}
}

// confined is what every container is run under, with a seccomp profile.
func confined(profile string) []string {
	return []string{"no-new-privileges:true", "seccomp=" + profile}
}

// tmpfsOptions are the mount options of /tmp.
func tmpfsOptions(l sandbox.Limits) string {
	return fmt.Sprintf("rw,exec,nosuid,nodev,mode=1777,size=%d,nr_inodes=%d", l.Disk, l.Files)
}

func userString(u sandbox.User) string {
	return strconv.Itoa(u.UID) + ":" + strconv.Itoa(u.GID)
}

// Close kills and removes the container. A Run that runs returns an error
// that wraps [os.ErrClosed].
func (b *box) Close(ctx context.Context) error {
	b.closed.Store(true)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.removed {
		return nil
	}
	if err := b.engine.removeContainer(ctx, b.name); err != nil {
		return fmt.Errorf("closing a sandbox: %w", err)
	}
	b.removed = true
	return nil
}
