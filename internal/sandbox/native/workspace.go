package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/holder"
	"securebench/internal/sandbox/mountns"
)

// workspaceTree is a tmpfs and the goroutine that serves it.
type workspaceTree struct {
	*holder.Client
	engine *Engine
	path   string // where the tmpfs is mounted
	spec   sandbox.WorkspaceSpec
	root   *os.Root
	served <-chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex
	mounted bool
	removed bool
}

var _ sandbox.Workspace = (*workspaceTree)(nil)

// Workspace implements [sandbox.Service]: it mounts a bounded file tree.
func (e *Engine) Workspace(ctx context.Context, spec sandbox.WorkspaceSpec) (sandbox.Workspace, error) {
	w := &workspaceTree{engine: e, path: e.path(worksDir, strconv.FormatInt(e.works.Add(1), 10)), spec: spec.WithDefaults()}
	err := spec.Check()
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = w.make(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a workspace: %w", err), w.Close(ctx))
	}
	return w, nil
}

func (w *workspaceTree) make(ctx context.Context) error {
	// The kernel wants whole pages.
	page := int64(os.Getpagesize())
	size := (w.spec.Disk + page - 1) / page * page
	err := w.engine.ns.Do(func() error {
		if err := os.Mkdir(w.path, 0o700); err != nil {
			return err
		}
		fs := mountns.Tmpfs{Size: size, Inodes: w.spec.Inodes, Mode: 0o755, UID: w.spec.Owner.UID, GID: w.spec.Owner.GID}
		if err := fs.Mount(w.path); err != nil {
			return errors.Join(err, os.Remove(w.path))
		}
		w.mounted = true
		var err error
		w.root, err = os.OpenRoot(w.path)
		return err
	})
	if err != nil {
		return err
	}
	if w.spec.From != nil {
		if err := w.fill(ctx, *w.spec.From); err != nil {
			return err
		}
	}
	return w.serve()
}

// serve starts the goroutine that serves the tree with its owner's rights.
func (w *workspaceTree) serve() error {
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	ready, served := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(served)
		end := asUser(w.spec.Owner, w.spec.ReadAll, w.root, ready, func() error {
			return holder.ServeRoot(w.root, fromClient, toClient)
		})
		_ = toClient.CloseWithError(errors.Join(end, io.ErrUnexpectedEOF)) // never fails
		_ = fromClient.CloseWithError(os.ErrClosed)
	}()
	w.served = served
	w.Client = holder.NewClient(duplex{fromServer, toServer})
	return <-ready
}

// duplex is the client's end of the streams.
type duplex struct {
	*io.PipeReader
	out *io.PipeWriter
}

func (d duplex) Write(p []byte) (int, error) { return d.out.Write(p) }

// Close ends the other end's reads and writes.
func (d duplex) Close() error { return errors.Join(d.out.Close(), d.PipeReader.Close()) }

// Open opens the root of the tree, to see whether it is full.
func (w *workspaceTree) Open() (*os.File, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.removed {
		return nil, errors.New("the workspace is closed")
	}
	return w.root.Open(".")
}

// Close ends the server and unmounts the tree.
func (w *workspaceTree) Close(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.removed {
		return nil
	}
	if err := w.remove(); err != nil {
		return fmt.Errorf("closing a workspace: %w", err)
	}
	w.removed = true
	return nil
}

func (w *workspaceTree) remove() error {
	if w.Client != nil {
		_ = w.Client.Close() // pipes in memory
		<-w.served
	}
	if w.root != nil {
		if err := w.root.Close(); err != nil {
			return err
		}
		w.root = nil
	}
	if !w.mounted {
		return nil
	}
	return w.engine.ns.Do(func() error {
		if err := mountns.Unmount(w.path); err != nil {
			return err
		}
		w.mounted = false
		return os.Remove(w.path)
	})
}
