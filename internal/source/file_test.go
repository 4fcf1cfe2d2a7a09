package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"securebench/internal/awaittest"
)

// within fails if do does not return soon, as when it waits for a pipe's writer.
func within(t *testing.T, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(awaittest.Hung):
		t.Fatal("it blocks")
	}
}

// TestOnlyRegularFilesAreOpened: anything but a regular file is refused
// immediately, with its name and type; a file and a link to one are read.
func TestOnlyRegularFilesAreOpened(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		syscall.Mkfifo(at("pipe"), 0o600), os.Mkdir(at("folder"), 0o700),
		os.Symlink("pipe", at("link-to-pipe")), os.Symlink("file", at("link")),
		os.WriteFile(at("file"), []byte("four"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, c := range []struct{ name, want, below string }{
		{"pipe", "pipe is a named pipe, not a regular file (write its", "pipe is a named pipe"},
		{"link-to-pipe", "is a named pipe", "is a symbolic link"},
		{"folder", "is a directory", "is a directory"},
		{"socket", "is a socket", "is a socket"},
		{"/dev/null", "/dev/null is a device, not a regular file", ""},
		{"link", "", "is a symbolic link"},
		{"file", "", ""},
	} {
		within(t, func() { check(t, c.name, c.want, func() ([]byte, error) { return ReadFile(abs(dir, c.name), 4) }) })
		if filepath.IsAbs(c.name) {
			continue // no name below a root
		}
		within(t, func() { check(t, c.name, c.below, func() ([]byte, error) { return ReadFileIn(root, c.name, 4) }) })
		within(t, func() {
			f, err := OpenIn(root, c.name, os.O_WRONLY|os.O_APPEND, 0)
			if err == nil {
				f.Close()
			}
			if (err == nil) != (c.below == "") {
				t.Errorf("%s for writing: %v", c.name, err)
			}
		})
	}
	if _, err := ReadFile(at("file"), 3); err == nil || !strings.Contains(err.Error(), "is larger than 3 bytes") {
		t.Errorf("a file beyond the limit: %v", err)
	}
	if _, err := ReadFile(at("none"), 3); !errors.Is(err, fs.ErrNotExist) || err.Error() != at("none")+": no such file or directory" {
		t.Errorf("a file that is missing: %v", err)
	}
}

func abs(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

func check(t *testing.T, name, want string, read func() ([]byte, error)) {
	t.Helper()
	data, err := read()
	switch {
	case want == "" && (err != nil || string(data) != "four"):
		t.Errorf("%s: %q, %v", name, data, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: %v, want %q", name, err, want)
	case want != "" && !errors.Is(err, ErrNotRegular):
		t.Errorf("%s: %v is not ErrNotRegular", name, err)
	}
}

// TestWords: messages contain no jargon of the implementation.
func TestWords(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	_, statErr := root.Lstat("a/b")
	_, openErr := root.Open("a")
	for _, c := range []struct {
		err  error
		want string
	}{
		{fmt.Errorf("looking: %w", statErr), "looking: a/b: no such file or directory"},
		{fmt.Errorf("looking: %w", errors.Join(openErr, io.ErrUnexpectedEOF)), "looking: a: no such file or directory\nit ends too early"},
		{fmt.Errorf("closing: %w", context.DeadlineExceeded), "closing: it took too long"},
		{os.Rename("/none/a", "/none/b"), "/none/a to /none/b: no such file or directory"},
		{errors.New("the word openat of a user"), "the word openat of a user"},
	} {
		if got := Words(c.err); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
