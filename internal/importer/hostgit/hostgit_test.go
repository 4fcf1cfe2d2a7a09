package hostgit_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"securebench/internal/importer/hostgit"
	"securebench/internal/importer/onecommit"
	"securebench/internal/sandbox/sandboxtest"
)

// git runs the machine's git; a test is skipped without one.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	cmd := exec.Command(path, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b", "GIT_AUTHOR_DATE=2020-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2020-01-01T00:00:00Z")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// makeClone makes a clone with two commits and returns the id of the second.
func makeClone(t *testing.T, dir string) string {
	t.Helper()
	for name, text := range map[string]string{"a.txt": "one\n", "sub/b.py": "print()\n", "sub/z": "", "sub.x": "sorts between\n"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "run"), []byte("#!/bin/sh\n"), 0o755), os.Symlink("a.txt", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "init", "-q", "-b", "trunk")
	git(t, dir, "add", "-A")
	git(t, dir, "commit", "-q", "-m", "first")
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte(strings.Repeat("two\n", 5000)), 0o644); err != nil {
		t.Fatal(err)
	}
	git(t, dir, "commit", "-q", "-a", "-m", "second")
	git(t, dir, "tag", "v1")
	return git(t, dir, "rev-parse", "HEAD")
}

func read(t *testing.T, dir, head string) *onecommit.Repository {
	t.Helper()
	path, err := hostgit.Find(dir, "own/er")
	if err != nil {
		t.Fatal(err)
	}
	clone, err := hostgit.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer clone.Close()
	id, err := onecommit.ParseID(head)
	if err != nil {
		t.Fatal(err)
	}
	r, err := onecommit.Read(id, clone.Object)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestCheckoutIsOneCommit: git finds the archive of a commit sound, with that
// commit alone, and its files as committed.
func TestCheckoutIsOneCommit(t *testing.T) {
	clones := t.TempDir()
	head := makeClone(t, filepath.Join(clones, "own", "er"))
	r := read(t, clones, head)
	var first, second bytes.Buffer
	if err := errors.Join(r.WriteTar(&first, "testbed"), read(t, clones, head).WriteTar(&second, "testbed")); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two archives of one commit differ")
	}
	dir := t.TempDir()
	unpack(t, dir, &first)
	dir = filepath.Join(dir, "testbed")
	for _, c := range []struct{ want, args string }{
		{head, "rev-parse HEAD"}, {"1", "rev-list --all --count"}, {"", "status --porcelain"}, {"", "fsck --strict --full"},
		{"", "remote"}, {"", "reflog --all"}, {"", "stash list"}, {head + " refs/heads/main", "for-each-ref --format=%(objectname)%20%(refname)"}, {"second", "log --format=%s"},
		{"a.txt\nlink\nrun\nsub.x\nsub/b.py\nsub/z", "ls-files"},
	} {
		got := git(t, dir, strings.Fields(c.args)...)
		if got != c.want {
			t.Errorf("git %s: %q, want %q", c.args, got, c.want)
		}
	}
	if mode := git(t, dir, "ls-files", "-s", "run"); !strings.HasPrefix(mode, "100755 ") {
		t.Errorf("the program is %q", mode)
	}
	objects := strings.Fields(git(t, dir, "cat-file", "--batch-check", "--batch-all-objects"))
	former := git(t, filepath.Join(clones, "own", "er"), "rev-parse", "HEAD~1")
	if slices.Contains(objects, former) || len(objects) != 3*9 {
		t.Errorf("objects %q: want the commit, two trees and six contents", objects)
	}
}

// unpack writes an archive of files, folders and links.
func unpack(t *testing.T, dir string, in io.Reader) {
	t.Helper()
	tr := tar.NewReader(in)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, h.Name)
		switch h.Typeflag {
		case tar.TypeDir:
			err = os.Mkdir(path, 0o755)
		case tar.TypeSymlink:
			err = os.Symlink(h.Linkname, path)
		default:
			var data []byte
			data, err = io.ReadAll(tr)
			err = errors.Join(err, os.WriteFile(path, data, h.FileInfo().Mode()))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestFind: clones are found under each name, and nothing outside the folder is.
func TestFind(t *testing.T) {
	for _, place := range []string{"own/er", "own__er", "own+er/repo", "own/er.git", "own+er"} {
		for _, inner := range []string{"", ".git"} {
			dir := t.TempDir()
			if err := errors.Join(os.MkdirAll(filepath.Join(dir, place, inner, "objects"), 0o755),
				os.WriteFile(filepath.Join(dir, place, inner, "HEAD"), nil, 0o644)); err != nil {
				t.Fatal(err)
			}
			if got, err := hostgit.Find(dir, "own/er"); err != nil || got != filepath.Join(dir, place, inner) {
				t.Errorf("%s: %q, %v", place, got, err)
			}
		}
	}
	for _, repo := range []string{"", "er", "../er", "own/..", "own/", "/er", "own/er/x", "-c/er"} {
		if got, err := hostgit.Find(t.TempDir(), repo); err == nil {
			t.Errorf("%q: found %q", repo, got)
		}
	}
}

// TestConfigurationOfACloneRunsNothing: git reads a clone whose configuration
// names programs, and runs none of them.
func TestConfigurationOfACloneRunsNothing(t *testing.T) {
	clones := t.TempDir()
	dir := filepath.Join(clones, "own", "er")
	head := makeClone(t, dir)
	marker := filepath.Join(t.TempDir(), "ran")
	for _, key := range []string{"core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "filter.x.smudge", "diff.x.textconv", "uploadpack.packObjectsHook"} {
		git(t, dir, "config", key, "touch "+marker)
	}
	git(t, dir, "config", "remote.origin.promisor", "true")
	git(t, dir, "config", "remote.origin.url", "ext::touch "+marker)
	if n := len(read(t, clones, head).Names()); n != 6 {
		t.Errorf("%d files", n)
	}
	clone, err := hostgit.Open(t.Context(), filepath.Join(dir, ".git"))
	if err != nil {
		t.Fatal(err)
	}
	defer clone.Close()
	if _, err := clone.Object(onecommit.ID{1}, onecommit.Blob); err == nil || !strings.Contains(err.Error(), "does not have") {
		t.Errorf("a missing object: %v", err)
	}
	if _, err := os.Lstat(marker); err == nil {
		t.Error("a program of the clone's configuration ran")
	}
}

// TestOldGitFetchesNothing: git that does not know GIT_NO_LAZY_FETCH does not run
// the program by which a clone's configuration would fetch a missing object.
func TestOldGitFetchesNothing(t *testing.T) {
	clones := t.TempDir()
	dir := filepath.Join(clones, "own", "er")
	makeClone(t, dir)
	path, err := exec.LookPath("git")
	touch, err2 := exec.LookPath("touch")
	if err := errors.Join(err, err2); err != nil {
		t.Skip(err)
	}
	for _, weak := range []bool{true, false} {
		marker := filepath.Join(t.TempDir(), "ran")
		for key, value := range map[string]string{"core.repositoryFormatVersion": "1", "extensions.partialClone": "origin", "remote.origin.promisor": "true",
			"remote.origin.url": "ext::" + touch + " " + marker, "protocol.ext.allow": "always"} {
			git(t, dir, "config", key, value)
		}
		old := t.TempDir()
		script := "#!/bin/sh\nunset GIT_NO_LAZY_FETCH\n"
		if weak {
			script += "unset GIT_ALLOW_PROTOCOL\n"
		}
		if err := sandboxtest.WriteProgram(filepath.Join(old, "git"), []byte(script+"exec '"+path+"' \"$@\"\n")); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", old+":"+filepath.Dir(path))
		clone, err := hostgit.Open(t.Context(), filepath.Join(dir, ".git"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := clone.Object(onecommit.ID{1}, onecommit.Blob); err == nil {
			t.Error("a missing object was found")
		}
		clone.Close()
		if _, err := os.Lstat(marker); (err == nil) != weak {
			t.Errorf("protocols allowed %t: looking for what the program writes: %v", weak, err)
		}
	}
}

// TestOtherKind: an id that names something else is refused.
func TestOtherKind(t *testing.T) {
	clones := t.TempDir()
	dir := filepath.Join(clones, "own", "er")
	makeClone(t, dir)
	id, err := onecommit.ParseID(git(t, dir, "rev-parse", "HEAD:a.txt"))
	if err != nil {
		t.Fatal(err)
	}
	clone, err := hostgit.Open(t.Context(), filepath.Join(dir, ".git"))
	if err != nil {
		t.Fatal(err)
	}
	defer clone.Close()
	if _, err := onecommit.Read(id, clone.Object); err == nil || !strings.Contains(err.Error(), "is not a commit") {
		t.Errorf("got %v", err)
	}
}
