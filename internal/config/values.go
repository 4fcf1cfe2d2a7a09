package config

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"securebench/internal/source"
)

var (
	runtimePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	labelPattern   = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	sizePattern    = regexp.MustCompile(`^([0-9]+)(B|KiB|MiB|GiB|TiB)$`)
)

const sizeFix = "write a whole number and B, KiB, MiB, GiB or TiB, such as 512MiB"

// ParseSize reads a size such as 512MiB and returns it in bytes. The unit is
// required and binary, so that 512 does not become 512 bytes by mistake.
func ParseSize(s string) (int64, error) {
	m := sizePattern.FindStringSubmatch(s)
	if m == nil {
		return 0, fmt.Errorf("invalid size %q: %s", s, sizeFix)
	}
	shift := map[string]uint{"B": 0, "KiB": 10, "MiB": 20, "GiB": 30, "TiB": 40}[m[2]]
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("the size %q is too large", s)
	}
	if n == 0 {
		return 0, fmt.Errorf("the size %q must be above 0", s)
	}
	return n << shift, nil
}

// size reads a size of at least lo bytes.
func size(lo, hi int64) readFunc[int64] {
	return func(n *source.Node, what string) (int64, *source.Problem) {
		if n.Kind != source.String {
			return 0, &source.Problem{Pos: n.Pos, Fix: sizeFix,
				Message: fmt.Sprintf("%s must be a size with a unit, not %s", what, n.Kind)}
		}
		v, err := ParseSize(n.Text)
		switch {
		case err != nil:
			return 0, source.Problemf(n.Pos, "%s: %v", what, err)
		case v < lo:
			return 0, source.Problemf(n.Pos, "%s must be at least %d bytes", what, lo)
		case v > hi:
			return 0, source.Problemf(n.Pos, "%s must be at most %d bytes", what, hi)
		}
		return v, nil
	}
}

// Seconds reads a positive number of seconds as a duration. Values below a
// millisecond are rounded up to one, so that a limit never becomes zero, which
// means none.
func Seconds(n *source.Node, what string) (time.Duration, *source.Problem) {
	f, p := n.Positive(what)
	if p != nil {
		return 0, p
	}
	if f > math.MaxInt64/float64(2*time.Second) {
		return 0, source.Problemf(n.Pos, "%s is too large", what)
	}
	return max(time.Duration(f*float64(time.Second)), time.Millisecond), nil
}

// ParseDomains reads a list of DNS names, normalises them and drops
// duplicates. It reports every item that is not a DNS name.
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
		d, err := ParseDomain(text)
		if err != nil {
			ps.Add(it.Pos, "list exact host names, such as docs.python.org", "%s[%d] %v", what, i, err)
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

// ParseDomain normalises a DNS name: ASCII, lower case, no trailing dot, at
// least two labels. Internationalised names are written in their xn-- form.
func ParseDomain(s string) (string, error) {
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
	switch {
	case strings.ContainsAny(d, ":/*?#@[]\\"):
		return "", fmt.Errorf("must be a DNS name without scheme, port, path or wildcard: %q", s)
	case d == "localhost" || strings.HasSuffix(d, ".localhost"):
		return "", fmt.Errorf("must not be localhost: %q", s)
	case isIP(d):
		return "", fmt.Errorf("must be a DNS name, not an IP address: %q", s)
	case !strings.Contains(d, "."):
		return "", fmt.Errorf("must have at least two labels: %q", s)
	case len(d) > 253:
		return "", errors.New("is an invalid DNS name: longer than 253 characters")
	}
	for label := range strings.SplitSeq(d, ".") {
		if !labelPattern.MatchString(label) {
			return "", fmt.Errorf("is an invalid DNS name: %q", s)
		}
	}
	return d, nil
}

func isIP(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}
