package registry

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// serve starts a registry and a client that trusts it.
func serve(t *testing.T, handle http.HandlerFunc) (*Client, *url.URL) {
	t.Helper()
	s := httptest.NewTLSServer(handle)
	t.Cleanup(s.Close)
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(s.Certificate())
	c := New(Options{TLS: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: trusted}, Pause: time.Millisecond, CredentialsAt: "settings",
		AuthoritiesAt: "settings", Proxy: func(*url.URL) (*url.URL, error) { return nil, nil }}) //nolint:nilnil // none
	t.Cleanup(c.Close)
	return c, at
}

// read asks until an answer is whole.
func read(ctx context.Context, c *Client, at *url.URL) (text string, err error) {
	err = c.Repeat(ctx, func() error {
		answer, err := c.Get(ctx, at, "", "*/*")
		if err != nil {
			return err
		}
		defer answer.Close()
		b, err := io.ReadAll(answer)
		text = string(b)
		return err
	})
	return text, err
}

// TestAnswers: what an answer means, and whether it is asked for again. No error has the
// address, whose credentials it would show.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]struct {
		err   error
		asked int32
	}{
		http.StatusOK: {nil, 1}, http.StatusNotFound: {ErrNotFound, 1}, http.StatusGone: {ErrNotFound, 1},
		http.StatusUnauthorized: {ErrDenied, 1}, http.StatusForbidden: {ErrDenied, 1}, http.StatusProxyAuthRequired: {ErrDenied, 1},
		http.StatusBadGateway: {ErrUnreachable, 3}, http.StatusTooManyRequests: {ErrUnreachable, 3}, http.StatusAccepted: {ErrUnreachable, 3},
	} {
		var asked atomic.Int32
		c, at := serve(t, func(w http.ResponseWriter, _ *http.Request) { asked.Add(1); w.WriteHeader(status) })
		at.User = url.UserPassword("me", "secret")
		_, err := read(t.Context(), c, at)
		if !errors.Is(err, want.err) || asked.Load() != want.asked {
			t.Errorf("%d: asked %d times, %v", status, asked.Load(), err)
		}
		if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), at.Host)) {
			t.Errorf("%d: the error has the address: %v", status, err)
		}
	}
}

// TestCut: an answer that ends early is asked for again, whole.
func TestCut(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	c, at := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "7")
		if asked.Add(1) == 1 {
			io.WriteString(w, "cut")
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, "content")
	})
	if text, err := read(t.Context(), c, at); err != nil || text != "content" || asked.Load() != 2 {
		t.Errorf("got %q, %v after %d", text, err, asked.Load())
	}
}

// TestRedirects: a registry leads no client away from HTTPS, nor on without end.
func TestRedirects(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]string{"http://plain.example/x": "https address", "file:///etc/passwd": "https address", "/again": "too many redirects", "/end": ""} {
		c, at := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/end" {
				io.WriteString(w, "content")
				return
			}
			http.Redirect(w, r, to, http.StatusFound)
		})
		text, err := read(t.Context(), c, at)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) || err == nil && text != "content" {
			t.Errorf("to %s: %q, %v", to, text, err)
		}
	}
	c, _ := serve(t, func(http.ResponseWriter, *http.Request) {})
	if _, err := read(t.Context(), c, &url.URL{Scheme: "http", Host: "plain.example"}); err == nil || !strings.Contains(err.Error(), "must be an https address") {
		t.Errorf("asked without TLS: %v", err)
	}
}

// TestStalled: a registry that stops sending is left.
func TestStalled(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	c, at := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "con")
		_ = http.NewResponseController(w).Flush()
		<-release
	})
	t.Cleanup(func() { close(release) })
	c.stall = 50 * time.Millisecond
	if _, err := read(t.Context(), c, at); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), errStalled.Error()) {
		t.Errorf("got %v", err)
	}
}

// TestUnknownAuthority: the error names the setting that helps.
func TestUnknownAuthority(t *testing.T) {
	t.Parallel()
	c, at := serve(t, func(http.ResponseWriter, *http.Request) {})
	c.transport.TLSClientConfig.RootCAs = x509.NewCertPool()
	if _, err := read(t.Context(), c, at); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "name the authority with settings") {
		t.Errorf("got %v", err)
	}
}
