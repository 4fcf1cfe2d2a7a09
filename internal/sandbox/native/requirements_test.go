package native_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/sandbox/native"
	"securebench/internal/sandbox/native/require"
	"securebench/internal/sandbox/owner"
)

// TestRequirements compares what is said of this machine with whether the engine
// opens here. Package require tests what trying leaves.
func TestRequirements(t *testing.T) {
	if os.Getenv("SECUREBENCH_TEST_NATIVE") == "never" {
		t.Skip("SECUREBENCH_TEST_NATIVE=never")
	}
	cfg := native.Config{Images: filepath.Join(t.TempDir(), "images"), Helper: enginetest.Helper(t), Getenv: os.Getenv}
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

// TestMachineWithoutID: both runtimes work where the machine has no ID, as in many
// containers and images of fresh systems, so that names of owners begin with a dot.
func TestMachineWithoutID(t *testing.T) {
	enginetest.Image(t, enginetest.Native(t)) // it skips the test where there is no engine
	who := owner.Current()
	who.Machine = ""
	for _, runtime := range []string{"runc", "crun"} {
		t.Run(runtime, func(t *testing.T) {
			if _, err := exec.LookPath(runtime); err != nil {
				t.Skip(err)
			}
			cfg := native.Config{Images: enginetest.Images(t), Helper: enginetest.Helper(t), Runtime: runtime, Owner: who, Getenv: os.Getenv}
			for _, r := range native.Requirements(t.Context(), cfg) {
				if r.Name == require.Sandbox && !r.Holds {
					t.Error(r.Found)
				}
			}
			e, err := native.New(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			works(t, e)
		})
	}
}
