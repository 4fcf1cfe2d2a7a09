package checkout_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/checkout"
	"securebench/internal/repository"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
)

// begin lays a repository of one commit, the base, into /testbed.
const begin = `
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b HOME=/root
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
git init -q -b main /testbed && cd /testbed
printf 'def f():\n    return 1\n' > f.py
mkdir -p pkg/sub && echo x > pkg/sub/data && printf '#!/bin/sh\n' > run.sh && chmod 755 run.sh && ln -s f.py link
printf '*.log\nbuild/\n' > .gitignore
git add -A && git commit -q -m base
`

// history adds the fix and leaves it wherever a repository can keep it.
const history = begin + `
base=$(git rev-parse HEAD)
fix() { printf "def f():\n    return 2  # THEFIX $1\n" > f.py; git commit -q -am "THEFIX $1"; }
fix tag && git tag v2 && git reset -q --hard $base
git checkout -q -b future && fix branch && git checkout -q main
fix reflog && git reset -q --hard $base
fix remote && git update-ref refs/remotes/origin/main HEAD && git reset -q --hard $base
git config remote.origin.url https://example.com/THEFIX.git
fix note && git notes add -m "THEFIX note" $base && git reset -q --hard $base
echo 'THEFIX stash' >> f.py && git stash -q
echo 'THEFIX dangling' | git hash-object -w --stdin >/dev/null
git worktree add -q /tmp/other future && rm -rf /tmp/other
echo 'THEFIX message' > .git/COMMIT_EDITMSG && echo 'THEFIX hook' > .git/hooks/post-commit
git -c gc.reflogExpire=never -c gc.reflogExpireUnreachable=never gc -q --prune=never
git init -q --bare /elsewhere.git && (cd /elsewhere.git && echo 'THEFIX alternate' | git hash-object -w --stdin >/dev/null)
echo /elsewhere.git/objects > .git/objects/info/alternates
test $(git rev-parse HEAD) = $base && git status --short
`

// timeTravel looks for the fix in every way that an agent has.
const timeTravel = `cd /testbed
try() { if eval "$2" 2>/dev/null | grep -aq THEFIX; then echo "$1"; fi; }
try log 'git log --all --format=%s'
try search 'git log --all -S THEFIX -p'
try reflog 'git reflog --all; git log -g --all --format="%H %gs"; cat .git/logs/HEAD'
try tag 'git show v2'
try branch 'git show future'
try remote 'git show origin/main; git config --list'
try stash 'git stash list -p'
try note 'git log --notes --all; git show refs/notes/commits:$(git rev-parse HEAD)'
try 'lost objects' 'git fsck --lost-found; cat .git/lost-found/other/*'
try objects 'git cat-file --batch-all-objects --batch'
try files 'grep -ra THEFIX .git'
try 'original head' 'git show ORIG_HEAD'
try worktrees 'cat .git/worktrees/*/HEAD; git worktree list --porcelain | grep -q future && echo THEFIX'
git rev-list --all --count
git cat-file --batch-all-objects --batch-check='%(objectname)' | sort > /tmp/all
{ git rev-list --objects HEAD | cut -d' ' -f1; } | sort > /tmp/reached
cmp /tmp/all /tmp/reached && echo 'only what HEAD reaches'
git fsck --full --strict 2>&1 && git status --short --branch && git log --oneline | wc -l && git diff HEAD --stat
`

// run runs a script in a checkout as an agent gets it.
func run(t *testing.T, e sandbox.Engine, image sandbox.Image, folder sandbox.ImageFolder, script string) string {
	t.Helper()
	w, err := e.Workspace(t.Context(), sandbox.WorkspaceSpec{Owner: image.User, From: &folder})
	if err != nil {
		t.Fatal(err)
	}
	b, err := e.Open(t.Context(), sandbox.Spec{Image: image, Command: []string{"sh", "-c", script},
		Mounts: []sandbox.Mount{{Workspace: w, Target: folder.Path}}, Limits: sandbox.Limits{Timeout: time.Minute}})
	if err != nil {
		t.Fatal(errors.Join(err, w.Close(t.Context())))
	}
	var out bytes.Buffer
	_, err = b.Run(t.Context(), sandbox.Streams{Stdout: &out, Stderr: &out})
	if err = errors.Join(err, b.Close(t.Context()), w.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// keeper makes a keeper that leaves nothing on the engine.
func keeper(t testing.TB, e enginetest.Engine, limits sandbox.Limits) *checkout.Keeper {
	t.Helper()
	k := checkout.NewKeeper(sandbox.WithPolicy(e, sandbox.Policy{Deny: []string{"*"}}), checkout.Options{Run: "test", Limits: limits})
	t.Cleanup(func() {
		if err := k.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
		if left, err := e.Owned(context.Background()); err != nil || len(left) > 0 {
			t.Errorf("left on the engine: %v, %v", left, err)
		}
	})
	return k
}

func get(t *testing.T, k *checkout.Keeper, image sandbox.Image) *checkout.Checkout {
	t.Helper()
	c, err := k.Get(t.Context(), image, "/testbed")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Release)
	return c
}

// clean is what a repository of one commit answers.
const clean = "1\nonly what HEAD reaches\n## main\n1\n"

// TestTimeTravel: the fix is in the image's repository in every way that git
// knows, and nowhere in an agent's.
func TestTimeTravel(t *testing.T) {
	e := enginetest.Open(t)
	image := enginetest.Script(t, e, enginetest.GitImage(t, e), history)
	found := run(t, e, image, sandbox.ImageFolder{Image: image, Path: "/testbed"}, timeTravel)
	for _, way := range []string{"log", "search", "reflog", "tag", "branch", "remote", "stash", "note", "lost objects", "objects",
		"files", "original head", "worktrees"} {
		if !strings.Contains("\n"+found, "\n"+way+"\n") {
			t.Errorf("against the image's own repository %q does not work:\n%s", way, found)
		}
	}
	c := get(t, keeper(t, e, sandbox.Limits{}), image)
	if c.Folder.Image.ID == image.ID {
		t.Error("the repository was not cut down")
	}
	if d := cmp.Diff(clean, run(t, e, image, c.Folder, timeTravel)); d != "" {
		t.Errorf("an agent finds (-want +got):\n%s", d)
	}
	const scratch = "cd /testbed && echo scratch >> .git/info/exclude && touch scratch && git status --short"
	if got := run(t, e, image, c.Folder, scratch); got != "" {
		t.Errorf("an honest agent excludes a scratch file: %s", got)
	}
	diffTree(t, c, map[string]repository.Mode{".gitignore": repository.Regular, "f.py": repository.Regular,
		"link": repository.Symlink, "pkg/sub/data": repository.Regular, "run.sh": repository.Executable})
	if b, err := c.Content("f.py"); err != nil || string(b) != "def f():\n    return 1\n" {
		t.Errorf("f.py: %q, %v", b, err)
	}
	if b, err := c.Content("link"); err != nil || string(b) != "f.py" {
		t.Errorf("link: %q, %v", b, err)
	}
	if rule, ok := c.Ignore.Match("x.log"); !ok || rule != ".gitignore" {
		t.Errorf("the rule for x.log: %q, %v", rule, ok)
	}
}

func diffTree(t *testing.T, c *checkout.Checkout, want map[string]repository.Mode) {
	t.Helper()
	got := make(map[string]repository.Mode)
	for path, e := range c.Tree.Entries {
		got[path] = e.Mode
		if !c.Tracked[path] {
			t.Errorf("%s is not tracked", path)
		}
	}
	if d := cmp.Diff(want, got); d != "" || len(c.Tracked) != len(want) || len(c.Tree.Odd) > 0 {
		t.Errorf("tree (-want +got), %d tracked, odd %v:\n%s", len(c.Tracked), c.Tree.Odd, d)
	}
}

// TestOneCommit: a repository of one commit is left as it is.
func TestOneCommit(t *testing.T) {
	e := enginetest.Open(t)
	image := enginetest.Script(t, e, enginetest.GitImage(t, e), begin+"rm -rf .git/logs .git/COMMIT_EDITMSG\n")
	k := keeper(t, e, sandbox.Limits{})
	c := get(t, k, image)
	if c.Folder.Image.ID != image.ID || len(c.Commits) != 1 {
		t.Errorf("got %+v, %d commits", c.Folder, len(c.Commits))
	}
	if d := cmp.Diff(clean, run(t, e, image, c.Folder, timeTravel)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if again := get(t, k, image); again.Tree != c.Tree {
		t.Error("it was prepared twice")
	}
}
