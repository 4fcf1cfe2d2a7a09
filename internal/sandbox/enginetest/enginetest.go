// Package enginetest gives tests an engine, whichever this machine has: native
// where it runs, else Docker. Tests of what only one engine does use its own test
// package.
//
// SECUREBENCH_TEST_ENGINE names the engine: native, docker, or auto, which is the
// default. The variables of package dockertest and nativetest say whether a missing
// engine fails a test or skips it.
package enginetest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/dockertest"
	"securebench/internal/sandbox/nativetest"
)

// Engine is an engine with what tests look at besides.
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
	e := Connect(t)
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
	if Name() == docker {
		return dockertest.Connect(t)
	}
	return nativetest.Connect(t)
}

// Name is the name of the engine that tests use.
func Name() string { return name() }

var name = sync.OnceValue(func() string {
	if n := os.Getenv(envEngine); n == docker || n == native {
		return n
	}
	if nativetest.Runs() {
		return native
	}
	return docker
})

const (
	envEngine = "SECUREBENCH_TEST_ENGINE"
	docker    = "docker"
	native    = "native"
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
		{docker, func(t testing.TB) Engine { return dockertest.Docker(t) }},
		{native, func(t testing.TB) Engine { return nativetest.Native(t) }},
	}
}

// Each runs a test on each engine.
func Each(t *testing.T, test func(t *testing.T, e Engine)) {
	t.Helper()
	for _, k := range Kinds() {
		t.Run(k.Name, func(t *testing.T) { test(t, k.Open(t)) })
	}
}

// Image returns an image with python3 and sh.
func Image(t testing.TB, e sandbox.Engine) sandbox.Image {
	t.Helper()
	if builds(e) {
		return dockertest.Image(t, e)
	}
	return nativetest.Image(t, e)
}

// GitImage returns an image with git, python3 and pytest.
func GitImage(t testing.TB, e sandbox.Engine) sandbox.Image {
	t.Helper()
	if builds(e) {
		return dockertest.GitImage(t, e)
	}
	return nativetest.GitImage(t, e)
}

// Script makes an image of another by running a shell script in it as root, and then
// applying changes in the words of a Dockerfile. It is gone at the test's end.
func Script(t testing.TB, e sandbox.Engine, from sandbox.Image, script string, changes ...string) sandbox.Image {
	t.Helper()
	d, ok := e.(interface {
		sandbox.Engine
		sandbox.Builder
	})
	if !ok {
		return nativetest.Script(t, e, from, script, changes...)
	}
	return dockertest.Script(t, d, from, script, changes...)
}

// Derive makes an image of another, with files by their names without the leading
// slash, and changes in the words of a Dockerfile. It is gone at the test's end.
func Derive(t testing.TB, e sandbox.Engine, from sandbox.Image, files map[string]string, changes ...string) sandbox.Image {
	t.Helper()
	if !builds(e) {
		return nativetest.WithFiles(t, e, from, files, changes...)
	}
	img, err := e.Image(t.Context(), dockertest.Derive(t, from, files, changes...))
	if err != nil {
		t.Fatal(err)
	}
	return img
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
