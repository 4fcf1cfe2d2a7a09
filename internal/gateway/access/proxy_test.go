package access_test

import (
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"securebench/internal/gateway/access"
)

// childURL is where the child of TestCorporateNetwork asks.
const childURL = "SECUREBENCH_TEST_ACCESS_URL"

// TestCorporateNetwork: a provider behind the operator's proxy, whose certificate an
// authority of the operator's signed, is reached with the variables that other programs
// take: HTTPS_PROXY and SSL_CERT_FILE. Both are read once in a process, so another one
// asks. The key goes through the tunnel only.
func TestCorporateNetwork(t *testing.T) {
	if address := os.Getenv(childURL); address != "" {
		askAsChild(t, address)
		return
	}
	provider := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "asked "+r.URL.Path+" with "+r.Header.Get("Authorization"))
	}))
	defer provider.Close()
	authority := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: provider.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var seen []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Method+" "+r.Host)
		mu.Unlock()
		to, err := net.Dial("tcp", provider.Listener.Addr().String())
		if err != nil || r.Method != http.MethodConnect || strings.Contains(r.Header.Get("Authorization"), key) {
			http.Error(w, "no tunnel", http.StatusBadGateway)
			return
		}
		w.WriteHeader(http.StatusOK)
		from, sent, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(to, sent); _ = to.Close() }() // what was read before it was taken over, too
		_, _ = io.Copy(from, to)
		_ = from.Close()
	}))
	defer proxy.Close()
	for name, tt := range map[string]struct {
		env  []string
		want string
	}{
		"proxy and authority": {[]string{"HTTPS_PROXY=" + proxy.URL, "SSL_CERT_FILE=" + authority}, "asked /v1/responses with Bearer " + key},
		"no authority":        {[]string{"HTTPS_PROXY=" + proxy.URL}, "failed to verify certificate"},
	} {
		mu.Lock()
		seen = nil
		mu.Unlock()
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCorporateNetwork$", "-test.v")
		child.Env = append([]string{childURL + "=https://example.com:1"}, tt.env...)
		out, err := child.CombinedOutput()
		if err != nil || !strings.Contains(string(out), tt.want) {
			t.Errorf("%s: %v: %s, want %q", name, err, out, tt.want)
		}
		mu.Lock()
		if through := strings.Join(seen, ", "); !strings.HasPrefix(through, "CONNECT example.com:1") {
			t.Errorf("%s: the proxy sees %q", name, through)
		}
		mu.Unlock()
	}
}

// askAsChild asks a provider, and tells what came of it.
func askAsChild(t *testing.T, address string) {
	e, err := access.New(access.Address{API: "openai_responses", BaseURL: address}, access.Keys{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.URL("/v1/responses", ""), strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	e.Sign(r.Header)
	response, err := e.Transport().RoundTrip(r)
	if err != nil {
		t.Log(err)
		return
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	t.Logf("%s %v", text, err)
}
