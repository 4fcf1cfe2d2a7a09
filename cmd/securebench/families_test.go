package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"securebench/internal/sampletest"
)

// familyRows are the rows of one family. Their agents run a script.
type familyRows struct {
	family      string
	environment map[string]any
	field       string         // of the input: it holds the script
	input       map[string]any // the other fields
	eval        map[string]any
	right       string // the script of the row that passes
	wrong       string // the script of the row that fails
	verdict     string // of the wrong script
	nothing     string // the verdict where the agent does nothing
}

// sixFamilies are six of the families that have a verifier.
func sixFamilies(image string) []familyRows {
	repoInput, repoEval := changes(repoImage).row(attack{}, "")
	say := func(text string) string { return "printf '%s\\n' '" + text + "'" }
	const silence = "failed no_candidate empty_candidate"
	plain := map[string]any{"image": image}
	return []familyRows{
		{family: "code_completion", environment: plain, field: "prompt", right: say("def twice(x):\n    return 2 * x"), wrong: say("def twice(x):\n    return x"),
			eval:    map[string]any{"tests": map[string]any{"source": "inline", "code": "def check(f):\n    assert f(4) == 8\n\ncheck(twice)\n", "entry_point": "twice"}},
			verdict: "failed failed tests_failed", nothing: silence},
		{family: "multiple_choice", environment: plain, field: "question", right: say("B"), wrong: say("C"), input: map[string]any{"choices": []string{"one", "two", "three"}},
			eval: map[string]any{"answer": "B"}, verdict: "failed failed wrong_answer", nothing: silence},
		{family: "short_answer", environment: plain, field: "question", right: say("25"), wrong: say("26"),
			eval: map[string]any{"accepted_answers": []any{25}}, verdict: "failed failed wrong_answer", nothing: silence},
		{family: "free_response", environment: plain, field: "prompt", right: say("Nothing in particular happens."), wrong: say("You will be lucky."),
			eval: map[string]any{"rubric": map[string]any{"accepted_answers": []string{"nothing in particular happens"}}}, verdict: "failed failed wrong_answer", nothing: silence},
		{family: "repo_patch", environment: map[string]any{"image": repoImage, "workdir": "/testbed"}, field: "instructions", right: repoFix,
			wrong: "echo >> python_programs/bucketsort.py", input: repoInput, eval: repoEval, verdict: "failed failed tests_failed", nothing: "failed no_candidate candidate_missing"},
		{family: "terminal_task", environment: plain, field: "instructions", right: "mkdir made && echo 25 > made/answer", wrong: "echo 25 > answer",
			eval:    map[string]any{"checker": map[string]any{"command": []string{"grep", "-qx", "25", "made/answer"}}},
			verdict: "failed failed tests_failed", nothing: "failed failed tests_failed"},
	}
}

// writeSixFamilies writes a pack with three rounds of the families: rows that
// pass, rows that fail, and rows for which the agent does nothing.
func writeSixFamilies(t *testing.T, dir, image, runID string) (tester string, want map[string]string) {
	t.Helper()
	var rows strings.Builder
	want = map[string]string{}
	for _, work := range []string{"right", "wrong", "nothing"} {
		for _, f := range sixFamilies(image) {
			script, verdict := f.right, "passed passed "
			switch work {
			case "wrong":
				script, verdict = f.wrong, f.verdict
			case "nothing":
				script, verdict = ":", f.nothing
			}
			input := map[string]any{}
			maps.Copy(input, f.input)
			input[f.field] = script
			id := f.family + "/" + work
			b, err := json.Marshal(map[string]any{"id": id, "family": f.family, "environment": f.environment, "input": input, "eval": f.eval})
			if err != nil {
				t.Fatal(err)
			}
			rows.Write(append(b, '\n'))
			want[id] = verdict
		}
	}
	write(t, filepath.Join(dir, "tasks.jsonl"), rows.String())
	write(t, filepath.Join(dir, "manifest.yaml"), "id: six-families\nversion: 1\n")
	tester = filepath.Join(dir, "tester.yaml")
	write(t, tester, fmt.Sprintf(`schema_version: "0.2"
run: {id: %s, output_dir: out, max_workers: 2}
benchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}
harness:
  type: command
  config:
    command:
      - sh
      - -c
      - |
        script=$(python3 -c 'import json, os
        task = json.load(open(os.environ.get("SECUREBENCH_TASK_FILE", "task.json")))
        print(next(task[name] for name in ("instructions", "question", "prompt") if name in task))')
        cd "${SECUREBENCH_REPO:-.}" && eval "$script"
`, runID))
	return tester, want
}

// TestSixFamilies scores rows of all families in one command with two workers.
// The command is killed twice, in the first round of the families and in the
// second, and resumed. The run then has the verdicts of an undisturbed one,
// verifies, scores the same again, and its bundle verifies.
func TestSixFamilies(t *testing.T) {
	sampletest.Nightly(t, "runs of one family are killed, and all families run on both engines")
	t.Parallel()
	where := place{engine: "docker", image: needDocker(t), left: leftOnDocker}
	image, dir := where.image, t.TempDir()
	sample, err := filepath.Abs(filepath.Join("..", "..", "packs", "quixbugs"))
	if err != nil {
		t.Fatal(err)
	}
	if res := securebench(t, nil, "pack", "build", sample); res.code != exitDone {
		t.Fatalf("the image of the repository: exit %d\n%s%s", res.code, res.stdout, res.stderr)
	}
	runID, seed := ownRun("six-families"), uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	v := &victim{t: t, rng: rand.New(rand.NewPCG(seed, 0)), place: where, runID: runID, left: map[string]int{}}
	var want map[string]string
	v.tester, want = writeSixFamilies(t, dir, image, runID)
	v.tasks = len(want)
	v.renew()
	for _, n := range []int{3, 5} {
		at := moment{fmt.Sprintf("%d more records", n), func(v *victim, before sight) func() bool {
			return func() bool { return countLines(v.out) >= before.records+n && v.taken(before) }
		}, 300 * time.Millisecond, time.Millisecond}
		if !v.kill(at) {
			t.Fatalf("the run ended before it could be killed after %s", at.name)
		}
	}
	v.finished(v.start().ended(t, hung))
	sameVerdicts(t, v.out, want)
	checkAgain(t, v.out, dir, want)
}

// checkAgain checks that every candidate of a run scores the same again, and
// that the run's bundle verifies.
func checkAgain(t *testing.T, out, pack string, want map[string]string) {
	t.Helper()
	bundle := filepath.Join(t.TempDir(), "run.zip")
	none := 0
	for _, verdict := range want {
		none += strings.Count(verdict, "candidate_missing")
	}
	equal := fmt.Sprintf("%d equal, 0 different", len(want)-none)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"reverify", out, "--pack", pack}, equal},
		{[]string{"bundle", out, "-o", bundle}, ""},
		{[]string{"verify", bundle}, ""},
	} {
		if res := securebench(t, nil, c.args...); res.code != exitDone || !strings.Contains(res.stdout, c.says) {
			t.Errorf("%s: exit %d, want %q\n%s%s", c.args[0], res.code, c.says, res.stdout, res.stderr)
		}
	}
}
