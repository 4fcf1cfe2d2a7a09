package imageconfig_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/imageconfig"
)

// TestCheckVariables: an image is unusable if the kernel starts no program with its
// variables, and for nothing less.
func TestCheckVariables(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  []string
		want string
	}{
		"none":          {},
		"usual":         {env: []string{"PATH=/bin", "A="}},
		"a long one":    {env: []string{"A=" + strings.Repeat("x", 128<<10-3)}},
		"too long":      {env: []string{"A=" + strings.Repeat("x", 128<<10-2)}, want: `variable "A" has 131072 bytes`},
		"many":          {env: slices.Repeat([]string{"A=" + strings.Repeat("x", 100_000)}, 18)},
		"too many":      {env: slices.Repeat([]string{"A=" + strings.Repeat("x", 100_000)}, 19), want: "variables have 1900209 bytes"},
		"hostile names": {env: []string{strings.Repeat("\x1b", 1<<18)}, want: `\x1b`},
	} {
		err := imageconfig.CheckVariables(c.env)
		if (err != nil) != (c.want != "") || err != nil && (!errors.Is(err, sandbox.ErrUnusable) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
