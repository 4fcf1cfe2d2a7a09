package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/holder"
)

// The holder's own needs; pages that it writes to the tree come on top.
const (
	holderMemory = 128 << 20
	holderPids   = 64
)

// pageSlack is how far a file system's size may differ from the one asked
// for: engines round to pages, which are 64 KiB on some machines.
const pageSlack = 64 << 10

// workspace is a tmpfs volume and the holder that keeps it.
type workspace struct {
	engine *Engine
	name   string // of the volume
	holder string // name of the container
	client *holder.Client
	stream *holderStream

	mu      sync.Mutex
	removed bool
}

var _ sandbox.Workspace = (*workspace)(nil)

// Workspace makes a bounded volume and starts its holder.
func (e *Engine) Workspace(ctx context.Context, spec sandbox.WorkspaceSpec) (sandbox.Workspace, error) {
	if spec.Disk <= 0 {
		spec.Disk = sandbox.Limits{}.WithDefaults().Disk
	}
	if spec.Inodes <= 0 {
		spec.Inodes = sandbox.Inodes
	}
	image, err := e.helperImage(ctx)
	if err != nil {
		return nil, fmt.Errorf("making a workspace: %w", err)
	}
	w := &workspace{engine: e, name: newName(), holder: newName()}
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
	return nil
}

func (w *workspace) makeVolume(ctx context.Context, spec sandbox.WorkspaceSpec) error {
	cctx, cancel := cancelAfter(ctx)
	defer cancel()
	_, err := w.engine.api.VolumeCreate(cctx, client.VolumeCreateOptions{
		Name:   w.name,
		Driver: "local",
		DriverOpts: map[string]string{"type": "tmpfs", "device": "tmpfs",
			"o": fmt.Sprintf("size=%d,nr_inodes=%d,uid=%d,gid=%d,mode=0755,nosuid,nodev",
				spec.Disk, spec.Inodes, spec.Owner.UID, spec.Owner.GID)},
		Labels: w.engine.labels(spec.Labels),
	})
	if err != nil {
		return fmt.Errorf("creating a bounded volume: %w", err)
	}
	return nil
}

func (w *workspace) startHolder(ctx context.Context, spec sandbox.WorkspaceSpec, image string) error {
	host := w.engine.hardened(sandbox.Limits{Memory: holderMemory, Disk: spec.Disk,
		CPUs: w.engine.cpus, Pids: holderPids})
	host.Mounts = []mount.Mount{{Type: mount.TypeVolume, Source: w.name, Target: helperTree,
		VolumeOptions: &mount.VolumeOptions{NoCopy: true}}}
	opts := client.ContainerCreateOptions{
		Name: w.holder,
		Config: &container.Config{Hostname: "sandbox", User: userString(spec.Owner), Image: image,
			Entrypoint:  []string{sandbox.HelperPath, "sandbox-holder", helperTree},
			AttachStdin: true, OpenStdin: true, StdinOnce: true, AttachStdout: true, AttachStderr: true,
			WorkingDir: "/", NetworkDisabled: true, Labels: w.engine.labels(spec.Labels)},
		HostConfig: host,
	}
	if err := w.engine.create(ctx, opts); err != nil {
		return err
	}
	conn, err := w.engine.attach(ctx, w.holder, true)
	if err != nil {
		return err
	}
	w.stream = &holderStream{conn: conn, out: demux{r: conn.Reader}}
	w.client = holder.NewClient(w.stream)
	return w.engine.start(ctx, w.holder)
}

// holderStream is the attached holder: its standard input and output as one
// stream. What it says on standard error is kept for the message of its end.
type holderStream struct {
	conn client.HijackedResponse
	out  demux
	said []byte

	moved atomic.Int64 // bytes that went either way
}

func (s *holderStream) Write(p []byte) (int, error) {
	n, err := s.conn.Conn.Write(p)
	s.moved.Add(int64(n))
	if err != nil {
		err = fmt.Errorf("writing to the holder: %w", err)
	}
	return n, err
}

func (s *holderStream) Close() error { return s.conn.Conn.Close() }

// maxSaid bounds what is kept of the holder's standard error.
const maxSaid = 2048

// Read reads what the holder answers. Its end is never a regular one: nobody
// asks for more than it has to say.
func (s *holderStream) Read(p []byte) (int, error) {
	for {
		stream, n, err := s.out.read(p)
		s.moved.Add(int64(n))
		if stream == streamStderr {
			s.said = append(s.said, p[:min(n, maxSaid-len(s.said))]...)
			n = 0
		}
		ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		switch {
		case ended && len(s.said) > 0:
			err = fmt.Errorf("the holder ended, saying %q: %w", s.said, io.ErrUnexpectedEOF)
		case ended:
			err = fmt.Errorf("the holder ended: %w", io.ErrUnexpectedEOF)
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// watched returns a context for a request, which ends when nothing moves any
// more: a holder can be paused, and its engine can hang.
func (w *workspace) watched(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		look := time.NewTicker(w.engine.silence)
		defer look.Stop()
		for last := w.stream.moved.Load(); ; {
			select {
			case <-ctx.Done():
				return
			case <-look.C:
			}
			now := w.stream.moved.Load()
			if now == last {
				cancel(fmt.Errorf("the workspace's container has not answered for %v: it is paused, or the engine hangs", w.engine.silence))
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
func (w *workspace) Get(ctx context.Context, path string, limit int64, out io.Writer) error {
	ctx, cancel := w.watched(ctx)
	defer cancel()
	return w.client.Get(ctx, path, limit, out)
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
	errs = append(errs, w.engine.removeContainer(ctx, w.holder))
	if w.client != nil {
		// After the removal the other end is gone, so an error says nothing.
		_ = w.client.Close()
	}
	errs = append(errs, w.engine.removeVolume(ctx, w.name))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing a workspace: %w", err)
	}
	w.removed = true
	return nil
}
