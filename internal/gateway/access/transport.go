package access

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"sync/atomic"
	"syscall"
	"time"
)

// Transport returns a client of providers. It follows no redirects, since it is used
// without a client above it, and decompresses nothing. It takes the proxy that the
// environment names.
func Transport() http.RoundTripper { return repeatingOf(dialer(), http.ProxyFromEnvironment) }

// Transport returns the client of the provider. A key that is sent in plain text goes to
// no proxy, and to no address that the key may not cross a network to, whatever the name
// of the host means at the time.
func (e *Endpoint) Transport() http.RoundTripper { return repeatingOf(e.dialer(), e.proxy()) }

func repeatingOf(d *net.Dialer, proxy func(*http.Request) (*url.URL, error)) *repeating {
	usual := &http.Transport{
		Proxy:                  proxy,
		DialContext:            d.DialContext,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		TLSHandshakeTimeout:    30 * time.Second,
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConns:           256,
		MaxIdleConnsPerHost:    256,
		MaxResponseHeaderBytes: 64 << 10,
	}
	fresh := usual.Clone()
	fresh.DisableKeepAlives = true
	return &repeating{usual, fresh}
}

func dialer() *net.Dialer { return &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second} }

// ErrPlain is wrapped by the error of a connection that a key must not take.
var ErrPlain = errors.New("the key would cross a network in plain text, and the address of the host is not private")

// dialer returns what connects to the provider.
func (e *Endpoint) dialer() *net.Dialer {
	d := dialer()
	if !e.plain {
		return d
	}
	d.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		a, err := netip.ParseAddrPort(address)
		if err != nil || !private(a.Addr()) || !e.private && !a.Addr().Unmap().IsLoopback() {
			return ErrPlain
		}
		return nil
	}
	return d
}

// proxy returns what chooses the proxy to the provider; nil is none.
func (e *Endpoint) proxy() func(*http.Request) (*url.URL, error) {
	if e.plain {
		return nil
	}
	return http.ProxyFromEnvironment
}

// repeating is a transport that sends a request once more, on a new connection, if its
// own had been used before, and ended before a byte of an answer came: small servers close
// connections that are idle for a few seconds, as the next request comes.
type repeating struct{ usual, fresh *http.Transport }

// prompt is how soon a request fails on a connection that was closed before. What fails
// later has been worked on.
const prompt = 10 * time.Second

// RoundTrip makes a request.
func (t *repeating) RoundTrip(r *http.Request) (*http.Response, error) {
	var used, answered atomic.Bool
	began := time.Now()
	trace := &httptrace.ClientTrace{
		GotConn:              func(c httptrace.GotConnInfo) { used.Store(c.Reused) },
		GotFirstResponseByte: func() { answered.Store(true) },
	}
	response, err := t.usual.RoundTrip(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
	if err == nil || !used.Load() || answered.Load() || r.Context().Err() != nil || r.GetBody == nil || time.Since(began) > prompt {
		return response, err
	}
	body, bodyErr := r.GetBody()
	if bodyErr != nil {
		return nil, err
	}
	again := r.Clone(r.Context())
	again.Body = body
	return t.fresh.RoundTrip(again)
}

// CloseIdleConnections closes those that wait for another request.
func (t *repeating) CloseIdleConnections() { t.usual.CloseIdleConnections() }
