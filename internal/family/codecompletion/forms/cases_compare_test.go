package forms

import (
	"bytes"
	"math/big"
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	for _, tt := range []struct {
		how, tolerance, got, want string
		same                      bool
	}{
		{exact, "", "5\n", "5\n", true},
		{exact, "", "5", "5\n", false},
		{"unknown", "", "5", "5\n", false},
		{whitespace, "", " 1\t2\r\n3", "1 2\n3\n", true},
		{whitespace, "", "", " \n", true},
		{whitespace, "", "12 3", "1 23", false},
		{whitespace, "", "1 2 3", "1 2", false},
		{whitespace, "", "1.0", "1", false},
		{whitespace, "", "yes", "YES", false},
		{numeric, "", "1.0 +2 3e0 .5", "1 2 3 0.50", true},
		{numeric, "", "1.0000001", "1", false},
		{numeric, "0.001", "1.001", "1", true},
		{numeric, "0.001", "1.0011", "1", false},
		{numeric, "0.001", "-0.0005", "0.0005", true},
		{numeric, "1e-9", "x 1.0", "x 1", true},
		{numeric, "1e-9", "Yes 1.0", "yes 1", false},
		{numeric, "1e9", "nan", "1", false},
		{numeric, "1e9", "inf", "1", false},
		{numeric, "1e9", "1e99999", "1", false},
		{numeric, "1e9", "1e500", "1", false},
		{numeric, "1e9", "0x10", "16", false},
		{numeric, "1e9", "1/2", "0.5", false},
		{numeric, "1e9", "1_0", "10", false},
		{numeric, "1e9", strings.Repeat("9", 401), "1", false},
		{numeric, "1e9", "1,000", "1000", false},
		{numeric, "0.5", "5", "five", false},
	} {
		c := comparison{how: tt.how}
		if tt.tolerance != "" {
			c.tolerance, _ = new(big.Rat).SetString(tt.tolerance)
		}
		if got := c.same([]byte(tt.got), []byte(tt.want)); got != tt.same {
			t.Errorf("%s within %q: %q for %q: %t", tt.how, tt.tolerance, tt.got, tt.want, got)
		}
	}
}

// FuzzCompare: no output is the same as a text that it does not equal word by word,
// except numbers.
func FuzzCompare(f *testing.F) {
	for _, s := range []string{"5", "1e400", "-.5e-399", "\x00\xff", "1 2\u00a03", "9e9999"} {
		f.Add([]byte(s), []byte("5 0.5"))
	}
	f.Fuzz(func(t *testing.T, got, want []byte) {
		words := func(b []byte) string { return string(bytes.Join(bytes.Fields(b), []byte(" "))) }
		equal := words(got) == words(want)
		if same := (comparison{how: whitespace}).same(got, want); same != equal {
			t.Errorf("whitespace: %q, %q: %t", got, want, same)
		}
		if same := (comparison{how: exact}).same(got, want); same != bytes.Equal(got, want) {
			t.Errorf("exact: %q, %q: %t", got, want, same)
		}
		near := comparison{how: numeric, tolerance: big.NewRat(1, 2)}
		if near.same(got, want) != near.same(want, got) || !near.same(got, got) {
			t.Errorf("numeric is not symmetric: %q, %q", got, want)
		}
	})
}
