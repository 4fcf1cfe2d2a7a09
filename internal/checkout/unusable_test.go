package checkout_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/checkout"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
)

// plain is a repository that needs no cutting down.
const plain = begin + "rm -rf .git/logs .git/COMMIT_EDITMSG\n"

// fakeGit replaces the image's git with a script.
func fakeGit(script string) string {
	return plain + "cd / && rm -f /usr/bin/git && cat > /usr/bin/git <<'END'\n#!/bin/sh\n" + script + "\nEND\nchmod 755 /usr/bin/git\n"
}

// TestUnusable: whatever is wrong with an image is named, and is the pack's
// fault.
func TestUnusable(t *testing.T) {
	e := enginetest.Open(t)
	from := enginetest.GitImage(t, e)
	k := keeper(t, e, sandbox.Limits{Disk: 8 << 20, Files: 500})
	for name, c := range map[string]struct{ script, want string }{
		"no folder":            {"true", "no folder /testbed"},
		"a link to it":         {plain + "mv /testbed /real && ln -s /real /testbed", "no folder /testbed"},
		"a file":               {"echo x > /testbed", "no folder /testbed"},
		"no repository":        {"mkdir /testbed && echo x > /testbed/f", "it has no .git"},
		"one further up":       {plain + "mkdir /up && mv /testbed/.git /.git", "it has no .git"},
		"a git file":           {plain + "mv .git /elsewhere && echo 'gitdir: /elsewhere' > .git", "refers to another place"},
		"a linked .git":        {plain + "mv .git /elsewhere && ln -s /elsewhere .git", "refers to another place"},
		"no commit":            {"git init -q /testbed", "is not a commit"},
		"a broken HEAD":        {plain + "echo 0000000000000000000000000000000000000001 > .git/HEAD", "is not a commit"},
		"no git":               {plain + "rm -f /usr/bin/git", "no git in its PATH"},
		"too large":            {plain + "head -c 9000000 /dev/urandom > big", "does not fit into limits.disk"},
		"too many files":       {plain + "for i in $(seq 600); do echo > $i; done", "does not fit into limits.disk"},
		"of another user":      {plain + "echo x > private && chmod 600 private && chown 1234 private", `cannot read "private"`},
		"a private folder":     {plain + "mkdir -m 700 p && echo x > p/f && chown 1234 p", `cannot read "p"`},
		"a private .git":       {plain + "chmod 700 .git && chown -R 1234 .git", "cannot read .git"},
		"missing objects":      {plain + "rm -f .git/objects/*/*", "is not a commit"},
		"an old git":           {fakeGit("echo git version 2.5.6"), "is version 2.5.6, and 2.6 or later is needed"},
		"git says nothing":     {fakeGit("exit 0"), "is not a commit"},
		"git says anything":    {fakeGit("echo 0123456789012345678901234567890123456789"), "is not on a branch"},
		"git repeats":          {fakeGit("test $# -gt 100 || case \"$*\" in *symbolic-ref*) exit 1;; esac; echo 0123456789012345678901234567890123456789"), "printed no list of commits"},
		"git floods":           {fakeGit("yes 0123456789012345678901234567890123456789"), "printed more than"},
		"git complains":        {fakeGit("yes complaint >&2"), "printed more than"},
		"git is not a program": {fakeGit("x") + "printf '\\177ELF' > /usr/bin/git", "cannot be started"},
	} {
		t.Run(name, func(t *testing.T) {
			image := enginetest.Script(t, e, from, c.script)
			got, err := k.Get(t.Context(), image, "/testbed")
			if err == nil {
				got.Release()
			}
			if !errors.Is(err, checkout.ErrUnusable) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if _, again := k.Get(t.Context(), image, "/testbed"); again != err { //nolint:errorlint // the very same
				t.Errorf("asked again: %v", again)
			}
		})
	}
	for _, dir := range []string{"/", "relative", "/proc/self/cwd", "/a/../testbed"} {
		if _, err := k.Get(t.Context(), from, dir); !errors.Is(err, checkout.ErrUnusable) {
			t.Errorf("%s: got %v", dir, err)
		}
	}
}

// TestTwins: what differs from the plain repository but can be used. Each is
// the same for an agent as in the image, except the history.
func TestTwins(t *testing.T) {
	e := enginetest.Open(t)
	from := enginetest.GitImage(t, e)
	k := keeper(t, e, sandbox.Limits{})
	const status = "cd /testbed && git status --porcelain -b | sed 's/[.][.][.].*//' && git rev-parse HEAD && git log --format=%s && ls -lan | grep -v '[.]git$' | sed -E 's/ +[A-Z][a-z]+ +[0-9]+ .*:?[0-9]+ / /'"
	for name, c := range map[string]struct {
		script, user string
		commits      int
		cut          bool
	}{
		"plain":               {script: plain, commits: 1},
		"with a reflog":       {script: begin, commits: 1, cut: true},
		"detached":            {script: plain + "git checkout -q --detach && git branch -D main -q", commits: 1, cut: true},
		"untracked":           {script: plain + "echo x > new && mkdir d && echo y > d/x.log", commits: 1},
		"dirty":               {script: begin + "echo x >> f.py && rm pkg/sub/data && chmod 644 run.sh", commits: 1, cut: true},
		"staged":              {script: begin + "echo x >> f.py && git add f.py && git rm -q --cached run.sh", commits: 1, cut: true},
		"set-up on top":       {script: begin + "echo y > setup && git add setup && git commit -q -m set-up", commits: 2, cut: true},
		"a remote":            {script: plain + "git remote add origin https://example.com/", commits: 1, cut: true},
		"not root's":          {script: begin + "chown -R 1000:1000 /testbed && chmod 750 /testbed", user: "USER 1000:1000", commits: 1, cut: true},
		"a shallow copy":      {script: begin + "git commit -q --allow-empty -m two && mv /testbed /full && git clone -q --depth 1 file:///full /testbed", commits: 1, cut: true},
		"SHA-256":             {script: "export GIT_DEFAULT_HASH=sha256\n" + plain, commits: 1},
		"SHA-256 and history": {script: "export GIT_DEFAULT_HASH=sha256\n" + begin + "git commit -q --allow-empty -m set-up", commits: 2, cut: true},
		"hostile settings": {script: plain + "git config core.worktree /etc && git config core.fsmonitor 'touch /tmp/marker' && " +
			"git config filter.x.clean 'touch /tmp/marker' && echo '* filter=x' > .git/info/attributes", commits: 1, cut: true},
	} {
		t.Run(name, func(t *testing.T) {
			var changes []string
			if c.user != "" {
				changes = []string{c.user}
			}
			image := enginetest.Script(t, e, from, c.script, changes...)
			got := get(t, k, image)
			if cut := got.Folder.Image.ID != image.ID; cut != c.cut || len(got.Commits) != c.commits {
				t.Errorf("cut down: %v, %d commits %v", cut, len(got.Commits), got.Commits)
			}
			if long := len(got.Head()) == 64; long != strings.HasPrefix(name, "SHA-256") {
				t.Errorf("HEAD is %s", got.Head())
			}
			for _, commit := range got.Commits {
				if err := errors.Join(got.At(commit), got.At(strings.ToUpper(commit[:9]))); err != nil {
					t.Error(err)
				}
			}
			before, after := run(t, e, image, sandbox.ImageFolder{Image: image, Path: "/testbed"}, status), run(t, e, image, got.Folder, status)
			if strings.Contains(c.script, "set-up") || strings.Contains(name, "hostile") {
				before = ""
			}
			if d := cmp.Diff(before, after); d != "" && before != "" {
				t.Errorf("an agent's repository (-image +agent):\n%s", d)
			}
			if n := run(t, e, image, got.Folder, "cd /testbed && git rev-list --all --count"); n != "1\n" {
				t.Errorf("an agent's repository has %s commits", n)
			}
		})
	}
}

// TestFlags: index flags that hide changes are gone in an agent's repository.
func TestFlags(t *testing.T) {
	e := enginetest.Open(t)
	image := enginetest.Script(t, e, enginetest.GitImage(t, e), plain+"echo x >> f.py && echo x >> run.sh && "+
		"git update-index --assume-unchanged f.py && git update-index --skip-worktree run.sh")
	const status = "cd /testbed && git status --porcelain"
	if got := run(t, e, image, sandbox.ImageFolder{Image: image, Path: "/testbed"}, status); got != "" {
		t.Errorf("the flags hide nothing: %q", got)
	}
	c := get(t, keeper(t, e, sandbox.Limits{}), image)
	if got := run(t, e, image, c.Folder, status); got != " M f.py\n M run.sh\n" {
		t.Errorf("an agent's status is %q", got)
	}
}

// TestNested: a nested repository stays as it is, and is named.
func TestNested(t *testing.T) {
	e := enginetest.Open(t)
	image := enginetest.Script(t, e, enginetest.GitImage(t, e), begin+"git init -q inner && cd inner && git commit -q --allow-empty -m inner")
	c := get(t, keeper(t, e, sandbox.Limits{}), image)
	if c.Tree.Odd["inner/.git"] == "" {
		t.Errorf("odd: %v", c.Tree.Odd)
	}
	if got := run(t, e, image, c.Folder, "cd /testbed/inner && git log --format=%s"); got != "inner\n" {
		t.Errorf("the nested repository has %q", got)
	}
}

func BenchmarkGet(b *testing.B) {
	e := enginetest.Open(b)
	for name, script := range map[string]string{"one commit": plain, "cut down": history} {
		image := enginetest.Script(b, e, enginetest.GitImage(b, e), script)
		b.Run(name, func(b *testing.B) { benchmarkGet(b, e, image) })
	}
}

func benchmarkGet(b *testing.B, e enginetest.Engine, image sandbox.Image) {
	for b.Loop() {
		k := checkout.NewKeeper(e, checkout.Options{Run: "bench"})
		c, err := k.Get(b.Context(), image, "/testbed")
		if err != nil {
			b.Fatal(err)
		}
		c.Release()
		if err := k.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
