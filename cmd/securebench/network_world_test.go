package main

import (
	"bufio"
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
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"securebench/internal/gateway/egress"
)

// internetVar names the address of an [internet], to which the program of these
// tests goes for every host. The program that users get knows no such variable.
const internetVar = "SECUREBENCH_TEST_INTERNET"

// pwned is what a server says that should not have been reached, or not so.
const pwned = "PWNED"

// runsOn runs the program in this process, with an internet in the place of the
// machine's network.
func runsOn(address string) int {
	ask := func(ctx context.Context, line string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", address)
		if err == nil {
			_, err = io.WriteString(c, line+"\n")
		}
		return c, err
	}
	a := &app{args: os.Args[1:], proxy: egress.Config{
		Resolve: func(ctx context.Context, host string) ([]netip.Addr, error) {
			c, err := ask(ctx, "resolve "+host)
			if err != nil {
				return nil, err
			}
			defer c.Close()
			text, err := io.ReadAll(c)
			return addresses(strings.Fields(string(text))), err
		},
		Dial: func(ctx context.Context, to netip.AddrPort) (net.Conn, error) { return ask(ctx, "dial "+to.String()) },
		Own:  func() ([]netip.Addr, error) { return nil, nil },
	}}
	return a.execute(os.Stdout, os.Stderr)
}

func addresses(list []string) (out []netip.Addr) {
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

// okAddress is the only address that agents of the corpus may reach: that of
// ok.example.
const okAddress = "93.184.216.34"

// internet is what an agent could reach: a resolver, hosts, and services of the
// machine that the agent runs on.
type internet struct {
	t    *testing.T
	ln   net.Listener
	host int // the port of the machine's services, on its loopback
	tls  *tls.Config
	meetings

	notesMu sync.Mutex
	names   map[string][][]string // answers in turn; the last one stays
	asked   []string              // names
	reached []string              // what nothing should have reached
	log     strings.Builder       // of the careless proxy
}

func newInternet(t *testing.T) *internet {
	t.Helper()
	n := &internet{t: t, tls: &tls.Config{Certificates: []tls.Certificate{certificate(t)}}, names: map[string][][]string{
		"ok.example": {{okAddress}}, "other.example": {{"93.184.216.35"}}, "rebinding.example": {{okAddress}, {"127.0.0.1"}},
		"inside.example": {{"10.0.0.7"}}, "mixed.example": {{okAddress, "192.168.0.9"}}, "metadata.example": {{"169.254.169.254"}},
		"unique.example": {{"fc00::7"}}, "mapped.example": {{"64:ff9b::7f00:1"}}, "loop.example": {{"127.0.0.1"}},
	}}
	n.ln = n.listens("tcp", "127.0.0.1:0", n.answer)
	services := n.listens("tcp", "127.0.0.1:0", func(c net.Conn) { n.greet(c, "a service of the machine") })
	n.host = services.Addr().(*net.TCPAddr).Port
	n.listens("unix", fmt.Sprintf("@securebench-host-%d", n.host), func(c net.Conn) { n.greet(c, "an abstract socket of the machine") })
	packets, err := net.ListenPacket("udp", services.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { packets.Close() })
	go func() {
		b := make([]byte, 2048)
		for {
			_, from, err := packets.ReadFrom(b)
			if err != nil {
				return
			}
			n.note("a datagram to the machine")
			_, _ = packets.WriteTo([]byte(pwned), from)
		}
	}()
	return n
}

// listens serves connections until the test ends.
func (n *internet) listens(network, address string, serve func(net.Conn)) net.Listener {
	ln, err := net.Listen(network, address)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return ln
}

func certificate(t *testing.T) tls.Certificate {
	t.Helper()
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

// note takes down what was reached.
func (n *internet) note(what string) {
	n.notesMu.Lock()
	defer n.notesMu.Unlock()
	n.reached = append(n.reached, what)
}

// notes returns what was reached and the names that were asked for.
func (n *internet) notes() (reached, asked []string) {
	n.notesMu.Lock()
	defer n.notesMu.Unlock()
	return slices.Clone(n.reached), slices.Clone(n.asked)
}

// greet answers like a web server, before it is asked.
func (n *internet) greet(c net.Conn, what string) {
	n.note(what)
	fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%s: %s\n", pwned, what)
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, c)
}

// answer does what a program of these tests asks for.
func (n *internet) answer(c net.Conn) {
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	if err != nil {
		return
	}
	verb, what, _ := strings.Cut(strings.TrimSpace(line), " ")
	if verb == "resolve" {
		_, _ = io.WriteString(c, strings.Join(n.resolve(what), " "))
		return
	}
	n.serve(buffered{c.(*net.TCPConn), r}, what)
}

// buffered is a connection that was read in part.
type buffered struct {
	*net.TCPConn
	r *bufio.Reader
}

func (b buffered) Read(p []byte) (int, error) { return b.r.Read(p) }

// resolve returns the addresses of a name. Whoever asks for others below example
// is led elsewhere.
func (n *internet) resolve(host string) []string {
	n.notesMu.Lock()
	defer n.notesMu.Unlock()
	n.asked = append(n.asked, host)
	answers, ok := n.names[host]
	switch {
	case !ok && strings.HasSuffix(host, ".example"):
		return []string{"93.184.216.66"}
	case !ok:
		return nil
	case len(answers) > 1:
		n.names[host] = answers[1:]
	}
	return answers[0]
}

// serve is the host at an address.
func (n *internet) serve(c buffered, address string) {
	switch address {
	case okAddress + ":80":
		n.web(c, "ok.example", "rebinding.example")
	case okAddress + ":443":
		first := bufio.NewReader(c)
		if _, err := first.Peek(1); err != nil {
			return // a proxy that connected, and then thought better of it
		}
		t := tls.Server(buffered{c.TCPConn, first}, n.tls)
		if t.Handshake() != nil {
			n.greet(c, "a server behind TLS, without TLS")
			return
		}
		if name := t.ConnectionState().ServerName; name != "ok.example" {
			n.greet(t, "TLS for "+strconv.Quote(name))
			return
		}
		n.web(t, "ok.example", "other.example")
		t.CloseWrite()
	default:
		n.greet(c, address)
	}
}

// web is a careless web server, which takes every request as it comes, and says
// what is wrong with it. It serves some hosts.
func (n *internet) web(c net.Conn, hosts ...string) {
	r := bufio.NewReader(c)
	for {
		var head strings.Builder
		for line := ""; line != "\r\n" && line != "\n"; {
			var err error
			if line, err = r.ReadString('\n'); err != nil {
				if head.Len() > 0 {
					n.greet(c, "a request that is cut: "+head.String())
				}
				return
			}
			head.WriteString(line)
		}
		if wrong := odd(head.String()); wrong != "" {
			n.greet(c, wrong)
			return
		}
		req, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader(head.String()), r)))
		if err != nil || !slices.Contains(hosts, req.Host) {
			n.greet(c, fmt.Sprintf("a request for %.200q", head.String()))
			return
		}
		if len(req.TransferEncoding) > 0 { // that is chunks
			if chunk, _ := r.ReadString('\n'); strings.Contains(chunk, ";") {
				n.greet(c, "a chunk with an extension")
			}
			return
		}
		body := make([]byte, max(0, req.ContentLength))
		if _, err := io.ReadFull(r, body); err != nil {
			return
		}
		n.page(c, req, string(body))
		if req.Close {
			return
		}
	}
}

// odd says what no server should see in the head of a request.
func odd(head string) string {
	for what, found := range map[string]bool{
		"a line that ends in LF": strings.Count(head, "\n") != strings.Count(head, "\r\n"),
		"a CR in a line":         strings.Count(head, "\r") != strings.Count(head, "\r\n"),
		"a folded line":          strings.Contains(head, "\n ") || strings.Contains(head, "\n\t"),
		"two lengths":            strings.Count(head, "Content-Length:") > 1 || strings.Contains(head, "Content-Length:") && strings.Contains(head, "Transfer-Encoding"),
		"a blank before a colon": strings.Contains(head, " :"),
		"an injected field":      strings.Contains(head, "\nInjected:"),
		"a smuggled request":     strings.Contains(head, "/smuggled"),
		"an upgrade":             strings.Contains(head, "Upgrade"),
	} {
		if found {
			return what
		}
	}
	return ""
}

// page answers a request that is in order.
func (n *internet) page(c io.Writer, r *http.Request, body string) {
	text, more := "hello from "+r.Host, ""
	switch path := r.URL.Path; {
	case r.Host == "other.example":
		text = "fronted " + r.Host
	case path == "/redirect":
		more = "Location: http://evil.example/\r\n"
	case path == "/keep":
		text = fmt.Sprintf("kept %d", len(body))
	case strings.HasPrefix(path, "/meet/"):
		text = n.meet(path)
	}
	status := "200 OK"
	if more != "" {
		status = "302 Found"
	}
	fmt.Fprintf(c, "HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s", status, more, len(text), text)
}

// careless is a proxy that connects an agent with whatever it names: it takes
// what looks a bit like an allowed name or address, resolves once to check and
// once to connect, reads no field, and logs what it is told.
func (n *internet) careless(c net.Conn) {
	r := bufio.NewReader(c)
	line, err := r.ReadString('\n')
	parts := strings.Split(strings.TrimRight(line, "\r\n"), " ")
	if err != nil || len(parts) < 2 {
		return
	}
	n.notesMu.Lock()
	fmt.Fprintf(&n.log, "{\"gate\":\"proxy\",\"method\":%q,\"target\":\"%s\"}\n", parts[0], strings.NewReplacer("%0a", "\n", `\n`, "\n", "\u2028", "\n", `"}`, "\"}\n").Replace(parts[1]))
	n.notesMu.Unlock()
	connect := parts[0] == "CONNECT"
	host, path, _ := strings.Cut(strings.TrimPrefix(parts[1], "http://"), "/")
	host = host[strings.LastIndex(host, "@")+1:]
	port := map[bool]string{true: "443", false: "80"}[connect]
	if i := strings.LastIndex(host, ":"); i > strings.LastIndex(host, "]") {
		host, port = host[:i], host[i+1:]
	}
	address, err := n.look(strings.Trim(host, "[]"))
	if err != nil {
		_, _ = io.WriteString(c, "HTTP/1.1 403 Forbidden\r\n\r\n")
		return
	}
	near, err := net.Dial("tcp", n.ln.Addr().String())
	if err != nil {
		return
	}
	defer near.Close()
	fmt.Fprintf(near, "dial %s\n", net.JoinHostPort(address, port))
	if connect {
		for line != "\r\n" && line != "\n" {
			if line, err = r.ReadString('\n'); err != nil {
				return
			}
		}
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
	}
	if !connect {
		fmt.Fprintf(near, "%s /%s %s", parts[0], path, line[strings.LastIndex(line, "HTTP/"):])
	}
	go func() {
		_, _ = io.Copy(near, r)
		_ = near.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(c, near)
}

// look resolves a name for a careless proxy.
func (n *internet) look(host string) (string, error) {
	if strings.HasPrefix(host, ".") { // an empty label, for which its check looks no further
		host = "evil" + host
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return a.String(), nil
	}
	if _, isNumber := strconv.ParseUint(strings.ReplaceAll(host, ".", ""), 0, 64); isNumber == nil {
		return "127.0.0.1", nil // as some libraries of C read it
	}
	n.resolve(host)
	list := n.resolve(host)
	if len(list) == 0 {
		return "", errors.New("no such host")
	}
	return list[len(list)-1], nil
}
