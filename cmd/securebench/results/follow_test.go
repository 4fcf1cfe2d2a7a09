package results

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/durable"
	"securebench/internal/evidence"
	"securebench/internal/fault"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
)

// TestTail: lines are read once each, a part of one not at all, and those of a
// file that replaced the former one from its beginning.
func TestTail(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	long := strings.Repeat("x", 200_000)
	tl, again := tail{fsys: os.DirFS(dir), name: "f"}, 0
	want := func(lines ...string) {
		t.Helper()
		var got []string
		err := tl.each(func(line []byte) error { got = append(got, string(line)); return nil }, func() { again++ })
		if err != nil || fmt.Sprintf("%q", got) != fmt.Sprintf("%q", lines) {
			t.Errorf("%.80q, %v", got, err)
		}
	}
	add := func(text string) {
		t.Helper()
		f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = io.WriteString(f, text)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	want()
	add("a\nb")
	want("a")
	add("c\n" + long + "\n")
	want("bc", long)
	want()
	if err := os.WriteFile(filepath.Join(dir, "g"), []byte("a\nnew\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "g"), file); err != nil {
		t.Fatal(err)
	}
	want("a", "new")
	if again != 1 {
		t.Errorf("replaced %d times", again)
	}
}

// TestFollowKnowsRunners: a run is in progress as long as a process holds its
// lock, and looking at that takes the lock from nobody.
func TestFollowKnowsRunners(t *testing.T) {
	dir := t.TempDir()
	d, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	run, err := evidence.OpenRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	var out bytes.Buffer
	w := &follower{group: group{&subcommand.Shell{Stdout: &out, Say: t.Logf}}}
	w.open(run)
	for range 5 {
		if done, begun, err := w.poll(); done || !begun || err != nil {
			t.Fatalf("%v, %v, %v", done, begun, err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if done, begun, err := w.poll(); done || begun || err != nil {
		t.Errorf("before the run: %v, %v, %v", done, begun, err)
	}
	manifest := filepath.Join(dir, record.ManifestName)
	if err := os.WriteFile(manifest, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.poll(); fault.KindOf(err) != fault.Usage || !strings.Contains(err.Error(), "there is no run to follow") {
		t.Error(err)
	}
	if err := os.Remove(manifest); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, record.LockName))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if held, err := durable.Held(f); held || err != nil {
		t.Error(held, err)
	}
	if err := durable.TryLock(f); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var said []string
	g := group{&subcommand.Shell{Stdout: &out, Say: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}}
	for _, name := range []string{t.TempDir(), filepath.Join(dir, "not", "there")} {
		if err := g.follow(ctx, name, "", showFlags{}); fault.KindOf(err) != fault.Interrupted || !strings.Contains(err.Error(), "no run has begun") {
			t.Error(err)
		}
		if want := "waiting for a run to begin in " + redact.Quote(name); len(said) != 1 || said[0] != want {
			t.Errorf("%q, want %q", said, want)
		}
		said = nil
	}
}

// TestFollowWaits: it says once that it waits, and no more that no run has begun when one has.
func TestFollowWaits(t *testing.T) {
	dir := t.TempDir()
	said := 0
	w := &follower{group: group{&subcommand.Shell{Stdout: io.Discard, Say: func(string, ...any) { said++ }}}}
	look := func(want string) {
		t.Helper()
		if done, err := w.look(dir); done || err != nil || w.state() != want {
			t.Errorf("%v, %v, %q, want %q", done, err, w.state(), want)
		}
	}
	look("no run has begun")
	look("no run has begun")
	if said != 1 {
		t.Errorf("said %d times that it waits", said)
	}
	d, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	look("the run continues")
	if err := w.run.Close(); err != nil {
		t.Error(err)
	}
}
