package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// corporate is the operator's proxy: it makes tunnels to the servers of the test, and
// answers plain requests itself. Those in refuses get an answer instead of a tunnel.
func (n *internet) corporate(refuses string) func(context.Context, *url.URL) (net.Conn, error) {
	return func(_ context.Context, via *url.URL) (net.Conn, error) {
		n.note("proxy %s", via.Host)
		near, far := connection(n.t)
		n.wg.Go(func() {
			defer far.Close()
			in := bufio.NewReader(far)
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			n.note("asked %s %s, %s, %s", r.Method, r.RequestURI, r.Header.Get("Proxy-Authorization"), r.Header.Get("X-Agent"))
			switch {
			case r.Method != http.MethodConnect:
				_, _ = fmt.Fprintf(far, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nProxy-Authenticate: Basic\r\n\r\nplain")
			case refuses != "":
				_, _ = io.WriteString(far, refuses)
			default:
				_, _ = io.WriteString(far, "HTTP/1.1 200 Connection established\r\n\r\n")
				n.serveHTTP(tls.Server(far, n.tls))
			}
		})
		return near, nil
	}
}

// TestOperatorsProxy: allowed hosts are asked for at the operator's proxy, by their names
// and with the operator's password, which the agent neither sees nor replaces. What is
// refused without such a proxy is refused before it is asked.
func TestOperatorsProxy(t *testing.T) {
	const password = "Basic b3BlcmF0b3I6c2VjcmV0"
	for name, tt := range map[string]struct {
		target, refuses string
		proxy           string // "" is the usual one
		want            string // that the agent gets
		asked           string // of the proxy; "" is nothing
	}{
		"a tunnel":                {"https://ok.example/", "", "", "200 hello from ok.example", "asked CONNECT ok.example:443, " + password},
		"a plain request":         {"http://ok.example/a?b", "", "", "200 plain", "asked GET http://ok.example/a?b, " + password + ", yes"},
		"a name of the proxy's":   {"https://inner.example/", "", "", "200 hello from inner.example", "asked CONNECT inner.example:443"},
		"not below a pattern":     {"https://data.pattern.example/", "", "", "502", ""},
		"another host":            {"https://evil.example/", "", "", "403", ""},
		"a private address":       {"https://inside.example/", "", "", "403", ""},
		"another port":            {"https://ok.example:8443/", "", "", "403", ""},
		"no tunnel":               {"https://ok.example/", "HTTP/1.1 407 Authenticate\r\nContent-Length: 0\r\n\r\n", "", "502", "asked CONNECT ok.example:443"},
		"a tunnel that speaks":    {"https://ok.example/", "HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", "", "502", "asked CONNECT ok.example:443"},
		"without end":             {"https://ok.example/", "HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 128<<10), "", "502", "asked CONNECT ok.example:443"},
		"a proxy of another kind": {"https://ok.example/", "", "socks5://proxy.corp:1080", "502", ""},
		"none for this host":      {"https://direct.example/", "", "", "200 hello from direct.example", "dial 93.184.216.40:443"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newInternet(t)
			n.names["direct.example"] = [][]string{{"93.184.216.40"}}
			n.via = func(host string, _ int, _ bool) (*url.URL, error) {
				if host == "direct.example" {
					return nil, nil
				}
				if tt.proxy != "" {
					return url.Parse(tt.proxy)
				}
				return url.Parse("http://operator:secret@proxy.corp:3128")
			}
			n.dialProxy = n.corporate(tt.refuses)
			a := n.proxied("inner.example", "inside.example", "direct.example")
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, tt.target, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Proxy-Authorization", "Basic agent")
			r.Header.Set("X-Agent", "yes")
			var got string
			client := a.client()
			defer client.CloseIdleConnections()
			if res, err := client.Do(r); err != nil {
				got = err.Error()
			} else {
				body, _ := io.ReadAll(res.Body)
				_ = res.Body.Close()
				got = fmt.Sprintf("%d %s", res.StatusCode, body)
				if res.Header.Get("Proxy-Authenticate") != "" {
					t.Error("the agent sees the proxy's fields")
				}
			}
			notes := n.notes()
			if refused := tt.want == "403" || tt.want == "502"; refused == strings.HasPrefix(got, "200") || !refused && got != tt.want {
				t.Errorf("the agent gets %q, want %q", got, tt.want)
			}
			client.CloseIdleConnections()
			a.entries(1)
			if line := string(a.ledger.Lines()); !strings.Contains(line, `"status":`+tt.want[:3]) {
				t.Errorf("the ledger has %s, want %s", line, tt.want)
			}
			if tt.asked == "" && (strings.Contains(notes, "asked ") || strings.Contains(notes, "dial ")) || !strings.Contains(notes, tt.asked) {
				t.Errorf("the proxy sees %q, want %q", notes, tt.asked)
			}
			if all := got + string(a.ledger.Lines()); strings.Contains(all, "secret") || strings.Contains(all, "b3BlcmF0b3I6c2VjcmV0") {
				t.Errorf("the operator's password is in %s", all)
			}
		})
	}
}

// TestRealProxyByDefault: without seams, the environment names the proxy.
func TestRealProxyByDefault(t *testing.T) {
	p := New(Config{Domains: []string{"ok.example"}}, nil)
	if u, err := p.cfg.Via("127.0.0.1", 443, true); err != nil || u != nil {
		t.Errorf("loopback is reached through %v: %v", u, err)
	}
	q := New(Config{Resolve: func(context.Context, string) ([]netip.Addr, error) { return nil, nil }}, nil)
	if u, err := q.cfg.Via("ok.example", 443, true); err != nil || u != nil {
		t.Errorf("a test is led through %v: %v", u, err)
	}
}
