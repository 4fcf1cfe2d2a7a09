package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"time"
)

// environment returns the proxy that the operator's environment names for a host.
func environment(host string, port int, secure bool) (*url.URL, error) {
	scheme := "http"
	if secure {
		scheme = "https"
	}
	return http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: scheme, Host: net.JoinHostPort(host, strconv.Itoa(port))}})
}

// dialProxy connects to the operator's proxy, whose address is the operator's to choose.
func dialProxy(ctx context.Context, via *url.URL) (net.Conn, error) {
	port := via.Port()
	if port == "" {
		port = map[string]string{"https": "443"}[via.Scheme]
		if port == "" {
			port = "80"
		}
	}
	address := net.JoinHostPort(via.Hostname(), port)
	if via.Scheme == "https" {
		return (&tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12}}).DialContext(ctx, "tcp", address)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", address)
}

// via returns the operator's proxy to a host, nil for none.
func (p *Proxy) via(host string, port int, secure bool) (*url.URL, *refusal) {
	u, err := p.cfg.Via(host, port, secure)
	if err != nil {
		return nil, failed("dial", "the operator's proxy variables cannot be read")
	}
	return u, nil
}

// checkVia decides whether a host may be asked for at the operator's proxy, which looks
// it up itself. If it can be looked up here, its addresses are held to the same rules; a
// name that cannot must be one that the operator has written in full.
func (p *Proxy) checkVia(ctx context.Context, host string, mirror bool) *refusal {
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	addresses, err := p.cfg.Resolve(ctx, host)
	if err == nil && len(addresses) > 0 {
		return p.check(addresses, mirror)
	}
	if _, err := netip.ParseAddr(host); err == nil || !p.domains.names(host) {
		return failed("resolve", "the host cannot be resolved")
	}
	return nil
}

// through connects to the operator's proxy. For TLS it asks for a tunnel to the host;
// plain requests are sent to the proxy as they are.
func (p *Proxy) through(ctx context.Context, via *url.URL, host string, port int, secure bool) (net.Conn, *refusal) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	if via.Scheme != "http" && via.Scheme != "https" {
		return nil, failed("dial", "the operator's proxy is not one of HTTP")
	}
	conn, err := p.cfg.DialProxy(ctx, via)
	if err != nil {
		return nil, failed("dial", "the operator's proxy cannot be connected to")
	}
	if !secure {
		return conn, nil
	}
	tunnel, err := connectThrough(ctx, conn, via, net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		conn.Close()
		return nil, failed("dial", "the operator's proxy does not connect to the host")
	}
	return tunnel, nil
}

// errNoTunnel is the error of a proxy that makes no tunnel.
var errNoTunnel = errors.New("the proxy does not make a tunnel")

// maxProxyHead bounds the answer of the operator's proxy.
const maxProxyHead = 64 << 10

// connectThrough asks a proxy for a tunnel.
func connectThrough(ctx context.Context, conn net.Conn, via *url.URL, target string) (net.Conn, error) {
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	r := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: target}, Host: target, Header: http.Header{"User-Agent": {""}}}
	if u := via.User; u != nil {
		password, _ := u.Password()
		r.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(u.Username()+":"+password)))
	}
	if err := r.Write(conn); err != nil {
		return nil, err
	}
	// What the host says is not before what it is asked, so nothing of it is read here.
	in := bufio.NewReaderSize(&limited{Conn: conn, left: maxProxyHead}, bufferSize)
	response, err := http.ReadResponse(in, r)
	if err != nil {
		return nil, err
	}
	if err := response.Body.Close(); err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK || in.Buffered() > 0 {
		return nil, errNoTunnel
	}
	return conn, nil
}

// limited reads so much of a connection.
type limited struct {
	net.Conn
	left int
}

// Read reads.
func (l *limited) Read(b []byte) (int, error) {
	if l.left <= 0 {
		return 0, errNoTunnel
	}
	n, err := l.Conn.Read(b[:min(len(b), l.left)])
	l.left -= n
	return n, err
}
