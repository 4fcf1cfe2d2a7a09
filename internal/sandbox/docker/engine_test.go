package docker_test

import (
	"testing"

	"go.uber.org/goleak"

	"securebench/internal/sandbox/dockertest"
	"securebench/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSuite(t *testing.T) {
	e := dockertest.Docker(t)
	sandboxtest.Suite(t, e, sandboxtest.Caps{Image: dockertest.Image(t, e), Isolation: true})
	left, err := e.Owned(t.Context())
	if err != nil || len(left) > 0 {
		t.Errorf("left on the engine: %v, %v", left, err)
	}
}
