package config

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"securebench/internal/lazyregexp"
	"securebench/internal/source"
)

var (
	runtimePattern = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	sizePattern    = lazyregexp.New(`^([0-9]+)(B|KiB|MiB|GiB|TiB)$`)
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
