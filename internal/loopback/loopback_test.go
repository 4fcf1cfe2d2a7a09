package loopback_test

import (
	"testing"

	"securebench/internal/loopback"
)

// TestIsHost: what only looks like this machine is not taken for it.
func TestIsHost(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"localhost", "LocalHost", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"} {
		if !loopback.IsHost(host) {
			t.Errorf("%s is not this machine", host)
		}
	}
	for _, host := range []string{"", "localhost.example", "127.0.0.1.example", "127.1", "0177.0.0.1", "2130706433", "0.0.0.0", "::", "::1%eth0", "[::1]", "127.0.0.1:80", "10.0.0.1"} {
		if loopback.IsHost(host) {
			t.Errorf("%q is taken for this machine", host)
		}
	}
}
