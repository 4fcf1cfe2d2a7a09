package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"securebench/internal/lazyregexp"
	"securebench/internal/source"
)

var (
	labelPattern = lazyregexp.New(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	// numberPattern matches a last label by which a name is an IPv4 address to
	// some readers: 127.1 and 0x7f.1 are 127.0.0.1 to them.
	numberPattern = lazyregexp.New(`^([0-9]+|0x[0-9a-f]*)$`)
)

// ParseDomains reads a list of DNS names, normalises them and drops
// duplicates. A name is that of one host; one that begins with "*." means
// all hosts below the rest. It reports every item that is neither.
func ParseDomains(n *source.Node, what string) ([]string, source.Problems) {
	var ps source.Problems
	if n.Kind != source.List {
		ps.Add(n.Pos, "", "%s must be a list, not %s", what, n.Kind)
		return nil, ps
	}
	var out []string
	for i, it := range n.Items {
		text := it.Text
		if it.Kind != source.String {
			text = ""
		}
		d, err := parseDomain(text)
		if err != nil {
			ps.Add(it.Pos, "list host names, such as docs.python.org, or *.python.org for every host below it",
				"%s[%d] %v", what, i, err)
			continue
		}
		if !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	if len(ps) > 0 {
		return nil, ps
	}
	return out, nil
}

// parseDomain normalises a DNS name or pattern: ASCII, lower case, no trailing
// dot, at least two labels. Internationalised names are written in their xn--
// form.
func parseDomain(s string) (string, error) {
	d := strings.TrimRight(strings.TrimSpace(s), ".")
	if d == "" {
		return "", errors.New("must be a non-empty string")
	}
	// Lower-casing maps characters such as U+212A to ASCII letters, so the
	// alphabet is checked first.
	if strings.ContainsFunc(d, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", fmt.Errorf("is an invalid DNS name: %q", s)
	}
	d = strings.ToLower(d)
	base, pattern := strings.CutPrefix(d, "*.")
	switch {
	case strings.ContainsAny(base, ":/*?#@[]\\"):
		return "", fmt.Errorf("must be a DNS name without scheme, port, path or wildcard, except for a leading *. : %q", s)
	case base == "localhost" || strings.HasSuffix(base, ".localhost"):
		return "", fmt.Errorf("must not be localhost: %q", s)
	case isIP(base):
		return "", fmt.Errorf("must be a DNS name, not an IP address: %q", s)
	case !strings.Contains(base, "."):
		return "", fmt.Errorf("must have at least two labels%s: %q", map[bool]string{true: " after *."}[pattern], s)
	case len(d) > 253:
		return "", errors.New("is an invalid DNS name: longer than 253 characters")
	}
	for label := range strings.SplitSeq(base, ".") {
		if !labelPattern.MatchString(label) {
			return "", fmt.Errorf("is an invalid DNS name: %q", s)
		}
	}
	if pattern && aboveSuffix(base) {
		return "", fmt.Errorf("must not cover the domains of many owners: %q (anyone can register names below %s)", s, base)
	}
	return d, nil
}

// isIP also finds the forms of IPv4 addresses that only some readers know.
func isIP(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil || strings.Contains(s, ".") && numberPattern.MatchString(s[strings.LastIndexByte(s, '.')+1:])
}

// aboveSuffix reports whether a domain is a public suffix, or all names directly
// below it are. The proxy itself keeps a pattern from reaching across suffixes
// that lie further below, such as s3.amazonaws.com for *.amazonaws.com.
func aboveSuffix(domain string) bool {
	for _, name := range []string{domain, "x." + domain} {
		if suffix, _ := publicsuffix.PublicSuffix(name); suffix == name {
			return true
		}
	}
	return false
}
