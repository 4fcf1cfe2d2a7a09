package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"securebench/internal/pipeline/record"
)

// TestNothingOfOursInTheWorkspace: where files are counted, listed and committed,
// those of the task alone are there. A row that names securebench's own has them in
// the workspace, as before, and says so; so does a command of the operator's.
func TestNothingOfOursInTheWorkspace(t *testing.T) {
	t.Parallel()
	needEngine(t)
	image := corpusImage(t, "layout", "FROM "+repoImage+`
RUN mkdir -p /app/src && cd /app && echo 1 > a && echo 2 > src/b && git init -q . && git add . \
 && git -c user.name=a -c user.email=a@example.invalid commit -qm x
`)
	rows := []struct{ id, solution, checker string }{
		{"counts", `n=$(find . -type f -not -path './.git/*' | wc -l); test "$(git status --porcelain)" = "" && ls > /tmp/l && ls -A > /tmp/a && echo $n > n`,
			`test "$(cat n)" = 2 && test "$(ls -A | tr '\n' ' ')" = ".git a n src " && test "$(git status --porcelain)" = "?? n"`},
		{"reads", `python3 -c 'import json, os; print(json.load(open(os.environ["SECUREBENCH_TASK_FILE"]))["context"])' > n; cat $SECUREBENCH_PUBLIC/context.json >> n; test ! -w $SECUREBENCH_TASK_FILE`,
			`grep -qx 7 n && grep -qx '"7"' n`},
		{"old", `test -f task.json && test "$SECUREBENCH_TASK_FILE" = /app/task.json && cat securebench/public/context.json > n`,
			`cmp n securebench/public/context.json && test -s securebench/evaluation_inputs/checker.json && test ! -e task.json`},
	}
	dir := t.TempDir()
	var lines strings.Builder
	for _, r := range rows {
		b, err := json.Marshal(map[string]any{"id": r.id, "family": "terminal_task",
			"environment": map[string]any{"image": image, "workdir": "/app", "materialize_workdir_from_image": true},
			"input":       map[string]any{"instructions": "Do it.", "context": "7"},
			"eval":        map[string]any{"checker": map[string]any{"command": r.checker}, "solution": map[string]any{"command": r.solution}}})
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(b, '\n'))
	}
	write(t, filepath.Join(dir, "tasks.jsonl"), lines.String())
	write(t, filepath.Join(dir, "manifest.yaml"), "id: layout\nversion: 1\n")
	out := filepath.Join(dir, "out")
	if res := securebench(t, nil, "run", dir, "--agent", "oracle", "-o", out, "-q"); res.code != exitDone {
		t.Fatalf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
	}
	labelled := func(out, id string, old bool) {
		entries, _ := wholeLines(t, out)
		i := slices.IndexFunc(entries, func(e record.Entry) bool { return e.TaskID == id })
		if i < 0 || slices.Contains(entries[i].Labels, "old_layout") != old {
			t.Errorf("%s in %s: old_layout is not %t in %+v", id, out, old, entries)
		}
	}
	for _, r := range rows {
		if got := verdicts(t, out)[r.id]; got != "passed passed " {
			t.Errorf("%s: %s", r.id, got)
		}
		labelled(out, r.id, r.id == "old")
	}

	tester := filepath.Join(dir, "tester.yaml")
	write(t, tester, `schema_version: "0.2"
run: {id: layout, output_dir: mine}
benchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}
harness: {type: command, config: {command: "test -f task.json && ls -A | wc -l > n"}}
`)
	if res := securebench(t, nil, "run", tester, "--task", "counts", "-q"); res.code != exitDone {
		t.Fatalf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
	}
	labelled(filepath.Join(dir, "mine"), "counts", true)
}
