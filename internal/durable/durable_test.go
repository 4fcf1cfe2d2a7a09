package durable_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/durable"
	"securebench/internal/source"
)

func openRoot(t *testing.T) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

// names lists a directory.
func names(t *testing.T, root *os.Root) (out []string) {
	t.Helper()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestWriteFileReplaces(t *testing.T) {
	root := openRoot(t)
	for _, text := range []string{"a longer text", "short"} {
		if err := durable.WriteFile(root, "f", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := root.ReadFile("f"); err != nil || string(got) != text {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if info, err := root.Stat("f"); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if got := names(t, root); len(got) != 1 {
		t.Errorf("left behind: %q", got)
	}
}

// TestWriteFileKeepsFormerFile: a write that fails leaves the former file and
// no temporary one.
func TestWriteFileKeepsFormerFile(t *testing.T) {
	root := openRoot(t)
	if err := errors.Join(root.Mkdir("f", 0o755), root.WriteFile("f/in", nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(root, "f", []byte("x"), 0o600); err == nil {
		t.Error("a directory was replaced")
	}
	if got := names(t, root); len(got) != 1 {
		t.Errorf("left behind: %q", got)
	}
}

// TestCreateRefusesPipe: opening a pipe would block.
func TestCreateRefusesPipe(t *testing.T) {
	root := openRoot(t)
	if err := unix.Mkfifo(filepath.Join(root.Name(), durable.TempName("f")), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(root, "f", nil, 0o600); !errors.Is(err, source.ErrNotRegular) {
		t.Errorf("got %v", err)
	}
}

func TestLinkDoesNotReplace(t *testing.T) {
	root := openRoot(t)
	for _, want := range []error{nil, fs.ErrExist} {
		f, err := durable.Create(root, durable.UniqueName("."), 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Link("f"); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	if got := names(t, root); len(got) != 1 {
		t.Errorf("left behind: %q", got)
	}
}

func TestDiscard(t *testing.T) {
	root := openRoot(t)
	f, err := durable.Create(root, durable.UniqueName("."), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Discard(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, root); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
	if f, err = durable.Create(root, durable.UniqueName("."), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Commit("f"), f.Discard()); err != nil {
		t.Fatal(err)
	}
	if got := names(t, root); len(got) != 1 {
		t.Errorf("a discard after the commit removed it: %q", got)
	}
}

// lockFile returns a function that opens one file anew each time.
func lockFile(t *testing.T) func() *os.File {
	t.Helper()
	name := filepath.Join(t.TempDir(), "lock")
	return func() *os.File {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
}

// TestTryLockSoon: whoever only looks at a lock keeps nobody from taking it.
func TestTryLockSoon(t *testing.T) { synctest.Test(t, testTryLockSoon) }

func testTryLockSoon(t *testing.T) {
	open := lockFile(t)
	looker, runner, second := open(), open(), open()
	if err := unix.Flock(int(looker.Fd()), unix.LOCK_SH); err != nil { // as far as Held came
		t.Fatal(err)
	}
	unlocked := make(chan error)
	time.AfterFunc(50*time.Millisecond, func() { unlocked <- unix.Flock(int(looker.Fd()), unix.LOCK_UN) })
	if err := durable.TryLockSoon(runner); err != nil {
		t.Errorf("a moment after: %v", err)
	}
	if err := <-unlocked; err != nil {
		t.Fatal(err)
	}
	if held, err := durable.Held(looker); !held || err != nil {
		t.Errorf("held %t: %v", held, err)
	}
	if err := durable.TryLockSoon(second); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("a second holder: %v", err)
	}
}

func TestTryLock(t *testing.T) {
	open := lockFile(t)
	first, second := open(), open()
	if err := durable.TryLock(first); err != nil {
		t.Fatal(err)
	}
	if err := durable.TryLock(second); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("got %v", err)
	}
	done := make(chan error)
	go func() { done <- durable.Lock(second) }()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestWaitIn: whoever waits has the lock once nobody else holds it, and gives up when
// told to.
func TestWaitIn(t *testing.T) {
	root := openRoot(t)
	held, err := durable.LockIn(root, "lock", os.O_CREATE|os.O_RDWR, unix.LOCK_SH)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := durable.LockIn(root, "lock", os.O_RDWR, unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("a second holder: %v", err)
	}
	if _, err := durable.LockIn(root, "none", os.O_RDWR, unix.LOCK_EX); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there, and not to be made: %v", err)
	}
	late := errors.New("late")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, late)
	defer cancel()
	if _, err := durable.WaitIn(ctx, root, "lock"); !errors.Is(err, late) {
		t.Errorf("a lock that is not given up: %v", err)
	}
	time.AfterFunc(50*time.Millisecond, func() { held.Close() })
	mine, err := durable.WaitIn(t.Context(), root, "lock")
	if err != nil {
		t.Fatal(err)
	}
	if err := mine.Close(); err != nil {
		t.Error(err)
	}
}

// TestClosedLockIsFree: a lock ends with its closing even where a process that is just
// being started also has the descriptor.
func TestClosedLockIsFree(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	lock := func() (*durable.Locked, error) {
		return durable.LockIn(root, "lock", os.O_CREATE|os.O_RDWR, unix.LOCK_EX|unix.LOCK_NB)
	}
	first, err := lock()
	if err != nil {
		t.Fatal(err)
	}
	inherited, err := unix.Dup(int(first.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)
	if _, err := lock(); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("while it is held: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := lock()
	if err != nil {
		t.Fatalf("after its closing: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}
