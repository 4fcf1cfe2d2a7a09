package viewer

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestGuard: only who knows the token gets an answer, only under this server's name, and
// only from no page or the viewer's own. Without the guard, each of these requests is
// answered.
func TestGuard(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	newMaker(t, filepath.Join(dir, "run"), 3).make()
	l, err := OpenLibrary(dir, trusting())
	if err != nil {
		t.Fatal(err)
	}
	weak := &Server{Library: l}
	address := serve(t, dir)
	root, token, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(address, "http://"), "/"), "/")
	for name, c := range map[string]struct {
		path, method, host string
		header             map[string]string
		status             int
	}{
		"honest":                     {path: token + "/api/list", status: 200},
		"honest page":                {path: token + "/", status: 200},
		"as localhost":               {path: token + "/api/list", host: "localhost:" + port(root), status: 200},
		"own page":                   {path: token + "/api/list", header: map[string]string{"Origin": "http://" + root, "Sec-Fetch-Site": "same-origin"}, status: 200},
		"no token":                   {path: "api/list", status: 403},
		"part of the token":          {path: token[1:] + "/api/list", status: 403},
		"empty token":                {path: "/api/list", status: 403},
		"another host":               {path: token + "/api/list", host: "attacker.example:" + port(root), status: 403},
		"another port":               {path: token + "/api/list", host: "127.0.0.1:1", status: 403},
		"another page":               {path: token + "/api/list", header: map[string]string{"Origin": "https://attacker.example"}, status: 403},
		"a page without an origin":   {path: token + "/api/list", header: map[string]string{"Origin": "null"}, status: 403},
		"a picture in another page":  {path: token + "/api/list", header: map[string]string{"Sec-Fetch-Site": "cross-site"}, status: 403},
		"another port's page":        {path: token + "/api/list", header: map[string]string{"Sec-Fetch-Site": "same-site"}, status: 403},
		"a form of no page":          {path: token + "/api/list", method: "POST", status: 403},
		"an unknown method":          {path: token + "/api/list", method: "DELETE", status: 405},
		"a folder above":             {path: token + "/../../api/list", status: 307}, // to where there is no token
		"the layout":                 {path: token + "/index.html", status: 404},
		"a file that is not there":   {path: token + "/nothing.js", status: 404},
		"a run that is not there":    {path: token + "/api/run?run=..%2Frun", status: 404},
		"a run outside":              {path: token + "/api/run?run=%2Fetc", status: 404},
		"an attempt that is not one": {path: token + "/api/attempt?run=run&key=9.9", status: 404},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+root+"/"+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = c.host
		for k, v := range c.header {
			r.Header.Set(k, v)
		}
		answer, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(name, err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != c.status {
			t.Errorf("%s: status %d, want %d: %.200s %v", name, answer.StatusCode, c.status, text, err)
		}
		if c.status != 200 && strings.Contains(string(text), `"runs"`) {
			t.Errorf("%s: it tells of runs: %s", name, text)
		}
		if policy := answer.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || !strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("%s: policy %q", name, policy)
		}
		if answer.Header.Get("Access-Control-Allow-Origin") != "" || answer.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: headers %v", name, answer.Header)
		}
	}
	w := &recorder{header: http.Header{}}
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://attacker.example/api/list", nil)
	if err != nil {
		t.Fatal(err)
	}
	if weak.routes().ServeHTTP(w, r); !strings.Contains(w.String(), `"runs"`) {
		t.Errorf("without the guard, nothing is told either: the test shows nothing: %s", w.String())
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

func port(host string) string { return host[strings.LastIndex(host, ":")+1:] }

// recorder keeps an answer.
type recorder struct {
	strings.Builder
	header http.Header
}

func (r *recorder) Header() http.Header { return r.header }
func (*recorder) WriteHeader(int)       {}

// TestListen: the server listens where only this machine reaches it.
func TestListen(t *testing.T) {
	t.Parallel()
	for address, ok := range map[string]bool{"127.0.0.1:0": true, "localhost:0": true, "[::1]:0": true, "0.0.0.0:0": false, ":0": false, "192.0.2.1:0": false, "[::]:0": false, "127.0.0.1": false, "example.org:80": false} {
		s := &Server{}
		err := s.Listen(t.Context(), address)
		if err == nil {
			if a := s.Address(); len(a) < len("http://127.0.0.1:1/")+20 {
				t.Errorf("%s has no token", a)
			}
			s.listener.Close()
		}
		if (err == nil) != ok && (address != "[::1]:0" || err == nil) { // a machine may have no IPv6
			t.Errorf("%s: %v", address, err)
		}
	}
}
