package policy

import (
	"slices"
	"testing"
)

// TestDenied: importers open what the default deny list would deny to the
// reference patch; what no policy can open is not theirs to list.
func TestDenied(t *testing.T) {
	for _, tt := range []struct {
		name        string
		paths, want []string
	}{
		{"no paths", nil, nil},
		{"plain code", []string{"src/a.py", "README.md"}, nil},
		{"in the order given", []string{"setup.py", "src/a.py", "conftest.py", "tests/test_a.py"}, []string{"setup.py", "conftest.py", "tests/test_a.py"}},
		{"never allowed", []string{"../setup.py", "/setup.py", ".git/config", "sub/.GIT/config", "securebench/x", ""}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Denied(tt.paths)
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if again := Denied(slices.DeleteFunc(slices.Clone(tt.paths), func(p string) bool { return slices.Contains(got, p) })); len(again) > 0 {
				t.Errorf("without them, denied: %q", again)
			}
		})
	}
}
