package egress

import (
	"net/netip"
	"strconv"
	"strings"
)

// parseAuthority reads "host", "host:port" and the same with an IPv6 address in
// brackets. The host is in normal form: lower case, without a dot at its end.
// This is the only reader of authorities, so the host that is checked is the
// host that is connected to.
func parseAuthority(s string, defaultPort int) (host string, port int, ok bool) {
	if inner, found := strings.CutPrefix(s, "["); found {
		host, rest, found := strings.Cut(inner, "]")
		a, err := netip.ParseAddr(host)
		if !found || err != nil || !a.Is6() || a.Zone() != "" {
			return "", 0, false
		}
		port, ok := parsePort(rest, defaultPort)
		return host, port, ok
	}
	host, rest := s, ""
	if i := strings.IndexByte(s, ':'); i >= 0 {
		host, rest = s[:i], s[i:]
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	port, ok = parsePort(rest, defaultPort)
	return host, port, ok && validHost(host)
}

// parsePort reads nothing, or a colon and digits.
func parsePort(s string, defaultPort int) (int, bool) {
	if s == "" {
		return defaultPort, true
	}
	digits := s[1:]
	if s[0] != ':' || len(digits) > 5 || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && n >= 1 && n <= 65535
}

// validHost reports whether a lower-case host consists of labels of letters,
// digits and hyphens.
func validHost(host string) bool {
	if len(host) > 253 {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' ||
			strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return false
		}
	}
	return true
}

// splitTarget reads the absolute form of a request target.
func splitTarget(target string) (host string, port int, path string, r *refusal) {
	scheme, rest, found := strings.Cut(target, "://")
	switch {
	case !found || strings.ContainsAny(scheme, "/?#@:"):
		return "", 0, "", malformed("a request to a proxy names the whole address, such as http://host/path")
	case !strings.EqualFold(scheme, "http"):
		return "", 0, "", denied("scheme", "only http:// is forwarded; use CONNECT for https")
	case strings.Contains(rest, "#"):
		return "", 0, "", malformed("the target has a fragment")
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	host, port, ok := parseAuthority(rest[:end], 80)
	if !ok {
		return "", 0, "", malformed("the target's host or port is invalid")
	}
	path = rest[end:]
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return host, port, path, nil
}

// withoutQuery cuts what may hold secrets off a target for the ledger.
func withoutQuery(target string) string {
	path, _, _ := strings.Cut(target, "?")
	return path
}
