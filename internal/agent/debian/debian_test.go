package debian

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ulikunitz/xz"

	"securebench/internal/registry"
	"securebench/internal/source"
	"securebench/internal/tartest"
)

// packed is a package whose files are compressed, by the end of their archive's name.
func packed(tb testing.TB, kind string, entries ...tar.Header) []byte {
	tb.Helper()
	data := tartest.Pack(tb, entries...)
	var b bytes.Buffer
	var err error
	switch kind {
	case ".gz":
		w := gzip.NewWriter(&b)
		_, err = w.Write(data)
		err = errors.Join(err, w.Close())
	case ".xz":
		var w *xz.Writer
		if w, err = xz.NewWriter(&b); err == nil {
			_, err = w.Write(data)
			err = errors.Join(err, w.Close())
		}
	default:
		b.Write(data)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return archive("debian-binary", "2.0\n", "control.tar.xz", "odd", "data.tar"+kind, b.String())
}

// archive is one of ar.
func archive(members ...string) []byte {
	var b bytes.Buffer
	b.WriteString(arMagic)
	for i := 0; i < len(members); i += 2 {
		fmt.Fprintf(&b, "%-16s%-12d%-6d%-6d%-8s%-10d%s%s", members[i], 0, 0, 0, "100644", len(members[i+1]), arEnd, members[i+1])
		if len(members[i+1])%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

// laid unpacks a package, and returns what is in the folder.
func laid(t *testing.T, root *os.Root, deb []byte, place func(string) string) (string, error) {
	t.Helper()
	err := Unpack(context.Background(), deb, root, place)
	var out []string
	_ = fs.WalkDir(source.FS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		text, _ := root.ReadFile(name)
		out = append(out, fmt.Sprintf("%s:%o:%s", name, info.Mode().Perm(), text))
		return err
	})
	return strings.Join(out, " "), err
}

func opened(t *testing.T, dir string) *os.Root {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

// inLib places the libraries, under any processor's folder.
func inLib(name string) string {
	if rest, ok := strings.CutPrefix(name, "lib/"); ok {
		return path.Join("l", path.Base(rest))
	}
	return ""
}

// TestUnpack: files lie where they are placed, however they are compressed, and links are
// files. What two packages bring is that of the first.
func TestUnpack(t *testing.T) {
	t.Parallel()
	files := []tar.Header{
		{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755}, {Typeflag: tar.TypeDir, Name: "./lib/", Mode: 0o755},
		{Typeflag: tar.TypeSymlink, Name: "./lib/a/libz.so.1", Linkname: "libz.so.1.2"},
		{Typeflag: tar.TypeReg, Name: "./lib/a/libz.so.1.2", Linkname: "z", Mode: 0o644},
		{Typeflag: tar.TypeReg, Name: "./lib/a/ld.so", Linkname: "loader", Mode: 0o4755},
		{Typeflag: tar.TypeLink, Name: "./lib/a/ld.old", Linkname: "./lib/a/ld.so"},
		{Typeflag: tar.TypeSymlink, Name: "./lib/elsewhere", Linkname: "/etc/passwd"},
		{Typeflag: tar.TypeReg, Name: "./usr/share/man", Linkname: "left out", Mode: 0o644},
	}
	const want = "l/ld.old:755:loader l/ld.so:755:loader l/libz.so.1:644:z l/libz.so.1.2:644:z"
	for _, kind := range []string{"", ".gz", ".xz"} {
		root := opened(t, t.TempDir())
		if got, err := laid(t, root, packed(t, kind, files...), inLib); err != nil || got != want {
			t.Errorf("%q: %s, %v", kind, got, err)
		}
		other := packed(t, kind, tar.Header{Typeflag: tar.TypeReg, Name: "./lib/b/ld.so", Linkname: "another", Mode: 0o644})
		if got, err := laid(t, root, other, inLib); err != nil || got != want {
			t.Errorf("%q, and another package: %s, %v", kind, got, err)
		}
	}
}

// TestHostilePackages: nothing lies outside of the folder, and nothing in it is a link or a
// device. A way of unpacking that does what the package says leads out.
func TestHostilePackages(t *testing.T) {
	t.Parallel()
	everywhere := func(name string) string { return name }
	for name, entries := range map[string][]tar.Header{
		"a name that leads out":   {{Typeflag: tar.TypeReg, Name: "./../out", Linkname: "evil"}},
		"an absolute name":        {{Typeflag: tar.TypeReg, Name: "/../out", Linkname: "evil"}},
		"a link that leads out":   {{Typeflag: tar.TypeSymlink, Name: "./lib", Linkname: ".."}, {Typeflag: tar.TypeReg, Name: "./lib/out", Linkname: "evil"}},
		"a link to a file of all": {{Typeflag: tar.TypeReg, Name: "./a", Linkname: "a"}, {Typeflag: tar.TypeSymlink, Name: "./b", Linkname: "../../../../etc/passwd"}},
		"a device":                {{Typeflag: tar.TypeChar, Name: "./null", Devmajor: 1, Devminor: 3}},
		"a pipe":                  {{Typeflag: tar.TypeFifo, Name: "./pipe"}},
	} {
		dir := t.TempDir()
		inside := filepath.Join(dir, "tree")
		if err := os.Mkdir(inside, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := Unpack(context.Background(), packed(t, "", entries...), opened(t, inside), everywhere); err != nil && !errors.Is(err, ErrPackage) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(filepath.Join(dir, "out")); err == nil {
			t.Errorf("%s: there is a file outside", name)
		}
		_ = filepath.WalkDir(inside, func(at string, d fs.DirEntry, err error) error {
			text, _ := os.ReadFile(at)
			if err != nil || !d.IsDir() && !d.Type().IsRegular() || bytes.Contains(text, []byte("root:")) {
				t.Errorf("%s: %s, %v", name, at, err)
			}
			return nil
		})
		if strings.HasPrefix(name, "a link that") && !obedient(t, dir, entries) {
			t.Errorf("%s: the attack leads nowhere: the test shows nothing", name)
		}
	}
	for name, deb := range map[string][]byte{
		"no package": []byte("evil"), "no files": archive("debian-binary", "2.0\n"), "cut": cutShort(packed(t, ".xz", tar.Header{Typeflag: tar.TypeReg, Name: "./a", Size: 1 << 16})),
		"a size that is too large": archive("data.tar", "x")[:40], "unknown compression": archive("data.tar.evil", "x"),
	} {
		if err := Unpack(context.Background(), deb, opened(t, t.TempDir()), everywhere); !errors.Is(err, ErrPackage) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func cutShort(deb []byte) []byte { return deb[:len(deb)-20] }

// obedient unpacks entries as they say, and reports whether something lies outside.
func obedient(t *testing.T, dir string, entries []tar.Header) bool {
	t.Helper()
	for _, h := range entries {
		at := filepath.Join(dir, "tree", h.Name)
		_ = os.RemoveAll(at)
		err := os.Symlink(h.Linkname, at)
		if h.Typeflag == tar.TypeReg {
			err = os.WriteFile(at, []byte(h.Linkname), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := os.Lstat(filepath.Join(dir, "out"))
	return err == nil
}

func FuzzUnpack(f *testing.F) {
	f.Add(packed(f, "", tar.Header{Typeflag: tar.TypeReg, Name: "./lib/a", Linkname: "x"}, tar.Header{Typeflag: tar.TypeSymlink, Name: "./lib/b", Linkname: "a"}))
	f.Add(packed(f, "", tar.Header{Typeflag: tar.TypeLink, Name: "./lib/../../b", Linkname: "../../etc/passwd"}))
	f.Fuzz(func(t *testing.T, deb []byte) {
		if bytes.Contains(deb, []byte(".xz")) {
			return // how much memory it asks for is believed
		}
		dir := t.TempDir()
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		_ = Unpack(context.Background(), deb, root, func(name string) string { return name })
		_ = filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !d.Type().IsRegular() {
				t.Errorf("%s is neither a file nor a folder", at)
			}
			return nil
		})
	})
}

// TestMirrors: the variable names mirrors, and else apt's sources do, in both of their
// forms, before the default.
func TestMirrors(t *testing.T) {
	t.Parallel()
	apt := t.TempDir()
	if err := os.MkdirAll(filepath.Join(apt, "sources.list.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"sources.list":               "# deb http://no.example/debian x main\ndeb [arch=amd64 signed-by=/k] http://one.example/debian bookworm main\ndeb https://vendor.example/apt stable main\n",
		"sources.list.d/two.sources": "Types: deb\nURIs: https://two.example/mirror/debian/ https://two.example/debian-security\nSuites: trixie\n",
	} {
		if err := os.WriteFile(filepath.Join(apt, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		variable string
		want     []string
	}{
		{"", []string{"http://one.example/debian/", "https://two.example/mirror/debian/", defaultMirror + "/"}},
		{"https://a.example/debian http://b.example", []string{"https://a.example/debian/", "http://b.example/"}},
		{"ftp://a.example/debian", nil},
		{"file:///srv", nil},
		{"https://a.example/?x=y", nil},
	} {
		got, err := mirrors(func(string) string { return c.variable }, apt)
		var names []string
		for _, u := range got {
			names = append(names, u.String())
		}
		if !slices.Equal(names, c.want) || (err == nil) != (c.want != nil) {
			t.Errorf("%q: %q, %v", c.variable, names, err)
		}
	}
}

// TestFetch: a package comes from the first mirror that has it as it is pinned. One with
// other content is not taken.
func TestFetch(t *testing.T) {
	t.Parallel()
	content := "a package"
	serve := func(text string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/debian/pool/a.deb" || text == "" {
				http.NotFound(w, r)
				return
			}
			fmt.Fprint(w, text)
		}))
		t.Cleanup(s.Close)
		return s.URL + "/debian"
	}
	none, other, right := serve(""), serve("another"), serve(content)
	for mirrors, want := range map[string]error{
		right: nil, none + " " + right: nil, other + " " + right: nil, none: registry.ErrNotFound, other: ErrIntegrity, "http://127.0.0.1:1": registry.ErrUnreachable,
	} {
		c, err := Open(func(name string) string { return map[string]string{mirrorVar: mirrors}[name] }, time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		data, err := c.Fetch(context.Background(), Package{File: "pool/a.deb", SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(content)))})
		c.Close()
		if !errors.Is(err, want) || want == nil && (err != nil || string(data) != content) || want != nil && data != nil {
			t.Errorf("%s: %q, %v, want %v", mirrors, data, err, want)
		}
	}
}
