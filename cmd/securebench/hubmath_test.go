package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/sampletest"
	"securebench/internal/sandbox/enginetest"
)

// TestHubMath: a worker compares mathematical expressions as the machine of the run does,
// and the records of answers that fail name the library as well.
func TestHubMath(t *testing.T) {
	sampletest.Nightly(t, "expressions are compared on one machine, and other answers by workers")
	t.Parallel()
	image := needEngine(t)
	enginetest.MathVerify(t, enginetest.Open(t))
	wheels := os.Getenv("SECUREBENCH_WHEEL_CACHE")
	if wheels == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		wheels = filepath.Join(cache, "securebench", "wheels")
	}
	f := newMachines(t)
	f.env = append(f.env, "SECUREBENCH_WHEEL_CACHE="+wheels)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "manifest.yaml"), "id: hub-math\nversion: 1\ndefaults:\n  family: short_answer\n  environment:\n    image: "+image+"\n")
	row := func(id, gold string) string {
		return `{"id": "` + id + `", "input": {"question": "What is it?"}, "eval": {"accepted_answers": ["` + gold + `"], "match": {"type": "math"}}}` + "\n"
	}
	write(t, filepath.Join(dir, "tasks.jsonl"), row("equal", `2\\sqrt{3}`)+row("other", `3\\sqrt{2}`)+row("refused", `5`))
	replay := filepath.Join(dir, "replay.jsonl")
	write(t, replay, `{"task_id": "equal", "text": "\\boxed{\\sqrt{12}}"}`+"\n"+`{"task_id": "other", "text": "\\boxed{\\sqrt{12}}"}`+"\n"+`{"task_id": "refused", "text": "\\boxed{5\\text{ million}}"}`+"\n")
	here, there := filepath.Join(t.TempDir(), "here"), filepath.Join(t.TempDir(), "there")
	// One at a time: each that runs beside others loads the library for itself.
	f.must("run", dir, "--agent", "replay:"+replay, "-o", here, "-q", "--workers", "1")
	run, addr := f.run(dir, "--agent", "replay:"+replay, "-o", there)
	worker := f.start("worker", "--hub", addr, "--credentials", f.invite("scorers", "verify"), "--slots", "1")
	f.ends(run, exitDone)
	f.ends(worker, exitDone)
	sameVerdicts(t, there, map[string]string{"equal": "passed passed ", "other": "failed failed wrong_answer", "refused": "failed failed ambiguous_answer"})
	if d := cmp.Diff(found(t, here), found(t, there)); d != "" {
		t.Errorf("records (-here +there):\n%s", d)
	}
	for name, r := range found(t, there) {
		metadata, _ := r["verifier_metadata"].(map[string]any)
		if library, _ := metadata["library"].(string); !strings.HasPrefix(library, "math-verify ") || !strings.Contains(library, "sha256:") {
			t.Errorf("%s names the library %q", name, library)
		}
	}
}
