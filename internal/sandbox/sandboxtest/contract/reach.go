package contract

import (
	"slices"
	"strings"
	"testing"

	"securebench/internal/sandbox"
)

// privilegedReach checks that root with everything that a row can be granted
// changes nothing but its own sandbox: neither a workspace that it may only
// read, nor the helper that other sandboxes start, nor the machine.
func (s *suite) privilegedReach(t *testing.T) {
	for name, readOnly := range map[string]bool{"read-only": true, "writable": false} {
		t.Run(name, func(t *testing.T) {
			input := s.workspace(t)
			put(t, input, plain("a.txt", "hello\n", 0o644))
			before := tree(t, input, ".")
			spec := s.python(probeReach, "/input")
			spec.User, spec.Capabilities = &sandbox.User{}, sandbox.Grantable()
			spec.Mounts = []sandbox.Mount{{Workspace: input, Target: "/input", ReadOnly: readOnly}}
			got := s.run(t, spec)
			if got.ExitCode != 0 {
				t.Fatalf("got %+v\n%s", got.Outcome, got.stderr)
			}
			reached := slices.DeleteFunc(strings.Split(got.stdout, "\n"), func(l string) bool { return l == "" })
			outside := slices.DeleteFunc(slices.Clone(reached), func(l string) bool { return strings.Contains(l, "/input") })
			if len(outside) > 0 {
				t.Errorf("outside of the workspace: %q", outside)
			}
			if readOnly && (len(reached) > 0 || !slices.Equal(before, tree(t, input, "."))) {
				t.Errorf("a read-only workspace was changed: %q", reached)
			}
			if !readOnly && len(reached) == 0 { // the attack is one
				t.Error("nothing of a writable workspace was changed")
			}
		})
	}
}
