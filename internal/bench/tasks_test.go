package bench

import (
	"os/exec"
	"strings"
	"testing"
)

// TestCheckCommand: the floor's processes do score.
func TestCheckCommand(t *testing.T) {
	wrong := strings.Replace(solution, "len(word) > len(best)", "len(word) < len(best)", 1)
	for name, c := range map[string]struct {
		solution string
		passes   bool
	}{
		"right":       {solution, true},
		"wrong":       {wrong, false},
		"empty":       {"", false},
		"ends itself": {solution + "raise SystemExit(0)\n", false},
	} {
		argv := checkCommand(c.solution)
		out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput()
		if (err == nil) != c.passes {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
