package egress

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/awaittest"
	"securebench/internal/gateway/ledger"
)

// internet is a resolver and a dialler that lead to servers of the test. It
// notes what reaches it.
type internet struct {
	t       *testing.T
	names   map[string][][]string // answers in turn; the last one stays
	private []string              // Config.Private
	own     string                // a further address of this machine
	// Config.Via and Config.DialProxy
	via       func(string, int, bool) (*url.URL, error)
	dialProxy func(context.Context, *url.URL) (net.Conn, error)
	handler   http.Handler
	tls       *tls.Config
	raw       func(net.Conn) // instead of a web server
	mu        sync.Mutex
	seen      []string
	wg        sync.WaitGroup
}

func newInternet(t *testing.T) *internet {
	n := &internet{t: t, names: map[string][][]string{
		"ok.example":        {{"93.184.216.34"}},
		"other.example":     {{"93.184.216.35"}},
		"evil.example":      {{"93.184.216.66"}},
		"inside.example":    {{"10.0.0.7"}},
		"mixed.example":     {{"93.184.216.34", "192.168.0.9"}},
		"rebinding.example": {{"93.184.216.34"}, {"127.0.0.1"}},
	}, tls: &tls.Config{Certificates: []tls.Certificate{certificate(t)}}}
	n.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		n.note("%s %s%s %d", r.Method, r.Host, r.RequestURI, len(body))
		fmt.Fprintf(w, "hello from %s", r.Host)
	})
	n.tls.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		n.note("sni %s", h.ServerName)
		return nil, nil
	}
	t.Cleanup(n.wg.Wait)
	return n
}

func (n *internet) note(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen = append(n.seen, fmt.Sprintf(format, args...))
}

// notes returns what was noted, and forgets it.
func (n *internet) notes() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer func() { n.seen = nil }()
	return strings.Join(n.seen, "; ")
}

func (n *internet) resolve(_ context.Context, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	answers := n.names[host]
	if len(answers) == 0 {
		return nil, errors.New("no such host")
	}
	if len(answers) > 1 {
		n.names[host] = answers[1:]
	}
	var out []netip.Addr
	for _, a := range answers[0] {
		out = append(out, netip.MustParseAddr(a))
	}
	return out, nil
}

func (n *internet) dial(_ context.Context, address netip.AddrPort) (net.Conn, error) {
	n.note("dial %s", address)
	near, far := connection(n.t)
	n.wg.Go(func() {
		defer far.Close()
		switch {
		case n.raw != nil:
			n.raw(far)
		case address.Port() == 443:
			n.serveHTTP(tls.Server(far, n.tls))
		default:
			n.serveHTTP(far)
		}
	})
	return near, nil
}

// serveHTTP serves one connection.
func (n *internet) serveHTTP(c net.Conn) {
	ln := newPipes()
	closed := make(chan struct{})
	server := &http.Server{Handler: n.handler, ErrorLog: nil, ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed || s == http.StateHijacked {
			close(closed)
		}
	}}
	server.ErrorLog = discard()
	ln.conns <- c
	go server.Serve(ln)
	<-closed
	server.Close()
}

// connection returns the ends of a TCP connection, which can be half closed.
func connection(t *testing.T) (a, b net.Conn) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if a, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	return a, b
}

func certificate(t *testing.T) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(100 * time.Hour), DNSNames: []string{"ok.example"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// pipes is a listener for connections in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn, 300), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

// agent is the side of an agent's.
type agent struct {
	t      *testing.T
	ln     *pipes
	ledger *ledger.Ledger
	conn   func() net.Conn
}

// proxied starts a proxy between an agent and the internet, which allows
// ok.example, everything below pattern.example, and what is given.
func (n *internet) proxied(domains ...string) *agent {
	a := &agent{t: n.t, ln: newPipes(), ledger: &ledger.Ledger{}}
	p := New(Config{Domains: append([]string{"ok.example", "*.pattern.example"}, domains...), Private: n.private, Via: n.via, DialProxy: n.dialProxy, Resolve: n.resolve, Dial: n.dial,
		Own: func() ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("93.184.216.99"), netip.MustParseAddr(cmp.Or(n.own, "93.184.216.98"))}, nil
		}}, a.ledger)
	a.serve(func(ctx context.Context) {
		if err := p.Serve(ctx, a.ln); err != nil {
			n.t.Error(err)
		}
	})
	return a
}

func (a *agent) serve(run func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	a.t.Cleanup(func() {
		cancel()
		<-done
	})
	a.conn = func() net.Conn {
		near, far := connection(a.t)
		a.ln.conns <- far
		a.t.Cleanup(func() { near.Close() })
		return near
	}
}

// send writes text on a connection of its own and returns the answer up to its
// end.
func (a *agent) send(text string) string {
	c := a.conn()
	defer c.Close()
	io.WriteString(c, text)
	closeWrite(c)
	out, _ := io.ReadAll(c)
	return string(out)
}

// client is an honest HTTP client behind the proxy.
func (a *agent) client() *http.Client {
	t := &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: "127.0.0.1:61080"}),
		DialContext:     func(context.Context, string, string) (net.Conn, error) { return a.conn(), nil },
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	a.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (a *agent) get(address string) string {
	client := a.client()
	defer client.CloseIdleConnections()
	res, err := client.Get(address)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d %s", res.StatusCode, body)
}

// entries waits until the ledger has so many lines, and returns them as
// "METHOD target allowed reason".
func (a *agent) entries(n int) string {
	a.t.Helper()
	awaittest.Soon(func() bool { return bytes.Count(a.ledger.Lines(), []byte("\n")) >= n })
	var out []string
	for line := range bytes.Lines(a.ledger.Lines()) {
		var e ledger.Entry
		if err := json.Unmarshal(line, &e); err != nil {
			a.t.Fatalf("%s: %v", line, err)
		}
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %t %s", e.Method, e.Target, e.Allowed, e.Reason)))
	}
	return strings.Join(out, "; ")
}

// weak starts a careless proxy: it looks at the first line only, takes every
// name that ends like an allowed one or begins like it, resolves once to check
// and once to connect, and copies bytes both ways without reading them.
func (n *internet) weak() *agent {
	a := &agent{t: n.t, ln: newPipes(), ledger: &ledger.Ledger{}}
	a.serve(func(ctx context.Context) {
		defer context.AfterFunc(ctx, func() { a.ln.Close() })()
		var wg sync.WaitGroup
		defer wg.Wait()
		for {
			c, err := a.ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				defer context.AfterFunc(ctx, func() { c.Close() })()
				n.careless(ctx, c)
			})
		}
	})
	return a
}

func (n *internet) careless(ctx context.Context, c net.Conn) {
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	parts := strings.Fields(line)
	if err != nil || len(parts) < 2 {
		return
	}
	connect := parts[0] == "CONNECT"
	target := parts[1]
	if connect {
		target = "http://" + target
	}
	u, err := url.Parse(target)
	named := func(name string) bool { return strings.HasSuffix(u.Hostname(), name) }
	if err != nil || !named("ok.example") && !named("inside.example") && !named("mixed.example") && !named("rebinding.example") &&
		!strings.HasPrefix(target, "http://ok.example") && !address(u.Hostname()).IsValid() {
		io.WriteString(c, "HTTP/1.1 403 Forbidden\r\n\r\n")
		return
	}
	host := u.Hostname()
	answers, err := n.resolve(ctx, host)
	if a := address(host); a.IsValid() {
		answers, err = []netip.Addr{a}, nil
	}
	if strings.HasSuffix(host, "ok.example") && err != nil {
		answers, err = []netip.Addr{netip.MustParseAddr("93.184.216.66")}, nil // whoever registered it
	}
	if err != nil {
		return
	}
	if again, err := n.resolve(ctx, host); err == nil {
		answers = again
	}
	port := uint16(80)
	if p := u.Port(); p != "" {
		fmt.Sscan(p, &port)
	} else if connect {
		port = 443
	}
	up, err := n.dial(ctx, netip.AddrPortFrom(answers[len(answers)-1], port))
	if err != nil {
		return
	}
	defer up.Close()
	if connect {
		for line != "\r\n" && line != "\n" {
			if line, err = r.ReadString('\n'); err != nil {
				return
			}
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
	} else {
		fmt.Fprintf(up, "%s %s %s\r\n", parts[0], u.RequestURI(), "HTTP/1.1")
	}
	go func() {
		io.Copy(up, r)
		closeWrite(up)
	}()
	io.Copy(c, up)
}

func address(s string) netip.Addr {
	a, _ := netip.ParseAddr(s)
	return a
}

func contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	if !slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) }) {
		t.Errorf("%s: %.300q, want %q", what, text, parts)
	}
}
