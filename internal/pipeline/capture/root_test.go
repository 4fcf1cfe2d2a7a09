package capture_test

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"securebench/internal/candidate"
	"securebench/internal/pipeline/capture"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// image is what the sandboxes of these tests begin as.
func image() fs.FS {
	dir := func(m fs.FileMode) *fstest.MapFile { return &fstest.MapFile{Mode: fs.ModeDir | m} }
	file := func(data string) *fstest.MapFile { return &fstest.MapFile{Mode: 0o644, Data: []byte(data)} }
	return fstest.MapFS{"etc": dir(0o755), "etc/passwd": file("root"), "etc/ld.so.conf": file("x"), "etc/nginx": dir(0o755), "etc/nginx/old": file("old"),
		"opt": dir(0o755), "opt/a": dir(0o755), "opt/a/b": file("b"), "opt/c": file("c"), "usr": dir(0o755), "usr/bin": dir(0o755), "usr/bin/sh": file("sh"),
		"home": dir(0o755), "home/link": {Mode: fs.ModeSymlink | 0o777, Data: []byte("x")}}
}

// at does something with a path of the sandbox.
func at(name string, do func(path string) error) func(p *sandboxtest.Process) error {
	return func(p *sandboxtest.Process) error {
		path, err := p.Path(name, true)
		if err == nil {
			err = do(path)
		}
		return err
	}
}

func put(name, data string) func(p *sandboxtest.Process) error {
	return at(name, func(path string) error {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, []byte(data), 0o644)
	})
}

func drop(name string) func(p *sandboxtest.Process) error { return at(name, os.RemoveAll) }

// TestRootsAreCaptured: what changed outside of the workspace, of the roots that
// the task names, is one tree with the workspace.
func TestRootsAreCaptured(t *testing.T) {
	agent := all(write("w", "in the workspace"), put("/opt/a/b", "changed"), put("/opt/new/deep/f", "new"), drop("/opt/c"), put("/etc/passwd", "elsewhere"),
		put("/data/x", "x"), put("/data/cache/y", "y"), put("/aaa/first", "1"),
		at("/opt/new/pipe", func(p string) error { return syscall.Mkfifo(p, 0o600) }),
		at("/opt/new/self", func(p string) error { return os.Symlink("/proc/self", p) }),
		at("/opt/new/to", func(p string) error { return os.Symlink("deep/f", p) }))
	opt := []string{"-rw-r--r-- opt/a/b changed", "deleted opt/c", "drwxr-xr-x opt/new", "drwxr-xr-x opt/new/deep", "-rw-r--r-- opt/new/deep/f new", "Lrwxrwxrwx opt/new/to deep/f"}
	p := agentChanges(t, image(), start, agent)
	p.req.Captured = task.Captured{Roots: []string{"/opt", "/never/made"}}
	res := p.want(t, opt...)
	if got := string(res.Metadata["dropped_paths"]); got != `[{"path":"/opt/new/pipe","reason":"pipe"},{"path":"/opt/new/self","reason":"link"}]` ||
		string(res.Metadata["missing_roots"]) != `["/never/made"]` {
		t.Errorf("metadata %s", res.Metadata)
	}
	p.req.Captured = task.Captured{Roots: []string{"/opt/a/b", "/app", "/data", "/aaa"}, Exclude: []string{"/data/cache"}}
	p.want(t, "drwxr-xr-x aaa", "-rw-r--r-- aaa/first 1", "-rw-r--r-- app/w in the workspace", "drwxr-xr-x data", "-rw-r--r-- data/x x", "-rw-r--r-- opt/a/b changed")
	p.req.Captured = task.Captured{Filesystem: true, Exclude: []string{"/data", "/aaa"}}
	p.want(t, append([]string{"-rw-r--r-- app/w in the workspace", "-rw-r--r-- etc/passwd elsewhere"}, opt...)...)
	p.stage.Root = nil
	if res, err := p.stage.Capture(t.Context(), p.req, p.space); err == nil {
		t.Errorf("without a way to read the root: %+v", res)
	}
}

// TestWhatBecameSomethingElse: a path of the image whose type changed.
func TestWhatBecameSomethingElse(t *testing.T) {
	p := agentChanges(t, image(), start, all(drop("/opt/a"), put("/opt/a", "a file"), drop("/opt/c"), put("/opt/c/d", "a folder"),
		drop("/home/link"), at("/home/link", func(p string) error { return os.Symlink("/", p) }), drop("/etc/nginx"), at("/etc/nginx", func(p string) error { return syscall.Mkfifo(p, 0o600) })))
	p.req.Captured = task.Captured{Filesystem: true}
	p.want(t, "deleted etc/nginx", "deleted home/link", "-rw-r--r-- opt/a a file", "drwxr-xr-x opt/c", "-rw-r--r-- opt/c/d a folder")
}

// TestSystemTasks (W02, W04, W21–W23): what a task that takes the whole file
// system leaves out is what programs of the checker would load or run. A task
// that names such a folder, the weak set-up here, gets it.
func TestSystemTasks(t *testing.T) {
	trojans := []string{"/usr/bin/pytest", "/usr/bin/sh", "/lib/python3/sitecustomize.py", "/etc/ld.so.conf", "/etc/ld.so.preload", "/etc/profile.d/x.sh",
		"/etc/python3/sitecustomize.py", "/etc/pip.conf", "/etc/gitconfig", "/tmp/x", "/sbin/x"}
	var plant []func(*sandboxtest.Process) error
	for _, name := range trojans {
		plant = append(plant, put(name, "trojan"))
	}
	p := agentChanges(t, image(), start, all(append(plant, put("/etc/passwd", "root,me"), put("/etc/cron.d/job", "job"), put("/etc/nginx/site", "site"))...))
	p.req.Captured = task.Captured{Filesystem: true}
	res := p.want(t, "drwxr-xr-x etc/cron.d", "-rw-r--r-- etc/cron.d/job job", "-rw-r--r-- etc/nginx/site site", "-rw-r--r-- etc/passwd root,me")
	for _, name := range []string{"/etc/gitconfig", "/etc/profile.d", "/lib", "/sbin", "/tmp", "/usr/bin/pytest", "/usr/bin/sh"} { // new folders as a whole
		if !strings.Contains(string(res.Metadata["dropped_paths"]), `{"path":"`+name+`","reason":"not_captured"}`) {
			t.Errorf("%s is not listed in %s", name, res.Metadata["dropped_paths"])
		}
	}
	if got := string(res.Metadata["dropped_path_count"]); got != "11" {
		t.Errorf("%s paths are left out: %s", got, res.Metadata["dropped_paths"])
	}
	p.req.Captured.Exclude = []string{"/etc", "/usr", "/lib", "/sbin", "/tmp"}
	if res := p.want(t); strings.Contains(fmt.Sprint(res.Metadata), "/etc") {
		t.Errorf("what the row excludes is listed: %s", res.Metadata)
	}
	for _, name := range trojans {
		p.req.Captured = task.Captured{Roots: []string{name}}
		p.want(t, fmt.Sprintf("-rw-r--r-- %s trojan", name[1:]))
	}
}

// TestSecretsInRoots: names are refused, contents redacted.
func TestSecretsInRoots(t *testing.T) {
	for name, do := range map[string]func(*sandboxtest.Process) error{"file": put("/opt/sk-secret-value", "x"), "folder": put("/opt/sk-secret-value/x", "x"),
		"pipe": at("/opt/sk-secret-value", func(p string) error { return syscall.Mkfifo(p, 0o600) })} {
		p := agentChanges(t, image(), start, do)
		p.req.Captured, p.stage.Secrets = task.Captured{Filesystem: true}, secrets(t)
		t.Run(name, func(t *testing.T) { p.refused(t, verdict.CandidateNotRegular, "a name in the tree contains a secret") })
	}
	p := agentChanges(t, image(), start, put("/opt/c", "key=sk-secret-value"))
	p.req.Captured = task.Captured{Filesystem: true}
	p.want(t, "-rw-r--r-- opt/c key=sk-secret-value")
	p.stage.Secrets = secrets(t)
	if res := p.want(t, "-rw-r--r-- opt/c key=[redacted:KEY]"); !res.Candidate.Redacted {
		t.Error("the candidate is not marked as redacted")
	}
}

// fakeRoot is a root that an engine describes as it likes.
type fakeRoot struct {
	changes []sandbox.Change
	headers []tar.Header // of every archive
	err     error
}

func (f fakeRoot) Changes(context.Context, int) ([]sandbox.Change, error) { return f.changes, f.err }
func (f fakeRoot) Archive(ctx context.Context, _ []string, limit int64, w io.Writer) error {
	return fakeSpace{headers: f.headers, data: "x"}.Get(ctx, ".", limit, w)
}

// TestOddRoots: what an engine can report of a root, and what comes of it.
func TestOddRoots(t *testing.T) {
	added := func(types ...sandbox.FileType) (out []sandbox.Change) {
		for i, typ := range types {
			out = append(out, sandbox.Change{Path: "/opt/" + string(rune('a'+i)), Kind: sandbox.Added, Type: typ})
		}
		return out
	}
	file := tar.Header{Name: "opt/a", Typeflag: tar.TypeReg, Mode: 0o644}
	for name, tt := range map[string]struct {
		root   fakeRoot
		want   []string
		reason verdict.Reason
	}{
		"a name that cannot be passed on": {fakeRoot{changes: added("")}, nil, verdict.InvalidUTF8},
		"too many changes":                {fakeRoot{err: sandbox.ErrTooLarge}, nil, verdict.CandidateTooLarge},
		"a hard link":                     {fakeRoot{changes: added("file", "file"), headers: []tar.Header{file, {Name: "opt/b", Typeflag: tar.TypeLink, Linkname: "opt/a"}}}, []string{"-rw-r--r-- opt/a x", "-rw-r--r-- opt/b x"}, ""},
		"a hard link to nothing":          {fakeRoot{changes: added("file", "file"), headers: []tar.Header{file, {Name: "opt/b", Typeflag: tar.TypeLink, Linkname: "opt/z"}}}, []string{"-rw-r--r-- opt/a x"}, ""},
		"a hard link to a link": {fakeRoot{changes: added("symlink", "directory"), headers: []tar.Header{{Name: "opt/a", Typeflag: tar.TypeSymlink, Linkname: "x"},
			{Name: "opt/b/", Typeflag: tar.TypeDir, Mode: 0o755}, {Name: "opt/b/l", Typeflag: tar.TypeLink, Linkname: "opt/a"}}}, []string{"Lrwxrwxrwx opt/a x", "drwxr-xr-x opt/b", "Lrwxrwxrwx opt/b/l x"}, ""},
		"another order":   {fakeRoot{changes: added("file", "file"), headers: []tar.Header{{Name: "opt/b", Typeflag: tar.TypeReg}, file}}, []string{"-rw-r--r-- opt/a x", "---------- opt/b x"}, ""},
		"twice":           {fakeRoot{changes: added("file"), headers: []tar.Header{file, file}}, []string{"-rw-r--r-- opt/a x"}, ""},
		"a climbing name": {fakeRoot{changes: added("file"), headers: []tar.Header{{Name: "opt/../../etc/x", Typeflag: tar.TypeReg}}}, nil, ""},
		"a name of bytes": {fakeRoot{changes: added("directory"), headers: []tar.Header{{Name: "opt/a/", Typeflag: tar.TypeDir}, {Name: "opt/a/\xff", Typeflag: tar.TypeReg}}}, nil, verdict.InvalidUTF8},
		"a file with xattrs": {fakeRoot{changes: added("file"), headers: []tar.Header{{Name: "opt/a", Typeflag: tar.TypeReg, Mode: 0o4755,
			PAXRecords: map[string]string{"SCHILY.xattr.security.capability": "x"}}}}, []string{"-rwxr-xr-x opt/a x"}, ""},
		"deleted and there": {fakeRoot{changes: append(added("file"), sandbox.Change{Path: "/opt/a", Kind: sandbox.Deleted}), headers: []tar.Header{file}}, []string{"-rw-r--r-- opt/a x"}, ""},
		"a folder's special bits": {fakeRoot{changes: []sandbox.Change{{Path: "/opt", Kind: sandbox.Modified, Type: sandbox.Directory}},
			headers: []tar.Header{{Name: "opt/", Typeflag: tar.TypeDir, Mode: 0o2775}}}, nil, ""},
		"a folder's owner": {fakeRoot{changes: []sandbox.Change{{Path: "/opt", Kind: sandbox.Modified, Type: sandbox.Directory}},
			headers: []tar.Header{{Name: "opt/", Typeflag: tar.TypeDir, Mode: 0o770}}}, []string{"drwxrwx--- opt"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := &place{capture.Stage{Sink: newStore(t), Root: tt.root}, capture.Request{Extraction: tree, Outcome: exited, Tree: roomy, Workdir: "/app",
				Captured: task.Captured{Roots: []string{"/opt"}}}, fakeSpace{}}
			if tt.reason != "" {
				p.refused(t, tt.reason, "")
				return
			}
			p.want(t, tt.want...)
		})
	}
	p := &place{capture.Stage{Sink: newStore(t), Root: fakeRoot{err: errors.New("the engine broke")}}, capture.Request{Extraction: tree, Outcome: exited, Tree: roomy,
		Workdir: "/app", Captured: task.Captured{Filesystem: true}}, fakeSpace{}}
	if res, err := p.stage.Capture(t.Context(), p.req, p.space); err == nil || !strings.Contains(err.Error(), "the engine broke") || res.Rejection != nil {
		t.Errorf("an engine's fault: %+v, %v", res, err)
	}
}

// TestRootBounds (W11): bytes and files outside of the workspace count like
// those in it, and a file of the size of a disk is not read.
func TestRootBounds(t *testing.T) {
	sparse := func(size int64) func(*sandboxtest.Process) error {
		return all(put("/opt/big", ""), at("/opt/big", func(p string) error { return os.Truncate(p, size) }))
	}
	for name, tt := range map[string]struct {
		agent  func(*sandboxtest.Process) error
		bounds candidate.Bounds
	}{
		"a sparse file":         {sparse(64 << 20), roomy},
		"more than the bytes":   {sparse(1<<20 + 1), roomy},
		"bytes of both":         {all(put("/opt/x", "12345"), write("y", "12345")), candidate.Bounds{Bytes: 9, Files: 9}},
		"files of both":         {all(put("/opt/x", "1"), write("y", "2")), candidate.Bounds{Bytes: 9, Files: 1}},
		"files of a new folder": {all(put("/opt/x/1", ""), put("/opt/x/2", ""), put("/opt/x/3", "")), candidate.Bounds{Bytes: 9, Files: 3}},
		"many deletions":        {all(drop("/opt/a/b"), drop("/opt/c"), drop("/etc/nginx/old")), candidate.Bounds{Bytes: 9, Files: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			p := agentChanges(t, image(), start, tt.agent)
			p.req.Captured, p.req.Tree = task.Captured{Filesystem: true}, tt.bounds
			p.refused(t, verdict.CandidateTooLarge, "more than")
		})
	}
}
