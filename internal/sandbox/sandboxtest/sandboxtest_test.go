package sandboxtest_test

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/sandbox/sandboxtest/contract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSuite(t *testing.T) {
	img := sandbox.Image{ID: "sha256:test"}
	e := sandboxtest.New(sandboxtest.Config{
		Programs: contract.Programs(),
		Images:   map[string]sandbox.Image{"test": img},
		Root:     contract.Root(),
	})
	t.Cleanup(func() {
		if n := e.Left(); n != 0 {
			t.Errorf("%d boxes and workspaces are left", n)
		}
	})
	contract.Suite(t, e, contract.Caps{Image: img})
}

func TestFailOpen(t *testing.T) {
	e := sandboxtest.New(sandboxtest.Config{})
	cause := errors.New("the engine is gone")
	e.FailOpen(2, cause)
	img, err := e.Image(t.Context(), "any")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		b, err := e.Open(t.Context(), sandbox.Spec{Image: img, Command: []string{"x"}})
		if failed := errors.Is(err, cause); failed != (i == 1) {
			t.Errorf("opening %d: got %v", i, err)
		}
		if b != nil {
			_ = b.Close(t.Context())
		}
	}
}
