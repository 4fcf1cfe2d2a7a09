package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/docker"
	"securebench/internal/sandbox/enginetest"
)

// silentEngine accepts connections and never answers. It returns its address.
func silentEngine(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "silent") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done; _ = os.RemoveAll(dir) })
	return "unix://" + filepath.Join(dir, "s")
}

// TestSilentEngine checks that waiting for an engine that never answers ends by
// itself, and at once when the caller cancels.
func TestSilentEngine(t *testing.T) {
	host := silentEngine(t)
	e, err := docker.New(t.Context(), docker.Config{Host: host, Patience: 200 * time.Millisecond})
	if err == nil {
		_ = e.Close()
	}
	if err == nil || !strings.Contains(err.Error(), host+" accepts connections but does not answer within 200ms") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	if _, err := docker.New(ctx, docker.Config{Host: host, Patience: time.Hour}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: got %v", err)
	}
}

// TestPausedHolder checks that no request to a workspace waits forever.
func TestPausedHolder(t *testing.T) {
	enginetest.Docker(t)
	e, err := docker.New(t.Context(), docker.Config{Helper: enginetest.Helper(t), Getenv: os.Getenv, Patience: 4 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { diffOwned(t, e); _ = e.Close() })
	api := engineAPI(t)
	var big bytes.Buffer // more than any buffer on the way
	w := tar.NewWriter(&big)
	if err := errors.Join(w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "big", Mode: 0o644, Size: 8 << 20}),
		func() error { _, err := w.Write(make([]byte, 8<<20)); return err }(), w.Close()); err != nil {
		t.Fatal(err)
	}
	for name, ask := range map[string]func(context.Context, sandbox.Workspace) error{
		"usage": func(ctx context.Context, w sandbox.Workspace) error { _, err := w.Usage(ctx); return err },
		"get":   func(ctx context.Context, w sandbox.Workspace) error { return w.Get(ctx, ".", 1<<20, io.Discard) },
		"put": func(ctx context.Context, w sandbox.Workspace) error {
			return w.Put(ctx, bytes.NewReader(big.Bytes()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, canceled := range []bool{false, true} {
				err, cause := askPaused(t, e, api, ask, canceled)
				switch {
				case canceled && !errors.Is(err, cause):
					t.Errorf("canceled: %v", err)
				case !canceled && (err == nil || !strings.Contains(err.Error(), "has not answered for 4s")):
					t.Errorf("got %v", err)
				}
			}
		})
	}
}

// askPaused makes a request to a workspace, which works, and the same again
// while its holder is paused.
func askPaused(t *testing.T, e *docker.Engine, api *client.Client, ask func(context.Context, sandbox.Workspace) error, canceled bool) (err, cause error) {
	t.Helper()
	w, err := e.Workspace(t.Context(), sandbox.WorkspaceSpec{Labels: sandbox.Labels{Run: enginetest.Run(t.Name())}, Owner: sandbox.Nobody, Disk: 32 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
	}()
	if err := ask(t.Context(), w); err != nil {
		t.Error(err)
	}
	for _, id := range labelled(t, api, enginetest.Run(t.Name())) {
		if _, err := api.ContainerPause(t.Context(), id, client.ContainerPauseOptions{}); err != nil {
			t.Error(err)
		}
	}
	cause = errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	if canceled {
		time.AfterFunc(50*time.Millisecond, func() { cancel(cause) })
	}
	return ask(ctx, w), cause
}
