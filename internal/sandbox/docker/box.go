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
	overlays []sandbox.Mount
	hidden   []string // every mount point, the engine's own excepted

	ran    atomic.Bool
	ended  atomic.Bool // Run has returned without an error
	closed atomic.Bool // Close has begun

	mu      sync.Mutex
	removed bool

	freezing freezing
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
	_ sandbox.Freezer    = (*box)(nil)
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
	b := &box{engine: e, name: newName(), argv: spec.Argv(), stdin: spec.Stdin || spec.Init,
		writable: spec.WritableRoot, init: spec.Init, limits: spec.Limits.WithDefaults()}
	for _, m := range spec.Mounts {
		if m.Overlay != nil {
			b.overlays = append(b.overlays, m)
			continue
		}
		w, ok := m.Workspace.(*workspace)
		if !ok || w.engine != e {
			return nil, errors.New("the workspace belongs to another engine")
		}
		b.mounts = append(b.mounts, mounted{w, path.Clean(m.Target), m.ReadOnly})
	}
	if err := e.checkPeer(spec.Peer); err != nil {
		return nil, err
	}
	facts, err := e.factsOf(ctx, &spec)
	if err != nil {
		return nil, err
	}
	if spec.Init {
		b.limits.Pids += sandbox.InitThreads
	}
	host := e.boxHost(spec, b, facts.Volumes)
	for _, m := range b.overlays {
		overlay, err := e.overlays.Mount(ctx, m.Overlay, path.Clean(m.Target))
		if err != nil {
			return nil, err
		}
		host.Mounts = append(host.Mounts, overlay)
	}
	if spec.Init {
		helper, err := e.helper.Mount(ctx)
		if err != nil {
			return nil, err
		}
		host.Mounts = append(host.Mounts, helper)
	}
	for _, m := range host.Mounts {
		b.hidden = append(b.hidden, m.Target)
	}
	for target := range host.Tmpfs {
		b.hidden = append(b.hidden, target)
	}
	err = e.conn.createContainer(ctx, client.ContainerCreateOptions{Name: b.name, Config: e.boxConfig(spec, b), HostConfig: host})
	if err != nil {
		return nil, err
	}
	for _, m := range b.overlays {
		if err := e.overlays.Verify(ctx, m.Overlay); err != nil {
			return nil, errors.Join(err, b.Close(ctx), e.overlays.Discard(ctx, m.Overlay))
		}
	}
	return b, nil
}

// factsOf returns what matters of the image of a box. One of the helper alone has the
// image that holds nothing else.
func (e *Engine) factsOf(ctx context.Context, spec *sandbox.Spec) (f facts, err error) {
	if len(spec.Helper) == 0 {
		return e.Facts(ctx, spec.Image.ID)
	}
	spec.Image.ID, err = e.helper.Image(ctx)
	return f, err
}

// checkPeer refuses a peer whose network cannot be shared.
func (e *Engine) checkPeer(peer sandbox.Box) error {
	if peer == nil {
		return nil
	}
	p, ok := peer.(*box)
	switch {
	case !ok || p.engine != e:
		return errors.New("the peer belongs to another engine")
	case p.closed.Load():
		return errors.New("the peer is closed")
	}
	return nil
}

// boxConfig is the part of a container that its command sees.
func (e *Engine) boxConfig(s sandbox.Spec, b *box) *container.Config {
	hostname := "sandbox"
	if s.Peer != nil {
		hostname = "" // it is the peer's: engines refuse another one
	}
	return &container.Config{
		Hostname:     hostname,
		User:         userString(s.RunAs()),
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
	disk := max(b.limits.Disk, b.writableDisk())
	if s.Home != "" {
		disk += b.limits.Disk
	}
	h := e.hardened(b.limits, disk)
	h.Runtime = e.runtime
	h.ReadonlyRootfs = !s.WritableRoot
	if p, ok := s.Peer.(*box); ok {
		h.NetworkMode = container.NetworkMode("container:" + p.name)
	}
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
	for _, m := range b.overlays {
		taken = append(taken, path.Clean(m.Target))
	}
	if s.Home != "" {
		user := s.RunAs()
		h.Tmpfs = map[string]string{path.Clean(s.Home): tmpfsOptions(b.limits, 0o700) + fmt.Sprintf(",uid=%d,gid=%d", user.UID, user.GID)}
		taken = append(taken, path.Clean(s.Home))
	}
	// A root that can be written has the image's own /tmp, which is then part of
	// what is bounded and captured.
	if !s.WritableRoot && !slices.Contains(taken, "/tmp") {
		if h.Tmpfs == nil {
			h.Tmpfs = map[string]string{}
		}
		h.Tmpfs["/tmp"] = tmpfsOptions(b.limits, 0o1777)
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

// tmpfsOptions are the mount options of /tmp and of a home.
func tmpfsOptions(l sandbox.Limits, mode int) string {
	return fmt.Sprintf("rw,exec,nosuid,nodev,mode=%o,size=%d,nr_inodes=%d", mode, l.Disk, l.Files)
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
	if err := b.engine.conn.removeContainer(ctx, b.name); err != nil {
		return fmt.Errorf("closing a sandbox: %w", err)
	}
	b.removed = true
	return nil
}
