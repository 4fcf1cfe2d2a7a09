package engines_test

import (
	"errors"
	"strings"
	"testing"

	"securebench/internal/sandbox/engines"
)

func TestOpenRefuses(t *testing.T) {
	for name, want := range map[string]string{
		engines.Native: "sandbox.engine native is not available yet: write docker or auto",
		"podman":       `sandbox.engine "podman" is not known: write docker or auto`,
	} {
		e, err := engines.Open(t.Context(), engines.Config{Name: name})
		if e != nil || !errors.Is(err, engines.ErrUnavailable) || err.Error() != want {
			t.Errorf("Open(%q): got %v and %v, want %q", name, e, err, want)
		}
	}
}

// TestOpenSelects checks that the names of the Docker engine reach it: an
// address that it refuses is refused.
func TestOpenSelects(t *testing.T) {
	getenv := func(name string) string {
		if name == "DOCKER_HOST" {
			return "ssh://user@host"
		}
		return ""
	}
	for _, name := range []string{"", engines.Auto, engines.Docker} {
		e, err := engines.Open(t.Context(), engines.Config{Name: name, Getenv: getenv})
		if e != nil || err == nil || errors.Is(err, engines.ErrUnavailable) || !strings.Contains(err.Error(), "ssh://user@host") {
			t.Errorf("Open(%q): got %v and %v", name, e, err)
		}
	}
}
