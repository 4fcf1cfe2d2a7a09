package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"securebench/internal/durable"
)

// TestWriteLater: a file has its name at once, and nothing else is left; the end of the
// flush is known, with its error.
func TestWriteLater(t *testing.T) {
	root, flusher := openRoot(t), durable.Flusher{}
	var flushes []*durable.Flush
	for _, text := range []string{"a longer text", "short"} {
		f, err := durable.WriteLater(&flusher, root, "f", []byte(text), 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := root.ReadFile("f"); err != nil || string(got) != text {
			t.Errorf("got %q, %v", got, err)
		}
		flushes = append(flushes, f, nil)
	}
	for _, f := range flushes {
		if err := f.Wait(); err != nil {
			t.Error(err)
		}
	}
	if _, err := durable.WriteLater(&flusher, root, "none/f", nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
	if err := root.Mkdir("folder", 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := durable.WriteLater(&flusher, root, "folder", nil, 0o600); err == nil {
		t.Error("a folder was replaced")
	}
	if got := names(t, root); len(got) != 2 {
		t.Errorf("left behind: %q", got)
	}
	begun, ended := make(chan struct{}), false
	failed := flusher.Go(func() error { <-begun; ended = true; return fs.ErrInvalid })
	close(begun)
	if flusher.Wait(); !ended {
		t.Error("it did not wait for a flush")
	}
	if err := failed.Wait(); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a flush that fails: %v", err)
	}
}

// TestSyncAll: an open directory names its file system, and a closed one none.
func TestSyncAll(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := durable.SyncAll(root); err != nil {
		t.Error(err)
	}
	if err := root.Close(); err != nil {
		t.Fatal(err)
	}
	if err := durable.SyncAll(root); err == nil {
		t.Error("a closed directory was flushed")
	}
}
