package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"securebench/internal/sandbox/engines"
	"securebench/internal/sandbox/imagestore"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(internetVar); address != "" {
		os.Exit(runsOn(address))
	}
	testscript.Main(m, map[string]func(){"securebench": main})
}

// execute runs the program within the test.
func execute(args []string, stdout, stderr io.Writer) int {
	return (&app{args: args}).execute(stdout, stderr)
}

// TestScripts runs the command line as a user would. The condition [docker]
// holds where an engine answers; where SECUREBENCH_TEST_DOCKER is "require",
// it holds always, so that a missing engine fails instead of skipping. [native]
// is the same for the native engine and SECUREBENCH_TEST_NATIVE.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("SECUREBENCH_TEST_IMAGE", testImage())
			env.Setenv("DOCKER_HOST", os.Getenv("DOCKER_HOST"))
			images, err := imagestore.DefaultDir(os.Getenv) // filling one takes long
			if err != nil {
				return err
			}
			env.Setenv("SECUREBENCH_IMAGES", images)
			env.Setenv("SECUREBENCH_KEYS", filepath.Join(env.WorkDir, ".keys"))
			packs, err := filepath.Abs(filepath.Join("..", "..", "packs"))
			if err != nil {
				return err
			}
			env.Setenv("PACKS", packs)
			former, err := filepath.Abs(filepath.Join("testdata", "former"))
			if err != nil {
				return err
			}
			env.Setenv("FORMER", former)
			// The test binary may be dynamically linked; workspaces need a
			// static one.
			path, err := binary()
			env.Setenv("SECUREBENCH_HELPER", path)
			return err
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "docker":
				return os.Getenv("SECUREBENCH_TEST_DOCKER") == "require" || engineAnswers(), nil
			case "native":
				return os.Getenv("SECUREBENCH_TEST_NATIVE") == "require" || nativeRuns(), nil
			}
			return false, nil
		},
	})
}

func testImage() string {
	if img := os.Getenv("SECUREBENCH_TEST_IMAGE"); img != "" {
		return img
	}
	return "securebench-python:3"
}

func engineAnswers() bool {
	return os.Getenv("SECUREBENCH_TEST_DOCKER") != "never" && exec.Command("docker", "info").Run() == nil
}

// nativeRuns reports whether the native engine runs here.
var nativeRuns = sync.OnceValue(func() bool {
	if os.Getenv("SECUREBENCH_TEST_NATIVE") == "never" {
		return false
	}
	program, err := binary()
	if err != nil {
		return false
	}
	for _, e := range engines.Examine(context.Background(), engines.Config{Helper: program, Getenv: os.Getenv}) {
		if e.Engine == engines.Native {
			return len(engines.Lacking(e.Requirements)) == 0
		}
	}
	return false
})
