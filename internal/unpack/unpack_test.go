package unpack

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"securebench/internal/tartest"
)

// permissive plans whatever an archive says, so that the defences here are all there are.
// Of a name with a first part like a layer's, the rest is a whiteout.
func permissive(h *tar.Header) (Entry, error) {
	e := Entry{Name: strings.TrimSuffix(h.Name, "/"), Target: h.Linkname, Mode: uint32(h.Mode) & 0o7777, Time: h.ModTime}
	switch h.Typeflag {
	case tar.TypeDir:
		e.Kind = Folder
	case tar.TypeReg:
		e.Kind = File
	case tar.TypeSymlink:
		e.Kind = Symlink
	case tar.TypeLink:
		e.Kind = HardLink
	case tar.TypeFifo:
		e.Kind = Pipe
	case tar.TypeChar:
		e.Kind = Whiteout
	case tar.TypeBlock:
		e.Kind = Remove
	case tar.TypeXGlobalHeader:
		e.Kind = Opaque
	}
	return e, nil
}

// users are the options of those who unpack: layers of images, changes in a sandbox,
// files for a workspace, packages of programs.
func users() []Options {
	return []Options{
		{Replace: true, Follow: true, OpaqueMark: "user.overlay.opaque"},
		{Replace: true, InheritOwner: true},
		{Replace: true, ReplaceParents: true, Unprivileged: true},
		{},
	}
}

func header(kind byte, name, link string) tar.Header {
	return tar.Header{Typeflag: kind, Name: name, Linkname: link, Mode: 0o755}
}

// lay unpacks into a folder with a link that leads to a file outside, which nothing may
// touch, and returns the folder.
func lay(t testing.TB, archive []byte, o Options) (string, error) {
	t.Helper()
	top := t.TempDir()
	in, out := filepath.Join(top, "in"), filepath.Join(top, "out")
	err := errors.Join(os.MkdirAll(in+"/old/below", 0o755), os.Mkdir(out, 0o755), os.WriteFile(out+"/victim", []byte("safe"), 0o640),
		os.Symlink("../out", in+"/up"), os.Symlink(out, in+"/away"), os.Symlink(out+"/victim", in+"/old/victim"))
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(out + "/victim")
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.Open(in)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	failed := Tar(context.Background(), folder, bytes.NewReader(archive), o)
	names, err := os.ReadDir(top)
	outside, err2 := os.ReadDir(out)
	content, err3 := os.ReadFile(out + "/victim")
	after, err4 := os.Stat(out + "/victim")
	if err := errors.Join(err, err2, err3, err4); err != nil || len(names) != 2 || len(outside) != 1 || string(content) != "safe" ||
		after.Mode() != before.Mode() || !after.ModTime().Equal(before.ModTime()) {
		t.Fatalf("outside: %v, %v, %q, %v (%v)", names, outside, content, after, err)
	}
	_ = filepath.WalkDir(in, func(name string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(name, 0o700) // so that it can be removed
		}
		if info, err := os.Lstat(name); err == nil && os.SameFile(info, after) {
			t.Errorf("%s is the file outside", name)
		}
		return nil
	})
	return in, failed
}

// TestNoWayOut: each of these writes outside where names and links are followed.
func TestNoWayOut(t *testing.T) {
	t.Parallel()
	for name, entries := range map[string][]tar.Header{
		"dots":         {header(tar.TypeReg, "a/../../out/victim", "x")},
		"a slash":      {header(tar.TypeReg, "/out/victim", "x")},
		"a link":       {header(tar.TypeSymlink, "l", "../out"), header(tar.TypeReg, "l/victim", "x")},
		"one there":    {header(tar.TypeReg, "up/victim", "x"), header(tar.TypeReg, "away/new", "x")},
		"a mode":       {header(tar.TypeDir, "away", ""), header(tar.TypeDir, "up", ""), header(tar.TypeReg, "old/victim", "x")},
		"a hard link":  {header(tar.TypeLink, "h", "up/victim"), header(tar.TypeLink, "h", "../out/victim"), header(tar.TypeReg, "h", "x")},
		"a removal":    {header(tar.TypeBlock, "up/victim", ""), header(tar.TypeBlock, "away", ""), header(tar.TypeBlock, "../out", "")},
		"a mark":       {header(tar.TypeChar, "up/new", ""), header(tar.TypeChar, "old/victim", "")},
		"a parent":     {header(tar.TypeReg, "up/a/b", "x"), header(tar.TypeDir, "away/a/b", "")},
		"a loop":       {header(tar.TypeSymlink, "l", "l"), header(tar.TypeReg, "l/a", "x")},
		"a pipe":       {header(tar.TypeFifo, "p", ""), header(tar.TypeReg, "p/a", "x"), header(tar.TypeReg, "p", "x")},
		"the folder":   {header(tar.TypeDir, ".", ""), header(tar.TypeSymlink, ".", "../out")},
		"a file above": {header(tar.TypeReg, "f", "x"), header(tar.TypeReg, "f/a", "x")},
	} {
		for i, o := range users() {
			o.Plan, o.Entries, o.Bytes, o.Archive, o.Depth = permissive, 100, 1<<20, 1<<20, 8
			for n := range entries { // each also first
				if _, err := lay(t, tartest.Pack(t, entries[n:]...), o); err != nil {
					t.Logf("%s, %d: %v", name, i, err)
				}
			}
		}
	}
}

// TestClosed: options that say nothing take nothing.
func TestClosed(t *testing.T) {
	t.Parallel()
	var refused *Refused
	if _, err := lay(t, tartest.Pack(t, header(tar.TypeReg, "a", "x")), Options{Plan: permissive}); !errors.As(err, &refused) {
		t.Errorf("without bounds: %v", err)
	}
	o := Options{Plan: func(*tar.Header) (Entry, error) { return Entry{}, nil }, Entries: 1, Bytes: 9, Archive: math.MaxInt64}
	if in, err := lay(t, tartest.Pack(t, header(tar.TypeReg, "a", "x")), o); err != nil {
		t.Errorf("an entry that is left out: %v", err)
	} else if _, err := os.Lstat(in + "/a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is there: %v", err)
	}
	o.Plan = permissive
	for _, name := range []string{"old", "up"} {
		if _, err := lay(t, tartest.Pack(t, header(tar.TypeReg, name, "x")), o); !errors.Is(err, unix.EEXIST) {
			t.Errorf("in the place of %s: %v", name, err)
		}
	}
}

// TestUnprivileged: who may only do what the owner of a tree may opens its closed folders
// and closes them again; of a tree that is closed itself it says so.
func TestUnprivileged(t *testing.T) {
	t.Parallel()
	in := filepath.Join(t.TempDir(), "in")
	if err := errors.Join(os.MkdirAll(in+"/a/b", 0o755), os.Chmod(filepath.Dir(in), 0o755)); err != nil {
		t.Fatal(err)
	}
	folder, err := os.Open(in)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	o := Options{Plan: permissive, Entries: 9, Bytes: 99, Archive: 1 << 20, Depth: 8, Replace: true, ReplaceParents: true, Unprivileged: true}
	put := func(name string, closed ...string) error {
		for _, dir := range []string{"/a/b", "/a", ""} {
			if err := errors.Join(chownAsRoot(in+dir), os.Chmod(in+dir, 0o755)); err != nil {
				t.Fatal(err)
			}
		}
		for _, dir := range closed {
			if err := os.Chmod(in+dir, 0); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan error, 1)
		archive := tartest.Pack(t, header(tar.TypeReg, name, "x"))
		go func() {
			runtime.LockOSThread() // for good: the thread ends with its goroutine, and with what it gave up
			if os.Geteuid() == 0 {
				if _, err := unix.SetfsuidRetUid(nobody); err != nil {
					done <- err
					return
				}
			}
			done <- Tar(context.Background(), folder, bytes.NewReader(archive), o)
		}()
		return <-done
	}
	if err := put("a/b/c", "/a/b", "/a"); err != nil {
		t.Errorf("below closed folders: %v", err)
	}
	for _, dir := range []string{"/a", "/a/b"} {
		if info, err := os.Stat(in + dir); err != nil || info.Mode().Perm() != 0 {
			t.Errorf("%s: %v, %v", dir, info, err)
		}
		if err := os.Chmod(in+dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(in + "/a/b/c"); err != nil || string(b) != "x" {
		t.Errorf("the file: %q, %v", b, err)
	}
	if err := put("d", ""); !errors.Is(err, unix.EACCES) {
		t.Errorf("a tree that is closed itself: %v", err)
	}
	if err := os.Chmod(in, 0o755); err != nil {
		t.Fatal(err)
	}
}

// nobody is a user without rights, whom root becomes.
const nobody = 65534

func chownAsRoot(name string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Chown(name, nobody, nobody)
}

// FuzzTar: whatever an archive says and whoever unpacks it, nothing outside is made,
// changed, removed or linked to, what is laid is within the bounds, and it can be removed.
func FuzzTar(f *testing.F) {
	for _, entries := range [][]tar.Header{
		{header(tar.TypeDir, "a/", ""), header(tar.TypeReg, "a/b", "x"), header(tar.TypeSymlink, "c", "/a"), header(tar.TypeReg, "c/d", "x"), header(tar.TypeChar, "e", "")},
		{header(tar.TypeSymlink, "l", "../out"), header(tar.TypeReg, "l/victim", "x"), header(tar.TypeLink, "b", "l/victim")},
		{header(tar.TypeReg, "up/victim", "x"), header(tar.TypeBlock, "away/victim", ""), header(tar.TypeReg, "../out/victim", "x")},
		{header(tar.TypeReg, "a/b", "x"), header(tar.TypeReg, "a", "x"), header(tar.TypeLink, "c", "a"), header(tar.TypeBlock, "a", "")},
		{{Typeflag: tar.TypeXGlobalHeader, Name: "g", PAXRecords: map[string]string{"path": "../x"}}, header(tar.TypeDir, "old", ""), header(tar.TypeFifo, "old/below", "")},
	} {
		for user := range users() {
			f.Add(tartest.Pack(f, entries...), uint8(user))
		}
	}
	f.Add([]byte{}, uint8(0))
	f.Fuzz(func(t *testing.T, archive []byte, user uint8) {
		o := users()[int(user)%len(users())]
		total := int64(0)
		o.Entries, o.Bytes, o.Archive, o.Depth = 50, 1<<16, 1<<20, 8
		o.Plan = func(h *tar.Header) (Entry, error) {
			e, err := permissive(h)
			if e.Kind == File && !Sparse(h) {
				total += h.Size
			}
			return e, err
		}
		in, err := lay(t, archive, o)
		if err == nil && total > o.Bytes {
			t.Errorf("%d bytes were taken", total)
		}
		if err := os.RemoveAll(in); err != nil {
			t.Error(err)
		}
	})
}
