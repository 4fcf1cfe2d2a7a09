package layer

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// entry is a header with content.
type entry struct {
	tar.Header
	content string
}

func file(name, content string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, content}
}

func dir(name string) entry {
	return entry{tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}, ""}
}

func link(kind byte, name, to string) entry {
	return entry{tar.Header{Typeflag: kind, Name: name, Linkname: to, Mode: 0o777}, ""}
}

func pack(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		e.Size = int64(len(e.content))
		e.Uid, e.Gid = max(e.Uid, own().Uid), max(e.Gid, own().Gid)
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// own are the IDs of files that tests can make without root.
func own() tar.Header { return tar.Header{Uid: os.Geteuid(), Gid: os.Getegid()} }

func options() Options {
	o := Options{Limits: DefaultLimits(), Opaque: OpaqueTrusted, Owners: os.Geteuid() == 0}
	if os.Geteuid() != 0 {
		o.Opaque = OpaqueUser
	}
	return o
}

func ours(data []byte) func(string) error {
	return func(dir string) error {
		_, err := Unpack(context.Background(), bytes.NewReader(data), dir, options())
		return err
	}
}

// unpacked unpacks into a folder "in" of a new folder, beside which nothing may
// appear, and describes what is in the new folder.
func unpacked(t testing.TB, do func(dir string) error) (map[string]string, error) {
	t.Helper()
	top := t.TempDir()
	if err := os.Mkdir(filepath.Join(top, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	failed := do(filepath.Join(top, "in"))
	found := map[string]string{}
	err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == top || name == filepath.Join(top, "in") {
			return err
		}
		rel, err := filepath.Rel(top, name)
		if err != nil {
			return err
		}
		found[rel], err = describe(name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found, failed
}

func describe(name string) (string, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return "", err
	}
	switch st, ok := info.Sys().(*syscall.Stat_t); {
	case ok && info.Mode()&fs.ModeCharDevice != 0 && st.Rdev == 0:
		return "whiteout", nil
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(name)
		return "-> " + to, err
	case info.Mode().IsRegular():
		b, err := os.ReadFile(name)
		return string(b), err
	}
	out := info.Mode().Type().String()
	for _, a := range []string{OpaqueTrusted, OpaqueUser} {
		value := make([]byte, 1)
		if n, err := unix.Lgetxattr(name, a, value); err == nil && n == 1 && value[0] == 'y' {
			out += " opaque"
		}
	}
	return out, nil
}

// naive unpacks as many programs did: it follows what names and links say.
func naive(data []byte) func(string) error {
	return func(dir string) error {
		for in := tar.NewReader(bytes.NewReader(data)); ; {
			h, err := in.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
				return err
			}
			to := filepath.Join(dir, h.Name)
			switch h.Typeflag {
			case tar.TypeDir:
				os.MkdirAll(to, 0o755)
			case tar.TypeSymlink:
				os.Symlink(h.Linkname, to)
			case tar.TypeLink:
				os.Link(filepath.Join(dir, h.Linkname), to)
			case tar.TypeReg:
				if f, err := os.Create(to); err == nil {
					io.Copy(f, in)
					f.Close()
				}
			}
		}
	}
}

// TestNothingLeaves: each of these writes or reads outside the folder where it is
// unpacked naively. Here each is refused or stays inside, and its twin, which does
// the same within the layer, is unpacked.
func TestNothingLeaves(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	up := strings.Repeat("../", 40) + strings.TrimPrefix(filepath.Dir(outside), "/")
	for name, c := range map[string]struct {
		attack, twin []entry
	}{
		"dots":                {[]entry{dir("a"), file("a/../../out", "x")}, []entry{dir("a"), file("a/out", "x")}},
		"dots at the start":   {[]entry{file("../out", "x")}, []entry{file("..out", "x")}},
		"a link as parent":    {[]entry{link(tar.TypeSymlink, "a", ".."), file("a/out", "x")}, []entry{dir("b"), link(tar.TypeSymlink, "a", "b"), file("a/out", "x")}},
		"an absolute link":    {[]entry{link(tar.TypeSymlink, "a", filepath.Dir(outside)), file("a/victim", "x")}, []entry{dir("b"), link(tar.TypeSymlink, "a", "/b"), file("a/victim", "x")}},
		"a link to a file":    {[]entry{link(tar.TypeSymlink, "a", outside), file("a", "x")}, []entry{file("b", ""), link(tar.TypeSymlink, "a", "b"), file("a", "x")}},
		"a hard link":         {[]entry{link(tar.TypeLink, "a", up+"/victim")}, []entry{file("b", ""), link(tar.TypeLink, "a", "b")}},
		"then written":        {[]entry{link(tar.TypeLink, "a", up+"/victim"), file("a", "x")}, []entry{file("b", ""), link(tar.TypeLink, "a", "b"), file("a", "x")}},
		"a hard link by link": {[]entry{link(tar.TypeSymlink, "l", filepath.Dir(outside)), link(tar.TypeLink, "a", "l/victim")}, []entry{dir("d"), file("d/victim", ""), link(tar.TypeSymlink, "l", "/d"), link(tar.TypeLink, "a", "l/victim")}},
		"whiteout of dots":    {[]entry{file(".wh...", "")}, []entry{file(".wh.a", "")}},
		"whiteout of a dot":   {[]entry{dir("a"), file("a/.wh..", "")}, []entry{dir("a"), file("a/.wh...a", "")}},
		"whiteout of nothing": {[]entry{file(".wh.", "")}, []entry{file(".wh.b", "")}},
		"whiteout by a link":  {[]entry{link(tar.TypeSymlink, "a", ".."), file("a/.wh.in", "")}, []entry{dir("b"), link(tar.TypeSymlink, "a", "b"), file("a/.wh.in", "")}},
		"whiteout with dots":  {[]entry{dir("a"), file("a/../../.wh.in", "")}, []entry{dir("a"), file("a/.wh.in", "")}},
		"opaque by a link":    {[]entry{link(tar.TypeSymlink, "a", ".."), file("a/.wh..wh..opq", "")}, []entry{dir("b"), link(tar.TypeSymlink, "a", "b"), file("a/.wh..wh..opq", "")}},
	} {
		found, err := unpacked(t, ours(pack(t, c.attack...)))
		if err != nil && !errors.Is(err, ErrLayer) {
			t.Errorf("%s: got %v", name, err)
		}
		for f := range found {
			if !strings.HasPrefix(f, "in/") {
				t.Errorf("%s: %s was made outside", name, f)
			}
		}
		if b, err := os.ReadFile(outside); err != nil || string(b) != "secret" {
			t.Fatalf("%s: the file outside: %q, %v", name, b, err)
		}
		for f, what := range found {
			if what == "secret" {
				t.Errorf("%s: %s is the file outside", name, f)
			}
		}
		if found, err := unpacked(t, ours(pack(t, c.twin...))); err != nil || len(found) == 0 {
			t.Errorf("%s: its twin: got %v, %v", name, found, err)
		}
	}
	// The attacks work where links and names are followed.
	for _, attack := range [][]entry{{dir("a"), file("a/../../out", "x")}, {link(tar.TypeSymlink, "a", ".."), file("a/out", "x")}} {
		if found, err := unpacked(t, naive(pack(t, attack...))); err != nil || found["out"] != "x" {
			t.Errorf("unpacked naively: got %v, %v", found, err)
		}
	}
	for _, attack := range [][]entry{{link(tar.TypeLink, "a", up+"/victim")}, {link(tar.TypeSymlink, "l", filepath.Dir(outside)), link(tar.TypeLink, "a", "l/victim")}} {
		if found, err := unpacked(t, naive(pack(t, attack...))); err != nil || found["in/a"] != "secret" {
			t.Errorf("a hard link, unpacked naively: got %v, %v", found, err)
		}
	}
}

// TestTree checks what layers become, entry by entry.
func TestTree(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 255)
	fifo := entry{tar.Header{Typeflag: tar.TypeFifo, Name: "f", Mode: 0o600}, ""}
	device := entry{tar.Header{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}, ""}
	forged := entry{tar.Header{Typeflag: tar.TypeChar, Name: "passwd"}, ""}
	for name, c := range map[string]struct {
		entries []entry
		want    map[string]string
	}{
		"folders that have no entry": {[]entry{file("a/b/c", "x")}, map[string]string{"a": "d---------", "a/b": "d---------", "a/b/c": "x"}},
		"absolute names":             {[]entry{file("/a", "x"), dir("./b/")}, map[string]string{"a": "x", "b": "d---------"}},
		"the root":                   {[]entry{dir("./"), dir("/"), file("a", "x")}, map[string]string{"a": "x"}},
		"links":                      {[]entry{link(tar.TypeSymlink, "a", "../../etc"), file("b", "x"), link(tar.TypeLink, "c", "./b"), fifo}, map[string]string{"a": "-> ../../etc", "b": "x", "c": "x", "f": "p---------"}},
		"long names":                 {[]entry{file(long+"/"+long+"/"+long, "x"), link(tar.TypeSymlink, "l", long+"/"+long)}, map[string]string{long: "d---------", long + "/" + long: "d---------", long + "/" + long + "/" + long: "x", "l": "-> " + long + "/" + long}},
		"whiteouts":                  {[]entry{file(".wh.a", ""), file("b/.wh.c", ""), dir("d"), file("d/.wh..wh..opq", ""), file("d/e", "x")}, map[string]string{"a": "whiteout", "b": "d---------", "b/c": "whiteout", "d": "d--------- opaque", "d/e": "x"}},
		"of what the layer has":      {[]entry{file("a", "x"), file(".wh.a", ""), dir("b"), file(".wh.b", ""), file("b/c", "x")}, map[string]string{"a": "x", "b": "d--------- opaque", "b/c": "x"}},
		"before what the layer has":  {[]entry{file(".wh.a", ""), file("a", "x"), file(".wh.b", ""), dir("b"), file(".wh.d", ""), file("d/e", "x")}, map[string]string{"a": "x", "b": "d--------- opaque", "d": "d--------- opaque", "d/e": "x"}},
		"twice":                      {[]entry{file("a", "1"), file("a", "2"), dir("b"), file("b/c", "x"), dir("b"), file("d", "x"), dir("d"), dir("e"), file("e/f", "x"), file("e", "now")}, map[string]string{"a": "2", "b": "d---------", "b/c": "x", "d": "d---------", "e": "now"}},
		"a link, then a folder":      {[]entry{dir("b"), link(tar.TypeSymlink, "a", "b"), dir("a"), file("a/c", "x")}, map[string]string{"a": "d---------", "a/c": "x", "b": "d---------"}},
		"the cached parent replaced": {[]entry{dir("a"), file("a/1", "x"), link(tar.TypeSymlink, "a", "b"), dir("b"), file("a/1", "y")}, map[string]string{"a": "-> b", "b": "d---------", "b/1": "y"}},
		"devices and aufs":           {[]entry{device, forged, file(".wh..wh.plnk/1", "x"), file(".wh..wh.aufs", ""), file("a", "x")}, map[string]string{"a": "x"}},
	} {
		want := map[string]string{}
		for k, v := range c.want {
			want["in/"+k] = v
		}
		if found, err := unpacked(t, ours(pack(t, c.entries...))); err != nil || !maps.Equal(found, want) {
			t.Errorf("%s: got %v, %v", name, found, err)
		}
	}
}

// TestRefused: each is wrong in itself, and a small change makes it right.
func TestRefused(t *testing.T) {
	t.Parallel()
	data := pack(t, file("a", strings.Repeat("x", 2000)))
	deep := strings.Repeat("d/", maxDepth)
	chain := []entry{file(strings.Repeat("d/", 200)+"f", ""), link(tar.TypeSymlink, "l", strings.Repeat("d/", 200))}
	for name, in := range map[string][]byte{
		"cut":                    data[:1000],
		"not an archive":         bytes.Repeat([]byte("x"), 4096),
		"a file as parent":       pack(t, file("a", "x"), file("a/b", "x")),
		"a link to nowhere":      pack(t, link(tar.TypeSymlink, "a", "b"), file("a/b", "x")),
		"links in a ring":        pack(t, link(tar.TypeSymlink, "a", "b"), link(tar.TypeSymlink, "b", "a"), file("a/b", "x")),
		"a link to itself":       pack(t, file("a", ""), link(tar.TypeLink, "a", "a")),
		"a link to no file":      pack(t, link(tar.TypeLink, "a", "b")),
		"a link to a folder":     pack(t, dir("b"), link(tar.TypeLink, "a", "b")),
		"a link to a whiteout":   pack(t, file(".wh.b", ""), link(tar.TypeLink, "a", "b")),
		"a link into what goes":  pack(t, file("d/a", ""), link(tar.TypeLink, "d", "d/a")),
		"a name too long":        pack(t, file(strings.Repeat("n", 256), "")),
		"a path too long":        pack(t, file(strings.Repeat(strings.Repeat("n", 250)+"/", 17)+"f", "")),
		"folders too deep":       pack(t, file(deep+"d/f", "")),
		"too deep through links": pack(t, append(chain, file("l/"+strings.Repeat("e/", 100)+"f", ""))...),
		"below a whiteout":       pack(t, file(".wh.a/b", "x")),
		"a root that is a file":  pack(t, file(".", "x")),
	} {
		_, err := unpacked(t, ours(in))
		if !errors.Is(err, ErrLayer) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := unpacked(t, ours(pack(t, file(deep[2:]+"f", "")))); err != nil {
		t.Errorf("as deep as allowed: %v", err)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	zeros := pack(t, file("a", strings.Repeat("\x00", 1<<20)), file("b", strings.Repeat("\x00", 1<<20)))
	many := pack(t, dir("a"), dir("b"), dir("c"))
	for _, c := range []struct {
		in     []byte
		limits Limits
		ok     bool
	}{
		{zeros, Limits{10, 3 << 20}, true}, {zeros, Limits{10, 2 << 20}, false}, {zeros, Limits{10, 1 << 10}, false},
		{many, Limits{3, 1 << 20}, true}, {many, Limits{2, 1 << 20}, false},
		{append(many, make([]byte, 1<<20)...), Limits{3, 1 << 20}, false}, // what follows the archive counts
	} {
		o := options()
		o.Limits = c.limits
		_, err := Unpack(context.Background(), bytes.NewReader(c.in), t.TempDir(), o)
		if c.ok != (err == nil) || err != nil && !errors.Is(err, ErrLayer) {
			t.Errorf("%v: got %v", c.limits, err)
		}
	}
}

// TestSparseSize: an entry that says it is huge and consists of a hole.
func TestSparseSize(t *testing.T) {
	t.Parallel()
	// The writer makes no sparse files, so it writes other records, which are renamed.
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	content := "0\n" + strings.Repeat("\x00", 510)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "a", Size: int64(len(content)), Format: tar.FormatPAX,
		PAXRecords: map[string]string{"QNU.sparse.major": "1", "QNU.sparse.minor": "0", "QNU.sparse.realsize": "1099511627776", "QNU.sparse.name": "a"}})
	if err == nil {
		_, err = io.WriteString(w, content)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	data := bytes.ReplaceAll(b.Bytes(), []byte("QNU.sparse"), []byte("GNU.sparse"))
	if h, err := tar.NewReader(bytes.NewReader(data)).Next(); err != nil || h.Size != 1<<40 {
		t.Fatalf("the archive is not sparse: %v, %v", h, err)
	}
	found, err := unpacked(t, ours(data))
	if !errors.Is(err, ErrLayer) || len(found) != 0 {
		t.Errorf("got %d files, %v", len(found), err)
	}
}

func TestEnds(t *testing.T) {
	t.Parallel()
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	if _, err := Unpack(ctx, bytes.NewReader(pack(t, dir("a"))), t.TempDir(), options()); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	broken := errors.New("the network is down")
	in := io.MultiReader(bytes.NewReader(pack(t, file("a", "x"))[:700]), failing{broken})
	_, err := Unpack(context.Background(), in, t.TempDir(), options())
	if !errors.Is(err, broken) || errors.Is(err, ErrLayer) {
		t.Errorf("a stream that fails is not the layer's fault: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestAttributes needs root for owners and capabilities.
func TestAttributes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("owners need root")
	}
	t.Parallel()
	when := time.Date(2001, 2, 3, 4, 5, 6, 789, time.UTC)
	const capability = "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	program := file("bin/su", "x")
	program.Mode, program.Uid, program.Gid, program.ModTime, program.Format = 0o4755, 12, 34, when, tar.FormatPAX
	program.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": capability, "SCHILY.xattr.user.note": "n",
		"SCHILY.xattr.trusted.overlay.opaque": "y", "SCHILY.xattr.user.overlay.opaque": "y", "SCHILY.xattr.trusted.overlay.redirect": "/etc",
		"SCHILY.xattr.security.selinux": "x", "SCHILY.xattr.system.posix_acl_access": "x"}
	folder := dir("bin")
	folder.Mode, folder.ModTime, folder.Uid = 0o1777, when, 5
	folder.PAXRecords, folder.Format = map[string]string{"SCHILY.xattr.trusted.overlay.opaque": "y", "SCHILY.xattr.user.overlay.opaque": "y"}, tar.FormatPAX
	sym := link(tar.TypeSymlink, "s", "/etc/passwd")
	sym.Uid, sym.ModTime = 77, when
	old := file("old", "")
	old.ModTime = time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC)
	old.Format = tar.FormatPAX
	dst := t.TempDir()
	sum, err := Unpack(context.Background(), bytes.NewReader(pack(t, folder, program, sym, old)), dst, options())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"bin": "41777 5:0 " + when.String(), "bin/su": "104755 12:34 " + when.String(),
		"s": "120777 77:0 " + when.Truncate(time.Second).String(), "old": "100644 0:0 " + time.Unix(0, 0).UTC().String()} {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(dst, name), &st); err != nil {
			t.Fatal(err)
		}
		mod := time.Unix(st.Mtim.Unix()).UTC()
		if name == "s" || name == "old" {
			mod = mod.Truncate(time.Second)
		}
		if got := fmt.Sprintf("%o %d:%d %s", st.Mode, st.Uid, st.Gid, mod); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	for name, want := range map[string]string{"bin": "", "bin/su": "security.capability user.note"} {
		buffer := make([]byte, 1<<10)
		n, err := unix.Llistxattr(filepath.Join(dst, name), buffer)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Fields(strings.ReplaceAll(string(buffer[:n]), "\x00", " "))
		if strings.Join(got, " ") != want {
			t.Errorf("%s has the attributes %q", name, got)
		}
	}
	if sum.Omitted != 7 || len(sum.LeftOut) != 7 || sum.Bytes != 1 || sum.Entries != 4 {
		t.Errorf("got %+v", sum)
	}
}
