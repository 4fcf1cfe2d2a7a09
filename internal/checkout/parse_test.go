package checkout

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"

	"securebench/internal/repository"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
)

const (
	one = "1111111111111111111111111111111111111111"
	two = "1111111222222222222222222222222222222222"
)

func TestAt(t *testing.T) {
	c := &Checkout{Commits: []string{strings.Repeat("a", 40), one, two}}
	for base, want := range map[string]string{
		strings.Repeat("a", 40): "", "aaaaaaa": "", one: "", two[:8]: "", strings.ToUpper(strings.Repeat("a", 8)): "",
		"1111111": "ambiguous: 2 commits", "aaaaaa": "not a commit ID", "": "not a commit ID", "HEAD~1xx": "not a commit ID",
		strings.Repeat("0", 40): "HEAD is commit aaaaaaaa", strings.Repeat("a", 41): "neither", strings.Repeat("a", 65): "not a commit ID",
	} {
		err := c.At(base)
		if want == "" && err != nil || want != "" && (!errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), want)) {
			t.Errorf("At(%q): got %v, want %q", base, err, want)
		}
	}
}

func TestParseCommits(t *testing.T) {
	tree := "tree " + one + "\n"
	for out, want := range map[string]int{
		"":                                 0,
		one + "~1 missing\n":               0,
		one + " commit 46\n" + tree:        -1, // cut off
		one + " commit 46\n" + tree + "\n": 1,
		one + " commit 46\n" + tree + "\n" + two + "~1 missing\n" + "junk": 1,
		one + " blob 46\n" + tree + "\n":                                   -1,
		one + " commit -1\n" + tree + "\n":                                 -1,
		one + " commit 99999999999999999999\n" + tree + "\n":               -1,
		one + " commit 5\nhello\n":                                         -1,
		"short commit 46\n" + tree + "\n":                                  -1,
	} {
		list, err := parseCommits(out)
		if want < 0 != (err != nil) || want >= 0 && len(list) != want {
			t.Errorf("parseCommits(%q): got %v and %v, want %d", out, list, err, want)
		}
	}
	c, err := parseCommit(two, tree+"parent "+one+"\nparent "+two+"\nauthor x\n\nparent "+two)
	if err != nil || c.tree != one || len(c.parents) != 2 {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestParseEntries(t *testing.T) {
	for _, good := range []string{"100644 blob " + one + "\ta b/c", "160000 commit " + one + "\tsub", "040000 tree " + one + "\t\xff\n"} {
		if _, err := parseTreeEntry(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "100644 blob " + one, "100644 blob x\ta", "100644 tag " + one + "\ta", "100644 blob " + one + "\t/a",
		"100644 blob " + one + "\t../a", "100644 blob " + one + "\ta/../b", "100644  " + one + "\ta", "100644 blob " + one + " x\ta"} {
		if _, err := parseTreeEntry(bad); !errors.Is(err, ErrUnusable) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, bad := range []string{"", "100644 " + one + " 4\ta", "100644 " + one + "\ta", "100644 " + one + " 0\t"} {
		if _, err := parseIndexEntry(bad); !errors.Is(err, ErrUnusable) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestUsual(t *testing.T) {
	f := &facts{branch: "refs/heads/a/b", head: map[string]bool{one: true}}
	for name, want := range map[string]bool{"HEAD": true, "index": true, "refs/heads/a/b": true, "hooks/pre-commit.sample": true,
		"objects/pack/pack-" + one + ".pack": true, "objects/11/" + one[2:]: true, "info/exclude": true,
		"objects/22/" + one[2:]: false, "hooks/pre-commit": false, "refs/heads/a": false, "refs/heads/c": false, "refs/tags/v1": false,
		"refs/stash": false, "packed-refs": false, "logs/HEAD": false, "ORIG_HEAD": false, "FETCH_HEAD": false, "objects/info/alternates": false,
		"objects/pack/tmp_pack_x": false, "objects/pack/pack-x.pack": false, "worktrees/x/HEAD": false, "commondir": false, "": false} {
		if got := f.usual(name); got != want {
			t.Errorf("usual(%q): got %v", name, got)
		}
	}
	for name, want := range map[string]bool{"": true, "objects/11": true, "refs/heads/a": true, "refs/heads/c": false, "objects/xyz": false,
		"worktrees": false, "refs/remotes": false, "logs": false} {
		if got := f.usualFolder(name); got != want {
			t.Errorf("usualFolder(%q): got %v", name, got)
		}
	}
	if (&facts{}).usual("") {
		t.Error("a detached HEAD has no branch")
	}
}

func TestSettings(t *testing.T) {
	f := &facts{commits: []string{one}, config: map[string]string{"core.filemode": "true", "core.autocrlf": "input\n[alias]", "core.eol": "",
		"core.worktree": "/etc", "core.sshcommand": "x", "user.name": "x"}}
	want := "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tlogallrefupdates = true\n\tfilemode = true\n"
	if got := f.settings(); got != want {
		t.Errorf("got %q", got)
	}
	f.commits[0] = strings.Repeat("a", 64)
	if got := f.settings(); !strings.Contains(got, "objectformat = sha256") || !strings.Contains(got, "version = 1") {
		t.Errorf("got %q", got)
	}
}

func TestValidBranch(t *testing.T) {
	for name, want := range map[string]bool{"refs/heads/main": true, "refs/heads/a/b-1": true, "refs/heads/": false, "refs/heads/.": false,
		"refs/heads/../config": false, "refs/heads/a//b": false, "refs/heads/a\nb": false, "refs/tags/a": false, "refs/heads/x.lock": false,
		"refs/heads/a b": false, "HEAD": false} {
		if got := validBranch(name); got != want {
			t.Errorf("validBranch(%q): got %v", name, got)
		}
	}
}

// TestContents: the temporary file is read by path, and its damage is noticed.
func TestContents(t *testing.T) {
	c, err := newContents()
	if err != nil {
		t.Fatal(err)
	}
	tree := &repository.Tree{Entries: map[string]repository.Entry{}}
	for name, text := range map[string]string{"a": "hello", "b": "", "c": strings.Repeat("x", 100_000)} {
		e := repository.Entry{Mode: repository.Regular, Size: int64(len(text)), Sum: sha256.Sum256([]byte(text))}
		if err := c.keep(name, e, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		tree.Entries[name] = e
	}
	co := &Checkout{Tree: tree, contents: c}
	if b, err := co.Content("a"); err != nil || string(b) != "hello" {
		t.Errorf("got %q, %v", b, err)
	}
	if b, err := co.Content("c"); err != nil || len(b) != 100_000 {
		t.Errorf("got %d bytes, %v", len(b), err)
	}
	if _, err := co.Content("missing"); err == nil {
		t.Error("a missing file has a content")
	}
	if _, err := c.file.WriteAt(bytes.Repeat([]byte("y"), int(c.size)), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := co.Content("a"); err == nil {
		t.Error("the damage is not noticed")
	}
	if err := errors.Join(c.close(), c.close()); err != nil {
		t.Error(err)
	}
	if _, err := co.Content("a"); err == nil {
		t.Error("a closed file has a content")
	}
	cause := errors.New("the source broke")
	broken := io.MultiReader(strings.NewReader("x"), brokenReader{cause})
	if err := c.keep("d", repository.Entry{}, broken); err == nil {
		t.Error("keep of a broken source succeeds")
	}
}

type brokenReader struct{ err error }

func (r brokenReader) Read([]byte) (int, error) { return 0, r.err }

// FuzzFacts gives a hostile git's output to everything that reads it.
func FuzzFacts(f *testing.F) {
	f.Add([]byte(one))
	f.Add([]byte(one + "\n"))
	f.Add([]byte(one + " commit 46\ntree " + one + "\n\n"))
	f.Add([]byte("H 100644 " + one + " 0\ta\x00"))
	f.Add([]byte("100644 blob " + one + "\ta\x00"))
	f.Add([]byte("core.bare\nfalse\x00"))
	f.Fuzz(func(t *testing.T, out []byte) {
		g := newGit(func(_ context.Context, c initproc.Command) (initproc.Result, error) {
			if c.Stdout != nil {
				if _, err := c.Stdout.Write(out); err != nil {
					return initproc.Result{}, err
				}
			}
			return initproc.Result{End: sandbox.Exited}, nil
		}, ":.:/usr/bin", "/testbed", sandbox.User{})
		facts := &facts{commits: []string{one}, head: map[string]bool{}, staged: map[string]bool{}, tracked: map[string]bool{}, config: map[string]string{}}
		for _, ask := range []func(context.Context, *git) error{facts.askHead, facts.askCommits, facts.askTree, facts.askIndex, facts.askConfig, facts.askObjects} {
			if err := ask(t.Context(), g); err != nil && !errors.Is(err, ErrUnusable) {
				t.Errorf("%q: %v", out, err)
			}
		}
		for path := range facts.tracked {
			if !validPath(path) {
				t.Errorf("the path %q", path)
			}
		}
		for _, id := range facts.commits {
			if !validID(id) {
				t.Errorf("the commit %q", id)
			}
		}
		_ = facts.skeleton()
	})
}
