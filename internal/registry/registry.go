// Package registry asks registries of packages over HTTP: where they may be and lead,
// how long they may take, what their answers mean, and what is asked again. Its errors
// have no address, because it can hold credentials; the caller names the host.
package registry

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
	"securebench/internal/loopback"
	"securebench/internal/redact"
	"securebench/internal/source"
)

// Why a registry does not give what is wanted.
var (
	ErrNotFound    = errors.New("the registry does not have it")
	ErrDenied      = errors.New("the registry denies access")
	ErrUnreachable = errors.New("the registry cannot be reached") // asking again may help
)

const (
	tries        = 3
	maxRedirects = 5
	stall        = time.Minute // how long a body may send nothing
)

// Options say how registries are reached.
type Options struct {
	TLS   *tls.Config
	Proxy func(*url.URL) (*url.URL, error)
	// Check refuses addresses that are configured, found in an answer or redirected to;
	// nil is [CheckAddress].
	Check func(*url.URL) error
	// Credentials returns the header Authorization of a request, "" for none. Each
	// redirect is a request of its own. Nil leaves the header to the address.
	Credentials func(u *url.URL, name string) (string, error)
	// Explain says what an answer that is not good means, as far as its registry says more
	// than its status; nil is the status.
	Explain func(*http.Response) error
	// CredentialsAt and AuthoritiesAt name the settings, for errors; the latter may be "".
	CredentialsAt, AuthoritiesAt string

	Pause time.Duration // before the first repetition; later ones wait longer
}

// Client asks registries.
type Client struct {
	Options

	transport *http.Transport
	stall     time.Duration
}

// New returns a client, which is closed by [Client.Close].
func New(o Options) *Client {
	if o.Check == nil {
		o.Check = CheckAddress
	}
	return &Client{Options: o, stall: stall, transport: &http.Transport{
		Proxy:               func(r *http.Request) (*url.URL, error) { return o.Proxy(r.URL) },
		DialContext:         (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
		TLSClientConfig:     o.TLS,
		TLSHandshakeTimeout: 30 * time.Second, ResponseHeaderTimeout: time.Minute,
		MaxResponseHeaderBytes: 1 << 20, ForceAttemptHTTP2: true,
	}}
}

// Close ends the connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// CheckAddress refuses what others on the way could read or change: everything but
// HTTPS, and HTTP on this machine.
func CheckAddress(u *url.URL) error {
	if u.Scheme == "https" || u.Scheme == "http" && loopback.IsHost(u.Hostname()) {
		return nil
	}
	return fmt.Errorf("%s must be an https address", redact.Quote(u.Redacted()))
}

// Repeat tries again what failed with [ErrUnreachable].
func (c *Client) Repeat(ctx context.Context, do func() error) error {
	for n := 1; ; n++ {
		err := do()
		if err == nil || n == tries || !errors.Is(err, ErrUnreachable) || ctx.Err() != nil {
			return err
		}
		if err := attended.Pause(ctx, time.Duration(n)*c.Pause); err != nil {
			return err
		}
	}
}

// Answer is a good answer, whose body the caller closes.
type Answer struct {
	io.ReadCloser

	Length int64    // -1 if it is not known
	From   *url.URL // after all redirects
	Header http.Header
	Start  int64 // where in the whole the body begins
}

// Get asks for what is at an address. name is what the credentials are for.
func (c *Client) Get(ctx context.Context, u *url.URL, name, accept string) (*Answer, error) {
	return c.get(ctx, u, name, http.Header{"Accept": {accept}})
}

// GetFrom asks for what is at an address as it is stored, from a byte on. The answer may
// begin at the first byte all the same: always, if the whole is no longer the one with this
// tag, "" for any.
func (c *Client) GetFrom(ctx context.Context, u *url.URL, start int64, tag string) (*Answer, error) {
	h := http.Header{"Accept": {"*/*"}, "Accept-Encoding": {"identity"}}
	if start > 0 {
		h.Set("Range", fmt.Sprintf("bytes=%d-", start))
		if tag != "" {
			h.Set("If-Range", tag)
		}
	}
	return c.get(ctx, u, "", h)
}

func (c *Client) get(ctx context.Context, u *url.URL, name string, h http.Header) (*Answer, error) {
	if err := c.Check(u); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	r.Header = h
	r.Header.Set("User-Agent", "securebench")
	client := http.Client{Transport: credentialed{c, name}, CheckRedirect: c.checkRedirect}
	res, err := client.Do(r)
	if err != nil {
		cancel(nil)
		return nil, c.unreachable(err)
	}
	start, err := c.start(res)
	if err != nil {
		res.Body.Close()
		cancel(nil)
		return nil, err
	}
	return &Answer{newBody(c, res.Body, cancel), res.ContentLength, res.Request.URL, res.Header, start}, nil
}

// start is where in the whole the body of a good answer begins.
func (c *Client) start(res *http.Response) (int64, error) {
	switch res.StatusCode {
	case http.StatusOK:
		return 0, nil
	case http.StatusPartialContent:
		var from, to int64
		if _, err := fmt.Sscanf(res.Header.Get("Content-Range"), "bytes %d-%d/", &from, &to); err == nil && from >= 0 && res.Request.Header.Get("Range") != "" {
			return from, nil
		}
		return 0, fmt.Errorf("%w: it answered with a part and does not say which", ErrUnreachable)
	}
	if c.Explain != nil {
		if err := c.Explain(res); err != nil {
			return 0, err
		}
	}
	return 0, c.statusError(res)
}

// checkRedirect refuses what a registry may not send a client to.
func (c *Client) checkRedirect(r *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return errors.New("too many redirects")
	}
	return c.Check(r.URL)
}

// statusError says what an answer other than 200 means.
func (c *Client) statusError(res *http.Response) error {
	status := redact.EscapeShort(res.Status, 60)
	switch res.StatusCode {
	case http.StatusNotFound, http.StatusGone:
		return fmt.Errorf("%w (%s)", ErrNotFound, status)
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired:
		return fmt.Errorf("%w (%s): check the credentials in %s", ErrDenied, status, c.CredentialsAt)
	}
	return fmt.Errorf("%w: it answered %s", ErrUnreachable, status)
}

// unreachable describes an error of a connection without the address.
func (c *Client) unreachable(err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		err = e.Err
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		err = op.Err
	}
	var rejected *tls.CertificateVerificationError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &rejected) && c.AuthoritiesAt != "":
		return fmt.Errorf("%w: its certificate is not trusted: %s (name the authority with %s)", ErrUnreachable, source.Words(rejected.Err), c.AuthoritiesAt)
	}
	return fmt.Errorf("%w: %s", ErrUnreachable, redact.EscapeShort(source.Words(err), 300))
}

// credentialed adds to each request the credentials of its address. They are not
// in the request that a redirect copies.
type credentialed struct {
	client *Client
	name   string
}

func (t credentialed) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.client.Credentials == nil {
		return t.client.transport.RoundTrip(r)
	}
	h, err := t.client.Credentials(r.URL, t.name)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Del("Authorization")
	if h != "" {
		r.Header.Set("Authorization", h)
	}
	return t.client.transport.RoundTrip(r)
}

// body ends its request if it sends nothing for a while.
type body struct {
	io.ReadCloser

	client *Client
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

var errStalled = errors.New("it stopped sending")

func newBody(c *Client, r io.ReadCloser, cancel context.CancelCauseFunc) *body {
	return &body{r, c, time.AfterFunc(c.stall, func() { cancel(errStalled) }), cancel}
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.timer.Reset(b.client.stall)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.client.unreachable(err)
	}
	return n, err
}

func (b *body) Close() error {
	b.timer.Stop()
	b.cancel(nil)
	return b.ReadCloser.Close()
}
