package repository_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"securebench/internal/repository"
)

var roomy = repository.Bounds{Bytes: 1 << 30, Files: 1 << 20}

// requireGit skips a test that needs git on this machine.
func requireGit(tb testing.TB) {
	tb.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		tb.Skip("git is not installed: what it makes of our patches is not tested")
	}
}

// git runs git in a folder, without any configuration of this machine.
func git(tb testing.TB, dir string, stdin []byte, args ...string) ([]byte, error) {
	tb.Helper()
	cmd := exec.Command("git", append([]string{"-c", "safe.directory=*", "-c", "core.autocrlf=false", "-c", "core.excludesFile=/dev/null",
		"-c", "apply.whitespace=nowarn", "-c", "core.attributesFile=/dev/null", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(stdin)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_ATTR_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES=" + filepath.Dir(dir)}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		out = append(out, stderr.Bytes()...)
	}
	return out, err
}

// file is one file of a test's tree.
type file struct {
	mode    repository.Mode
	content string // or the target of a link
}

// files is a test's tree, by path.
type files map[string]file

// write lays the files into an empty folder.
func (f files) write(tb testing.TB, dir string) {
	tb.Helper()
	for name, x := range f {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			tb.Fatal(err)
		}
		var err error
		switch x.mode {
		case repository.Symlink:
			err = os.Symlink(x.content, full)
		case repository.Executable:
			err = os.WriteFile(full, []byte(x.content), 0o755)
		default:
			err = os.WriteFile(full, []byte(x.content), 0o644)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
}

// archive writes the files as a workspace does.
func (f files) archive(tb testing.TB) []byte {
	tb.Helper()
	var items []tar.Header
	contents := map[string]string{}
	folders := map[string]bool{".": true}
	for name, x := range f {
		for dir := path.Dir(name); !folders[dir]; dir = path.Dir(dir) {
			folders[dir] = true
			items = append(items, tar.Header{Name: dir + "/", Typeflag: tar.TypeDir, Mode: 0o755})
		}
		h := tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: int64(x.mode & 0o777), Size: int64(len(x.content))}
		if x.mode == repository.Symlink {
			h = tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: x.content, Mode: 0o777}
		} else {
			contents[name] = x.content
		}
		items = append(items, h)
	}
	slices.SortFunc(items, func(a, b tar.Header) int { return strings.Compare(a.Name, b.Name) })
	return pack(tb, items, contents)
}

// pack writes an archive.
func pack(tb testing.TB, items []tar.Header, contents map[string]string) []byte {
	tb.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, h := range items {
		if err := tw.WriteHeader(&h); err != nil {
			tb.Fatal(err)
		}
		if _, err := io.WriteString(tw, contents[h.Name]); err != nil {
			tb.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

// tree reads the files as the tree of a checkout.
func (f files) tree(tb testing.TB) *repository.Tree {
	tb.Helper()
	t, err := repository.Read(bytes.NewReader(f.archive(tb)), roomy, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// patch writes the difference of two trees.
func patch(tb testing.TB, before, after files) []byte {
	tb.Helper()
	var b bytes.Buffer
	err := repository.WritePatch(&b, repository.Compare(before.tree(tb), after.tree(tb)), func(c repository.Change) ([]byte, []byte, error) {
		return before.content(c.Path), after.content(c.Path), nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func (f files) content(name string) []byte {
	if x, ok := f[name]; ok {
		return []byte(x.content)
	}
	return nil
}

// readFolder reads what is in a folder but .git.
func readFolder(tb testing.TB, dir string) files {
	tb.Helper()
	f := files{}
	err := filepath.WalkDir(dir, func(full string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && d.Name() == ".git" {
				return fs.SkipDir
			}
			return err
		}
		name, _ := filepath.Rel(dir, full)
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(full)
			f[name] = file{repository.Symlink, target}
			return err
		}
		content, err := os.ReadFile(full)
		mode := repository.Regular
		if info.Mode()&0o100 != 0 {
			mode = repository.Executable
		}
		f[name] = file{mode, string(content)}
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// applied returns what git apply makes of a tree, outside of any repository, as
// the verifier runs it.
func applied(tb testing.TB, before files, patch []byte) files {
	tb.Helper()
	after, err := appliedWith(tb, before, patch, "--git-dir=/nonexistent")
	if err != nil {
		tb.Fatalf("git apply: %v\n%s", err, patch)
	}
	return after
}

// appliedWith is applied with options of git, in a folder with a repository.
func appliedWith(tb testing.TB, before files, patch []byte, options ...string) (files, error) {
	tb.Helper()
	dir, err := os.MkdirTemp(os.TempDir(), "securebench-test-")
	if err != nil {
		tb.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if out, err := git(tb, dir, nil, "init", "-q"); err != nil {
		tb.Fatalf("%v: %s", err, out)
	}
	before.write(tb, dir)
	if out, err := git(tb, dir, patch, append(options, "apply", "-")...); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return readFolder(tb, dir), nil
}
