package workspace_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/digest"
	"securebench/internal/task"
	"securebench/internal/workspace"
)

// assetRoot makes a folder from names and contents; a name that ends in / is
// a directory.
func assetRoot(t testing.TB, files map[string]string) (string, *os.Root) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(p, 0o700); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := root.Close(); err != nil {
			t.Error(err)
		}
	})
	return dir, root
}

// list formats an archive, one line an entry.
func list(t testing.TB, data []byte) []string {
	t.Helper()
	var out []string
	for tr := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(time.Unix(0, 0)) || h.Uname != "" || h.Gname != "" {
			t.Errorf("%s has time %v, owner %q", h.Name, h.ModTime, h.Uname)
		}
		out = append(out, fmt.Sprintf("%c %o %d:%d %s %s", h.Typeflag, h.Mode, h.Uid, h.Gid, h.Name, body))
	}
}

func layout(t testing.TB, opts workspace.Options, assets ...task.Asset) *workspace.Layout {
	t.Helper()
	p, err := workspace.ForAgent(newTask(t, assets, res(task.Public, "q", "1")).Agent(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestWriteTar(t *testing.T) {
	dir, root := assetRoot(t, map[string]string{
		"d/b.txt": "bee", "d/sub/run.sh": "#!", "d/empty/": "", "d/deep/empty/": "", "one": "1", "d-x": "dash", "ro": "r",
	})
	if err := os.Chmod(filepath.Join(dir, "d/sub/run.sh"), 0o711); err != nil {
		t.Fatal(err)
	}
	p := layout(t, workspace.Options{Assets: root},
		task.Asset{Path: "one", Mount: "a/b/one"}, task.Asset{Path: "d", Mount: "d", ReadOnly: true},
		task.Asset{Path: "d-x", Mount: "d-x"}, task.Asset{Path: "ro", Mount: "ro", ReadOnly: true})
	if d := p.Digests(); len(d) != 0 {
		t.Errorf("digests before anything was written: %v", d)
	}
	var buf bytes.Buffer
	if err := p.WriteTar(&buf, 1000, 1001); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"5 755 1000:1001 a/ ", "5 755 1000:1001 a/b/ ", "0 644 1000:1001 a/b/one 1",
		"5 555 1000:1001 d/ ", "0 644 1000:1001 d-x dash", "0 444 1000:1001 d/b.txt bee",
		"5 555 1000:1001 d/sub/ ", "0 555 1000:1001 d/sub/run.sh #!", "0 444 1000:1001 ro r",
		"5 755 1000:1001 securebench/ ", "5 755 1000:1001 securebench/public/ ",
		"0 644 1000:1001 securebench/public/q.json 1\n", "0 644 1000:1001 task.json {\n  \"q\": 1\n}\n",
	}
	if d := cmp.Diff(want, list(t, buf.Bytes())); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	wantDigests := map[string]string{
		"a/b/one": digest.Bytes([]byte("1")), "d-x": digest.Bytes([]byte("dash")), "d/b.txt": digest.Bytes([]byte("bee")),
		"d/sub/run.sh": digest.Bytes([]byte("#!")), "ro": digest.Bytes([]byte("r")),
		"securebench/public/q.json": digest.Bytes([]byte("1\n")), "task.json": digest.Bytes([]byte("{\n  \"q\": 1\n}\n")),
	}
	if d := cmp.Diff(wantDigests, p.Digests()); d != "" {
		t.Errorf("digests, -want +got:\n%s", d)
	}
}

// TestWriteTarIsDeterministic is attack L09: times, modes and order of the
// author's files reveal nothing.
func TestWriteTarIsDeterministic(t *testing.T) {
	var archives [2]bytes.Buffer
	for i := range archives {
		dir, root := assetRoot(t, map[string]string{"d/x": "1", "d/y": "2", "d/z": "3"})
		if i == 1 {
			for f, mode := range map[string]os.FileMode{"d/x": 0o640, "d/y": 0o644, "d/z": 0o400, "d": 0o750} {
				at := filepath.Join(dir, f)
				if err := errors.Join(os.Chmod(at, mode), os.Chtimes(at, time.Now(), time.Unix(1e9, 0))); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := layout(t, workspace.Options{Assets: root}, task.Asset{Path: "d", Mount: "d"}).WriteTar(&archives[i], 0, 0); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0].Bytes(), archives[1].Bytes()) {
		t.Error("the same content gave different archives")
	}
}

// TestWriteTarRefuses is attack K01: links and special files in the pack.
func TestWriteTarRefuses(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("CANARY"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		prepare func(dir string) error
		asset   string
		want    string
	}{
		"missing":            {func(string) error { return nil }, "nothing", "no such file"},
		"link out":           {func(d string) error { return os.Symlink(outside, d+"/l") }, "l", "symbolic link"},
		"link inside":        {func(d string) error { return os.Symlink("f", d+"/l") }, "l", "symbolic link"},
		"link in a tree":     {func(d string) error { return os.Symlink("../f", d+"/t/l") }, "t", "symbolic link"},
		"dangling in a tree": {func(d string) error { return os.Symlink("no", d+"/t/l") }, "t", "symbolic link"},
		"through a link":     {func(d string) error { return os.Symlink("t", d+"/l") }, "l/x", "symbolic link"},
		"pipe":               {func(d string) error { return syscall.Mkfifo(d+"/p", 0o600) }, "p", "named pipe"},
		"pipe in a tree":     {func(d string) error { return syscall.Mkfifo(d+"/t/p", 0o600) }, "t", "named pipe"},
		"name with newline":  {func(d string) error { return os.WriteFile(d+"/t/a\nb", nil, 0o600) }, "t", "control character"},
		"name not UTF-8":     {func(d string) error { return os.WriteFile(d+"/t/\xff", nil, 0o600) }, "t", "invalid UTF-8"},
		"nested too deeply":  {func(d string) error { return os.MkdirAll(d+"/t"+strings.Repeat("/n", 70), 0o700) }, "t", "too many"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir, root := assetRoot(t, map[string]string{"f": "x", "t/x": "y"})
			if err := tc.prepare(dir); err != nil {
				t.Fatal(err)
			}
			p := layout(t, workspace.Options{Assets: root}, task.Asset{Path: tc.asset, Mount: "m"})
			var buf bytes.Buffer
			err := p.WriteTar(&buf, 0, 0)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
			if bytes.Contains(buf.Bytes(), []byte("CANARY")) {
				t.Error("a file outside the pack was read")
			}
		})
	}
}

func TestTreeMayNotReachReservedPaths(t *testing.T) {
	_, root := assetRoot(t, map[string]string{"d/hidden.json": "x", "s/evaluator/x": "x"})
	for _, a := range []task.Asset{{Path: "d", Mount: "task"}, {Path: "s", Mount: "securebench"}} {
		p, err := workspace.ForAgent(newTask(t, []task.Asset{a}).Agent(), workspace.Options{Assets: root})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.WriteTar(io.Discard, 0, 0); err == nil {
			t.Errorf("a tree laid out at %s reached a path that is not its own", a.Mount)
		}
	}
}

func TestWriteTarBounds(t *testing.T) {
	_, root := assetRoot(t, map[string]string{"d/a": "12345", "d/b": "12345"})
	asset := task.Asset{Path: "d", Mount: "d"}
	// The task file and the value have 13 and 2 bytes.
	for limit, ok := range map[int64]bool{25: true, 24: false} {
		err := layout(t, workspace.Options{Assets: root, MaxBytes: limit}, asset).WriteTar(io.Discard, 0, 0)
		if (err == nil) != ok {
			t.Errorf("25 bytes with a limit of %d: %v", limit, err)
		}
	}
	for limit, ok := range map[int]bool{5: true, 4: false, 2: false} {
		err := layout(t, workspace.Options{Assets: root, MaxFiles: limit}, asset).WriteTar(io.Discard, 0, 0)
		if (err == nil) != ok {
			t.Errorf("4 files and a directory with a limit of %d: %v", limit, err)
		}
	}
	if err := layout(t, workspace.Options{}, asset).WriteTar(io.Discard, 0, 0); err == nil {
		t.Error("assets were written without a root")
	}
}

// swapper changes the asset when the archive's first bytes arrive, which is
// after the files were listed.
type swapper struct {
	bytes.Buffer
	swap func()
}

func (s *swapper) Write(p []byte) (int, error) {
	if s.swap != nil {
		s.swap()
		s.swap = nil
	}
	return s.Buffer.Write(p)
}

func TestWriteTarNoticesChanges(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("CANARY"), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	tests := map[string]func(z string){
		"longer":  func(z string) { check(os.WriteFile(z, []byte("much longer"), 0o600)) },
		"shorter": func(z string) { check(os.WriteFile(z, nil, 0o600)) },
		"gone":    func(z string) { check(os.Remove(z)) },
		"link":    func(z string) { check(os.Remove(z)); check(os.Symlink(secret, z)) },
		"pipe":    func(z string) { check(os.Remove(z)); check(syscall.Mkfifo(z, 0o600)) },
		"other":   func(z string) { check(os.WriteFile(z+".new", []byte("456"), 0o600)); check(os.Rename(z+".new", z)) },
		"inside":  func(z string) { check(os.Remove(z)); check(os.Symlink("a", z)) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			dir, root := assetRoot(t, map[string]string{"d/a": "123", "d/z": "123"})
			p := layout(t, workspace.Options{Assets: root}, task.Asset{Path: "d", Mount: "a"})
			w := &swapper{swap: func() { change(dir + "/d/z") }}
			if err := p.WriteTar(w, 0, 0); err == nil {
				t.Error("the change went unnoticed")
			}
			if bytes.Contains(w.Bytes(), []byte("CANARY")) || len(p.Digests()) != 0 {
				t.Error("a failed layout left something behind")
			}
		})
	}
}
