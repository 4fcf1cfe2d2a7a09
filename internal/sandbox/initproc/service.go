package initproc

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	servicePause   = 50 * time.Millisecond // a pause between two attempts
	serviceAttempt = 5 * time.Second       // for one
)

// AwaitService waits until a service answers: with "tcp" one that accepts connections at
// an address HOST:PORT, with "http" one that answers a GET of a URL with a status
// from 200 to 399; redirections are not followed. It gives up when ctx ends, with
// the last error.
func AwaitService(ctx context.Context, kind, address string) error {
	try, err := serviceAttempts(kind, address)
	if err != nil {
		return err
	}
	tick := time.NewTicker(servicePause)
	defer tick.Stop()
	for {
		actx, cancel := context.WithTimeout(ctx, serviceAttempt)
		err := try(actx)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (%w)", address, context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// serviceAttempts returns a function that tries once.
func serviceAttempts(kind, address string) (func(context.Context) error, error) {
	switch kind {
	case "tcp":
		if _, _, err := net.SplitHostPort(address); err != nil {
			return nil, fmt.Errorf("the address %q is not of the form HOST:PORT: %w", address, err)
		}
		return func(ctx context.Context) error { return connectOnce(ctx, address) }, nil
	case "http":
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("%q is not a URL that begins with http:// or https://", address)
		}
		return func(ctx context.Context) error { return getOnce(ctx, address) }, nil
	}
	return nil, fmt.Errorf("%q is neither tcp nor http", kind)
}

func connectOnce(ctx context.Context, address string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// getOnce asks for a page. Whose certificate the service shows does not matter: it
// runs in the same sandbox, and nothing is believed that it says.
func getOnce(ctx context.Context, address string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	t := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	res, err := t.RoundTrip(req) // which follows no redirection
	if err != nil {
		return err
	}
	_, _ = io.CopyN(io.Discard, res.Body, 4<<10) // so that the service can finish a short answer
	_ = res.Body.Close()
	if res.StatusCode < 200 || res.StatusCode > 399 {
		return fmt.Errorf("the status is %d", res.StatusCode)
	}
	return nil
}
