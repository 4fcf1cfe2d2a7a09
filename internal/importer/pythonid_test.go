package importer

import (
	"testing"
)

// TestParamID: the names are pytest's.
func TestParamID(t *testing.T) {
	for line, want := range map[string]string{
		`[0, 7]`: "7", `[0, -0]`: "0", `[0, 1.50]`: "1.5", `[0, 2.0]`: "2.0", `[0, 1e-5]`: "1e-05", `[0, 1E16]`: "1e+16", `[0, 1e15]`: "1000000000000000.0", `[0, 0.0001]`: "0.0001", `[0, -0.0]`: "-0.0",
		`[0, true]`: "True", `[0, false]`: "False", `[0, null]`: "None", `[0, "a b"]`: "a b", `[0, "a\\\n\té\u4e2d\ud83d\ude00"]`: `a\\\n\t\xe9\u4e2d\U0001f600`,
		`[0, []]`: "expected3", `[0, {}]`: "expected3",
	} {
		c, err := parseCase(line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if got := paramID("expected", 3, c.Items[1]); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	for _, line := range []string{"", "1", "[1]", "[1, 2, 3]", "[1, 2] x", `{"a": 1, "b": 2}`} {
		if _, err := parseCase(line); err == nil {
			t.Errorf("%q was accepted", line)
		}
	}
}
