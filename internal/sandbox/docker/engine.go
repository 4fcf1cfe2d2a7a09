// Package docker makes sandboxes with a Docker engine, or with anything else
// that speaks its API from version 1.41 on. What an untrusted image contains is
// read without running any of it.
//
// # Sandbox
//
// A box is one container whose first process is the command. It has no network
// but loopback, no capabilities but those in its specification, no way to gain
// privileges, a read-only root, its own bounded /tmp and /dev/shm, no swap, and
// no log on the engine's disk. The image's entrypoint, health check and volumes
// have no effect. /tmp is not mounted noexec: build tools and agents run what
// they put there, and a box that may run any program gains nothing from it.
//
// Pages of a tmpfs count towards the memory of the container that writes them,
// so a container's memory limit is that of the command plus that of its disk.
// A root that can be written, with /tmp as a part, has no quota on most
// engines. Its size is sampled, a sparse file counting whole, and the box is
// ended when it exceeds the limit, so for a moment it can be larger.
//
// # Workspace
//
// A workspace is a tmpfs volume with a size, an inode cap and an owner. Its
// content lives only while a running container mounts it. That container is
// the holder: it serves the tree over its standard streams (package holder).
// A workspace that begins as an image folder is filled by the engine, when a
// container of that image is created with the volume mounted at the folder.
//
// # Overlay
//
// An overlay is a volume on the engine's disk, shared by all processes and
// mounted read-only. Beside its content, which has a random name, is an empty
// volume whose name is made of the key, the mark: its label names the content.
// The mark is made last, and the engine makes one volume of a name, so an overlay
// is there whole or not at all, whoever else fills it or is killed meanwhile.
// Content without a mark is removed by the next process that needs its key.
// Neither has the label of an owner by which other objects are reaped. A box's
// home is a tmpfs.
//
// # Outcomes
//
// The engine reports memory exhaustion for the whole container, children
// included; it ended the command if the command was killed (exit code 137).
// The engine listens from shortly after the start. A process that the kernel
// kills earlier, within the first half second on a busy machine, may go
// unreported, and the command then ends as if it had failed on its own.
//
// The limit on processes is observed by sampling: a command that hits it and
// ends within half a second also ends as any failed command. A full disk is
// noticed for writable mounts, not for a /tmp of its own.
//
// # Interference
//
// When the engine's events show that something outside acted on a box, Run
// returns an error that wraps [securebench/internal/sandbox.ErrDisturbed]
// instead of an outcome. The events are requested once, after a command has
// ended or run out of time.
//
// # Clean-up
//
// Every object carries the identity of the process that made it. Names are chosen
// here and removal goes by name, so that an object is found even if the engine
// made it after the client gave up.
package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/moby/moby/api/types/system"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/owner"
	"securebench/internal/sandbox/platform"
	"securebench/internal/sandbox/seccomp"
)

// Config configures an [Engine].
type Config struct {
	// Host is the engine's address, unix:// or tcp://. Empty is DOCKER_HOST
	// and then the platform's default socket. TLS is configured by
	// DOCKER_CERT_PATH and DOCKER_TLS_VERIFY.
	Host string
	// Helper is the path of a static binary for the engine's platform with
	// the commands "sandbox-holder TREE", which serves a workspace, and
	// "sandbox-init". Without it there are no workspaces and no
	// [sandbox.Spec.Init].
	Helper string
	// Owner marks all objects. The zero value is this process.
	Owner owner.Owner
	// Runtime names the engine's OCI runtime for boxes, such as "runsc".
	// Empty is the engine's default.
	Runtime string
	// Getenv reads the operator's environment: DOCKER_HOST, DOCKER_CONTEXT,
	// DOCKER_CONFIG and HOME. Nil is an empty one.
	Getenv func(string) string
	// Patience is how long a transfer of files may stall, and the most that
	// the first answer may take. 0 is a minute.
	Patience time.Duration
	// Log gets a line for each object that is reaped or cannot be removed.
	// Nil discards.
	Log *slog.Logger
}

// Engine makes sandboxes on a Docker engine.
type Engine struct {
	*imageStore
	conn     *conn
	helper   *helperBinary
	overlays *overlayStore
	runtime  string
	info     sandbox.Info
	cpus     float64 // cores of the engine
	memory   int64   // bytes of the engine's machine
	storage  string  // the engine's folder if it is on this machine, else ""
	patience time.Duration

	seccomp        string // profile of a box
	seccompTracing string // profile with [sandbox.Spec.Tracing]
}

var (
	_ sandbox.Engine   = (*Engine)(nil)
	_ sandbox.Builder  = (*Engine)(nil)
	_ sandbox.Puller   = (*Engine)(nil)
	_ sandbox.Importer = (*Engine)(nil)
	_ sandbox.Looker   = (*Engine)(nil)
	_ sandbox.Overlays = (*Engine)(nil)
	_ sandbox.Sizer    = (*Engine)(nil)
	_ sandbox.Cleaner  = (*Engine)(nil)
)

// New connects to an engine and checks that it can do what is needed. The
// caller closes the engine, after every box and workspace.
func New(ctx context.Context, cfg Config) (*Engine, error) {
	conn, err := newConn(cfg)
	if err != nil {
		return nil, err
	}
	e := &Engine{imageStore: newImages(conn), conn: conn, runtime: cfg.Runtime, patience: cmp.Or(cfg.Patience, time.Minute)}
	if err := e.connect(ctx, cfg.Helper); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return e, nil
}

func (e *Engine) connect(ctx context.Context, file string) error {
	in, err := e.conn.Connect(ctx, e.patience)
	if err != nil {
		return err
	}
	if err := e.describe(in); err != nil {
		return err
	}
	e.helper, err = newHelper(e.conn, file, e.info.Arch, in.Driver)
	e.overlays = newOverlays(e.conn, e.helper)
	return err
}

// describe takes over what the engine says about itself.
func (e *Engine) describe(in system.Info) (err error) {
	e.cpus, e.memory = float64(in.NCPU), in.MemTotal
	if e.conn.onThisMachine() {
		e.storage = in.DockerRootDir
	}
	e.info = sandbox.Info{Name: "docker", DiskSampled: true, Version: in.ServerVersion, APIVersion: e.conn.API.ClientVersion(),
		Runtime: in.DefaultRuntime, CgroupVersion: in.CgroupVersion, OS: in.OSType,
		Arch: platform.New(in.OSType, in.Architecture, "").Arch, Kernel: in.KernelVersion, SecurityOptions: in.SecurityOptions}
	e.info.ByManifest = slices.Contains(in.DriverStatus, [2]string{"driver-type", "io.containerd.snapshotter.v1"})
	e.info.SocketsUnbounded = in.CgroupVersion == "1" // see [Requirements]
	if e.conn.onThisMachine() {
		e.info.Emulated = platform.ThisMachine().Emulated
	}
	if e.runtime != "" {
		if _, ok := in.Runtimes[e.runtime]; !ok {
			return fmt.Errorf("the engine has no runtime %q", e.runtime)
		}
		e.info.Runtime = e.runtime
	}
	if e.seccomp, e.info.Seccomp, err = seccomp.Profile(false, false); err != nil {
		return err
	}
	e.seccompTracing, e.info.SeccompTracing, err = seccomp.Profile(true, false)
	return err
}

// Info implements [sandbox.Service].
func (e *Engine) Info() sandbox.Info {
	info := e.info
	info.SecurityOptions = slices.Clone(info.SecurityOptions)
	return info
}

// Size implements [sandbox.Sizer]. The disk of an engine on another machine, or
// in a virtual one, is unknown.
func (e *Engine) Size(context.Context) (sandbox.Size, error) {
	size := sandbox.Size{CPUs: e.cpus, Memory: e.memory}
	if e.storage != "" {
		if free, err := platform.Free(e.storage); err == nil {
			size.Disk = free
		}
	}
	return size, nil
}

// Reap implements [sandbox.Service]; see conn.Reap.
func (e *Engine) Reap(ctx context.Context) (int, error) { return e.conn.Reap(ctx) }

// Overlay implements [sandbox.Overlays].
func (e *Engine) Overlay(ctx context.Context, spec sandbox.OverlaySpec, fill func(io.Writer) error) (sandbox.Overlay, error) {
	return e.overlays.Overlay(ctx, spec, fill)
}

// Overlays implements [sandbox.Overlays].
func (e *Engine) Overlays(ctx context.Context) ([]sandbox.OverlaySpec, error) {
	return e.overlays.Overlays(ctx)
}

// RemoveOverlay implements [sandbox.Overlays].
func (e *Engine) RemoveOverlay(ctx context.Context, key string) error {
	return e.overlays.RemoveOverlay(ctx, key)
}

// Owned lists the containers and images, by ID, and volumes, by name, that belong to this
// engine's owner, except those of the helper, which last until Close. After a
// run it is empty.
func (e *Engine) Owned(ctx context.Context) ([]string, error) {
	names, err := e.conn.Owned(ctx)
	volumes := e.helper.Volumes()
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(volumes, name) }), err
}

// Close removes the helper's volumes and releases the connections.
func (e *Engine) Close() error {
	return errors.Join(e.helper.Close(context.Background()), e.conn.Close())
}
