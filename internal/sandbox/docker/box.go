package docker

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/docker/dockerapi"
	"securebench/internal/sandbox/seccomp"
)

// shmSize bounds /dev/shm in bytes; its pages count towards the memory limit.
const shmSize = 64 << 20

// box is one container.
type box struct {
	engine   *Engine
	name     string
	argv     []string
	stdin    bool
	writable bool // the root
	init     bool // argv begins with the helper
	limits   sandbox.Limits
	mounts   []mounted
	hidden   []string // every mount point, the engine's own excepted

	ran    atomic.Bool
	ended  atomic.Bool // Run has returned without an error
	closed atomic.Bool // Close has begun

	mu      sync.Mutex
	removed bool
}

// mounted is a workspace in a box.
type mounted struct {
	workspace *workspace
	target    string
	readOnly  bool
}

var (
	_ sandbox.Box        = (*box)(nil)
	_ sandbox.RootReader = (*box)(nil)
)

// Open creates the container of a sandbox without starting it.
func (e *Engine) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	b, err := e.open(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("opening a sandbox: %w", err)
	}
	return b, nil
}

func (e *Engine) open(ctx context.Context, spec sandbox.Spec) (*box, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	b := &box{engine: e, name: dockerapi.NewName(), argv: spec.Command, stdin: spec.Stdin || spec.Init,
		writable: spec.WritableRoot, init: spec.Init, limits: spec.Limits.WithDefaults()}
	for _, m := range spec.Mounts {
		w, ok := m.Workspace.(*workspace)
		if !ok || w.engine != e {
			return nil, errors.New("the workspace belongs to another engine")
		}
		b.mounts = append(b.mounts, mounted{w, path.Clean(m.Target), m.ReadOnly})
	}
	facts, err := e.Facts(ctx, spec.Image.ID)
	if err != nil {
		return nil, err
	}
	if spec.Init {
		b.limits.Pids += sandbox.InitThreads
	}
	host := e.boxHost(spec, b, facts.Volumes)
	if spec.Init {
		helper, err := e.helper.Mount(ctx)
		if err != nil {
			return nil, err
		}
		host.Mounts = append(host.Mounts, helper)
		b.argv = append([]string{sandbox.HelperPath, "sandbox-init"}, spec.Command...)
	}
	for _, m := range host.Mounts {
		b.hidden = append(b.hidden, m.Target)
	}
	for target := range host.Tmpfs {
		b.hidden = append(b.hidden, target)
	}
	err = e.conn.CreateContainer(ctx, client.ContainerCreateOptions{Name: b.name, Config: e.boxConfig(spec, b), HostConfig: host})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// boxConfig is the part of a container that its command sees.
func (e *Engine) boxConfig(s sandbox.Spec, b *box) *container.Config {
	user := s.Image.User
	if s.User != nil {
		user = *s.User
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
		Entrypoint:   b.argv, // all of it: the image's entrypoint and command have no effect
		Image:        s.Image.ID,
		WorkingDir:   s.Dir(),
		Healthcheck:  &container.HealthConfig{Test: []string{"NONE"}},
		Labels:       e.conn.Labels(s.Labels),
	}
}

// boxHost is the part of a container that confines its command.
func (e *Engine) boxHost(s sandbox.Spec, b *box, volumes []string) *container.HostConfig {
	h := e.hardened(b.limits, max(b.limits.Disk, b.writableDisk()))
	h.Runtime = e.runtime
	h.ReadonlyRootfs = !s.WritableRoot
	for _, c := range s.Capabilities {
		h.CapAdd = append(h.CapAdd, string(c))
	}
	h.SecurityOpt = confined(e.profile(s))
	var taken []string
	for _, m := range b.mounts {
		h.Mounts = append(h.Mounts, mount.Mount{Type: mount.TypeVolume, Source: m.workspace.name, Target: m.target,
			ReadOnly: m.readOnly, VolumeOptions: &mount.VolumeOptions{NoCopy: true}})
		taken = append(taken, m.target)
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

// writableDisk is how many bytes the command can write to its mounts.
func (b *box) writableDisk() (n int64) {
	for _, m := range b.mounts {
		if !m.readOnly {
			n += m.workspace.disk
		}
	}
	return n
}

// hardened confines any container that runs, the trusted holder included.
func (e *Engine) hardened(l sandbox.Limits, disk int64) *container.HostConfig {
	memory, off := l.Memory+disk, false
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

// profile is the seccomp profile of a box.
func (e *Engine) profile(s sandbox.Spec) string {
	switch {
	case slices.Contains(s.Capabilities, sandbox.SysChroot):
		text, _, _ := seccomp.Profile(s.Tracing, true) // cannot fail: the others were encoded
		return text
	case s.Tracing:
		return e.seccompTracing
	}
	return e.seccomp
}

// confined are the security options of every container that runs.
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

// Close kills and removes the container. A Run that is in progress returns an
// error that wraps [os.ErrClosed].
func (b *box) Close(ctx context.Context) error {
	b.closed.Store(true)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.removed {
		return nil
	}
	if err := b.engine.conn.RemoveContainer(ctx, b.name); err != nil {
		return fmt.Errorf("closing a sandbox: %w", err)
	}
	b.removed = true
	return nil
}
