package wheels

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"securebench/internal/fault"
)

// wheel packs files as a wheel is.
func wheel(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range files {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, "content of "+name)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// sets is a set of one wheel, and its content.
func sets(t *testing.T) (Set, []byte) {
	t.Helper()
	data := wheel(t, "lib/__init__.py", "lib/sub/a.py", "lib/tests/test_a.py", "lib-1.dist-info/LICENSE", "lib-1.dist-info/RECORD", "lib-1.data/scripts/run")
	sum := sha256.Sum256(data)
	return Set{Name: "lib", Version: "1", Wheels: []Wheel{{"lib", "lib-1-py3-none-any.whl", hex.EncodeToString(sum[:])}}}, data
}

// index is a registry that has the wheel as file, whose page is JSON or HTML.
func index(t *testing.T, file []byte, asJSON bool) (*httptest.Server, *atomic.Int64) {
	t.Helper()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		user, password, _ := r.BasicAuth()
		switch {
		case user != "" && user+":"+password != "me:secret":
			w.WriteHeader(http.StatusForbidden)
		case r.URL.Path == "/simple/lib/" && asJSON:
			fmt.Fprint(w, `{"meta": {"api-version": "1.1"}, "files": [{"filename": "lib-1.tar.gz", "url": "x"}, {"filename": "lib-1-py3-none-any.whl", "url": "../../files/lib.whl"}]}`)
		case r.URL.Path == "/simple/lib/":
			fmt.Fprint(w, `<!DOCTYPE html><a href="x">lib-1.tar.gz</a><a href="/files/lib.whl#sha256=00&amp;x" data-requires-python="&gt;=3"> lib-1-py3-none-any.whl </a>`)
		case r.URL.Path == "/files/lib.whl":
			w.Write(file)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s, &asked
}

// open opens a cache whose pip has these settings only.
func open(t *testing.T, dir string, settings map[string]string) *Cache {
	t.Helper()
	c, err := OpenCache(dir, func(name string) string {
		if name == "PIP_CONFIG_FILE" && settings[name] == "" {
			return os.DevNull
		}
		return settings[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	c.pause = time.Millisecond
	t.Cleanup(func() { c.Close() })
	return c
}

func quiet(string) {}

// TestFetch: wheels come from pages of both kinds, with the credentials of the index,
// stay in the cache, and need no registry after that.
func TestFetch(t *testing.T) {
	t.Parallel()
	set, data := sets(t)
	for _, asJSON := range []bool{false, true} {
		reg, asked := index(t, data, asJSON)
		dir := t.TempDir()
		c := open(t, dir, map[string]string{"PIP_INDEX_URL": strings.Replace(reg.URL, "://", "://me:secret@", 1) + "/simple"})
		if err := c.Fetch(t.Context(), set, quiet); err != nil {
			t.Fatal(err)
		}
		if !IsCached(set, func(name string) string { return map[string]string{"SECUREBENCH_WHEEL_CACHE": dir}[name] }) || IsCached(set, func(string) string { return "" }) {
			t.Error("whether it is in the cache is not known")
		}
		if n := asked.Load(); n != 2 || len(c.Missing(set)) != 0 {
			t.Errorf("%d requests, %v is missing", n, c.Missing(set))
		}
		reg.Close()
		if err := c.Fetch(t.Context(), set, quiet); err != nil {
			t.Errorf("from the cache: %v", err)
		}
		if got, want := tree(t, c, set), "lib-1.dist-info/ lib-1.dist-info/LICENSE lib/ lib/__init__.py lib/sub/ lib/sub/a.py"; got != want {
			t.Errorf("the tree is %s, want %s", got, want)
		}
	}
}

// tree lists what a set's tree has.
func tree(t *testing.T, c *Cache, set Set) string {
	t.Helper()
	var b bytes.Buffer
	if err := c.WriteTar(set, &b); err != nil {
		t.Fatal(err)
	}
	var names []string
	for in := tar.NewReader(&b); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return strings.Join(names, " ")
		}
		if err != nil || h.Uid != 0 || h.Mode&0o444 != 0o444 {
			t.Fatalf("%+v, %v", h, err)
		}
		names = append(names, h.Name)
	}
}

// TestTampered: a registry that has other bytes under the name is refused, nothing of
// it is kept, and a damaged cache is filled again.
func TestTampered(t *testing.T) {
	t.Parallel()
	set, data := sets(t)
	evil, _ := index(t, wheel(t, "lib/__init__.py"), true)
	dir := t.TempDir()
	err := open(t, dir, map[string]string{"PIP_INDEX_URL": evil.URL + "/simple"}).Fetch(t.Context(), set, quiet)
	if fault.KindOf(err) != fault.Integrity || !strings.Contains(err.Error(), "digest is another") {
		t.Errorf("a registry that changes wheels: %v", err)
	}
	if names, _ := os.ReadDir(dir); len(names) != 0 {
		t.Errorf("kept: %v", names)
	}
	good, _ := index(t, data, true)
	if err := os.WriteFile(filepath.Join(dir, set.Wheels[0].File), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := open(t, dir, map[string]string{"PIP_INDEX_URL": good.URL + "/simple"})
	if err := c.WriteTar(set, io.Discard); err == nil {
		t.Error("a damaged wheel is unpacked")
	}
	if err := c.Fetch(t.Context(), set, quiet); err != nil || len(c.Missing(set)) != 0 {
		t.Errorf("after the damage: %v", err)
	}
}

// TestOffline: without a registry, one line says what to do; a folder that pip is
// configured with will do.
func TestOffline(t *testing.T) {
	t.Parallel()
	set, data := sets(t)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	dir := t.TempDir()
	err := open(t, dir, map[string]string{"PIP_INDEX_URL": gone.URL}).Fetch(t.Context(), set, quiet)
	if fault.KindOf(err) != fault.Infrastructure || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "or copy the 1 wheels into") {
		t.Errorf("without a registry: %v", err)
	}
	empty := httptest.NewServer(http.NotFoundHandler())
	defer empty.Close()
	err = open(t, dir, map[string]string{"PIP_INDEX_URL": empty.URL}).Fetch(t.Context(), set, quiet)
	if fault.KindOf(err) != fault.Config || !strings.Contains(err.Error(), "check pip's setting index-url") {
		t.Errorf("a registry without it: %v", err)
	}
	local := t.TempDir()
	if err := os.WriteFile(filepath.Join(local, set.Wheels[0].File), data, 0o600); err != nil {
		t.Fatal(err)
	}
	c := open(t, dir, map[string]string{"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": local})
	if err := c.Fetch(t.Context(), set, quiet); err != nil {
		t.Errorf("from a folder: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := open(t, t.TempDir(), map[string]string{"PIP_INDEX_URL": empty.URL}).Fetch(ctx, set, quiet); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestConfiguration: pip's files are read as pip does, and its variables win.
func TestConfiguration(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pip.conf")
	text := "# comment\n[global]\nindex_url = https://one.example/simple/\ntrusted-host =\n    two.example\n    three.example\nextra-index-url: http://two.example/x\n[install]\ncert = no\n[download]\nproxy = http://proxy.example:1\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{"PIP_CONFIG_FILE": file}
	p, err := loadPip(func(name string) string { return vars[name] })
	if err != nil {
		t.Fatal(err)
	}
	urls, err := p.indexes()
	if err != nil || len(urls) != 2 || urls[0].String() != "https://one.example/simple/" || urls[1].String() != "http://two.example/x/" {
		t.Errorf("indexes %v, %v", urls, err)
	}
	if p.get("proxy") != "http://proxy.example:1" || p.get("cert") == "no" {
		t.Errorf("settings %v", p.settings)
	}
	vars["PIP_INDEX_URL"] = "http://plain.example/simple"
	if _, err := p.indexes(); err == nil || !strings.Contains(err.Error(), "must be an https address") {
		t.Errorf("plain HTTP: %v", err)
	}
	vars["PIP_INDEX_URL"] = "nonsense"
	if _, err := p.indexes(); err == nil {
		t.Error("an index that is no address is accepted")
	}
}

// TestMathVerify: every wheel is pinned, and the key names the content.
func TestMathVerify(t *testing.T) {
	t.Parallel()
	set := MathVerify()
	for _, w := range set.Wheels {
		if len(w.SHA256) != 64 || !strings.HasSuffix(w.File, "-py3-none-any.whl") {
			t.Errorf("%+v", w)
		}
	}
	other := MathVerify()
	other.Wheels[0].SHA256 = strings.Repeat("0", 64)
	if other.Key() == set.Key() || other.Digest() == set.Digest() {
		t.Error("other content has the same name")
	}
}
