package npm

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"securebench/internal/attended"
	"securebench/internal/redact"
	"securebench/internal/source"
)

const (
	tries        = 3
	maxRedirects = 5
)

func transport(conf *tls.Config, proxy func(*url.URL) (*url.URL, error)) *http.Transport {
	return &http.Transport{
		Proxy:               func(r *http.Request) (*url.URL, error) { return proxy(r.URL) },
		DialContext:         (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
		TLSClientConfig:     conf,
		TLSHandshakeTimeout: 30 * time.Second, ResponseHeaderTimeout: time.Minute,
		MaxResponseHeaderBytes: 1 << 20, ForceAttemptHTTP2: true,
	}
}

// checkRedirect refuses what a registry may not send a client to.
func checkRedirect(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errors.New("too many redirects")
	}
	return checkScheme(r.URL)
}

// repeat tries again what failed on the way.
func (c *Client) repeat(ctx context.Context, do func() error) error {
	for n := 1; ; n++ {
		err := do()
		if err == nil || n == tries || !errors.Is(err, ErrUnreachable) || ctx.Err() != nil {
			return err
		}
		if err := attended.Pause(ctx, time.Duration(n)*c.pause); err != nil {
			return err
		}
	}
}

// get starts a request and returns the body of a good answer, and its length,
// -1 if that is not known. Each redirect is a request of its own, with the
// credentials of its own address only.
func (c *Client) get(ctx context.Context, u *url.URL, name, accept string) (io.ReadCloser, int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	hop := *c.http
	hop.Transport = credentialed{c.http.Transport, c.config, name}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		cancel(nil)
		return nil, 0, err
	}
	r.Header.Set("Accept", accept)
	r.Header.Set("User-Agent", "securebench")
	res, err := hop.Do(r)
	if err != nil {
		cancel(nil)
		return nil, 0, unreachable(err)
	}
	if res.StatusCode != http.StatusOK {
		res.Body.Close()
		cancel(nil)
		return nil, 0, statusError(res)
	}
	return newBody(res.Body, c.stall, cancel), res.ContentLength, nil
}

// statusError says what an answer other than 200 means.
func statusError(res *http.Response) error {
	status := redact.EscapeShort(res.Status, 60)
	switch res.StatusCode {
	case http.StatusNotFound, http.StatusGone:
		return fmt.Errorf("%w (%s)", ErrNotFound, status)
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return fmt.Errorf("%w (%s): check the credentials in .npmrc", errDenied, status)
	}
	return fmt.Errorf("%w: it answered %s", ErrUnreachable, status)
}

// unreachable describes an error of a connection without the request's address,
// which the caller names.
func unreachable(err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		err = e.Err
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) { // the address is in the caller's message
		err = op.Err
	}
	var rejected *tls.CertificateVerificationError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &rejected):
		return fmt.Errorf("%w: its certificate is not trusted: %s (name the authority with cafile in .npmrc)", ErrUnreachable, source.Words(rejected.Err))
	}
	return fmt.Errorf("%w: %s", ErrUnreachable, redact.EscapeShort(source.Words(err), 300))
}

// credentialed adds to each request the credentials of its address. They are not
// in the request that a redirect copies.
type credentialed struct {
	next   http.RoundTripper
	config *Config
	name   string
}

func (t credentialed) RoundTrip(r *http.Request) (*http.Response, error) {
	h, err := t.config.Authorization(r.URL, t.name)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Del("Authorization")
	if h != "" {
		r.Header.Set("Authorization", h)
	}
	return t.next.RoundTrip(r)
}

// body ends its request if it sends nothing for a while.
type body struct {
	io.ReadCloser
	timer  *time.Timer
	limit  time.Duration
	cancel context.CancelCauseFunc
}

var errStalled = errors.New("it stopped sending")

func newBody(r io.ReadCloser, limit time.Duration, cancel context.CancelCauseFunc) *body {
	return &body{ReadCloser: r, limit: limit, cancel: cancel, timer: time.AfterFunc(limit, func() { cancel(errStalled) })}
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.timer.Reset(b.limit)
	return n, err
}

func (b *body) Close() error {
	b.timer.Stop()
	b.cancel(nil)
	return b.ReadCloser.Close()
}
