package contract

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"securebench/internal/sandbox/holder"
)

// skip leaves out what only a whole path names, also where it could not be
// read.
func (s *suite) skip(t *testing.T) {
	w := s.workspace(t)
	if got := s.in(t, w, scriptClosed); got.ExitCode != 0 {
		t.Fatalf("got %+v", got)
	}
	put(t, w, plain(".git/config", "x", 0o644), plain(".gitignore", "y", 0o644), plain("sub/.git/config", "z", 0o644))
	for path, want := range map[string][]string{
		".":              {"0 644 .gitignore y", "5 755 sub/", "5 755 sub/.git/", "0 644 sub/.git/config z"},
		"sub":            {"5 755 sub/", "5 755 sub/.git/", "0 644 sub/.git/config z"},
		".git":           nil,
		".git/config":    nil,
		"closed/sub/big": nil,
	} {
		var b bytes.Buffer
		if err := w.Get(t.Context(), path, 1<<20, &b, ".git", "closed"); err != nil {
			t.Fatalf("Get(%q): %v", path, err)
		}
		diffLines(t, path, want, lines(t, path, &b))
	}
	// A link is skipped only by its own name, never by that of its target.
	if got := s.in(t, w, scriptLinks); got.ExitCode != 0 {
		t.Fatalf("got %+v", got)
	}
	var b bytes.Buffer
	if err := w.Get(t.Context(), ".", 1<<20, &b, "alias/config", ".git", "closed", "sub", ".gitignore"); err != nil {
		t.Fatal(err)
	}
	diffLines(t, "beside a link", []string{"2 777 alias .git"}, lines(t, ".", &b))
	many := strings.Split(strings.Repeat("x ", 100_000), " ")
	for name, bad := range map[string][]string{"the root": {"."}, "empty": {""}, "absolute": {"/a"}, "leaves": {"../a"},
		"inside": {"a/../b"}, "a slash": {"a/"}, "NUL": {"a\x00"}, "many": many, "long": {strings.Repeat("x", 1<<20)}} {
		if err := w.Get(t.Context(), ".", 1<<20, io.Discard, bad...); err == nil {
			t.Errorf("Get skipping %s did not fail", name)
		}
	}
}

func (s *suite) remove(t *testing.T) {
	w := s.workspace(t)
	s.in(t, w, scriptTree)
	put(t, w, plain("p/q/r", "x", 0o644), plain("p/keep", "x", 0o644), plain("one/two/three", "x", 0o644),
		plain("bytes\n\xff/x", "x", 0o644), dir("empty/below", 0o755))
	for name, bad := range map[string]string{"the root": ".", "empty": "", "absolute": "/etc", "parent": "..", "leaves": "../x",
		"inside": "p/../a.txt", "dot": "./a.txt", "twice": "p//keep", "slash": "p/", "NUL": "a.txt\x00b"} {
		if err := w.Remove(t.Context(), "d", bad); err == nil {
			t.Errorf("Remove of %s did not fail", name)
		}
	}
	if err := w.Remove(t.Context(), "missing", "p/missing/x", "a.txt/below", "dlink/e/f", "empty/below/missing"); err != nil {
		t.Errorf("Remove of what is not there: %v", err)
	}
	if err := w.Remove(t.Context()); err != nil {
		t.Errorf("Remove of nothing: %v", err)
	}
	diffTree(t, w, "d", "5 755 d/", "5 755 d/e/", "0 644 d/e/f deep") // not through the link
	diffTree(t, w, "empty", "5 755 empty/", "5 755 empty/below/")     // this removal has not emptied it
	if err := w.Remove(t.Context(), "p/q/r", "one/two/three", "dlink", "link", "hard", "fifo", "bytes\n\xff/x", "secret"); err != nil {
		t.Fatalf("Remove: %v", err)
	}
	diffTree(t, w, ".", "0 644 a.txt hello", "5 755 d/", "5 755 d/e/", "0 644 d/e/f deep",
		"5 755 empty/", "5 755 empty/below/", "5 755 p/", "0 644 p/keep x")
	if err := w.Remove(t.Context(), "d", "empty", "p/keep", "a.txt"); err != nil {
		t.Fatalf("Remove: %v", err)
	}
	diffTree(t, w, ".") // the root stays
	put(t, w, plain("again", "x", 0o644))
}

// removeClosed removes what its owner has closed, very many files, and nothing
// of a tree that is too deep to be one.
func (s *suite) removeClosed(t *testing.T) {
	w := s.workspace(t)
	if got := s.in(t, w, scriptClosed); got.ExitCode != 0 {
		t.Fatalf("got %+v", got)
	}
	put(t, w, dir("open", 0o755), dir("ro", 0o755), plain("ro/one", "x", 0o644), plain("ro/two", "x", 0o644), dir("ro", 0o555))
	if err := w.Remove(t.Context(), "closed/sub/big", "ro/one"); err != nil {
		t.Fatalf("Remove: %v", err)
	}
	diffTree(t, w, "ro", "5 555 ro/", "0 644 ro/two x") // with its mode
	files := make([]file, 0, 5000)
	for i := range cap(files) {
		files = append(files, plain(fmt.Sprintf("many/%d", i), "", 0o644))
	}
	put(t, w, files...)
	if err := w.Remove(t.Context(), "closed", "many"); err != nil {
		t.Fatalf("Remove: %v", err)
	}
	if err := w.Remove(t.Context(), strings.Repeat("d/", holder.MaxDepth)+"x"); err != nil {
		t.Errorf("Remove of what is deeper than any tree: %v", err)
	}
	diffTree(t, w, ".", "5 755 open/", "5 555 ro/", "0 644 ro/two x")
}
