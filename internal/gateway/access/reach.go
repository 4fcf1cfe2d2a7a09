package access

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"securebench/internal/redact"
)

// reachLimit bounds the connection of [Endpoint.Reach].
const reachLimit = 30 * time.Second

// ErrUnreachable is wrapped by the errors of [Endpoint.Reach].
var ErrUnreachable = errors.New("the provider cannot be reached")

// Reach connects to the provider, or to the proxy that leads there, and asks it
// nothing. An attempt waits for a provider that does not answer; a run whose
// address is wrong should end before its first task instead.
func (e *Endpoint) Reach(ctx context.Context) error {
	u, err := url.Parse(e.base)
	if err != nil {
		return err
	}
	secure := u.Scheme == "https"
	var proxy *url.URL
	if choose := e.proxy(); choose != nil {
		if proxy, err = choose(&http.Request{URL: u}); err != nil {
			return fmt.Errorf("reading the proxy variables: %w", err)
		}
	}
	if proxy != nil {
		u, secure = proxy, false // its certificate is checked with the first request
	}
	ctx, stop := context.WithTimeout(ctx, reachLimit)
	defer stop()
	d := e.dialer()
	dial := d.DialContext
	if secure {
		dial = (&tls.Dialer{NetDialer: d, Config: &tls.Config{MinVersion: tls.VersionTLS12}}).DialContext
	}
	conn, err := dial(ctx, "tcp", net.JoinHostPort(u.Hostname(), portOf(u)))
	switch {
	case errors.Is(err, ErrPlain):
		return fmt.Errorf("%s: %w", redact.Escape(u.Host), ErrPlain)
	case err != nil:
		return unreachable(u, err)
	}
	return conn.Close()
}

// portOf returns the port of an address, which its scheme implies if it has none.
func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	case u.Scheme == "https":
		return "443"
	}
	return "1080" // socks5
}

// unreachable says why there is no connection, in one line without what the host
// sent.
func unreachable(u *url.URL, err error) error {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var op *net.OpError
	var call *os.SyscallError
	why := err.Error()
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &name) && name.IsNotFound:
		why = "there is no such host"
	case errors.As(err, &name):
		why = "its name cannot be looked up"
	case errors.Is(err, context.DeadlineExceeded):
		why = "it does not answer"
	case errors.As(err, &certificate):
		why = "its certificate is not valid"
	case errors.As(err, &call): // without the call's name
		why = call.Err.Error()
	case errors.As(err, &op):
		why = op.Err.Error()
	}
	return fmt.Errorf("%w at %s: %s", ErrUnreachable, redact.Escape(u.Host), redact.EscapeShort(why, 200))
}
