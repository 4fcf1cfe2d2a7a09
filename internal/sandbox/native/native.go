// Package native makes sandboxes without a daemon: an OCI runtime confines them,
// overlay file systems are their roots, and tmpfs file systems bound what they write.
//
// # Mounts
//
// Everything is mounted in a mount namespace of this process (package mountns):
// no other process on the machine sees it, and it ends with the last process that
// was started in it. Paths in it say nothing about the host, since a sandbox can
// read some of them in its list of mounts.
//
// # Sandbox
//
// The runtime starts a container and ends; the container's first process, which is
// the command, becomes a child of this process, which adopts orphans. So its end
// is known at once, with the kernel's own status, and no process of the runtime
// stays. What happened in its control group is read before the group is removed.
//
// A root is an overlay of the image's layers and an upper layer. If the root can
// be written, the upper layer is a tmpfs of [sandbox.Limits.Disk] bytes.
// Otherwise it holds mount points only and is read-only to the sandbox.
//
// # Workspace
//
// A workspace is a tmpfs that this process serves through a holder (package
// holder), on a thread that has taken on the rights of the tree's owner.
//
// # Overlay
//
// An overlay is a folder that all processes of a user share. It is filled under a
// name that no process looks for, and then gets the name of its key: it is there whole
// or not at all, whoever else fills it or is killed meanwhile. What killed processes
// left is removed by the next one that fills or removes something. All locks are on
// open files, so the kernel releases them when a process dies.
//
// # Interference
//
// The first process of a sandbox cannot be killed from inside, except in a few
// ways that are told apart; if it was killed by something else, or is stopped
// when its time is over, [sandbox.Box.Run] returns [sandbox.ErrDisturbed].
//
// # Clean-up
//
// All that can outlive this process is a control group with the sandbox's
// processes, and in it the name of its owner (package owner).
package native

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/cgroup"
	"securebench/internal/sandbox/imagestore"
	"securebench/internal/sandbox/mountns"
	"securebench/internal/sandbox/native/process"
	"securebench/internal/sandbox/native/require"
	"securebench/internal/sandbox/oci"
	"securebench/internal/sandbox/owner"
	"securebench/internal/sandbox/platform"
	"securebench/internal/sandbox/privilege"
	"securebench/internal/sandbox/seccomp"
)

// Config configures an [Engine].
type Config struct {
	// Images is the folder of the image store; "" is its default.
	Images string
	// Helper is the path of the static helper binary, as for the Docker engine.
	Helper string
	// Runtime is the name or the path of an OCI runtime; see [require.FindRuntime].
	Runtime string
	// Owner marks what the engine makes. The zero value is this process.
	Owner  owner.Owner
	Getenv func(string) string
	Log    *slog.Logger
	// Missing is called for an image that the store may lack or may have an old
	// version of, before it is looked up. Nil does nothing.
	Missing func(ctx context.Context, ref string) error
}

// Engine makes sandboxes on this machine.
type Engine struct {
	*imagesInUse
	*overlayStore
	cfg     Config
	owner   owner.Owner
	log     *slog.Logger
	store   *imagestore.Store
	runtime oci.Runtime
	cgroups *cgroup.Hierarchy
	groups  string // the name of the group that holds those of all boxes
	ns      *mountns.Namespace
	ids     *mountns.IDs   // nil without user namespaces
	users   *mountns.Users // of boxes
	info    sandbox.Info
	helper  *os.File // the binary, nil without one
	placed  bool     // it was copied for sandboxes

	shared *mountns.Shared // the layers of images, and overlays
	works  atomic.Int64    // workspaces that were made
}

var (
	_ sandbox.Engine   = (*Engine)(nil)
	_ sandbox.Importer = (*Engine)(nil)
	_ sandbox.Looker   = (*Engine)(nil)
	_ sandbox.Overlays = (*Engine)(nil)
)

// New checks what the machine offers. The error names the first requirement that
// does not hold. The caller closes the engine, after every box and workspace.
func New(ctx context.Context, cfg Config) (*Engine, error) {
	if cfg.Getenv == nil {
		cfg.Getenv = func(string) string { return "" }
	}
	e := &Engine{cfg: cfg, owner: cfg.Owner, log: cfg.Log}
	if e.owner == (owner.Owner{}) {
		e.owner = owner.Current()
	}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	e.groups = groupOf(e.owner)
	if err := e.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("the native engine: %w", err), e.Close())
	}
	return e, nil
}

func (e *Engine) open(ctx context.Context) (err error) {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e.runtime, err = require.FindRuntime(e.cfg.Runtime, e.cfg.Getenv); err != nil {
		return err
	}
	if e.cgroups, err = cgroup.Find(); err != nil {
		return err
	}
	if missing := e.cgroups.Missing(); len(missing) > 0 {
		return fmt.Errorf("the control groups of this machine lack %v", missing)
	}
	if err := e.cgroups.Prepare(); err != nil {
		return err
	}
	if err := e.openStores(); err != nil {
		return err
	}
	// The first process of a container becomes a child of this process.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("adopting orphaned processes: %w", err)
	}
	oci.LiftLimits()
	if err := os.MkdirAll(e.path(), 0o711); err != nil {
		return err
	}
	if e.ns, err = mountns.New(e.path()); err != nil {
		return err
	}
	if e.ids, err = e.mapUsers(); err != nil {
		e.log.Info("sandboxes have no user namespace", slog.Any("why", err))
	} else {
		e.users = mountns.NewUsers(e.ids, e.runtime.Prlimits && !raisesLimits())
	}
	if err := e.ns.Do(e.furnish); err != nil {
		return err
	}
	err = e.ns.Do(func() (err error) { e.runtime, err = e.runtime.Prepare(e.path(runtimeDir)); return err })
	if err != nil {
		return err
	}
	e.shared = mountns.NewShared(e.ns, e.ids, e.path(treesDir))
	e.imagesInUse = &imagesInUse{store: e.store, ns: e.ns, shared: e.shared, dir: e.path(imagesDir), owner: e.owner.String(),
		missing: e.cfg.Missing, used: map[string]*mounted{}, imported: map[string]int{}}
	return e.describe()
}

func (e *Engine) openStores() (err error) {
	if e.cfg.Images == "" {
		if e.cfg.Images, err = imagestore.DefaultDir(e.cfg.Getenv); err != nil {
			return err
		}
	}
	if e.store, err = imagestore.Open(e.cfg.Images); err != nil {
		return err
	}
	e.overlayStore, err = openOverlays(filepath.Join(e.cfg.Images, overlaysDir))
	return err
}

// mapUsers returns the mapping for user namespaces. The error says why the runtime,
// the kernel or the file system of the image store allows none.
func (e *Engine) mapUsers() (*mountns.IDs, error) {
	if !e.runtime.Maps {
		return nil, fmt.Errorf("%s takes none", e.runtime.Name)
	}
	ids, err := mountns.NewIDs(mountns.IDBase, mountns.IDSize)
	if err != nil {
		return nil, err
	}
	if err := ids.Maps(e.cfg.Images); err != nil {
		return nil, errors.Join(err, ids.Close())
	}
	return ids, nil
}

// raisesLimits reports whether this process may raise limits, also those of others. Not
// every root may.
func raisesLimits() bool {
	permitted, err := privilege.Permitted()
	return err == nil && permitted.Has(1<<unix.CAP_SYS_RESOURCE)
}

// overlaysDir is the folder of the image store that has the overlays. The store
// leaves folders that it does not know.
const overlaysDir = "overlays"

// describe says what this engine is.
func (e *Engine) describe() (err error) {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return fmt.Errorf("asking for the kernel's version: %w", err)
	}
	e.info = sandbox.Info{Name: "native", Version: e.runtime.Version, Runtime: e.runtime.Name, CgroupVersion: e.cgroups.Version(),
		OS: "linux", Arch: runtime.GOARCH, Emulated: platform.ThisMachine().Emulated, Kernel: unix.ByteSliceToString(uts.Release[:]),
		SecurityOptions: []string{"name=seccomp,profile=default"}}
	switch {
	case e.cgroups.Version() != "1", !e.runtime.Maps: // the limit on memory counts sockets, or the runtime has its own
	case e.cgroups.LimitsSockets():
		e.info.Sockets = maxSockets
	default:
		e.info.SocketsUnbounded = true
	}
	if err := oci.LowLimits(); err != nil {
		e.info.Notice = err.Error()
	}
	if e.ids != nil {
		e.info.SecurityOptions = append(e.info.SecurityOptions, "name=userns")
	}
	if _, e.info.Seccomp, err = seccomp.Profile(false, false); err != nil {
		return err
	}
	_, e.info.SeccompTracing, err = seccomp.Profile(true, false)
	return err
}

// maxSockets is how many bytes the kernel holds for the sockets of a box, where the limit
// on memory does not count them.
const maxSockets = 64 << 20

// Info implements [sandbox.Service].
func (e *Engine) Info() sandbox.Info {
	info := e.info
	info.SecurityOptions = slices.Clone(info.SecurityOptions)
	return info
}

// Close releases images and the mount namespace.
func (e *Engine) Close() error {
	var errs []error
	if e.cgroups != nil {
		ctx, cancel := cleanup(context.Background())
		defer cancel()
		errs = append(errs, e.cgroups.Group(e.groups).Remove(ctx))
		process.ReapOrphans()
	}
	if e.imagesInUse != nil {
		errs = append(errs, e.imagesInUse.Close())
	}
	if e.helper != nil {
		errs = append(errs, e.helper.Close())
		e.helper = nil
	}
	errs = append(errs, e.users.Close())
	if e.ids != nil {
		errs = append(errs, e.ids.Close())
	}
	if e.ns != nil {
		errs = append(errs, e.ns.Close())
	}
	if e.overlayStore != nil {
		errs = append(errs, e.overlayStore.Close())
	}
	if e.store != nil {
		errs = append(errs, e.store.Close())
	}
	return errors.Join(errs...)
}

// path is a path in the engine's mount namespace.
func (e *Engine) path(elem ...string) string {
	dir := "/run/securebench"
	if run := e.cfg.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(run) && !ownsRun() {
		dir = filepath.Join(run, "securebench")
	}
	return filepath.Join(append([]string{dir}, elem...)...)
}

// ownsRun reports whether this process may make folders in /run: root can be root of
// a user namespace only.
func ownsRun() bool { return unix.Faccessat(unix.AT_FDCWD, "/run", unix.W_OK, unix.AT_EACCESS) == nil }
