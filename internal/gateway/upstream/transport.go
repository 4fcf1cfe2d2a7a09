package upstream

import (
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// Transport returns the client of a provider. It follows no redirects, since it
// is used without a client above it, and decompresses nothing.
func Transport() http.RoundTripper {
	usual := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
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
