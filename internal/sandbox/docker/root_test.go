package docker

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/moby/client"

	"securebench/internal/bounded"
	"securebench/internal/pathname"
	"securebench/internal/sandbox"
	"securebench/internal/tartest"
)

// TestTypeOfAnUnreadablePath: the engine cannot look at a link that leads in circles
// or too far. Whatever else it cannot do is an error, not a link.
func TestTypeOfAnUnreadablePath(t *testing.T) {
	for says, link := range map[string]bool{
		"FollowSymlinkInScope: too many links in /x": true, "lstat /x/y: file name too long": true,
		"lstat /x: input/output error": false, "devmapper: no such device": false, "": false,
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			http.Error(w, fmt.Sprintf(`{"message":%q}`, says), http.StatusInternalServerError)
		}))
		defer srv.Close()
		api, err := client.New(client.WithHost("tcp://"+srv.Listener.Addr().String()), client.WithAPIVersion("1.41"))
		if err != nil {
			t.Fatal(err)
		}
		b := &box{engine: &Engine{conn: &conn{API: api}}, name: "x"}
		changes := []sandbox.Change{{Path: "/x"}}
		err = b.addTypes(t.Context(), changes)
		if (err == nil) != link || link != (changes[0].Type == sandbox.Symlink) {
			t.Errorf("%q: %q, %v", says, changes[0].Type, err)
		}
	}
}

func renamed(b *box, p string, archive []byte, limit int64) (names []string, err error) {
	var out bytes.Buffer
	lw := &bounded.Writer{W: &out, Left: limit, Err: sandbox.ErrTooLarge}
	tw := tar.NewWriter(lw)
	if err := b.rename(bytes.NewReader(archive), p, tw, lw); err != nil {
		return nil, err
	}
	if err := tw.Close(); err != nil {
		return nil, err
	}
	for tr := tar.NewReader(&out); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return names, err
		}
		names = append(names, strings.TrimSuffix(h.Name+" "+h.Linkname, " "))
	}
}

func TestRename(t *testing.T) {
	b := &box{hidden: []string{"/var/www/mount", "/tmp"}}
	dir := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755} }
	file := func(name string, size int64) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size}
	}
	hard := func(name, to string) tar.Header {
		return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to}
	}
	got, err := renamed(b, "/var/www", tartest.Pack(t, dir("www/"), file("www/a", 9), hard("www/b", "www/a"), dir("www/mount/"),
		file("www/mount/secret", 9), tar.Header{Typeflag: tar.TypeSymlink, Name: "www/out", Linkname: "../../etc"}), 1<<20)
	want := []string{"var/www/", "var/www/a", "var/www/b var/www/a", "var/www/out ../../etc"}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("got %v; names (-want +got):\n%s", err, d)
	}
	got, err = renamed(b, "/", tartest.Pack(t, dir("/"), dir("etc/"), file("etc/x", 1), dir("tmp/"), file("tmp/x", 1)), 1<<20)
	if d := cmp.Diff([]string{"etc/", "etc/x"}, got); err != nil || d != "" {
		t.Errorf("the root: got %v; names (-want +got):\n%s", err, d)
	}
	for name, in := range map[string][]byte{
		"elsewhere": tartest.Pack(t, file("etc/passwd", 1)), "sibling": tartest.Pack(t, file("www2", 1)),
		"leaves": tartest.Pack(t, file("www/../../etc/passwd", 1)), "hard link out": tartest.Pack(t, hard("www/x", "etc/shadow")),
		"too large": tartest.Pack(t, file("www/x", 1<<20)), "cut": tartest.Pack(t, file("www/x", 600))[:600],
	} {
		if got, err := renamed(b, "/var/www", in, 1<<19); err == nil {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func FuzzRename(f *testing.F) {
	f.Add(tartest.Pack(f, tar.Header{Typeflag: tar.TypeDir, Name: "w/", Mode: 0o755}, tar.Header{Typeflag: tar.TypeReg, Name: "w/a", Size: 3}))
	f.Add(tartest.Pack(f, tar.Header{Typeflag: tar.TypeLink, Name: "w/b", Linkname: "w/../x"}))
	f.Fuzz(func(t *testing.T, in []byte) {
		names, err := renamed(&box{hidden: []string{"/v/w/m"}}, "/v/w", in, 1<<16)
		if err != nil {
			return
		}
		for _, name := range names {
			p, _, _ := strings.Cut(name, " ")
			if !pathname.Within("/"+p, "/v/w") || pathname.Within("/"+p, "/v/w/m") || strings.Contains(p, "/../") {
				t.Errorf("an entry is called %q", name)
			}
		}
	})
}

func TestWithoutMountParents(t *testing.T) {
	b := &box{hidden: []string{"/made/for/mount", "/etc/conf"}}
	var in []sandbox.Change
	for _, p := range []string{"/etc", "/etc/other", "/made", "/made/for", "/root"} {
		in = append(in, sandbox.Change{Path: p})
	}
	want := []sandbox.Change{{Path: "/etc"}, {Path: "/etc/other"}, {Path: "/root"}}
	if d := cmp.Diff(want, b.withoutMountParents(in)); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
}
