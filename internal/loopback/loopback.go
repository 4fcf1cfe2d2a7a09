// Package loopback knows which hosts are this machine. What goes there crosses no
// network, so that it needs no encryption.
package loopback

import (
	"net/netip"
	"strings"
)

// IsHost reports whether a host, as in a URL, is this machine: localhost, or an address
// of the loopback without a zone.
func IsHost(host string) bool {
	a, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && a.Unmap().IsLoopback() && a.Zone() == ""
}
