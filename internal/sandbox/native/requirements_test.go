package native_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/dockertest"
	"securebench/internal/sandbox/native"
)

// TestRequirements compares what is said of this machine with whether the engine
// opens here. Package require tests what trying leaves.
func TestRequirements(t *testing.T) {
	if os.Getenv("SECUREBENCH_TEST_NATIVE") == "never" {
		t.Skip("SECUREBENCH_TEST_NATIVE=never")
	}
	cfg := native.Config{Images: filepath.Join(t.TempDir(), "images"), Helper: dockertest.Helper(t), Getenv: os.Getenv}
	all := native.Requirements(t.Context(), cfg)
	complete := !slices.ContainsFunc(all, func(r sandbox.Requirement) bool { return !r.Optional && !r.Holds })
	e, err := native.New(t.Context(), cfg)
	if complete && err != nil {
		t.Errorf("everything holds, and the engine does not open: %v", err)
	}
	if err == nil {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}
