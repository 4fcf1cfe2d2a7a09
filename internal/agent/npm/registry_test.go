package npm

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
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

	"securebench/internal/registry"
)

// integrity is the digest of a content, as a registry gives it.
func integrity(content string) string {
	sum := sha512.Sum512([]byte(content))
	return "sha512-" + base64.StdEncoding.EncodeToString(sum[:])
}

// metadata is an answer with one version, 1.0.0.
func metadata(name, tarball, sum string) string {
	b, _ := json.Marshal(map[string]any{"name": name, "dist-tags": map[string]string{"latest": "1.0.0"}, "_id": "more", "versions": map[string]any{
		"1.0.0": map[string]any{"name": name, "version": "1.0.0", "dist": map[string]any{"tarball": tarball, "integrity": sum, "shasum": "x"}}}})
	return string(b)
}

// serve starts a registry with a certificate of its own.
func serve(t *testing.T, handle http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewTLSServer(handle)
	t.Cleanup(s.Close)
	s.Config.ErrorLog = nil
	return s
}

// client returns a client with an .npmrc that trusts the servers.
func client(t *testing.T, lines string, servers ...*httptest.Server) *Client {
	t.Helper()
	dir := t.TempDir()
	var trusted []byte
	for _, s := range servers {
		trusted = append(trusted, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})...)
	}
	if len(servers) > 0 {
		lines += "\ncafile=" + filepath.Join(dir, "ca.pem") + "\nregistry=" + servers[0].URL
	}
	for name, text := range map[string]string{".npmrc": lines, "ca.pem": string(trusted)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	conf, err := Load(filepath.Join(dir, "none"), func(name string) string {
		return map[string]string{"HOME": dir, "PREFIX": dir}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(conf, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// fetched asks for a package and downloads its version 1.0.0.
func fetched(t *testing.T, c *Client) (string, error) {
	t.Helper()
	p, err := c.Package(context.Background(), "@own/x")
	if err != nil {
		return "", err
	}
	b, err := p.Build("1.0.0")
	if err != nil {
		return "", err
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = c.Download(context.Background(), b, f, func(int64, int64) {})
	text, at := os.ReadFile(f.Name())
	return string(text), errors.Join(err, at)
}

func host(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "https:") }

// TestFetch: the honest case, with what is asked for and how.
func TestFetch(t *testing.T) {
	t.Parallel()
	var s *httptest.Server
	s = serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer token" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		switch r.RequestURI {
		case "/@own%2fx":
			if !strings.Contains(r.Header.Get("Accept"), "application/vnd.npm.install-v1+json") {
				t.Errorf("the short answer is not asked for: %v", r.Header)
			}
			io.WriteString(w, metadata("@own/x", s.URL+"/x/-/x.tgz", integrity("content")))
		case "/x/-/x.tgz":
			io.WriteString(w, "content")
		default:
			t.Errorf("asked for %s", r.RequestURI)
		}
	})
	if got, err := fetched(t, client(t, host(s)+"/:_authToken=token", s)); err != nil || got != "content" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := fetched(t, client(t, "", s)); !errors.Is(err, registry.ErrDenied) || !strings.Contains(err.Error(), "check the credentials in .npmrc") {
		t.Errorf("without a token: %v", err)
	}
	unknown := client(t, "")
	unknown.config = client(t, "", s).config
	if _, err := fetched(t, unknown); !errors.Is(err, registry.ErrUnreachable) || !strings.Contains(err.Error(), "cafile") {
		t.Errorf("without the certificate: %v", err)
	}
}

// TestIntegrity: what differs from the registry's digest in any way is refused.
func TestIntegrity(t *testing.T) {
	t.Parallel()
	good := integrity("content")
	short := sha512.Sum512_256([]byte("content"))
	for name, c := range map[string]struct {
		sum, content string
		good         bool
	}{
		"honest":               {good, "content", true},
		"also an older digest": {"sha1-eA== " + good, "content", true},
		"with an option":       {good + "?x", "content", true},
		"one byte changed":     {good, "kontent", false},
		"one byte more":        {good, "content ", false},
		"one byte less":        {good, "conten", false},
		"nothing":              {good, "", false},
		"no digest":            {"", "content", false},
		"only sha1":            {"sha1-BA==", "content", false},
		"a short digest":       {"sha512-" + base64.StdEncoding.EncodeToString(short[:]), "content", false},
		"not base64":           {"sha512-???", "content", false},
		"two digests":          {good + " " + integrity("kontent"), "kontent", false},
	} {
		var s *httptest.Server
		s = serve(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, ".tgz") {
				io.WriteString(w, c.content)
				return
			}
			io.WriteString(w, metadata("@own/x", s.URL+"/x.tgz", c.sum))
		})
		if _, err := fetched(t, client(t, "", s)); c.good != (err == nil) || !c.good && !errors.Is(err, ErrIntegrity) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCredentialsStay: a registry may send the tarball's request elsewhere, but
// the token does not go along. A client that sets the header itself sends it, if
// the other place is below the same host name.
func TestCredentialsStay(t *testing.T) {
	t.Parallel()
	var leaked atomic.Bool
	other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			leaked.Store(true)
		}
		io.WriteString(w, "content")
	})
	var s *httptest.Server
	s = serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".tgz") {
			http.Redirect(w, r, other.URL+"/x", http.StatusFound)
			return
		}
		io.WriteString(w, metadata("@own/x", s.URL+"/x.tgz", integrity("content")))
	})
	c := client(t, host(s)+"/:_authToken=token", s, other)
	r, err := http.NewRequest(http.MethodGet, s.URL+"/x.tgz", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer token")
	res, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if !leaked.Swap(false) {
		t.Error("a naive client leaks nothing: the test shows nothing")
	}
	if got, err := fetched(t, c); err != nil || got != "content" || leaked.Load() {
		t.Errorf("got %q, %v, leaked: %v", got, err, leaked.Load())
	}
}

// TestNotDowngraded: neither the registry's address of a tarball nor a redirect
// leads away from HTTPS.
func TestNotDowngraded(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{"address": "http://plain.example/x.tgz", "redirect": "", "file": "file:///etc/passwd"} {
		var s *httptest.Server
		s = serve(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, ".tgz") {
				http.Redirect(w, r, "http://plain.example/x.tgz", http.StatusFound)
				return
			}
			to := address
			if to == "" {
				to = s.URL + "/x.tgz"
			}
			io.WriteString(w, metadata("@own/x", to, integrity("content")))
		})
		if _, err := fetched(t, client(t, "", s)); err == nil || !strings.Contains(err.Error(), "https address") && name != "file" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMirror: a mirror that passes on the public registry's addresses is asked
// itself.
func TestMirror(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/-/x.tgz") {
			io.WriteString(w, "content")
			return
		}
		io.WriteString(w, metadata("@own/x", "https://registry.npmjs.org/@own/x/-/x.tgz", integrity("content")))
	})
	if got, err := fetched(t, client(t, "", s)); err != nil || got != "content" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestRepeats: a tarball that is cut, then whole: the second try starts over.
func TestRepeats(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	var s *httptest.Server
	s = serve(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, ".tgz") {
			io.WriteString(w, metadata("@own/x", s.URL+"/x.tgz", integrity("content")))
			return
		}
		w.Header().Set("Content-Length", "7")
		if asked.Add(1) == 1 {
			io.WriteString(w, "cut")
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, "content")
	})
	if got, err := fetched(t, client(t, "", s)); err != nil || got != "content" || asked.Load() != 2 {
		t.Errorf("cut once: %q, %v after %d", got, err, asked.Load())
	}
}

// TestAnswers: what is no description of the package is refused in plain words.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ answer, say string }{
		"a page":             {"<html>", "is the registry's address right?"},
		"another package":    {metadata("@own/y", "https://x.example", ""), "the answer describes @own/y instead"},
		"no versions":        {`{"name": "@own/x"}`, "the answer describes"},
		"a repeated version": {`{"name": "@own/x", "versions": {"1.0.0": {}, "1.0.0": {}}}`, "is the registry's address right?"},
		"another type":       {`{"name": "@own/x", "versions": {"1.0.0": {"dist": []}}}`, "is the registry's address right?"},
		"a cut answer":       {`{"name": "@own/x", "versions": {`, "cut or too long"},
		"control characters": {`{"name": "\u001b[2J", "versions": {}}`, `describes "\x1b[2J" instead`},
		"a script's address": {metadata("@own/x", "javascript:alert(1)", integrity("")), "address of the tarball is not valid"},
	} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, c.answer) })
		if _, err := fetched(t, client(t, "", s)); err == nil || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: %v, want %q", name, err, c.say)
		}
	}
}

// TestBombs: an answer and a tarball without end are given up.
func TestBombs(t *testing.T) {
	t.Parallel()
	endless := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"name": "`)
		for chunk := bytes.Repeat([]byte("a"), 64<<10); ; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	c := client(t, "", endless)
	c.answer = 1 << 20
	if _, err := c.Package(context.Background(), "@own/x"); !errors.Is(err, registry.ErrUnreachable) || !strings.Contains(err.Error(), "cut or too long") {
		t.Errorf("an endless answer: %v", err)
	}
	var s *httptest.Server
	s = serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".tgz") {
			w.Header().Set("Content-Length", fmt.Sprint(maxTarball+1))
			return
		}
		io.WriteString(w, metadata("@own/x", s.URL+"/x.tgz", integrity("")))
	})
	if got, err := fetched(t, client(t, "", s)); err == nil || !strings.Contains(err.Error(), "it is larger than 1024 MiB") || got != "" {
		t.Errorf("a large tarball: %v", err)
	}
}

// FuzzDecode: whatever a registry answers, a build that comes out of it has a
// whole digest and an address that others on the way cannot change.
func FuzzDecode(f *testing.F) {
	f.Add(metadata("@own/x", "https://r.example/x.tgz", integrity("x")), "1.0.0")
	f.Add(metadata("@own/x", "http://127.0.0.1.evil.example/x.tgz", integrity("x")), "1.0.0")
	c, err := Load("/", func(string) string { return "" })
	if err != nil {
		f.Fatal(err)
	}
	u, err := c.Registry("@own/x")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, answer, version string) {
		p, err := decode(strings.NewReader(answer), "@own/x")
		if err != nil {
			return
		}
		p.registry = u
		b, err := p.Build(version)
		if err != nil {
			return
		}
		if want, err := sum(b.Integrity); err != nil || len(want) != sha512.Size || registry.CheckAddress(b.tarball) != nil {
			t.Errorf("%+v of %q", b, answer)
		}
	})
}
