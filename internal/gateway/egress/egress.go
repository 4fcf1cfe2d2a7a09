// Package egress is the forward proxy through which an agent reaches the
// domains that the operator allows, and nothing else. It runs in the parent.
//
// It reads what an agent sends by the strictest grammar that honest clients
// keep to, and decides on every request by itself: on the host that the request
// names, then on each address that the host has. It connects to an address that
// it has checked, never to a name.
package egress

import (
	"bufio"
	"context"
	"net"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"securebench/internal/gateway/ledger"
)

// Config is shared by the proxies of a run. Domains is required.
type Config struct {
	// Domains are exact host names, and patterns that begin with "*.", in the
	// normal form of config.ParseDomains.
	Domains []string
	// Private are those of the exact names that may have addresses of private networks,
	// with a port that may be asked for beside the usual ones, if they have one.
	Private []string
	// Resolve returns all addresses of a host; nil asks the system. Tests give
	// their own.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Dial connects to an address that was checked; nil dials it. Tests give
	// their own.
	Dial func(ctx context.Context, address netip.AddrPort) (net.Conn, error)
	// Via returns the operator's own proxy to a host, nil for none; nil takes what the
	// environment says, unless Resolve or Dial is given.
	Via func(host string, port int, secure bool) (*url.URL, error)
	// DialProxy connects to that proxy; nil dials it.
	DialProxy func(ctx context.Context, via *url.URL) (net.Conn, error)
	// Own returns the addresses of this machine, which are refused; nil asks the
	// system.
	Own func() ([]netip.Addr, error)
}

// maxConnections is how many connections a proxy serves at a time. Others wait
// until one ends.
const maxConnections = 256

// bufferSize is what the proxy buffers of each side of a connection.
const bufferSize = 16 << 10

// Proxy serves the agent of one attempt.
type Proxy struct {
	cfg     Config
	ledger  *ledger.Ledger
	domains domains
	special []netip.Prefix
}

// New makes a proxy that writes its decisions to the ledger.
func New(cfg Config, l *ledger.Ledger) *Proxy {
	if cfg.Via == nil {
		cfg.Via = environment
		if cfg.Resolve != nil || cfg.Dial != nil {
			cfg.Via = func(string, int, bool) (*url.URL, error) { return nil, nil }
		}
	}
	if cfg.DialProxy == nil {
		cfg.DialProxy = dialProxy
	}
	if cfg.Resolve == nil {
		cfg.Resolve = resolve
	}
	if cfg.Dial == nil {
		cfg.Dial = dial
	}
	if cfg.Own == nil {
		cfg.Own = own
	}
	return &Proxy{cfg: cfg, ledger: l, domains: newDomains(cfg.Domains), special: specialAddresses()}
}

// Serve answers on the listener until ctx ends, and returns when every
// connection is closed. The error is the listener's own; what the agent or an
// upstream does is in the ledger.
func (p *Proxy) Serve(ctx context.Context, ln net.Listener) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { ln.Close() })()
	slots := make(chan struct{}, maxConnections)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		conn, err := ln.Accept()
		if ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return nil
		}
		if err != nil {
			return err
		}
		wg.Go(func() {
			defer func() { <-slots }()
			p.converse(ctx, conn)
		})
	}
}

// converse serves one connection of the agent's. Nothing here has a time limit
// that the agent's silence could reach: a model's answer may take an hour, and
// a sandbox may be frozen.
func (p *Proxy) converse(ctx context.Context, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	s := &session{proxy: p, conn: conn, r: bufio.NewReaderSize(conn, bufferSize)}
	for s.next(ctx) {
	}
}

// session is a connection of the agent's.
type session struct {
	proxy *Proxy
	conn  net.Conn
	r     *bufio.Reader
}

// next serves one request and reports whether another may follow it.
func (s *session) next(ctx context.Context) bool {
	if _, err := s.r.Peek(1); err != nil {
		return false
	}
	e := &ledger.Entry{Gate: ledger.Proxy, Began: time.Now()}
	defer func() {
		e.Took = time.Since(e.Began)
		s.proxy.ledger.Add(*e)
	}()
	req, r := readRequest(s.r)
	e.Method, e.Target = req.method, withoutQuery(req.target)
	if r != nil {
		return s.refuse(e, r)
	}
	if req.method == "CONNECT" {
		return s.tunnel(ctx, req, e)
	}
	return s.forward(ctx, req, e)
}
