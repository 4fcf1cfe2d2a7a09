package access

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"securebench/internal/awaittest"
)

// named is a name server that gives every name one address.
func named(t *testing.T, address string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buffer[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response, m.Additionals = true, nil
			q := m.Questions[0]
			if a := netip.MustParseAddr(address); q.Type == dnsmessage.TypeA && a.Is4() {
				m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1}, Body: &dnsmessage.AResource{A: a.As4()}}}
			}
			if out, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(out, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

var errTried = errors.New("the connection is tried")

// TestNameOfPublicHost: a name that was private when it was written down, and means a
// public host when it is connected to, does not get the key in plain text. Without the
// check, the connection is tried.
func TestNameOfPublicHost(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, err := net.SplitHostPort(ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	at := Address{API: "openai_chat", BaseURL: "http://vllm.example:" + port, KeyEnv: "K", KeyNamed: true, PlainHTTP: true}
	dial := func(keys Keys, means string) error {
		e, err := New(at, keys)
		if err != nil {
			t.Fatal(err)
		}
		d := e.dialer()
		d.Resolver = named(t, means)
		ctx, stop := context.WithTimeout(t.Context(), awaittest.Hung)
		defer stop()
		if d.ControlContext == nil { // nothing is checked, and nothing must leave this machine
			d.ControlContext = func(context.Context, string, string, syscall.RawConn) error { return errTried }
		}
		conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort("vllm.example", port))
		if err == nil {
			err = conn.Close()
		}
		return err
	}
	secret := Keys{Key: "sk-canary-0123456789"}
	if err := dial(secret, "203.0.113.7"); !errors.Is(err, ErrPlain) {
		t.Errorf("a public host: %v", err)
	}
	if err := dial(secret, "127.0.0.1"); err != nil {
		t.Errorf("an honest name: %v", err)
	}
	if err := dial(Keys{}, "203.0.113.7"); !errors.Is(err, errTried) {
		t.Errorf("without a key: %v", err)
	}
}

// TestGuard: where a key may go in plain text, by address.
func TestGuard(t *testing.T) {
	for address, want := range map[string]struct{ alone, allowed bool }{
		"127.0.0.1:80": {true, true}, "[::1]:80": {true, true}, "[::ffff:127.0.0.1]:80": {true, true},
		"10.1.2.3:80": {false, true}, "172.16.0.1:80": {false, true}, "192.168.1.1:80": {false, true}, "[fd12::1]:80": {false, true},
		"169.254.169.254:80": {}, "[fe80::1%eth0]:80": {}, "100.64.0.1:80": {}, "9.9.9.9:80": {}, "[2606:4700::1]:80": {},
		"[::ffff:9.9.9.9]:80": {}, "0.0.0.0:80": {}, "172.32.0.1:80": {},
	} {
		for allowed, may := range map[bool]bool{false: want.alone, true: want.allowed} {
			e := &Endpoint{plain: true, private: allowed}
			if err := e.dialer().ControlContext(t.Context(), "tcp", address, nil); (err == nil) != may {
				t.Errorf("%s, allow_plain_http %v: %v", address, allowed, err)
			}
			if e.proxy() != nil {
				t.Error("a key goes to a proxy in plain text")
			}
		}
	}
}
