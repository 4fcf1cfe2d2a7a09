package access_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"securebench/internal/gateway/access"
)

// reach tries to reach a provider at an address.
func reach(t *testing.T, address string) error {
	t.Helper()
	e, err := access.New(access.Address{API: "openai_responses", BaseURL: address}, access.Keys{Key: "sk-canary-0123456789"})
	if err != nil {
		t.Fatal(err)
	}
	return e.Reach(t.Context())
}

// TestReach: a provider that cannot be reached is found out without a request.
func TestReach(t *testing.T) {
	asked := make(chan struct{}, 10)
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{} })
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secure.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + ln.Addr().String()
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ address, want string }{
		"there":       {plain.URL + "/v1", ""},
		"refused":     {nobody, "connection refused"},
		"no host":     {"https://no-such-host.invalid/v1", "no-such-host.invalid: "},
		"certificate": {secure.URL, "its certificate is not valid"},
		"no TLS":      {"https" + strings.TrimPrefix(plain.URL, "http"), "TLS handshake"},
	} {
		t.Run(name, func(t *testing.T) {
			err := reach(t, tt.address)
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, access.ErrUnreachable) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
	if len(asked) > 0 {
		t.Error("a request was made")
	}
}
