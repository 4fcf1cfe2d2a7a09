package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"securebench/internal/bounded"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/holder"
)

// The holder's own limits; pages that it writes to the tree come on top.
const (
	holderMemory = 128 << 20
	holderPids   = 64
)

// pageSlack is how far a file system's size may differ from the requested
// one: kernels round to pages, which are 64 KiB on some machines.
const pageSlack = 64 << 10

// workspace is a tmpfs volume and the holder that keeps it.
type workspace struct {
	engine *Engine
	name   string // of the volume
	holder string // name of the container
	disk   int64  // bytes
	client *holder.Client
	stream *holderStream

	mu      sync.Mutex
	removed bool
}

var _ sandbox.Workspace = (*workspace)(nil)

// Workspace makes a bounded volume and starts its holder.
func (e *Engine) Workspace(ctx context.Context, spec sandbox.WorkspaceSpec) (sandbox.Workspace, error) {
	spec = spec.WithDefaults()
	w := &workspace{engine: e, name: newName(), holder: newName(), disk: spec.Disk}
	if err := spec.Check(); err != nil {
		return nil, fmt.Errorf("making a workspace: %w", err)
	}
	image, err := e.helper.Image(ctx)
	if err != nil {
		return nil, fmt.Errorf("making a workspace: %w", err)
	}
	if err := w.make(ctx, spec, image); err != nil {
		return nil, errors.Join(fmt.Errorf("making a workspace: %w", err), w.Close(ctx))
	}
	return w, nil
}

func (w *workspace) make(ctx context.Context, spec sandbox.WorkspaceSpec, image string) error {
	if err := w.makeVolume(ctx, spec); err != nil {
		return err
	}
	if err := w.startHolder(ctx, spec, image); err != nil {
		return err
	}
	u, err := w.Usage(ctx)
	if err != nil {
		return err
	}
	if u.BytesLimit < spec.Disk || u.BytesLimit > spec.Disk+pageSlack || u.InodesLimit != spec.Inodes {
		return fmt.Errorf("the engine cannot bound a volume: asked for %d bytes and %d inodes, got %d and %d",
			spec.Disk, spec.Inodes, u.BytesLimit, u.InodesLimit)
	}
	if spec.From == nil {
		return nil
	}
	return w.fill(ctx, spec.Labels, *spec.From)
}

func (w *workspace) makeVolume(ctx context.Context, spec sandbox.WorkspaceSpec) error {
	return w.engine.conn.createVolume(ctx, client.VolumeCreateOptions{
		Name:   w.name,
		Driver: "local",
		DriverOpts: map[string]string{"type": "tmpfs", "device": "tmpfs",
			"o": fmt.Sprintf("size=%d,nr_inodes=%d,uid=%d,gid=%d,mode=0755,nosuid,nodev",
				spec.Disk, spec.Inodes, spec.Owner.UID, spec.Owner.GID)},
		Labels: w.engine.conn.Labels(spec.Labels),
	})
}

func (w *workspace) startHolder(ctx context.Context, spec sandbox.WorkspaceSpec, image string) error {
	host := w.engine.hardened(sandbox.Limits{Memory: holderMemory, CPUs: w.engine.cpus, Pids: holderPids}, spec.Disk)
	host.Mounts = []mount.Mount{{Type: mount.TypeVolume, Source: w.name, Target: tree,
		VolumeOptions: &mount.VolumeOptions{NoCopy: true}}}
	user, argv := spec.Owner, []string{sandbox.HelperPath, "sandbox-holder", tree}
	if spec.ReadAll { // the holder becomes the owner itself, and keeps one of root's rights
		user, argv = sandbox.User{}, []string{sandbox.HelperPath, "sandbox-holder", "--read-all", userString(spec.Owner), tree}
		host.CapAdd = []string{"DAC_READ_SEARCH"}
		if spec.Owner != (sandbox.User{}) {
			host.CapAdd = append(host.CapAdd, "SETUID", "SETGID")
		}
	}
	err := w.engine.conn.createContainer(ctx, client.ContainerCreateOptions{
		Name: w.holder,
		Config: &container.Config{Hostname: "sandbox", User: userString(user), Image: image,
			Entrypoint:  argv,
			AttachStdin: true, OpenStdin: true, StdinOnce: true, AttachStdout: true, AttachStderr: true,
			WorkingDir: "/", NetworkDisabled: true, Labels: w.engine.conn.Labels(spec.Labels)},
		HostConfig: host,
	})
	if err != nil {
		return err
	}
	conn, err := w.engine.attach(ctx, w.holder, true)
	if err != nil {
		return err
	}
	w.stream = newHolderStream(conn)
	w.client = holder.NewClient(w.stream)
	return w.engine.start(ctx, w.holder)
}

// fill copies a folder of an image into the volume. The engine does it when it
// creates a container of the image with the volume mounted at the folder; the
// container never starts.
func (w *workspace) fill(ctx context.Context, labels sandbox.Labels, from sandbox.ImageFolder) error {
	has, err := w.engine.hasFolder(ctx, from.Image.ID, from.Path)
	if err != nil {
		return err
	}
	if !has {
		return fmt.Errorf("%s in image %s: %w", from.Path, from.Image.ID, sandbox.ErrNoFolder)
	}
	name := newName()
	err = w.engine.conn.createContainer(ctx, client.ContainerCreateOptions{
		Name: name,
		Config: &container.Config{Image: from.Image.ID, Entrypoint: []string{"/"}, WorkingDir: "/", NetworkDisabled: true,
			Labels: w.engine.conn.Labels(labels)},
		HostConfig: &container.HostConfig{NetworkMode: "none", LogConfig: container.LogConfig{Type: "none"},
			Mounts: []mount.Mount{{Type: mount.TypeVolume, Source: w.name, Target: from.Path}}},
	})
	switch {
	case err == nil:
		return w.engine.conn.removeContainer(ctx, name)
	case strings.Contains(err.Error(), "no space left on device"): // the engine has no error code for it
		return fmt.Errorf("copying %s of image %s: %w (%w)", from.Path, from.Image.ID, sandbox.ErrTooSmall, err)
	}
	return fmt.Errorf("copying %s of image %s: %w", from.Path, from.Image.ID, err)
}

// holderStream is the attached holder: its standard input and output as one
// stream.
type holderStream struct {
	conn  client.HijackedResponse
	out   *io.PipeReader
	moved atomic.Int64 // bytes in either direction
}

// newHolderStream starts a goroutine that ends when the stream is closed.
func newHolderStream(conn client.HijackedResponse) *holderStream {
	out, in := io.Pipe()
	go func() {
		stderr := bounded.Head{Max: 2048}
		err := demultiplex(in, &stderr, conn.Reader)
		_ = in.CloseWithError(unexpectedEnd(err, stderr.String())) // never fails
	}()
	return &holderStream{conn: conn, out: out}
}

// unexpectedEnd is the error of a holder whose output ends, which is never
// regular: at most as much is read as the holder has to write.
func unexpectedEnd(err error, stderr string) error {
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if stderr != "" {
		return fmt.Errorf("the workspace's container ended and wrote %q: %w", stderr, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("the workspace's container ended: %w", io.ErrUnexpectedEOF)
}

func (s *holderStream) Write(p []byte) (int, error) {
	n, err := s.conn.Conn.Write(p)
	s.moved.Add(int64(n))
	if err != nil {
		err = fmt.Errorf("writing to the workspace's container: %w", err)
	}
	return n, err
}

func (s *holderStream) Read(p []byte) (int, error) {
	n, err := s.out.Read(p)
	s.moved.Add(int64(n))
	return n, err
}

// Close ends blocked reads and writes, and the goroutine.
func (s *holderStream) Close() error {
	return errors.Join(s.conn.Conn.Close(), s.out.Close())
}

// watched returns a context for a request, which ends when the transfer
// stalls: a holder can be paused, and its engine can hang.
func (w *workspace) watched(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(w.engine.patience)
		defer tick.Stop()
		for last := w.stream.moved.Load(); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			now := w.stream.moved.Load()
			if now == last {
				cancel(fmt.Errorf("the workspace's container has not answered for %v: it is paused, or the engine hangs", w.engine.patience))
			}
			last = now
		}
	}()
	return ctx, func() { cancel(nil) }
}

// Put implements [sandbox.Workspace]; see [holder.Client.Put].
func (w *workspace) Put(ctx context.Context, tar io.Reader) error {
	ctx, cancel := w.watched(ctx)
	defer cancel()
	return w.client.Put(ctx, tar)
}

// Get implements [sandbox.Workspace]; see [holder.Client.Get].
func (w *workspace) Get(ctx context.Context, path string, limit int64, out io.Writer, skip ...string) error {
	ctx, cancel := w.watched(ctx)
	defer cancel()
	return w.client.Get(ctx, path, limit, out, skip...)
}

// Remove implements [sandbox.Workspace]; see [holder.Client.Remove].
func (w *workspace) Remove(ctx context.Context, paths ...string) error {
	ctx, cancel := w.watched(ctx)
	defer cancel()
	return w.client.Remove(ctx, paths...)
}

// Usage implements [sandbox.Workspace].
func (w *workspace) Usage(ctx context.Context) (sandbox.Usage, error) {
	ctx, cancel := w.watched(ctx)
	defer cancel()
	return w.client.Usage(ctx)
}

// Close removes the holder and the volume.
func (w *workspace) Close(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.removed {
		return nil
	}
	var errs []error
	errs = append(errs, w.engine.conn.removeContainer(ctx, w.holder))
	if w.client != nil {
		// The other end is gone after the removal, so an error says nothing.
		_ = w.client.Close()
	}
	errs = append(errs, w.engine.conn.removeVolume(ctx, w.name))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing a workspace: %w", err)
	}
	w.removed = true
	return nil
}
