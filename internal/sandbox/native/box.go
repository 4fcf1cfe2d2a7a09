package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/cgroup"
	"securebench/internal/sandbox/imageconfig"
	"securebench/internal/sandbox/mountns"
	"securebench/internal/sandbox/native/process"
	"securebench/internal/sandbox/oci"
)

// box is one container.
type box struct {
	engine   *Engine
	id       string
	spec     sandbox.Spec
	limits   sandbox.Limits
	image    *mounted
	group    *cgroup.Group
	oci      oci.Box
	hidden   []string // every mount point
	peer     *box
	users    *os.File   // its user namespace, which is the peer's if there is one; nil without
	files    *os.Root   // the folder of the bundle
	disks    []*os.File // what the command can fill
	mounts   []string   // in the order in which they were made
	programs []program  // the folders of overlays
	overlaid int        // how many of them are mounted

	closing chan struct{} // closed when Close begins

	freezing sync.Mutex // while the processes are stopped or let go
	frozen   bool       // by this process
	dying    bool       // it must not be frozen any more
	ending   context.Context
	endNow   context.CancelFunc // ends a freeze that is on the way

	mu      sync.Mutex
	phase   phase
	process *process.Process // once it has started
	ended   chan struct{}    // closed when Run returns; nil before Run
	layer   *changedRoot     // once it was asked for
}

// phase is how far a box is.
type phase int

const (
	opened  phase = iota
	running       // Run was called
	over          // Run has returned
	closed        // Close was called
	removed
)

var (
	_ sandbox.Box     = (*box)(nil)
	_ sandbox.Freezer = (*box)(nil)
)

// path is a path in the box's folder.
func (b *box) path(elem ...string) string {
	return b.engine.path(slices.Concat([]string{boxesDir, b.id}, elem)...)
}

// Open makes the mounts and the specification of a sandbox.
func (e *Engine) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	b, err := e.openBox(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("opening a sandbox: %w", err)
	}
	return b, nil
}

func (e *Engine) openBox(ctx context.Context, spec sandbox.Spec) (*box, error) {
	if err := spec.Check(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	id := newName()
	b := &box{engine: e, id: id, spec: spec, limits: spec.Limits.WithDefaults(), closing: make(chan struct{}),
		group: e.cgroups.Group(e.groups + "/" + id)}
	b.ending, b.endNow = context.WithCancel(context.Background())
	if (spec.Init || len(spec.Helper) > 0) && e.cfg.Helper == "" {
		return nil, errors.New("the engine was configured without a helper")
	}
	if spec.Peer != nil {
		peer, ok := spec.Peer.(*box)
		if !ok || peer.engine != e {
			return nil, errors.New("the peer belongs to another engine")
		}
		if peer.cannotRun() {
			return nil, errors.New("the peer is closed")
		}
		b.peer = peer
	}
	var err error
	if len(spec.Helper) > 0 {
		b.image = &mounted{Layers: []string{e.path(emptyDir)}, RootMode: 0o755}
	} else if b.image, err = e.use(spec.Image.ID); err != nil {
		return nil, err
	}
	if err = b.image.unusable; err == nil {
		err = b.make()
	}
	if err != nil {
		return nil, errors.Join(err, b.Close(ctx))
	}
	return b, nil
}

// takeUsers gives the box a user namespace, if it is to have one.
func (b *box) takeUsers() (err error) {
	switch {
	case b.engine.users == nil:
		return nil
	case b.peer != nil:
		b.users, err = b.peer.shareUsers()
	default:
		b.users, err = b.engine.users.Take()
	}
	if err != nil {
		return err
	}
	b.oci.Users = mountns.NamespacePath(b.users)
	return nil
}

// shareUsers lets a box have the namespace of this one, its peer.
func (b *box) shareUsers() (*os.File, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.users == nil {
		return nil, errors.New("the peer is closed")
	}
	b.engine.users.Share(b.users)
	return b.users, nil
}

// giveUsers gives the namespace back, once no process is left in it.
func (b *box) giveUsers() error {
	if b.users == nil {
		return nil
	}
	users := b.users
	b.users = nil
	return b.engine.users.Give(users)
}

// cannotRun reports whether the box does not run any more.
func (b *box) cannotRun() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.phase >= over
}

// make decides everything and mounts it.
func (b *box) make() error {
	s := b.spec
	if s.Init {
		b.limits.Pids += sandbox.InitThreads
	}
	b.oci = oci.Box{Root: b.path("r"), ReadOnly: !s.WritableRoot, Args: s.Argv(), Env: b.env(), Dir: s.Dir(), User: s.RunAs(),
		Capabilities: s.Capabilities, Tracing: s.Tracing, Limits: b.limits, Cgroup: b.group.Path(), Hostname: hostName}
	if b.engine.ids != nil {
		b.oci.IDBase, b.oci.IDSize = mountns.IDBase, mountns.IDSize
	}
	if err := errors.Join(b.takeUsers(), b.useOverlays()); err != nil {
		return err
	}
	err := b.engine.ns.Do(func() error {
		if err := b.engine.makeDir(b.path(), 0o711, sandbox.User{}); err != nil {
			return err
		}
		var err error
		if b.files, err = os.OpenRoot(b.path()); err != nil {
			return err
		}
		return errors.Join(b.mountRoot(), b.mountDev(), b.mountTrees())
	})
	if err != nil {
		return err
	}
	b.addTmpfs()
	memory := max(b.limits.Disk, b.writableDisk())
	if s.Home != "" {
		memory += b.limits.Disk
	}
	// A root that can be written is also in memory, and shares what the disk has:
	// a command has as much memory as with the Docker engine, where it is not.
	b.oci.Memory = b.limits.Memory + memory
	return nil
}

// env is the environment of the command: the image's, and on top of it the
// specification's.
func (b *box) env() []string {
	env := []string{"PATH=" + imageconfig.DefaultPath, "HOSTNAME=" + hostName}
	for _, v := range slices.Concat(b.image.Env, b.spec.Env) {
		name, _, _ := strings.Cut(v, "=")
		i := slices.IndexFunc(env, func(old string) bool { return strings.HasPrefix(old, name+"=") })
		if i >= 0 {
			env[i] = v
		} else {
			env = append(env, v)
		}
	}
	return env
}

// mountRoot mounts the layers of the image and the upper one.
func (b *box) mountRoot() error {
	e, upper := b.engine, b.path()
	if b.spec.WritableRoot {
		if err := b.mountDisk("t", b.limits.Disk, b.limits.Files+rootFiles); err != nil {
			return err
		}
		upper = b.path("t")
	}
	// The root of an overlay is that of its upper layer.
	if err := e.makeDir(upper+"/u", b.image.RootMode, b.image.RootOwner); err != nil {
		return err
	}
	if err := errors.Join(e.makeDir(upper+"/w", 0o700, sandbox.User{}), e.makeDir(b.path("r"), 0o755, sandbox.User{})); err != nil {
		return err
	}
	if err := mountns.Overlay(b.path("r"), b.image.Layers, upper+"/u", upper+"/w"); err != nil {
		return err
	}
	b.mounts = append(b.mounts, b.path("r"))
	return b.mountNames()
}

// rootFiles is how many files and folders of the tmpfs of a root are not the
// sandbox's.
const rootFiles = 16

// mountDisk mounts a tmpfs that a command can fill.
func (b *box) mountDisk(name string, size, inodes int64) error {
	at := b.path(name)
	if err := os.Mkdir(at, 0o711); err != nil {
		return err
	}
	if err := (mountns.Tmpfs{Size: size, Inodes: inodes, Mode: 0o711, UID: b.engine.base(), GID: b.engine.base()}).Mount(at); err != nil {
		return err
	}
	b.mounts = append(b.mounts, at)
	f, err := os.Open(at)
	if err != nil {
		return err
	}
	b.disks = append(b.disks, f)
	return nil
}

// mountNames adds the files with the names of hosts: those of a peer, else own ones,
// since locks on files that two boxes have are messages between them.
func (b *box) mountNames() error {
	dir := b.names()
	if b.peer == nil {
		if err := errors.Join(b.engine.makeDir(dir, 0o755, sandbox.User{}), b.engine.makeNames(dir)); err != nil {
			return err
		}
	}
	for _, name := range []string{"hosts", "hostname", "resolv.conf"} {
		b.oci.Mounts = append(b.oci.Mounts, oci.Mount{Target: "/etc/" + name, Source: dir + "/" + name, ReadOnly: !b.spec.WritableRoot})
		b.hidden = append(b.hidden, "/etc/"+name)
	}
	return nil
}

// names is where a box has its files with the names of hosts. Where they can be
// written they are in its upper file system, so that they count towards its limit.
func (b *box) names() string {
	switch {
	case b.peer != nil:
		return b.peer.names()
	case b.spec.WritableRoot:
		return b.path("t", "n")
	}
	return b.path("n")
}

// mountTrees mounts workspaces, overlays and the helper as the sandbox sees them.
func (b *box) mountTrees() error {
	if b.spec.Init || len(b.spec.Helper) > 0 {
		if err := b.engine.placeHelper(); err != nil {
			return err
		}
		if err := b.mountHelper(b.path("h")); err != nil {
			return err
		}
	}
	for i, m := range b.spec.Mounts {
		at, target := b.path("m"+strconv.Itoa(i)), path.Clean(m.Target)
		if err := os.Mkdir(at, 0o711); err != nil {
			return err
		}
		if err := b.mountTree(m, at); err != nil {
			return err
		}
		b.mounts = append(b.mounts, at)
		b.add(oci.Mount{Target: target, Source: at, ReadOnly: m.ReadOnly})
	}
	return nil
}

// mountHelper mounts the helper as an overlay of the box's own: a lock on a file that
// two boxes have, or an event of it, is a message between them.
func (b *box) mountHelper(at string) error {
	if err := os.Mkdir(at, 0o711); err != nil {
		return err
	}
	if err := mountns.Overlay(at, []string{b.engine.path(emptyDir), b.engine.path(helperDir)}, "", ""); err != nil {
		return fmt.Errorf("mounting the helper: %w", err)
	}
	b.mounts = append(b.mounts, at)
	b.add(oci.Mount{Target: sandbox.HelperDir, Source: at, ReadOnly: true})
	return nil
}

func (b *box) mountTree(m sandbox.Mount, at string) error {
	if m.Overlay != nil {
		return b.mountOverlay(at)
	}
	w, ok := m.Workspace.(*workspaceTree)
	if !ok || w.engine != b.engine {
		return errors.New("the workspace belongs to another engine")
	}
	if !m.ReadOnly {
		d, err := w.Open()
		if err != nil {
			return err
		}
		b.disks = append(b.disks, d)
	}
	return b.engine.ids.Bind(w.path, at, m.ReadOnly)
}

func (b *box) add(m oci.Mount) {
	b.oci.Mounts = append(b.oci.Mounts, m)
	b.hidden = append(b.hidden, m.Target)
}

// writableDisk is how many bytes the command can write to its mounts.
func (b *box) writableDisk() (n int64) {
	for _, m := range b.spec.Mounts {
		if w, ok := m.Workspace.(*workspaceTree); ok && !m.ReadOnly {
			n += w.spec.Disk
		}
	}
	return n
}

// addTmpfs adds the home, a /tmp, and one in the place of each volume that the
// image declares: there, nothing could bound what the command writes.
func (b *box) addTmpfs() {
	s := b.spec
	tmpfs := oci.Mount{Size: b.limits.Disk, Inodes: b.limits.Files}
	if s.Home != "" {
		home := tmpfs
		home.Target, home.Mode, home.User = path.Clean(s.Home), 0o700, s.RunAs()
		b.add(home)
	}
	// A root that can be written has the image's own /tmp, which is then part of
	// what is bounded and captured.
	if !s.WritableRoot && !slices.Contains(b.hidden, "/tmp") {
		tmp := tmpfs
		tmp.Target, tmp.Mode = "/tmp", os.ModeSticky|0o777
		b.add(tmp)
	}
	for _, v := range b.image.Volumes {
		if v = path.Clean("/" + v); !slices.Contains(b.hidden, v) {
			volume := tmpfs
			volume.Target, volume.Mode = v, os.ModeSticky|0o777
			b.add(volume)
		}
	}
}

// Close kills and removes the box. A Run that is in progress returns an error
// that wraps [os.ErrClosed].
func (b *box) Close(ctx context.Context) error {
	b.mu.Lock()
	if b.phase < closed {
		b.phase = closed
		close(b.closing)
	}
	ended := b.ended
	b.mu.Unlock()
	if ended != nil {
		<-ended
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.phase == removed {
		return nil
	}
	if err := b.remove(ctx); err != nil {
		return fmt.Errorf("closing a sandbox: %w", err)
	}
	b.phase = removed
	return nil
}

// remove undoes what open and run did. It can be called again after an error.
func (b *box) remove(ctx context.Context) error {
	ctx, cancel := cleanup(ctx)
	defer cancel()
	b.endNow()
	var errs []error
	errs = append(errs, b.end(ctx))
	process.ReapMakers()
	if err := b.layer.close(); err != nil {
		errs = append(errs, err)
	}
	b.layer = nil
	for _, d := range b.disks {
		errs = append(errs, d.Close())
	}
	b.disks = nil
	if b.files != nil {
		errs = append(errs, b.files.Close())
		b.files = nil
	}
	errs = append(errs, b.engine.ns.Do(func() error {
		for len(b.mounts) > 0 {
			last := len(b.mounts) - 1
			if err := mountns.Unmount(b.mounts[last]); err != nil {
				return err
			}
			b.mounts = b.mounts[:last]
		}
		err := os.RemoveAll(b.path())
		if errors.Is(err, unix.EBUSY) { // a runtime that was killed leaves mounts of its own
			err = errors.Join(unmountBelow(b.path()), os.RemoveAll(b.path()))
		}
		return err
	}))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := errors.Join(b.dropOverlays(), b.giveUsers()); err != nil {
		return err
	}
	b.engine.drop(b.image)
	b.image = nil
	return nil
}

// end kills what is left and removes the control group.
func (b *box) end(ctx context.Context) error {
	if b.ended == nil {
		return nil // it never ran
	}
	// Mostly all processes are gone, and to look for them in each hierarchy costs
	// more than to remove the group.
	err := b.group.Remove(ctx)
	if !errors.Is(err, cgroup.ErrProcesses) {
		return err
	}
	if err := b.group.Kill(ctx); err != nil {
		return err
	}
	return b.group.Remove(ctx)
}

// unmountBelow unmounts everything below a folder. It runs in the namespace.
func unmountBelow(dir string) error {
	text, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return err
	}
	var errs []error
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], dir+"/") {
			errs = append(errs, mountns.Unmount(f[4]))
		}
	}
	return errors.Join(errs...)
}
