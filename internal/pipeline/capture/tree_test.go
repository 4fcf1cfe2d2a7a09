package capture_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/candidate"
	"securebench/internal/pipeline/capture"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/holder"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

var (
	tree  = task.Extraction{Mode: task.FromWorkspace, Kind: task.Workspace}
	roomy = candidate.Bounds{Bytes: 1 << 20, Files: 100}
)

// A place is a sandbox in memory whose agent has ended.
type place struct {
	stage capture.Stage
	req   capture.Request
	space sandbox.Workspace
}

// agentLeaves runs an agent in memory that writes into its empty workspace at
// /app.
func agentLeaves(t *testing.T, write func(dir string) error) *place {
	t.Helper()
	return agentChanges(t, nil, nil, func(p *sandboxtest.Process) error { return write(p.Dir) })
}

// agentChanges runs an agent in memory in a workspace at /app that begins with
// what before writes, over an image.
func agentChanges(t *testing.T, image fs.FS, before func(dir string) error, agent func(*sandboxtest.Process) error) *place {
	t.Helper()
	programs := map[string]sandboxtest.Program{}
	for name, do := range map[string]func(*sandboxtest.Process) error{"before": func(p *sandboxtest.Process) error { return before(p.Dir) }, "agent": agent} {
		programs[name] = func(_ context.Context, p *sandboxtest.Process) int {
			if err := do(p); err != nil {
				t.Error(err)
			}
			return 0
		}
	}
	e := sandboxtest.New(sandboxtest.Config{Programs: programs, Root: image})
	space, err := e.Workspace(t.Context(), sandbox.WorkspaceSpec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { space.Close(context.Background()) })
	run := func(name string) sandbox.Box {
		box, err := e.Open(t.Context(), sandbox.Spec{Image: sandbox.Image{ID: "x"}, Command: []string{name}, WritableRoot: image != nil,
			Mounts: []sandbox.Mount{{Workspace: space, Target: "/app"}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { box.Close(context.Background()) })
		if _, err := box.Run(t.Context(), sandbox.Streams{}); err != nil {
			t.Fatal(err)
		}
		return box
	}
	p := &place{space: space, req: capture.Request{Extraction: tree, Outcome: exited, Tree: roomy, Workdir: "/app"}, stage: capture.Stage{Sink: newStore(t)}}
	if before != nil {
		run("before")
		var archive bytes.Buffer
		if err := space.Get(t.Context(), ".", 1<<30, &archive); err != nil {
			t.Fatal(err)
		}
		if p.stage.Base, err = candidate.ReadBase(&archive, candidate.Bounds{Bytes: 1 << 30, Files: 1 << 20}); err != nil {
			t.Fatal(err)
		}
	}
	if r, ok := run("agent").(sandbox.RootReader); ok && image != nil {
		p.stage.Root = r
	}
	return p
}

// capture takes the candidate.
func (p *place) capture(t *testing.T) capture.Result {
	t.Helper()
	res, err := p.stage.Capture(t.Context(), p.req, p.space)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// want compares the tree, whose lines read returns.
func (p *place) want(t *testing.T, lines ...string) capture.Result {
	t.Helper()
	res := p.capture(t)
	if res.Candidate == nil {
		t.Fatalf("%+v", res)
	}
	if d := cmp.Diff(lines, read(t, *res.Candidate)); d != "" {
		t.Errorf("tree (-want +got):\n%s", d)
	}
	return res
}

// refused captures what is no tree.
func (p *place) refused(t *testing.T, reason verdict.Reason, message string) {
	t.Helper()
	if res := p.capture(t); res.Rejection == nil || res.Rejection.Reason != reason || !strings.Contains(res.Rejection.Message, message) {
		t.Errorf("%+v, want %s: %q", res, reason, message)
	}
}

// files writes files by name; a name that ends with a slash is a folder.
func files(all map[string]string) func(string) error {
	return func(dir string) error {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			path := filepath.Join(dir, name)
			if strings.HasSuffix(name, "/") {
				if err := os.MkdirAll(path, 0o755); err != nil {
					return err
				}
				continue
			}
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(path, []byte(all[name]), 0o644); err != nil {
				return err
			}
		}
		return nil
	}
}

// read lists what a candidate's tree holds.
func read(t *testing.T, c candidate.Candidate) []string {
	t.Helper()
	r, err := c.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var out []string
	sum, err := candidate.ReadTree(r, candidate.Bounds{Bytes: 1 << 30, Files: 1 << 20}, func(e candidate.Entry, content io.Reader) error {
		data, err := io.ReadAll(content)
		switch {
		case e.Deleted:
			out = append(out, "deleted "+e.Path)
		case e.Mode.IsRegular():
			out = append(out, fmt.Sprintf("%v %s %s", e.Mode, e.Path, data))
		default:
			out = append(out, strings.TrimSpace(fmt.Sprintf("%v %s %s", e.Mode, e.Path, e.Target)))
		}
		return err
	})
	if err != nil || sum != c.Digest {
		t.Fatalf("digest %s, want %s: %v", sum, c.Digest, err)
	}
	return out
}

// TestTreeIsCaptured: without a base, all that the agent left is new.
func TestTreeIsCaptured(t *testing.T) {
	p := agentLeaves(t, files(map[string]string{"b/c": "two", "b.txt": "three", "a": "one", "empty/": ""}))
	p.want(t, "-rw-r--r-- app/a one", "drwxr-xr-x app/b", "-rw-r--r-- app/b/c two", "-rw-r--r-- app/b.txt three", "drwxr-xr-x app/empty")
	p.req.Extraction.Path = "b"
	p.want(t, "drwxr-xr-x app/b", "-rw-r--r-- app/b/c two")
	p.req.Extraction.Path = ""
	p.req.Captured = task.Captured{Roots: []string{"/app/b/c", "/app/b.txt"}}
	p.want(t, "-rw-r--r-- app/b/c two", "-rw-r--r-- app/b.txt three")
	p.req.Captured = task.Captured{Exclude: []string{"/app/b", "/app/em"}}
	p.want(t, "-rw-r--r-- app/a one", "-rw-r--r-- app/b.txt three", "drwxr-xr-x app/empty")
	p.req.Captured = task.Captured{Roots: []string{"/app/b", "/app/never"}}
	if m := p.want(t, "drwxr-xr-x app/b", "-rw-r--r-- app/b/c two").Metadata; string(m["missing_roots"]) != `["/app/never"]` {
		t.Errorf("metadata %s", m)
	}
}

// TestUnknownWorkdir: a tree without a place would be applied at the root.
func TestUnknownWorkdir(t *testing.T) {
	if res, err := (capture.Stage{Sink: newStore(t)}).Capture(t.Context(), capture.Request{Extraction: tree, Outcome: exited, Tree: roomy}, fakeSpace{}); err == nil {
		t.Errorf("captured %+v", res)
	}
}

// TestSecretsLeaveTrees: contents are redacted before the digest is made, even
// in files that are too large for memory, and across the boundaries of writes.
// A name with a secret is refused.
func TestSecretsLeaveTrees(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	leave := files(map[string]string{"a": "key=sk-secret-value\n", "big": long + "sk-secret-value", "c": "clean"})
	b := candidate.Bounds{Bytes: 8 << 20, Files: 10}
	capturing := func(secrets *redact.Registry) capture.Result {
		p := agentLeaves(t, leave)
		p.req.Tree, p.stage.Secrets = b, secrets
		res := p.capture(t)
		if res.Candidate == nil {
			t.Fatalf("%+v", res)
		}
		return res
	}
	weak := capturing(nil)
	if !strings.Contains(strings.Join(read(t, *weak.Candidate), ""), "sk-secret-value") || weak.Candidate.Redacted {
		t.Error("without secrets to look for, nothing is redacted: the test looks in the wrong place")
	}
	got := capturing(secrets(t))
	all := strings.Join(read(t, *got.Candidate), "\n")
	if strings.Contains(all, "sk-secret-value") || strings.Count(all, "[redacted:KEY]") != 2 || !strings.Contains(all, "app/c clean") || !got.Candidate.Redacted {
		t.Errorf("redacted %v: %.200s", got.Candidate.Redacted, all)
	}
	named := agentLeaves(t, files(map[string]string{"sk-secret-value": "x"}))
	named.stage.Secrets = secrets(t)
	named.refused(t, verdict.CandidateNotRegular, "a name in the tree contains a secret")
}

// TestRefusedNamesHideSecrets: what is refused or left out is named in the
// record, so that a secret in the name of a pipe or a link would be published.
func TestRefusedNamesHideSecrets(t *testing.T) {
	for name, h := range map[string]tar.Header{
		"pipe":       {Name: "sk-secret-value", Typeflag: tar.TypeFifo},
		"unreadable": {Name: "x/sk-secret-value", Typeflag: tar.TypeFifo, PAXRecords: map[string]string{holder.RecordType: holder.Unreadable}},
		"link":       {Name: "sk-secret-value", Typeflag: tar.TypeSymlink, Linkname: "/"},
		"target":     {Name: "x", Typeflag: tar.TypeSymlink, Linkname: "sk-secret-value"},
		"climbing":   {Name: "../sk-secret-value", Typeflag: tar.TypeReg},
		"backslash":  {Name: `\sk-secret-value`, Typeflag: tar.TypeReg},
	} {
		told := func(s *redact.Registry) string {
			p := &place{capture.Stage{Sink: newStore(t), Secrets: s}, capture.Request{Extraction: tree, Outcome: exited, Tree: roomy, Workdir: "/app"}, fakeSpace{headers: []tar.Header{h}}}
			res := p.capture(t)
			if res.Candidate != nil {
				return fmt.Sprintf("%s %s", read(t, *res.Candidate), res.Metadata)
			}
			return res.Rejection.Message
		}
		if weak := told(nil); !strings.Contains(weak, "sk-secret-value") {
			t.Errorf("%s: without secrets to look for, what is told is %q", name, weak)
		}
		if got := told(secrets(t)); strings.Contains(got, "sk-secret") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestTreesThatAreRefused: what cannot be a candidate is named, and nothing of
// it is stored.
func TestTreesThatAreRefused(t *testing.T) {
	entry := func(h tar.Header) *place {
		return &place{req: capture.Request{Extraction: tree, Outcome: exited, Tree: roomy, Workdir: "/app"}, space: fakeSpace{headers: []tar.Header{h}, data: "x"}}
	}
	bounded := func(b candidate.Bounds, all map[string]string) *place {
		p := agentLeaves(t, files(all))
		p.req.Tree = b
		return p
	}
	large := entry(tar.Header{})
	large.space = fakeSpace{err: sandbox.ErrTooLarge}
	for name, tt := range map[string]struct {
		*place
		reason verdict.Reason
		want   string
	}{
		"a climbing name":  {entry(tar.Header{Name: "../x", Typeflag: tar.TypeReg}), verdict.CandidateNotRegular, `x"`},
		"a closed root":    {entry(tar.Header{Name: ".", Typeflag: tar.TypeFifo, PAXRecords: map[string]string{holder.RecordType: holder.Unreadable}}), verdict.CandidateNotRegular, "cannot read"},
		"too many bytes":   {bounded(candidate.Bounds{Bytes: 9, Files: 5}, map[string]string{"a": "0123456789"}), verdict.CandidateTooLarge, `9 bytes, at "app/a"`},
		"too many files":   {bounded(candidate.Bounds{Bytes: 9, Files: 1}, map[string]string{"a": "", "b": ""}), verdict.CandidateTooLarge, `folders, at "app/b"`},
		"more than fits":   {large, verdict.CandidateTooLarge, "more than"},
		"a long path":      {entry(tar.Header{Name: strings.Repeat("d/", 64) + "f", Typeflag: tar.TypeReg}), verdict.CandidateTooLarge, "too deep"},
		"a name of bytes":  {entry(tar.Header{Name: "x\xff", Typeflag: tar.TypeReg}), verdict.InvalidUTF8, "not valid UTF-8"},
		"a folder's bytes": {entry(tar.Header{Name: "x\xff/", Typeflag: tar.TypeDir}), verdict.InvalidUTF8, "not valid UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			store, err := candidate.OpenStore(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			tt.stage.Sink = store
			tt.refused(t, tt.reason, tt.want)
			if left, err := fs.Glob(os.DirFS(dir), "*"); err != nil || len(left) > 0 {
				t.Errorf("the store holds %v, %v", left, err)
			}
		})
	}
}
