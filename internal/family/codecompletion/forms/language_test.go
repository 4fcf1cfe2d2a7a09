package forms

import "testing"

func TestIsLocal(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "a/b": true, "...": true, "..a": true, "a..": true,
		"": false, ".": false, "..": false, "../a": false, "a/..": false, "a/../b": false, "/a": false, "a/": false, "./a": false,
		"a//b": false, `a\b`: false, "a\x00": false,
	} {
		if got := isLocal(name); got != want {
			t.Errorf("IsLocal(%q) = %t", name, got)
		}
	}
}
