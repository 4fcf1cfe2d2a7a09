package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
)

// evoRow is a row of EvoEval's form.
type evoRow struct {
	solution, tests string
}

// evoRows are two such rows: as in the data set, the solution is a shell script
// that writes the whole module, and the tests load that from its file.
var evoRows = []evoRow{
	evoRowOf("def close_pairs(numbers, threshold):\n    numbers = sorted(numbers)\n    return any(b - a < threshold for a, b in zip(numbers, numbers[1:]))\n",
		"close_pairs", `[("[1.0, 2.0, 3.0], 0.5", False), ("[1.0, 2.8, 3.0, 4.0], 0.3", True), ("[], 1.0", False)]`),
	evoRowOf("def running_maximum(numbers):\n    out = []\n    for n in numbers:\n        out.append(max(n, out[-1]) if out else n)\n    return out\n",
		"running_maximum", `[("[1, 2, 3, 2, 3, 4, 2]", [1, 2, 3, 3, 3, 4, 4]), ("[]", []), ("[5, 4]", [5, 5])]`),
}

func evoRowOf(code, name, cases string) evoRow {
	return evoRow{"#!/bin/bash\ncat > /app/solution.py << 'EOF'\n" + code + "EOF\n", fmt.Sprintf(`import importlib.util
import sys
from pathlib import Path


def test_solution_exists():
    assert Path("/app/solution.py").exists(), "solution.py file does not exist"


def test_solution_correct():
    spec = importlib.util.spec_from_file_location("solution", Path("/app/solution.py"))
    solution = importlib.util.module_from_spec(spec)
    sys.modules["solution"] = solution
    spec.loader.exec_module(solution)
    for arguments, want in %s:
        assert solution.%s(*eval("[" + arguments + "]")) == want
`, cases, name)}
}

// benchTasks is how many tasks the pack of the benchmark has: enough that the
// first one's extra cost can be told from the others'.
const benchTasks = 12

// importEvo makes a pack of tasks in EvoEval's form.
func importEvo(b *testing.B, run func(args ...string)) (pack string) {
	b.Helper()
	var rows bytes.Buffer
	for i := range benchTasks {
		r := evoRows[i%len(evoRows)]
		line, err := json.Marshal(map[string]any{"id": fmt.Sprintf("evoeval/%d", i), "instruction": "Write the function to solution.py.", "source": map[string]any{"license": "Apache-2.0"},
			"workdir": "/app", "apt_packages": []string{}, "max_agent_timeout_sec": 600, "max_test_timeout_sec": 120,
			"tests": map[string]any{"test_outputs.py": r.tests}, "oracle_solution_sh": r.solution})
		if err != nil {
			b.Fatal(err)
		}
		rows.Write(append(line, '\n'))
	}
	file := filepath.Join(b.TempDir(), "rows.jsonl")
	if err := os.WriteFile(file, rows.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	pack = filepath.Join(b.TempDir(), "pack")
	run("pack", "import", "evoeval", file, "-o", pack)
	return pack
}

// BenchmarkEvoEval compares what a run of the oracle with one worker takes for
// each further task of EvoEval's form with what the bare engine takes for the
// same sandboxes and commands. What comes once in a run, such as its start and
// the search for pytest in the image, is in the first task's time.
func BenchmarkEvoEval(b *testing.B) {
	engine := enginetest.Docker(b)
	image := enginetest.GitImage(b, engine)
	run := func(args ...string) {
		path, err := binary()
		if err != nil {
			b.Fatal(err)
		}
		cmd := exec.CommandContext(b.Context(), path, onEngine("docker", args)...)
		cmd.Env = append(os.Environ(), "SECUREBENCH_KEYS="+filepath.Join(b.TempDir(), "keys"))
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
	}
	pack := importEvo(b, run)
	oracle := func(flags ...string) time.Duration {
		start := time.Now()
		run(append([]string{"run", pack, "--agent", "oracle", "--workers", "1", "-q", "--fail-on", "any", "-o", filepath.Join(b.TempDir(), "out")}, flags...)...)
		return time.Since(start)
	}
	for b.Loop() {
		first := oracle("--limit", "1")
		rest := oracle() - first
		start := time.Now()
		for i := 1; i < benchTasks; i++ {
			evoRows[i%len(evoRows)].runBare(b, engine, image)
		}
		bare := time.Since(start)
		const n = float64(benchTasks - 1)
		b.ReportMetric(first.Seconds(), "first-row-s")
		b.ReportMetric(rest.Seconds()/n, "s/row")
		b.ReportMetric(bare.Seconds()/n, "floor-s/row")
		b.ReportMetric(rest.Seconds()/bare.Seconds(), "ratio")
	}
}

// runBare runs a row's solution in one box, and its tests over what that left in
// another one, without any check. The workspaces of the second one are made side
// by side, as a verification makes them.
func (r evoRow) runBare(b *testing.B, e sandbox.Engine, image sandbox.Image) {
	b.Helper()
	const workdir, tests = "/app", "/opt/tests"
	ctx := b.Context()
	agent, worked := r.work(b, e, image, workdir)
	var left, testFile bytes.Buffer
	w := tar.NewWriter(&testFile)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "test_outputs.py", Mode: 0o644, Size: int64(len(r.tests))})
	if err == nil {
		_, err = w.Write([]byte(r.tests))
	}
	if err := errors.Join(err, w.Close(), agent.Get(ctx, ".", 1<<20, &left)); err != nil {
		b.Fatal(err)
	}
	var spaces [2]sandbox.Workspace
	var errs [2]error
	var wg sync.WaitGroup
	for i, content := range []*bytes.Buffer{&left, &testFile} {
		wg.Go(func() {
			if spaces[i], errs[i] = e.Workspace(ctx, sandbox.WorkspaceSpec{Owner: image.User}); errs[i] == nil {
				errs[i] = spaces[i].Put(ctx, content)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		b.Fatal(err)
	}
	checked := runBox(b, e, sandbox.Spec{Image: image, Workdir: workdir, WritableRoot: true, Env: []string{"PYTHONDONTWRITEBYTECODE=1"},
		Mounts:  []sandbox.Mount{{Workspace: spaces[0], Target: workdir}, {Workspace: spaces[1], Target: tests, ReadOnly: true}},
		Command: []string{"python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", tests + "/test_outputs.py"}})
	if err := errors.Join(worked.Close(ctx), checked.Close(ctx), agent.Close(ctx), spaces[0].Close(ctx), spaces[1].Close(ctx)); err != nil {
		b.Fatal(err)
	}
}

// work runs a row's solution, and returns the workspace with what it left.
func (r evoRow) work(b *testing.B, e sandbox.Engine, image sandbox.Image, workdir string) (sandbox.Workspace, sandbox.Box) {
	b.Helper()
	ws, err := e.Workspace(b.Context(), sandbox.WorkspaceSpec{Owner: image.User})
	if err != nil {
		b.Fatal(err)
	}
	return ws, runBox(b, e, sandbox.Spec{Image: image, Workdir: workdir, Mounts: []sandbox.Mount{{Workspace: ws, Target: workdir}},
		Command: []string{"bash", "-c", r.solution}})
}

// runBox runs the command of a box, which must succeed.
func runBox(b *testing.B, e sandbox.Engine, spec sandbox.Spec) sandbox.Box {
	b.Helper()
	box, err := e.Open(b.Context(), spec)
	if err != nil {
		b.Fatal(err)
	}
	var out bytes.Buffer
	res, err := box.Run(b.Context(), sandbox.Streams{Stdout: &out, Stderr: &out})
	if err != nil || res.ExitCode != 0 {
		b.Fatalf("exit %d, %v: %s", res.ExitCode, err, &out)
	}
	return box
}
