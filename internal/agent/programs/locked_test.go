package programs

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"

	"securebench/internal/agent/catalogue"
	"securebench/internal/agent/debian"
	"securebench/internal/fault"
	"securebench/internal/tartest"
)

// shelf serves files of the Python registry and of a mirror of Debian on this machine.
type shelf struct {
	*httptest.Server
	mu    sync.Mutex
	files map[string][]byte // by the last part of their address
	asked int
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	s := &shelf{files: map[string][]byte{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked++
		if data, ok := s.files[path.Base(r.URL.Path)]; ok {
			_, _ = w.Write(data)
			return
		}
		for name, data := range s.files { // the page of a project
			if strings.HasPrefix(name, path.Base(r.URL.Path)+"-") {
				fmt.Fprintf(w, `<a href="/files/%s#sha256=%x">%s</a>`, name, sha256.Sum256(data), name)
			}
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *shelf) set(name string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[name] = data
}

// count is how often it was asked.
func (s *shelf) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// wheel adds a wheel of a project, whose program prints its version.
func (s *shelf) wheel(t *testing.T, project, version string, more ...string) (requirement string) {
	t.Helper()
	files := append([]string{project + "/__init__.py", "version = " + version,
		project + "-" + version + ".dist-info/entry_points.txt", "[console_scripts]\n" + project + " = " + project + ":main\n"}, more...)
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		w, err := z.Create(files[i])
		if err == nil {
			_, err = w.Write([]byte(files[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	s.set(project+"-"+version+"-py3-none-any.whl", b.Bytes())
	return fmt.Sprintf("%s==%s --hash=sha256:%x\n", project, version, sha256.Sum256(b.Bytes()))
}

// cache is one whose registries are the shelf.
func (s *shelf) cache(t *testing.T, dir string) *Cache {
	t.Helper()
	c := open(t, dir, "http://127.0.0.1:1/")
	c.getenv = func(name string) string {
		return map[string]string{"PIP_CONFIG_FILE": "/dev/null", "PIP_INDEX_URL": s.URL + "/simple", "SECUREBENCH_DEBIAN_MIRROR": s.URL + "/debian"}[name]
	}
	return c
}

// pythonOf describes a Python program.
func pythonOf(requirements string) catalogue.Package {
	return catalogue.Package{Name: "tool", PyPI: "tool", Start: "bin/tool", Runtime: pythonRuntime(), Requirements: requirements}
}

// pythonRuntime is a Python of the catalogue.
func pythonRuntime() string {
	for _, r := range catalogue.Runtimes() {
		if r.Debian != nil {
			return r.Name + "@" + r.Exact
		}
	}
	return ""
}

// TestPythonProgram: a Python program is laid out as a virtual environment of its Python,
// whose interpreter is started by its own loader. What is pinned is the only version, and
// needs no registry once it is there; other pins have a folder of their own.
func TestPythonProgram(t *testing.T) {
	t.Parallel()
	s, ctx := newShelf(t), context.Background()
	first := s.wheel(t, "tool", "1.0.0") + s.wheel(t, "needed", "2.0")
	c := s.cache(t, t.TempDir())
	r, err := c.Resolve(ctx, pythonOf(first), "latest", amd64(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	got := content(t, c, r)
	for _, want := range []string{
		"bin/python3:755:#!/bin/sh\n", `exec "$python"/lib/ld-linux-*.so.* --library-path "$python/lib" --argv0 "$0" "$python/bin/python3.`,
		"bin/tool:755:#!/usr/bin/env python3\n", "/site-packages/needed/__init__.py:644:version = 2.0",
		"pyvenv.cfg:644:home = /opt/securebench/python/bin\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the tree lacks %s:\n%s", want, got)
		}
	}
	asked := s.count()
	if again, err := c.Resolve(ctx, pythonOf(first), "1.0.0", Platform{OS: "linux", Arch: "amd64", Musl: true}, func(string) {}); err != nil || again != r || s.count() != asked {
		t.Errorf("from the cache: %+v, %v, asked %d times", again, err, s.count()-asked)
	}
	for _, other := range []string{"1.1.0", "next"} {
		if _, err := c.Resolve(ctx, pythonOf(first), other, amd64(), func(string) {}); fault.KindOf(err) != fault.Config || !strings.Contains(err.Error(), "the catalogue pins 1.0.0") {
			t.Errorf("version %s: %v", other, err)
		}
	}
	second := strings.SplitAfter(first, "\n")[0] + s.wheel(t, "needed", "2.1")
	other, err := c.Resolve(ctx, pythonOf(second), "latest", amd64(), func(string) {})
	if err != nil || other.Key() == r.Key() || !strings.Contains(content(t, c, other), "version = 2.1") {
		t.Errorf("with other pins: %+v, %v", other, err)
	}
	if got := content(t, c, r); !strings.Contains(got, "version = 2.0") {
		t.Errorf("the former one has changed: %s", got)
	}
	if gone, err := c.Remove(ctx, "tool", "1.0.0"); err != nil || len(gone) != 2 {
		t.Errorf("removed %+v, %v", gone, err)
	}
}

// TestBadPythonPrograms: what is not as it is pinned is not kept, and no wheel brings the
// interpreter.
func TestBadPythonPrograms(t *testing.T) {
	t.Parallel()
	s, ctx := newShelf(t), context.Background()
	honest := s.wheel(t, "tool", "1.0.0")
	evil := s.wheel(t, "evil", "1.0", "evil-1.0.data/scripts/python3", "#!/bin/sh\necho evil")
	changed := s.wheel(t, "changed", "1.0")
	s.set("changed-1.0-py3-none-any.whl", []byte("evil"))
	for name, c := range map[string]struct {
		requirements, want string
		kind               fault.Kind
	}{
		"honest":                  {honest, "", ""},
		"a wheel with a python3":  {honest + evil, "not a usable package: it brings bin/python3", fault.Integrity},
		"a wheel that is another": {honest + changed, "the registry has no file with one of its digests", fault.Config},
		"no such project":         {honest + strings.Replace(honest, "tool", "absent", 1), "absent==1.0.0", fault.Config},
		"not the program":         {changed, "tool is not among them", fault.Config},
	} {
		t.Run(name, func(t *testing.T) {
			cache := s.cache(t, t.TempDir())
			_, err := cache.Resolve(ctx, pythonOf(c.requirements), "latest", amd64(), func(string) {})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || fault.KindOf(err) != c.kind) {
				t.Errorf("%v, want %s", err, c.want)
			}
			if list, err := cache.List(); err != nil || len(list) > 0 != (c.want == "") {
				t.Errorf("the cache has %+v, %v", list, err)
			}
		})
	}
}

// TestDebianProgram: a runtime is laid out of packages of Debian, each as it is pinned.
func TestDebianProgram(t *testing.T) {
	t.Parallel()
	s, ctx := newShelf(t), context.Background()
	add := func(name string, files ...tar.Header) debian.Package {
		data := tartest.Pack(t, files...)
		deb := []byte(fmt.Sprintf("!<arch>\n%-48s%-10d`\n%s", "data.tar", len(data), data))
		s.set(name, deb)
		return debian.Package{File: "pool/main/" + name, SHA256: fmt.Sprintf("%x", sha256.Sum256(deb))}
	}
	p := catalogue.Package{Name: "python", Exact: "3.1.0", Start: "bin/python3.1",
		Files: []catalogue.Placement{{From: "usr/bin/python3.1", To: "bin/python3.1"}, {From: "lib/*/", To: "lib"}},
		Debian: map[string][]debian.Package{"amd64": {
			add("python.deb", tar.Header{Typeflag: tar.TypeReg, Name: "./usr/bin/python3.1", Linkname: "python", Mode: 0o755}),
			add("libc.deb", tar.Header{Typeflag: tar.TypeReg, Name: "./lib/x/libc.so.6.0", Linkname: "libc", Mode: 0o644},
				tar.Header{Typeflag: tar.TypeSymlink, Name: "./lib/x/libc.so.6", Linkname: "libc.so.6.0"}),
		}}}
	c := s.cache(t, t.TempDir())
	r, err := c.Resolve(ctx, p, "latest", amd64(), func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if got := content(t, c, r); got != "bin/:755: bin/python3.1:755:python lib/:755: lib/libc.so.6:644:libc lib/libc.so.6.0:644:libc" {
		t.Errorf("the tree: %s", got)
	}
	s.set("libc.deb", []byte("evil"))
	if _, err := s.cache(t, t.TempDir()).Resolve(ctx, p, "latest", amd64(), func(string) {}); fault.KindOf(err) != fault.Integrity {
		t.Errorf("another content: %v", err)
	}
	s.set("libc.deb", nil)
	if _, err := s.cache(t, t.TempDir()).Resolve(ctx, p, "latest", amd64(), func(string) {}); fault.KindOf(err) != fault.Integrity {
		t.Errorf("an empty file in its place: %v", err)
	}
	s.Close()
	if _, err := s.cache(t, t.TempDir()).Resolve(ctx, p, "latest", amd64(), func(string) {}); fault.KindOf(err) != fault.Infrastructure || !strings.Contains(err.Error(), "name a mirror of Debian in SECUREBENCH_DEBIAN_MIRROR") {
		t.Errorf("no mirror: %v", err)
	}
}

// TestPlaceWheel: the files of wheels lie where Python looks for them, without those that
// the description leaves out.
func TestPlaceWheel(t *testing.T) {
	t.Parallel()
	all := pythonOf("x==1.0 --hash=sha256:" + strings.Repeat("0", 64) + "\ntool==1.0 --hash=sha256:" + strings.Repeat("0", 64) + "\n")
	some := all
	some.Files = []catalogue.Placement{{From: "lib/", To: "lib", Except: []string{"x/tests/"}}, {From: "bin/tool", To: "bin/tool"}}
	l, locked, err := all.Locked("amd64")
	if err != nil || !locked {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, all, some string }{
		{"lib/x/a.py", l.ModulesOf() + "/x/a.py", l.ModulesOf() + "/x/a.py"},
		{"lib/x/tests/a.py", l.ModulesOf() + "/x/tests/a.py", ""},
		{"bin/tool", "bin/tool", "bin/tool"},
		{"bin/other", "bin/other", ""},
		{"data/share/man/a", "share/man/a", ""},
	} {
		if got := placeWheel(all, l, c.name); got != c.all {
			t.Errorf("%s lies at %q, want %q", c.name, got, c.all)
		}
		if got := placeWheel(some, l, c.name); got != c.some {
			t.Errorf("of some, %s lies at %q, want %q", c.name, got, c.some)
		}
	}
}
