// Package enginetest gives tests an engine and images, or a reason why there are none:
// native where that runs on this machine, else Docker, or the engine that a test asks
// for.
//
// SECUREBENCH_TEST_ENGINE names the engine: native, docker, or auto, which is the
// default. A test that needs one that is missing is skipped with the reason, unless
// SECUREBENCH_TEST_DOCKER or SECUREBENCH_TEST_NATIVE is require: then it fails. With
// never it is skipped in any case. The images of native are those of the user's image
// store, or are taken from a local Docker engine, once.
package enginetest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"securebench/internal/sampletest"
	"securebench/internal/sandbox"
)

// Engine is an engine, with more that tests look at.
type Engine interface {
	sandbox.Engine
	sandbox.Importer
	sandbox.Overlays
	// Owned names what this process has on the engine.
	Owned(ctx context.Context) ([]string, error)
}

// Open returns an engine for one test, which closes its boxes and workspaces.
func Open(t testing.TB) Engine {
	t.Helper()
	return closed(t, Connect(t))
}

// closed closes an engine at a test's end.
func closed[E sandbox.Engine](t testing.TB, e E) E {
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// Connect returns an engine for several tests: the caller closes it.
func Connect(t testing.TB) Engine {
	t.Helper()
	if Name() == dockerName {
		return connectDocker(t)
	}
	return ConnectNative(t)
}

// Name is the name of the engine that tests use.
func Name() string { return name() }

var name = sync.OnceValue(func() string {
	if n := os.Getenv(envEngine); n == dockerName || n == nativeName {
		return n
	}
	if nativeRuns() {
		return nativeName
	}
	return dockerName
})

const (
	envEngine  = "SECUREBENCH_TEST_ENGINE"
	dockerName = "docker"
	nativeName = "native"
)

// Kind is one of the engines.
type Kind struct {
	Name string
	// Open makes an engine for one test, closes it at its end, and skips the test
	// if the machine has none. The test closes its boxes and workspaces.
	Open func(t testing.TB) Engine
}

// Kinds lists the engines.
func Kinds() []Kind {
	return []Kind{
		{dockerName, func(t testing.TB) Engine { return Docker(t) }},
		{nativeName, func(t testing.TB) Engine { return Native(t) }},
	}
}

// Each runs a test on each engine.
func Each(t *testing.T, test func(t *testing.T, e Engine)) {
	t.Helper()
	for _, k := range Kinds() {
		t.Run(k.Name, func(t *testing.T) { test(t, k.Open(t)) })
	}
}

// Sampled runs a test on each engine if all tests run, else on the engine of tests. It is
// for code that uses engines: their own tests show that they behave alike.
func Sampled(t *testing.T, test func(t *testing.T, e Engine)) {
	t.Helper()
	if sampletest.Whole() {
		Each(t, test)
		return
	}
	t.Run(Name(), func(t *testing.T) { test(t, Open(t)) })
}

// Sleep is a statement of Python that gives an engine the time to notice an
// exhausted limit on processes: Docker looks now and then, native needs none.
func Sleep(e sandbox.Engine, seconds int) string {
	if builds(e) {
		return fmt.Sprintf("time.sleep(%d)", seconds)
	}
	return "pass"
}

// builds reports whether an engine is the one that builds images: Docker.
func builds(e sandbox.Engine) bool {
	_, ok := e.(sandbox.Builder)
	return ok
}
