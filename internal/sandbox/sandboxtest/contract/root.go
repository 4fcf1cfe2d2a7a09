package contract

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"securebench/internal/sandbox"
)

// folder is a folder that the image of [Suite] has, with the content of
// [Root], owned by folderOwner.
const folder = "/suite"

// folderOwner owns everything in folder. It is not root: a root without
// capabilities cannot write to other users' folders.
var folderOwner = sandbox.User{UID: 1000, GID: 1000}

// Root is the part of the image's root that the suite uses.
func Root() fs.FS {
	return fstest.MapFS{
		"suite":            {Mode: fs.ModeDir | 0o750},
		"suite/anew":       {Mode: fs.ModeDir | 0o755},
		"suite/anew/old":   {Mode: 0o644, Data: []byte("old\n")},
		"suite/dir":        {Mode: fs.ModeDir | 0o755},
		"suite/dir/run.sh": {Mode: 0o755, Data: []byte("#!/bin/sh\n")},
		"suite/file":       {Mode: 0o644, Data: []byte("hello\n")},
		"suite/gone":       {Mode: 0o600, Data: []byte("old\n")},
		"suite/large":      {Mode: 0o644, Data: bytes.Repeat([]byte{'x'}, 200_000)},
		"suite/link":       {Mode: fs.ModeSymlink | 0o777, Data: []byte("file")},
	}
}

// RootArchive is [Root] as a tar stream, with owners.
func RootArchive(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	root := Root()
	err := fs.WalkDir(root, "suite", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		file := root.(fstest.MapFS)[name]
		h := &tar.Header{Name: name, Mode: int64(file.Mode.Perm()), Uid: folderOwner.UID, Gid: folderOwner.GID,
			Typeflag: tar.TypeReg, Size: int64(len(file.Data))}
		switch {
		case d.IsDir():
			h.Typeflag, h.Name = tar.TypeDir, name+"/"
		case file.Mode&fs.ModeSymlink != 0:
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, string(file.Data), 0
		}
		if err := tw.WriteHeader(h); err != nil || h.Size == 0 {
			return err
		}
		_, err = tw.Write(file.Data)
		return err
	})
	if err = errors.Join(err, tw.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func (s *suite) service(t *testing.T) {
	if info := s.engine.Info(); info.Name == "" || info.OS != "linux" || info.Arch == "" {
		t.Errorf("Info: got %+v", info)
	}
	for name, want := range map[string]sandbox.User{"": {}, "12:34": {UID: 12, GID: 34}} {
		if got, err := s.engine.User(t.Context(), s.caps.Image, name); err != nil || got != want {
			t.Errorf("User(%q): got %v and %v, want %v", name, got, err, want)
		}
	}
	if u, err := s.engine.User(t.Context(), s.caps.Image, "securebench-no-such-user"); err == nil {
		t.Errorf("User of an unknown name: got %v", u)
	}
	b := s.open(t, s.spec(scriptBoth))
	if _, err := s.engine.Reap(t.Context()); err != nil {
		t.Errorf("Reap: %v", err)
	}
	if _, err := b.Run(t.Context(), sandbox.Streams{}); err != nil {
		t.Errorf("Run after Reap: %v", err)
	}
}

func (s *suite) mounts(t *testing.T) {
	for name, c := range map[string]struct {
		readOnly bool
		stdout   string
		input    []string
	}{
		"read-only": {true, "", []string{"0 644 a.txt hello"}},
		"writable":  {false, "created\nremoved\n", []string{"0 644 new x"}},
	} {
		t.Run(name, func(t *testing.T) {
			work, input := s.workspace(t), s.workspace(t)
			put(t, input, plain("a.txt", "hello\n", 0o644))
			t.Run("box", func(t *testing.T) {
				spec := s.spec(scriptMounts)
				spec.Mounts = []sandbox.Mount{{Workspace: work, Target: target}, {Workspace: input, Target: "/input/data", ReadOnly: c.readOnly}}
				if got := s.run(t, spec); got.stdout != c.stdout || got.ExitCode != 0 {
					t.Errorf("got %+v, %q, %q", got.Outcome, got.stdout, got.stderr)
				}
			})
			diffTree(t, work, ".", "0 644 copy hello")
			diffTree(t, input, ".", c.input...)
		})
	}
	t.Run("nested", s.nestedMounts)
	t.Run("refused targets", s.refusedTargets)
}

// nestedMounts checks that a read-only tree can cover a part of another one,
// whose own files come to light again without it.
func (s *suite) nestedMounts(t *testing.T) {
	work, input := s.workspace(t), s.workspace(t)
	put(t, work, dir("in/data", 0o755), plain("in/data/a.txt", "covered\n", 0o644))
	put(t, input, plain("a.txt", "hello\n", 0o644))
	t.Run("box", func(t *testing.T) {
		spec := s.spec(scriptNested)
		spec.Mounts = []sandbox.Mount{{Workspace: input, Target: target + "/in/data", ReadOnly: true}, {Workspace: work, Target: target}}
		if got := s.run(t, spec); got.stdout != "hello\n" || got.ExitCode != 0 {
			t.Errorf("got %+v, %q, %q", got.Outcome, got.stdout, got.stderr)
		}
	})
	diffTree(t, work, "in", "5 755 in/", "5 755 in/data/", "0 644 in/data/a.txt covered", "0 644 in/new x")
	diffTree(t, input, ".", "0 644 a.txt hello")
}

func (s *suite) refusedTargets(t *testing.T) {
	w := s.workspace(t)
	for _, targets := range [][]string{{"/"}, {"//."}, {""}, {"data"}, {"/proc"}, {"/sys/x"}, {"/dev/shm"}, {"/a/../b"}, {"/a,b"},
		{sandbox.HelperDir}, {sandbox.HelperPath}, {"/a", "/a"}, {"/a", "/a/"}, {"/a", "/a/b"}, {"/a/b/c", "/a"}} {
		spec := s.spec(scriptOK)
		for _, target := range targets {
			spec.Mounts = append(spec.Mounts, sandbox.Mount{Workspace: w, Target: target})
		}
		s.notOpened(t, spec, fmt.Sprintf("mounts at %q are accepted", targets))
	}
}

// imageFolder checks workspaces that begin as a folder of the image.
func (s *suite) imageFolder(t *testing.T) {
	open := func(path string, disk, inodes int64) (sandbox.Workspace, error) {
		return s.engine.Workspace(t.Context(), sandbox.WorkspaceSpec{Labels: sandbox.Labels{Run: "suite"}, Owner: folderOwner,
			Disk: disk, Inodes: inodes, From: &sandbox.ImageFolder{Image: s.caps.Image, Path: path}})
	}
	for _, c := range []struct {
		name, path   string
		disk, inodes int64
		want         error
	}{
		{"too few bytes", folder, 64 << 10, 0, sandbox.ErrTooSmall}, {"too few inodes", folder, 0, 3, sandbox.ErrTooSmall},
		{"missing", "/no/such/folder", 0, 0, sandbox.ErrNoFolder}, {"file", folder + "/file", 0, 0, sandbox.ErrNoFolder},
		{"root", "/", 0, 0, nil}, {"reserved", "/proc/self", 0, 0, nil}, {"relative", "suite", 0, 0, nil},
	} {
		w, err := open(c.path, c.disk, c.inodes)
		if err == nil {
			err = w.Close(t.Context())
			t.Errorf("%s: it was made (%v)", c.name, err)
		} else if c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
	w, err := open(folder, 16<<20, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	diffTree(t, w, "dir", "5 755 dir/", "0 755 dir/run.sh #!/bin/sh")
	diffTree(t, w, "link", "2 777 link file")
	t.Run("box", func(t *testing.T) {
		spec := s.spec(scriptChange)
		spec.User, spec.Mounts = &folderOwner, []sandbox.Mount{{Workspace: w, Target: folder}}
		if got := s.run(t, spec); got.ExitCode != 0 || got.stderr != "" {
			t.Errorf("got %+v, %q", got.Outcome, got.stderr)
		}
		if !s.caps.Isolation {
			return
		}
		spec.Command[2] = "stat -c '%u:%g %a' /suite /suite/dir /suite/large; stat -c %u:%g /suite/link"
		if got := s.run(t, spec); got.stdout != "1000:1000 750\n1000:1000 755\n1000:1000 644\n1000:1000\n" {
			t.Errorf("owners and modes: got %q, %q", got.stdout, got.stderr)
		}
	})
	diffTree(t, w, "file", "0 644 file changed")
	diffTree(t, w, "gone")
	t.Run("the image is unchanged", func(t *testing.T) {
		again, err := open(folder, 16<<20, 0)
		if err != nil {
			t.Fatal(err)
		}
		diffTree(t, again, "file", "0 644 file hello")
		if err := again.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// root checks what can be read of a root after the command.
func (s *suite) root(t *testing.T) {
	w := s.workspace(t)
	spec := s.spec(scriptChange)
	spec.User, spec.WritableRoot = &folderOwner, true
	spec.Mounts = []sandbox.Mount{{Workspace: w, Target: "/suite/dir/mount"}, {Workspace: s.workspace(t), Target: "/made/for/mount"}}
	b := s.open(t, spec)
	reader, ok := b.(sandbox.RootReader)
	if !ok {
		t.Skip("the engine cannot read roots")
	}
	if _, err := reader.Changes(t.Context(), 100); err == nil {
		t.Error("a root is compared before the command has ended")
	}
	if out, err := b.Run(t.Context(), sandbox.Streams{}); err != nil || out.ExitCode != 0 || len(out.Seen) > 0 {
		t.Fatalf("Run: %+v, %v", out, err)
	}
	put(t, w, plain("hidden", "not part of the root", 0o644))
	t.Run("changes", func(t *testing.T) { s.changes(t, reader) })
	t.Run("archive", func(t *testing.T) { s.archive(t, reader) })
	t.Run("hostile", s.hostileRoot)
	t.Run("full", s.fullRoot)
	closed := s.open(t, s.spec(scriptOK))
	if _, err := closed.Run(t.Context(), sandbox.Streams{}); err != nil {
		t.Fatal(err)
	}
	if err := closed.(sandbox.RootReader).Archive(t.Context(), []string{folder}, 1<<20, io.Discard); err == nil {
		t.Error("a root that was never writable is read")
	}
}

func (s *suite) changes(t *testing.T, r sandbox.RootReader) {
	all, err := r.Changes(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	// Engines may or may not report folders whose entries changed.
	got := slices.DeleteFunc(all, func(c sandbox.Change) bool {
		return c.Kind == sandbox.Modified && c.Type == sandbox.Directory
	})
	want := []sandbox.Change{
		{Path: "/suite/anew/old", Kind: sandbox.Deleted},
		{Path: "/suite/dir/run.sh", Kind: sandbox.Modified, Type: sandbox.RegularFile},
		{Path: "/suite/file", Kind: sandbox.Modified, Type: sandbox.RegularFile},
		{Path: "/suite/gone", Kind: sandbox.Deleted},
		{Path: "/suite/new", Kind: sandbox.Added, Type: sandbox.Directory},
		{Path: "/suite/new/fifo", Kind: sandbox.Added, Type: sandbox.NamedPipe},
		{Path: "/suite/new/file", Kind: sandbox.Added, Type: sandbox.RegularFile},
		{Path: "/suite/new/link", Kind: sandbox.Added, Type: sandbox.Symlink},
	}
	if d := gocmp.Diff(want, got); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
	if _, err := r.Changes(t.Context(), 3); !errors.Is(err, sandbox.ErrTooLarge) {
		t.Errorf("with a limit of 3: got %v, want ErrTooLarge", err)
	}
}

func (s *suite) archive(t *testing.T, r sandbox.RootReader) {
	var b bytes.Buffer
	paths := []string{"/suite/new", "/suite/file", "/suite/missing", "/suite/new/link/passwd", "/suite/dir", "/suite/link"}
	if err := r.Archive(t.Context(), paths, 100_000, &b); err != nil {
		t.Fatal(err)
	}
	want := []string{"5 755 suite/new/", "6 644 suite/new/fifo", "0 644 suite/new/file new", "2 777 suite/new/link /etc",
		"0 644 suite/file changed", "5 755 suite/dir/", "0 700 suite/dir/run.sh #!/bin/sh", "2 777 suite/link file"}
	if d := gocmp.Diff(want, entries(t, &b)); d != "" {
		t.Errorf("archive (-want +got):\n%s", d)
	}
	for _, bad := range []string{"", "suite", "/suite/../etc", "/suite/"} {
		if err := r.Archive(t.Context(), []string{bad}, 1<<20, io.Discard); err == nil {
			t.Errorf("Archive(%q) is not an error", bad)
		}
	}
	b.Reset()
	if err := r.Archive(t.Context(), []string{"/suite/large"}, 100_000, &b); !errors.Is(err, sandbox.ErrTooLarge) || b.Len() > 100_000 {
		t.Errorf("Archive: got %v and %d bytes, want ErrTooLarge", err, b.Len())
	}
	cause := errors.New("the source broke")
	if err := r.Archive(t.Context(), []string{"/suite/file"}, 1<<20, brokenWriter{cause}); !errors.Is(err, cause) {
		t.Errorf("Archive: got %v, want the writer's error", err)
	}
}

// hostileRoot tries to make reading a root read something else, or for ever.
func (s *suite) hostileRoot(t *testing.T) {
	spec := s.spec(scriptHostile)
	spec.User, spec.WritableRoot, spec.Limits.Disk = &folderOwner, true, 2<<40
	b := s.open(t, spec)
	if out, err := b.Run(t.Context(), sandbox.Streams{}); err != nil || out.ExitCode != 0 {
		t.Fatalf("Run: %+v, %v", out, err)
	}
	r := b.(sandbox.RootReader)
	began := time.Now()
	if err := r.Archive(t.Context(), []string{"/suite/sparse"}, 1<<30, io.Discard); !errors.Is(err, sandbox.ErrTooLarge) {
		t.Errorf("a sparse file: got %v, want ErrTooLarge", err)
	}
	if took := time.Since(began); took > bound/2 {
		t.Errorf("it took %v", took)
	}
	var out bytes.Buffer
	if err := r.Archive(t.Context(), []string{"/suite/dir/passwd", "/suite/dir"}, 1<<20, &out); err != nil {
		t.Fatal(err)
	}
	if d := gocmp.Diff([]string{"2 777 suite/dir /etc"}, entries(t, &out)); d != "" {
		t.Errorf("a folder that became a link (-want +got):\n%s", d)
	}
}

// fullRoot checks that a root that grows beyond the limit ends its box.
func (s *suite) fullRoot(t *testing.T) {
	spec := s.spec(scriptFillRoot)
	spec.User, spec.WritableRoot = &folderOwner, true
	diffOutcome(t, sandbox.Outcome{End: sandbox.DiskLimit, ExitCode: 137}, s.run(t, spec).Outcome)
	spec.Limits.Disk = 2 * rootFilling
	spec.Limits.Timeout = 5 * time.Second
	diffOutcome(t, sandbox.Outcome{End: sandbox.TimedOut, ExitCode: 124}, s.run(t, spec).Outcome)
}

// entries describes an archive by lines: type, mode, name, and link target or
// content.
func entries(t *testing.T, r io.Reader) (lines []string) {
	t.Helper()
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return lines
		}
		if err != nil {
			t.Fatalf("reading the archive: %v", err)
		}
		content, err := io.ReadAll(tr)
		if err != nil {
			t.Fatalf("reading %q: %v", h.Name, err)
		}
		line := string(h.Typeflag) + " " + fmt.Sprintf("%03o", h.Mode&0o777) + " " + h.Name
		if extra := cmp.Or(h.Linkname, strings.TrimSpace(string(content))); extra != "" {
			line += " " + extra
		}
		lines = append(lines, line)
	}
}
