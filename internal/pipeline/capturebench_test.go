package pipeline_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/checkout"
	"securebench/internal/pipeline/capture"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/task"
)

// large lays a repository with 3000 files and 30 MB into an image.
const large = testbed + `
python3 -c "
import os, random
random.seed(1)
for i in range(3000):
    os.makedirs('pkg/%d' % (i % 60), exist_ok=True)
    with open('pkg/%d/%d.py' % (i % 60, i), 'w') as f:
        for n in range(250):
            f.write('x%d = %s\n' % (n, random.getrandbits(100)))
"
chown -R root:root /testbed && git add -A && git commit -qm large && chown -R 1000:1000 /testbed
`

// BenchmarkCapture measures the capture of a change in a checkout of 30 MB,
// beside reading the same volume and doing nothing with it.
func BenchmarkCapture(b *testing.B) {
	e := enginetest.Docker(b)
	image := enginetest.Script(b, e, enginetest.GitImage(b, e), large, "USER 1000:1000")
	ctx := context.WithoutCancel(b.Context())
	keeper := checkout.NewKeeper(e, checkout.Options{Run: "bench"})
	base, err := keeper.Get(ctx, image, "/testbed")
	if err != nil {
		b.Fatal(err)
	}
	space, err := e.Workspace(ctx, sandbox.WorkspaceSpec{Owner: image.User, From: &base.Folder})
	if err != nil {
		b.Fatal(err)
	}
	box, err := e.Open(ctx, sandbox.Spec{Image: image, Command: []string{"sh", "-c", "echo y = 1 >> pkg/7/7.py"}, Mounts: []sandbox.Mount{{Workspace: space, Target: "/testbed"}}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		base.Release()
		if err := errors.Join(box.Close(ctx), space.Close(ctx), keeper.Close(ctx)); err != nil {
			b.Error(err)
		}
	})
	if out, err := box.Run(ctx, sandbox.Streams{}); err != nil || out.ExitCode != 0 {
		b.Fatal(out, err)
	}
	store, err := candidate.OpenStore(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	stage := capture.Stage{Sink: store, Checkout: &capture.Checkout{Space: space, Tree: base.Tree, Content: base.Content, Tracked: base.Tracked, Ignore: base.Ignore}}
	bounds := candidate.Bounds{Bytes: 256 << 20, Files: sandbox.Inodes}
	for b.Loop() {
		start := time.Now()
		if err := space.Get(ctx, ".", bounds.ArchiveSize(), io.Discard, ".git"); err != nil {
			b.Fatal(err)
		}
		bare := time.Since(start)
		start = time.Now()
		res, err := stage.Capture(ctx, capture.Request{Extraction: task.Extraction{Mode: task.FromGitDiff, Kind: task.Patch},
			Outcome: sandbox.Outcome{End: sandbox.Exited}, Tree: bounds}, nil)
		ours := time.Since(start)
		if err != nil || res.Candidate == nil {
			b.Fatal(res, err)
		}
		if patch, err := res.Candidate.Bytes(); err != nil || !strings.Contains(string(patch), "\n+y = 1\n") || len(base.Tree.Entries) < 3000 {
			b.Fatal(string(patch), err)
		}
		b.ReportMetric(ours.Seconds(), "s/capture")
		b.ReportMetric(bare.Seconds(), "floor-s/capture")
		b.ReportMetric(ours.Seconds()/bare.Seconds(), "ratio")
	}
}
