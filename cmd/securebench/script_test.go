package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"securebench": main})
}

// TestScripts runs the command line as a user would. The condition [docker]
// holds where an engine answers; where SECUREBENCH_TEST_DOCKER is "require",
// it holds always, so that a missing engine fails instead of skipping.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("SECUREBENCH_TEST_IMAGE", testImage())
			env.Setenv("DOCKER_HOST", os.Getenv("DOCKER_HOST"))
			env.Setenv("SECUREBENCH_KEYS", filepath.Join(env.WorkDir, ".keys"))
			packs, err := filepath.Abs(filepath.Join("..", "..", "packs"))
			if err != nil {
				return err
			}
			env.Setenv("PACKS", packs)
			if !engineAnswers() {
				return nil
			}
			// The test binary may be dynamically linked; workspaces need a
			// static one.
			path, err := binary()
			env.Setenv("SECUREBENCH_HELPER", path)
			return err
		},
		Condition: func(cond string) (bool, error) {
			if cond != "docker" {
				return false, nil
			}
			return os.Getenv("SECUREBENCH_TEST_DOCKER") == "require" || engineAnswers(), nil
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
