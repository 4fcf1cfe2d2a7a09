package contract

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/holder"
)

// target is where workspaces are mounted.
const target = "/workspace"

func (s *suite) workspaces(t *testing.T) {
	t.Run("round trip", s.roundTrip)
	t.Run("what a command leaves", s.leaves)
	t.Run("too large", s.tooLarge)
	t.Run("refused archives", s.refused)
	t.Run("trusted files win", s.trustedFilesWin)
	t.Run("skip", s.skip)
	t.Run("remove", s.remove)
	t.Run("remove from closed folders", s.removeClosed)
	t.Run("full", s.full)
	t.Run("put beyond the limit", s.putTooMuch)
	t.Run("not shared", s.notShared)
	t.Run("canceled", s.canceledGet)
	t.Run("close", s.closeWorkspace)
}

func (s *suite) workspace(t *testing.T) sandbox.Workspace {
	t.Helper()
	return s.make(t, sandbox.WorkspaceSpec{Labels: sandbox.Labels{Run: "suite", Role: "workspace"}, Owner: sandbox.Nobody, Disk: 16 << 20})
}

// make makes a workspace, which is closed at the test's end.
func (s *suite) make(t *testing.T, spec sandbox.WorkspaceSpec) sandbox.Workspace {
	t.Helper()
	w, err := s.engine.Workspace(t.Context(), spec)
	if err != nil {
		t.Fatalf("Workspace: %v", err)
	}
	t.Cleanup(func() {
		if err := w.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return w
}

// in runs a script in a workspace and closes the box.
func (s *suite) in(t *testing.T, w sandbox.Workspace, script string) (got result) {
	t.Helper()
	t.Run("box", func(t *testing.T) {
		spec := s.spec(script)
		spec.Mounts = []sandbox.Mount{{Workspace: w, Target: target}}
		got = s.run(t, spec)
	})
	return got
}

// file is an entry of an archive: a header and content.
type file struct {
	tar.Header
	content string
}

func archive(t *testing.T, files ...file) io.Reader {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, f := range files {
		f.Size = int64(len(f.content))
		if err := tw.WriteHeader(&f.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(tw, f.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func plain(name, content string, mode int64) file {
	return file{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode}, content}
}

func dir(name string, mode int64) file {
	return file{tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode}, ""}
}

// tree describes a part of a workspace by lines: type, mode, name, and link
// target, records or content.
func tree(t *testing.T, w sandbox.Workspace, path string) []string {
	t.Helper()
	var b bytes.Buffer
	if err := w.Get(t.Context(), path, 8<<20, &b); err != nil {
		t.Fatalf("Get(%q): %v", path, err)
	}
	return lines(t, path, &b)
}

// lines describes an archive of what is at path.
func lines(t *testing.T, path string, archive io.Reader) []string {
	t.Helper()
	var lines []string
	for tr := tar.NewReader(archive); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatalf("Get(%q): reading the archive: %v", path, err)
		}
		content, err := io.ReadAll(tr)
		if err != nil {
			t.Fatalf("Get(%q): reading %q: %v", path, h.Name, err)
		}
		line := fmt.Sprintf("%c %03o %s", h.Typeflag, h.Mode, h.Name)
		for _, extra := range []string{h.Linkname, h.PAXRecords[holder.RecordLinks],
			h.PAXRecords[holder.RecordType], strings.TrimSpace(string(content))} {
			if extra != "" {
				line += " " + extra
			}
		}
		lines = append(lines, line)
	}
}

func diffTree(t *testing.T, w sandbox.Workspace, path string, want ...string) {
	t.Helper()
	diffLines(t, path, want, tree(t, w, path))
}

func diffLines(t *testing.T, path string, want, got []string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("tree at %q (-want +got):\n%s", path, d)
	}
}

func put(t *testing.T, w sandbox.Workspace, files ...file) {
	t.Helper()
	if err := w.Put(t.Context(), archive(t, files...)); err != nil {
		t.Fatalf("Put: %v", err)
	}
}

func (s *suite) roundTrip(t *testing.T) {
	w := s.workspace(t)
	put(t, w, dir("ro/", 0o555), plain("ro/x", "fixed", 0o444), plain("a.txt", "hello\n", 0o644),
		plain("./deep/er/run.sh", "#!/bin/sh", 0o755), plain("ünï\ncode", "", 0o600))
	diffTree(t, w, ".", "0 644 a.txt hello", "5 755 deep/", "5 755 deep/er/", "0 755 deep/er/run.sh #!/bin/sh",
		"5 555 ro/", "0 444 ro/x fixed", "0 600 ünï\ncode")
	diffTree(t, w, "deep/er", "5 755 deep/er/", "0 755 deep/er/run.sh #!/bin/sh")
	diffTree(t, w, "ro/x", "0 444 ro/x fixed")
	diffTree(t, w, "missing")
	diffTree(t, w, "a.txt/below")
	if got := s.in(t, w, scriptRead); got.stdout != "hello\n" {
		t.Errorf("the command read %q, %q", got.stdout, got.stderr)
	}
	for _, bad := range []string{"", "/", "/etc", "..", "a/../b", "a//b"} {
		if err := w.Get(t.Context(), bad, 1<<20, io.Discard); err == nil {
			t.Errorf("Get(%q) did not fail", bad)
		}
	}
}

func (s *suite) leaves(t *testing.T) {
	w := s.workspace(t)
	if got := s.in(t, w, scriptTree); got.ExitCode != 0 {
		t.Fatalf("got %+v", got)
	}
	secret := "6 000 secret unreadable"
	if s.ignoresModes() {
		secret = "0 000 secret s"
	}
	diffTree(t, w, ".", "0 644 a.txt 2 hello", "5 755 d/", "5 755 d/e/", "0 644 d/e/f deep",
		"2 777 dlink d", "6 644 fifo", "0 644 hard 2 hello", "2 777 link /etc/passwd", secret)
	diffTree(t, w, "dlink", "2 777 dlink d")
	diffTree(t, w, "dlink/e") // links are not followed
	diffTree(t, w, "link", "2 777 link /etc/passwd")
	if s.ignoresModes() {
		return
	}
	// What is in a tree whose root is closed is not lost without a word.
	if got := s.in(t, w, scriptShut); got.ExitCode != 0 {
		t.Fatalf("got %+v", got)
	}
	diffTree(t, w, ".", "6 000 . unreadable")
	diffTree(t, w, "a.txt", "6 000 a.txt unreadable")
}

// ignoresModes reports whether the holder ignores modes, as an engine in memory
// does when the tests run as root.
func (s *suite) ignoresModes() bool { return !s.caps.Isolation && syscall.Geteuid() == 0 }

func (s *suite) tooLarge(t *testing.T) {
	w := s.workspace(t)
	put(t, w, plain("a", strings.Repeat("x", 100_000), 0o644))
	var b bytes.Buffer
	if err := w.Get(t.Context(), ".", 50_000, &b); !errors.Is(err, sandbox.ErrTooLarge) || b.Len() > 50_000 {
		t.Errorf("Get: got %v and %d bytes, want ErrTooLarge", err, b.Len())
	}
	// The stream can still be used.
	if got := tree(t, w, "a"); len(got) != 1 {
		t.Errorf("got %d entries", len(got))
	}
	s.in(t, w, scriptSparse)
	if err := w.Get(t.Context(), "sparse", 1<<30, io.Discard); !errors.Is(err, sandbox.ErrTooLarge) {
		t.Errorf("Get: got %v, want ErrTooLarge", err)
	}
}

func (s *suite) refused(t *testing.T) {
	w := s.workspace(t)
	for name, f := range map[string]file{
		"symlink":  {tar.Header{Typeflag: tar.TypeSymlink, Name: "l", Linkname: "/etc"}, ""},
		"hardlink": {tar.Header{Typeflag: tar.TypeLink, Name: "l", Linkname: "a"}, ""},
		"fifo":     {tar.Header{Typeflag: tar.TypeFifo, Name: "f"}, ""},
		"device":   {tar.Header{Typeflag: tar.TypeChar, Name: "c"}, ""},
		"leaves":   plain("../x", "x", 0o644),
		"absolute": plain("/etc/x", "x", 0o644),
		"inside":   plain("a/../../x", "x", 0o644),
		"too deep": plain(strings.Repeat("d/", holder.MaxDepth)+"x", "x", 0o644),
	} {
		if err := w.Put(t.Context(), archive(t, f)); err == nil {
			t.Errorf("Put of %s did not fail", name)
		}
	}
	cause := errors.New("the source broke")
	if err := w.Put(t.Context(), io.MultiReader(archive(t), brokenReader{cause})); !errors.Is(err, cause) {
		t.Errorf("Put: got %v, want the reader's error", err)
	}
	if err := w.Get(t.Context(), ".", 1<<20, brokenWriter{cause}); !errors.Is(err, cause) {
		t.Errorf("Get: got %v, want the writer's error", err)
	}
	diffTree(t, w, ".")
}

// brokenReader fails immediately.
type brokenReader struct{ err error }

func (r brokenReader) Read([]byte) (int, error) { return 0, r.err }

func (s *suite) trustedFilesWin(t *testing.T) {
	w := s.workspace(t)
	put(t, w, dir("closed", 0o555), plain("closed/test", "planted", 0o444), plain("file", "planted", 0o644),
		dir("dir/sub", 0o755))
	s.in(t, w, scriptTree)
	put(t, w, plain("closed/test", "trusted", 0o444), plain("file/below", "trusted", 0o644),
		plain("dir", "trusted", 0o644), plain("link", "trusted", 0o644), plain("dlink/x", "trusted", 0o644),
		plain("a.txt", "trusted", 0o644), plain("fifo", "trusted", 0o644))
	diffTree(t, w, "closed", "5 555 closed/", "0 444 closed/test trusted")
	diffTree(t, w, "file", "5 755 file/", "0 644 file/below trusted")
	diffTree(t, w, "dir", "0 644 dir trusted")
	diffTree(t, w, "link", "0 644 link trusted")
	diffTree(t, w, "dlink", "5 755 dlink/", "0 644 dlink/x trusted")
	diffTree(t, w, "hard", "0 644 hard hello") // the other name keeps the old content
	diffTree(t, w, "fifo", "0 644 fifo trusted")
	diffTree(t, w, "d/x")
}

func (s *suite) full(t *testing.T) {
	w := s.workspace(t)
	before, err := w.Usage(t.Context())
	if err != nil || before.Full() || before.BytesLimit != 16<<20 || before.InodesLimit != sandbox.Inodes {
		t.Fatalf("Usage of an empty workspace: %+v and %v", before, err)
	}
	got := s.in(t, w, scriptFill)
	diffOutcome(t, sandbox.Outcome{End: sandbox.Exited, Seen: []sandbox.End{sandbox.DiskLimit}, ExitCode: 1}, got.Outcome)
	after, err := w.Usage(t.Context())
	if err != nil || !after.Full() {
		t.Errorf("Usage of a full workspace: %+v and %v", after, err)
	}
}

func (s *suite) putTooMuch(t *testing.T) {
	w := s.workspace(t)
	big := plain("big", strings.Repeat("x", 20<<20), 0o644)
	if err := w.Put(t.Context(), archive(t, big)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Put: got %v, want ENOSPC", err)
	}
	if _, err := w.Usage(t.Context()); err != nil {
		t.Errorf("the workspace is lost: %v", err)
	}
}

func (s *suite) notShared(t *testing.T) {
	one, two := s.workspace(t), s.workspace(t)
	put(t, one, plain("note", "for the next task", 0o644))
	if got := s.in(t, two, scriptList); got.stdout != "" {
		t.Errorf("another workspace holds %q", got.stdout)
	}
	if got := s.in(t, one, scriptList); got.stdout != "note\n" {
		t.Errorf("the workspace holds %q", got.stdout)
	}
}

func (s *suite) canceledGet(t *testing.T) {
	w := s.workspace(t)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := w.Get(ctx, ".", 1<<20, io.Discard); !errors.Is(err, cause) {
		t.Errorf("Get: got %v, want the cause", err)
	}
}

func (s *suite) closeWorkspace(t *testing.T) {
	w := s.workspace(t)
	for range 3 {
		if err := w.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if err := w.Put(t.Context(), archive(t)); err == nil {
		t.Error("a closed workspace accepts files")
	}
}
