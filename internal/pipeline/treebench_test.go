package pipeline_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/pipeline/capture"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/task"
)

// manyFiles is how many files the workspace of [BenchmarkTree] has.
const manyFiles = 100_000

// fillWorkspace writes 1 GiB.
const fillWorkspace = `
import os
data = os.urandom(1 << 20)
for i in range(100_000):
    if i % 1000 == 0:
        os.mkdir('/workspace/%d' % (i // 1000))
    with open('/workspace/%d/%d' % (i // 1000, i), 'wb') as f:
        f.write(data[i:i + (1 << 30) // 100_000])
`

// lab makes what [BenchmarkTree] measures, each for one iteration.
type lab struct {
	*testing.B
	ctx    context.Context
	engine sandbox.Engine
	image  sandbox.Image
}

// box makes a sandbox with a workspace of its own, which exist for the rest of
// the benchmark.
func (l lab) box(run string, spec sandbox.Spec) (sandbox.Workspace, sandbox.Box) {
	l.Helper()
	labels := sandbox.Labels{Run: run}
	space, err := l.engine.Workspace(l.ctx, sandbox.WorkspaceSpec{Labels: labels, Disk: 3 << 29, Inodes: 2 * manyFiles})
	if err != nil {
		l.Fatal(err)
	}
	spec.Labels, spec.Image, spec.User = labels, l.image, &sandbox.User{}
	spec.Mounts = []sandbox.Mount{{Workspace: space, Target: "/workspace"}}
	spec.Limits = sandbox.Limits{Memory: 4 << 30, Timeout: 10 * time.Minute, Output: 1 << 30}
	box, err := l.engine.Open(l.ctx, spec)
	if err != nil {
		l.Fatal(errors.Join(err, space.Close(l.ctx)))
	}
	l.Cleanup(func() {
		if err := errors.Join(box.Close(l.ctx), space.Close(l.ctx)); err != nil {
			l.Error(err)
		}
	})
	return space, box
}

// replay applies a tree in a new sandbox, as a verifier does.
func (l lab) replay(c candidate.Candidate) time.Duration {
	l.Helper()
	_, box := l.box("bench-"+rand.Text(), sandbox.Spec{Init: true, Capabilities: initproc.ApplyCapabilities()})
	client, err := initproc.Open(l.ctx, box)
	if err != nil {
		l.Fatal(err)
	}
	start := time.Now()
	content, err := c.Open()
	if err != nil {
		l.Fatal(err)
	}
	err = errors.Join(client.Apply(l.ctx, content), content.Close())
	took := time.Since(start)
	if err = errors.Join(err, client.Close(l.ctx)); err != nil {
		l.Fatal(err)
	}
	return took
}

// BenchmarkTree measures a tree of 1 GiB in 100,000 new files: its capture into
// the store and its way into another sandbox, beside the engine's own archive of
// the same volume, out and into another one.
func BenchmarkTree(b *testing.B) {
	l := lab{B: b, ctx: context.WithoutCancel(b.Context()), engine: enginetest.Docker(b)}
	l.image = enginetest.Image(b, l.engine)
	run := "bench-" + rand.Text()
	space, box := l.box(run, sandbox.Spec{Command: []string{"python3", "-c", fillWorkspace}})
	if out, err := box.Run(l.ctx, sandbox.Streams{}); err != nil || out.ExitCode != 0 {
		b.Fatal(out, err)
	}
	store, err := candidate.OpenStore(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	for b.Loop() {
		start := time.Now()
		size := enginetest.ArchiveOut(b, run, "/workspace")
		bareOut := time.Since(start)
		start = time.Now()
		res, err := capture.Stage{Sink: store}.Capture(l.ctx, capture.Request{Extraction: task.Extraction{Mode: task.FromWorkspace, Kind: task.Workspace},
			Outcome: sandbox.Outcome{End: sandbox.Exited}, Workdir: "/workspace", Tree: candidate.Bounds{Bytes: 3 << 29, Files: 2 * manyFiles}}, space)
		out := time.Since(start)
		if err != nil || res.Candidate == nil || res.Candidate.Size < size*9/10 {
			b.Fatal(size, res, err)
		}
		other := "bench-" + rand.Text()
		l.box(other, sandbox.Spec{Command: []string{"true"}})
		start = time.Now()
		enginetest.ArchiveIn(b, other, "/workspace", *res.Candidate)
		bareIn := time.Since(start)
		in := l.replay(*res.Candidate)
		b.ReportMetric(out.Seconds(), "s/capture")
		b.ReportMetric(bareOut.Seconds(), "floor-s/capture")
		b.ReportMetric(out.Seconds()/bareOut.Seconds(), "capture-ratio")
		b.ReportMetric(in.Seconds(), "s/replay")
		b.ReportMetric(bareIn.Seconds(), "floor-s/replay")
		b.ReportMetric(in.Seconds()/bareIn.Seconds(), "replay-ratio")
		b.ReportMetric((out+in).Seconds()/(bareOut+bareIn).Seconds(), "ratio")
	}
}
