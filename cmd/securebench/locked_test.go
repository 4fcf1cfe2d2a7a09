package main

import (
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	imagename "github.com/google/go-containerregistry/pkg/name"
	containers "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"securebench/internal/packlock"
	"securebench/internal/sandbox/enginetest"
)

// TestLockedImages: with a lock, a run, a validation and a re-verification refuse the image
// that a tag has become, in one line; without one, which is the weak set-up, they take it.
// The same image passes, and so does a new one that was locked.
func TestLockedImages(t *testing.T) {
	t.Parallel()
	enginetest.Native(t)
	s := httptest.NewServer(containers.New(containers.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(s.Close)
	ref, err := imagename.ParseReference(strings.TrimPrefix(s.URL, "http://") + "/answering:1")
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"SECUREBENCH_IMAGES=" + filepath.Join(t.TempDir(), "images")}
	publish := func(img v1.Image) {
		if err := remote.Push(ref, img); err != nil {
			t.Fatal(err)
		}
		if res := securebench(t, env, "image", "pull", ref.Name()); res.code != exitDone {
			t.Fatalf("exit %d: %s", res.code, res.stderr)
		}
	}
	honest := answeringImage(t)
	other, err := mutate.CreatedAt(honest, v1.Time{})
	if err == nil {
		other, err = mutate.Config(other, v1.Config{User: "1000:1000", Env: []string{"MOVED=1"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	publish(honest)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "tasks.jsonl"), `{"id": "a", "input": {"question": "2+2?"}, "eval": {"accepted_answers": ["4"]}}`+"\n")
	write(t, filepath.Join(dir, "manifest.yaml"), "id: locked\nversion: 1\ndefaults:\n  family: short_answer\n  environment:\n    image: "+ref.Name()+"\n")
	tester := filepath.Join(dir, "tester.yaml")
	write(t, tester, fmt.Sprintf(`schema_version: "0.2"
run: {id: %s, output_dir: out}
benchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}
sandbox: {engine: native}
harness: {type: command, config: {command: [/answer]}}
`, ownRun("locked")))
	code := filepath.Join(dir, "code")
	if err := os.Mkdir(code, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(code, "tasks.jsonl"), `{"id": "a", "input": {"prompt": "def f(): pass"}, "eval": {"tests": {"source": "inline", "code": "assert f() is None"}, "reference_solution": "def f():\n    return None\n"}}`+"\n")
	write(t, filepath.Join(code, "manifest.yaml"), "id: code\nversion: 1\ndefaults:\n  family: code_completion\n  environment:\n    image: "+ref.Name()+"\n")
	scored := filepath.Join(dir, "scored")
	says := func(code int, text string, args ...string) {
		t.Helper()
		res := securebench(t, env, args...)
		if res.code != code || !strings.Contains(res.stdout+res.stderr, text) || code != exitDone && strings.Count(res.stderr, "securebench: error: ") != 1 {
			t.Errorf("%q: exit %d, want %d and %q: %s%s", args, res.code, code, text, res.stdout, res.stderr)
		}
	}
	lock, out := filepath.Join(dir, packlock.Name), filepath.Join(dir, "out")
	says(exitProblems, "is not in images.lock", "pack", "lock", dir, "--check")
	says(exitDone, "images.lock: 1 image; 0 named by digest, 0 built on each machine", "pack", "lock", dir)
	says(exitDone, "images.lock says what the registries have: 1 image", "pack", "lock", dir, "--check")
	says(exitDone, "passed=1", "run", tester, "-q")
	says(exitDone, "1 equal, 0 different", "reverify", out, "--pack", dir)
	says(exitDone, "images.lock: 1 image", "pack", "lock", code)
	says(exitDone, "passed=0", "run", code, "--agent", "null", "--engine", "native", "-o", scored, "-q")
	says(exitDone, "1 equal, 0 different", "reverify", scored, "--pack", code, "--engine", "native")
	refused := "image " + ref.Name() + " is "
	publish(other)
	says(exitProblems, "image "+ref.Name()+" has moved: images.lock says sha256:", "pack", "lock", dir, "--check")
	says(exitRefused, refused, "run", tester, "-q", "--force")
	says(exitRefused, refused, "run", tester, "-q", "--force", "--dry-run")
	says(exitRefused, refused, "validate", code, "--engine", "native")
	says(exitRefused, refused, "reverify", scored, "--pack", code, "--engine", "native")
	locked, err := os.ReadFile(lock)
	if err == nil {
		err = os.Remove(lock)
	}
	if err != nil {
		t.Fatal(err)
	}
	says(exitDone, "passed=1", "run", tester, "-q", "--force")
	write(t, lock, string(locked))
	says(exitDone, "has moved", "pack", "lock", dir)
	says(exitDone, "passed=1", "run", tester, "-q", "--force")
	write(t, lock, "{")
	says(exitPack, "write it again with: securebench pack lock", "run", tester, "-q", "--force")
}
