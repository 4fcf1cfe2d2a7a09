package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/holder"
)

// workspace is a directory behind a holder that runs in a goroutine.
type workspace struct {
	engine *Engine
	dir    string
	spec   sandbox.WorkspaceSpec
	client *holder.Client
	served chan error

	mu      sync.Mutex
	removed bool
}

func serve(e *Engine, dir string, spec sandbox.WorkspaceSpec) *workspace {
	near, far := net.Pipe()
	w := &workspace{engine: e, dir: dir, spec: spec, client: holder.NewClient(near), served: make(chan error, 1)}
	go func() {
		err := holder.Serve(dir, far, far)
		_ = far.Close()
		w.served <- err
	}()
	return w
}

// Put lays an archive into the tree. The directory has no size of its own, so the
// limit is checked afterwards.
func (w *workspace) Put(ctx context.Context, tar io.Reader) error {
	if err := w.client.Put(ctx, tar); err != nil {
		return err
	}
	u, err := w.Usage(ctx)
	if err != nil {
		return err
	}
	if u.Bytes > u.BytesLimit || u.Inodes > u.InodesLimit {
		return fmt.Errorf("writing to the workspace: %w", syscall.ENOSPC)
	}
	return nil
}

// Get reads a part of the tree.
func (w *workspace) Get(ctx context.Context, path string, limit int64, out io.Writer, skip ...string) error {
	return w.client.Get(ctx, path, limit, out, skip...)
}

// Remove implements [sandbox.Workspace].
func (w *workspace) Remove(ctx context.Context, paths ...string) error {
	return w.client.Remove(ctx, paths...)
}

// Usage counts what a tmpfs would: whole pages of files, and all entries.
func (w *workspace) Usage(ctx context.Context) (sandbox.Usage, error) {
	u, err := w.client.Usage(ctx) // for the root
	if err != nil {
		return sandbox.Usage{}, err
	}
	u = sandbox.Usage{Root: u.Root, Mode: u.Mode, BytesLimit: w.spec.Disk, InodesLimit: w.spec.Inodes}
	err = filepath.WalkDir(w.dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		u.Inodes++
		info, err := d.Info()
		if err == nil && info.Mode().IsRegular() {
			u.Bytes += (info.Size() + 4095) / 4096 * 4096
		}
		return err
	})
	if err != nil {
		return sandbox.Usage{}, fmt.Errorf("measuring the workspace: %w", err)
	}
	return u, nil
}

// Close removes the tree.
func (w *workspace) Close(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.removed {
		return nil
	}
	w.removed = true
	w.engine.count(-1)
	return errors.Join(w.stop(), openUp(w.dir), os.RemoveAll(w.dir))
}

// stop ends the holder.
func (w *workspace) stop() error {
	err := w.client.Close()
	<-w.served // it ends with the stream; its error does not matter
	return err
}

// openUp restores the permissions that removing directories needs.
func openUp(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return os.Chmod(path, 0o700)
	})
}
