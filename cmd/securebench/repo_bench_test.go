package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
)

// BenchmarkQuixBugs compares what a run of the oracle with one worker takes for
// each further row of the pack with what the bare engine takes for the same
// sandboxes: a workspace that begins as the image's checkout, and one box, in
// which git applies the same patches and the bare test command runs. What comes
// once in a run, such as the look at the image's repository, is in the first
// row's time.
func BenchmarkQuixBugs(b *testing.B) {
	engine := enginetest.Docker(b)
	pack, err := filepath.Abs(filepath.Join("..", "..", "packs", "quixbugs"))
	if err != nil {
		b.Fatal(err)
	}
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
	run("pack", "build", pack)
	image, err := engine.Image(b.Context(), "localhost/quixbugs-sample/programs:1")
	if err != nil {
		b.Fatal(err)
	}
	rows := benchRows(b, pack)
	oracle := func(flags ...string) time.Duration {
		start := time.Now()
		run(append([]string{"run", pack, "--agent", "oracle", "--workers", "1", "-q", "--fail-on", "any", "-o", filepath.Join(b.TempDir(), "out")}, flags...)...)
		return time.Since(start)
	}
	for b.Loop() {
		first := oracle("--limit", "1")
		rest := oracle() - first
		start := time.Now()
		for _, r := range rows[1:] {
			r.runBare(b, engine, image)
		}
		bare := time.Since(start)
		n := float64(len(rows) - 1)
		b.ReportMetric(first.Seconds(), "first-row-s")
		b.ReportMetric(rest.Seconds()/n, "s/row")
		b.ReportMetric(bare.Seconds()/n, "floor-s/row")
		b.ReportMetric(rest.Seconds()/bare.Seconds(), "ratio")
	}
}

// benchRow is what the bare engine needs of a row.
type benchRow struct {
	Eval struct {
		Tests struct {
			Command   []string `json:"command"`
			TestPatch string   `json:"test_patch"`
		} `json:"tests"`
		GoldPatch string `json:"gold_patch"`
	} `json:"eval"`
}

func benchRows(b *testing.B, pack string) (out []benchRow) {
	b.Helper()
	data, err := os.ReadFile(filepath.Join(pack, "tasks.jsonl"))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var r benchRow
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			b.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// runBare runs a row's tests over its gold patch, without any check.
func (r benchRow) runBare(b *testing.B, e sandbox.Engine, image sandbox.Image) {
	b.Helper()
	const repo = "/testbed"
	ws, err := e.Workspace(b.Context(), sandbox.WorkspaceSpec{From: &sandbox.ImageFolder{Image: image, Path: repo}})
	if err != nil {
		b.Fatal(err)
	}
	argv := append([]string{"sh", "-c", `git apply && exec "$@"`, "sh"}, r.Eval.Tests.Command...)
	box, err := e.Open(b.Context(), sandbox.Spec{Image: image, Workdir: repo, WritableRoot: true, Stdin: true, Command: argv,
		Mounts: []sandbox.Mount{{Workspace: ws, Target: repo}}})
	if err != nil {
		b.Fatal(err)
	}
	var out bytes.Buffer
	res, err := box.Run(b.Context(), sandbox.Streams{Stdin: strings.NewReader(r.Eval.GoldPatch + r.Eval.Tests.TestPatch), Stdout: &out, Stderr: &out})
	if err != nil || res.ExitCode != 0 {
		b.Fatalf("exit %d, %v: %s", res.ExitCode, err, &out)
	}
	if err := box.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	if err := ws.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
}
