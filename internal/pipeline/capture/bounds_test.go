package capture_test

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/memtest"
	"securebench/internal/pipeline/capture"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/holder"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// TestUnboundedTrees (W11): whatever is too much is named, and most of it is not
// even read.
func TestUnboundedTrees(t *testing.T) {
	for name, tt := range map[string]struct {
		agent  func(p *sandboxtest.Process) error
		reason verdict.Reason
		want   string
	}{
		"a sparse terabyte":      {all(write("big", ""), func(p *sandboxtest.Process) error { return os.Truncate(in(p, "big"), 1<<40) }), verdict.CandidateTooLarge, "more than"},
		"a sparse file":          {all(write("big", ""), func(p *sandboxtest.Process) error { return os.Truncate(in(p, "big"), 1<<20+1) }), verdict.CandidateTooLarge, "more than"},
		"many files":             {func(p *sandboxtest.Process) error { return many(p.Dir, 3000) }, verdict.CandidateTooLarge, "files"},
		"many files in a folder": {all(folder("f"), func(p *sandboxtest.Process) error { return many(in(p, "f"), 101) }), verdict.CandidateTooLarge, "files"},
		"200 levels":             {folder(strings.Repeat("d/", 200)), verdict.CandidateTooLarge, "deep"},
		"65 levels":              {folder(strings.Repeat("d/", 65)), verdict.CandidateTooLarge, "deep"},
		"a name of bytes":        {write("x\xff", ""), verdict.InvalidUTF8, "UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := agentChanges(t, nil, start, tt.agent)
			p.refused(t, tt.reason, tt.want)
		})
	}
	long := strings.Repeat("n", 255)
	agentLeaves(t, files(map[string]string{long: "x", "d/" + long + "/f": "y"})).want(t,
		"drwxr-xr-x app/d", "drwxr-xr-x app/d/"+long, "-rw-r--r-- app/d/"+long+"/f y", "-rw-r--r-- app/"+long+" x")
}

// TestDeletionBomb (W11): deletions count as files do; a folder is one.
func TestDeletionBomb(t *testing.T) {
	before := func(dir string) error {
		if err := os.Mkdir(filepath.Join(dir, "f"), 0o755); err != nil {
			return err
		}
		return many(filepath.Join(dir, "f"), 101)
	}
	agentChanges(t, nil, before, remove("f")).want(t, "deleted app/f")
	agentChanges(t, nil, before, all(remove("f"), folder("f"))).refused(t, verdict.CandidateTooLarge, "more than 100 files")
}

// TestBaseCostsNothing: an image's own files do not count, however many they
// are; and names and depths of theirs that no tree could have are left alone.
func TestBaseCostsNothing(t *testing.T) {
	before := func(dir string) error {
		if err := many(dir, 500); err != nil {
			return err
		}
		return files(map[string]string{"big": strings.Repeat("x", 2<<20), "x\xff": "", `a\b`: "", strings.Repeat("d/", 100) + "f": ""})(dir)
	}
	p := agentChanges(t, nil, before, write("answer", "42"))
	p.want(t, "-rw-r--r-- app/answer 42")
	agentChanges(t, nil, before, mode("big", 0o600)).refused(t, verdict.CandidateTooLarge, "more than")
	agentChanges(t, nil, before, write("big", strings.Repeat("y", 2<<20))).refused(t, verdict.CandidateTooLarge, "more than")
	agentChanges(t, nil, before, remove("x\xff")).refused(t, verdict.InvalidUTF8, "UTF-8")
}

// TestClosedFolders: what the agent's own user cannot read any more is gone, and
// listed; what it could not read before either is as it was.
func TestClosedFolders(t *testing.T) {
	closed := func(name string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeFifo, PAXRecords: map[string]string{holder.RecordType: holder.Unreadable}}
	}
	base := func(headers ...tar.Header) *candidate.Base {
		archive, in := io.Pipe()
		go func() { in.CloseWithError(fakeSpace{headers: headers}.Get(t.Context(), ".", 0, in)) }()
		b, err := candidate.ReadBase(archive, roomy)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	p := &place{stage: capture.Stage{Sink: newStore(t)}, req: capture.Request{Extraction: tree, Outcome: exited, Tree: roomy, Workdir: "/app"},
		space: fakeSpace{headers: []tar.Header{closed("d"), {Name: "new/", Typeflag: tar.TypeDir, Mode: 0o755}}}}
	p.stage.Base = base(tar.Header{Name: "d/", Typeflag: tar.TypeDir}, tar.Header{Name: "d/x", Typeflag: tar.TypeReg})
	if m := p.want(t, "deleted app/d", "drwxr-xr-x app/new").Metadata; string(m["dropped_paths"]) != `[{"path":"/app/d","reason":"unreadable"}]` {
		t.Errorf("metadata %s", m)
	}
	p.stage.Base = base(closed("d"))
	if m := p.want(t, "drwxr-xr-x app/new").Metadata; m != nil {
		t.Errorf("metadata %s", m)
	}
}

// TestTimeouts: what an agent left that ran out of time counts if the operator
// says so, and only if it is a tree.
func TestTimeouts(t *testing.T) {
	p := agentChanges(t, nil, start, write("answer", "half"))
	p.req.Outcome = sandbox.Outcome{End: sandbox.TimedOut}
	if res := p.capture(t); res.Limit != sandbox.TimedOut || res.Candidate != nil {
		t.Errorf("by default: %+v", res)
	}
	p.req.ScoreTimeouts = true
	if res := p.want(t, "-rw-r--r-- app/answer half"); res.Limit != "" {
		t.Errorf("limit %s", res.Limit)
	}
	for name, change := range map[string]func(*capture.Request){
		"another limit": func(r *capture.Request) { r.Outcome.End = sandbox.OutOfMemory },
		"a text":        func(r *capture.Request) { r.Extraction = task.Extraction{Mode: task.FromStdout, Kind: task.Text} },
	} {
		q := *p
		change(&q.req)
		if res := q.capture(t); res.Candidate != nil || res.Limit == "" {
			t.Errorf("%s: %+v", name, res)
		}
	}
	p = agentChanges(t, nil, start, all())
	p.req.Outcome.Seen = []sandbox.End{sandbox.PidsLimit}
	if res := p.capture(t); res.Limit != sandbox.PidsLimit || res.Candidate != nil {
		t.Errorf("nothing was left, and a limit explains it: %+v", res)
	}
}

// endless is a workspace with many files that are never all in memory.
type endless struct {
	fakeSpace
	files int
	size  int64
	every func(file int)
}

func (e endless) Get(_ context.Context, _ string, _ int64, w io.Writer, _ ...string) error {
	tw := tar.NewWriter(w)
	for i := range e.files {
		e.every(i)
		err := tw.WriteHeader(&tar.Header{Name: fmt.Sprintf("f%09d", i), Typeflag: tar.TypeReg, Mode: 0o644, Size: e.size})
		if err == nil {
			_, err = io.CopyN(tw, zeros{}, e.size)
		}
		if err != nil {
			return err
		}
	}
	return tw.Close()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// discarded is a sink that keeps nothing.
type discarded struct{}

func (discarded) Put(kind task.CandidateKind, origin candidate.Origin, content io.Reader) (candidate.Candidate, error) {
	sum, err := candidate.Copy(kind, content, io.Discard)
	return candidate.Candidate{Kind: kind, Digest: sum, Origin: origin}, err
}

// TestMemoryDoesNotGrow: capture holds as much after many files as after few,
// whether they are new or the same as in the base.
func TestMemoryDoesNotGrow(t *testing.T) {
	n := 20_000
	if testing.Short() {
		n = 4000
	}
	var held []int64
	space := endless{files: n, size: 1000, every: func(i int) {
		if i == n/10 || i == n-1 {
			held = append(held, memtest.Kept())
		}
	}}
	archive, in := io.Pipe()
	go func() { in.CloseWithError(space.Get(t.Context(), ".", 0, in)) }()
	base, err := candidate.ReadBase(archive, candidate.Bounds{Bytes: 1 << 30, Files: int64(n)})
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*candidate.Base{"new files": nil, "unchanged files": base} {
		held = nil
		res, err := capture.Stage{Sink: discarded{}, Base: b}.Capture(t.Context(), capture.Request{Extraction: tree, Outcome: exited, Workdir: "/app",
			Tree: candidate.Bounds{Bytes: 1 << 30, Files: int64(n)}}, space)
		if err != nil || res.Candidate == nil {
			t.Fatal(res, err)
		}
		// What is under way varies; anything that is kept of each file is more.
		if grown := held[1] - held[0]; grown > 1<<20 {
			t.Errorf("%s: %d bytes more are held after %d files than after %d", name, grown, n, n/10)
		}
	}
	runtime.KeepAlive(base)
}
