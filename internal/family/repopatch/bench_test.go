package repopatch

import (
	"bytes"
	"context"
	"testing"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// BenchmarkVerify compares the verification of a small row with the engine's
// own cost: the same workspace and one sandbox in which the bare test command
// runs.
func BenchmarkVerify(b *testing.B) {
	bn := newBench(b, project(), "", "")
	c := bn.row(b, named())
	if got := bn.score(b, c, mended); got.Outcome != verdict.Passed {
		b.Fatal(describe(got)) // and the row is prepared from here on
	}
	var ours, bare time.Duration
	patch := candidate.New(task.Patch, candidate.Given, []byte(mended))
	for b.Loop() {
		start := time.Now()
		s := bn.v.Open(b.Context(), c)
		got, err := s.Verify(b.Context(), patch)
		if closeErr := s.Close(b.Context()); err != nil || closeErr != nil || got.Outcome != verdict.Passed {
			b.Fatal(err, closeErr, describe(got))
		}
		ours += time.Since(start)
		start = time.Now()
		runBare(b, bn)
		bare += time.Since(start)
	}
	b.ReportMetric(float64(ours.Microseconds())/1000/float64(b.N), "verify-ms/op")
	b.ReportMetric(float64(bare.Microseconds())/1000/float64(b.N), "bare-ms/op")
	b.ReportMetric(float64(ours)/float64(bare), "ratio")
}

// runBare runs the test command in the sandboxes of a verification and does
// nothing else.
func runBare(b *testing.B, bn *bench) {
	ctx := context.Background()
	ws, err := bn.engine.Workspace(ctx, sandbox.WorkspaceSpec{From: &sandbox.ImageFolder{Image: bn.image, Path: repoDir}})
	if err != nil {
		b.Fatal(err)
	}
	box, err := bn.engine.Open(ctx, sandbox.Spec{Image: bn.image, Workdir: repoDir, WritableRoot: true,
		Mounts: []sandbox.Mount{{Workspace: ws, Target: repoDir}}, Command: []string{"python3", "-B", "-m", "pytest", "-q", "tests"}})
	if err != nil {
		b.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := box.Run(ctx, sandbox.Streams{Stdout: &out, Stderr: &out}); err != nil {
		b.Fatal(err)
	}
	if err := box.Close(ctx); err != nil {
		b.Fatal(err)
	}
	if err := ws.Close(ctx); err != nil {
		b.Fatal(err)
	}
}
