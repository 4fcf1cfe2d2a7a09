package capture_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"securebench/internal/candidate"
	"securebench/internal/pipeline/capture"
	"securebench/internal/sandbox"
	"securebench/internal/task"
)

// A model is a folder: what is at each path. A folder is "mode/", a link is
// "->target", a file is "mode:content".
type model map[string]string

// drawModel makes up a folder.
func drawModel(rt *rapid.T, label string) model {
	m := model{}
	for _, name := range rapid.SliceOfN(rapid.StringMatching(`[ab](\.[ab])?(/[ab](\.[ab])?){0,3}`), 0, 9).Draw(rt, label) {
		m.add(name, rapid.SampledFrom([]string{"644:x", "644:y", "755:x", "755/", "700/", "->b", "644:long"}).Draw(rt, "what"))
	}
	return m
}

// add puts something at a path, and folders above it, unless a file is in the
// way.
func (m model) add(name, what string) {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if is, ok := m[dir]; ok && !strings.HasSuffix(is, "/") {
			return
		}
	}
	if below := slices.ContainsFunc(slices.Collect(maps.Keys(m)), func(p string) bool { return strings.HasPrefix(p, name+"/") }); below && !strings.HasSuffix(what, "/") {
		return
	}
	m[name] = what
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, ok := m[dir]; !ok {
			m[dir] = "755/"
		}
	}
}

// archive returns the archive of a folder, in order.
func (m model) archive(t interface{ Fatal(...any) }) []byte {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	for _, name := range slices.SortedFunc(maps.Keys(m), candidate.ComparePaths) {
		h, data := &tar.Header{Name: name}, ""
		if target, ok := strings.CutPrefix(m[name], "->"); ok {
			h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, target, 0o777
		} else {
			kind := m[name][3]
			_, _ = fmt.Sscanf(m[name][:3], "%o", &h.Mode)
			if h.Typeflag = tar.TypeReg; kind == '/' {
				h.Typeflag, h.Name = tar.TypeDir, name+"/"
			} else {
				data = m[name][4:]
			}
		}
		h.Size = int64(len(data))
		err := tw.WriteHeader(h)
		if err == nil {
			_, err = io.WriteString(tw, data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// apply changes a folder as a tree says.
func (m model) apply(e candidate.Entry, content string) {
	name := strings.TrimPrefix(e.Path, "app/")
	if is, ok := m[name]; ok && (!e.Mode.IsDir() || e.Deleted || !strings.HasSuffix(is, "/")) {
		maps.DeleteFunc(m, func(p, _ string) bool { return p == name || strings.HasPrefix(p, name+"/") })
	}
	switch {
	case e.Deleted:
	case e.Mode.IsDir():
		m[name] = fmt.Sprintf("%o/", e.Mode.Perm())
	case e.Mode.IsRegular():
		m[name] = fmt.Sprintf("%o:%s", e.Mode.Perm(), content)
	default:
		m[name] = "->" + e.Target
	}
}

// raw is a workspace with this archive.
type raw struct {
	fakeSpace
	archive []byte
}

// TestChangesLeadThere: whatever a folder was and is, what is captured turns the
// one into the other, and is empty only if they are the same.
func TestChangesLeadThere(t *testing.T) {
	store := newStore(t)
	rapid.Check(t, func(rt *rapid.T) {
		before := drawModel(rt, "before")
		after := maps.Clone(before)
		if rapid.Bool().Draw(rt, "anew") {
			after = drawModel(rt, "after")
		} else {
			for name, what := range drawModel(rt, "more") {
				after.add(name, what)
			}
		}
		base, err := candidate.ReadBase(bytes.NewReader(before.archive(rt)), candidate.Bounds{Bytes: 1 << 20, Files: 1 << 10})
		if err != nil {
			rt.Fatal(err)
		}
		res, err := capture.Stage{Sink: store, Base: base}.Capture(t.Context(), capture.Request{Extraction: tree, Outcome: exited, Tree: roomy, Workdir: "/app"},
			raw{archive: after.archive(rt)})
		if err != nil || res.Candidate == nil {
			rt.Fatal(res, err)
		}
		got, entries := maps.Clone(before), 0
		r, err := res.Candidate.Open()
		if err != nil {
			rt.Fatal(err)
		}
		_, err = candidate.ReadTree(r, roomy, func(e candidate.Entry, content io.Reader) error {
			data, err := io.ReadAll(content)
			got.apply(e, string(data))
			entries++
			return err
		})
		if err = errors.Join(err, r.Close()); err != nil {
			rt.Fatal(err)
		}
		if d := cmp.Diff(after, got); d != "" || (entries == 0) != maps.Equal(before, after) {
			rt.Fatalf("%d entries; -want +got:\n%s", entries, d)
		}
	})
}

// FuzzTree: whatever a workspace's and a root's archives hold, capture ends with
// a tree, a reason or an error, and what it stores is a tree.
func FuzzTree(f *testing.F) {
	f.Add(model{"a": "644:x", "b/c": "644:y", "b": "755/"}.archive(f), model{"a": "644:y", "l": "->x"}.archive(f), model{"opt": "755/", "opt/x": "644:x"}.archive(f))
	f.Add([]byte{}, []byte("noise"), []byte{})
	f.Fuzz(func(t *testing.T, before, after, root []byte) {
		base, err := candidate.ReadBase(bytes.NewReader(before), candidate.Bounds{Bytes: 1 << 20, Files: 100})
		if err != nil {
			base = nil
		}
		store := &memory{}
		stage := capture.Stage{Sink: store, Base: base, Root: rawRoot{archive: root}}
		res, err := stage.Capture(t.Context(), capture.Request{Extraction: tree, Outcome: exited, Tree: roomy, Workdir: "/app", Captured: task.Captured{Filesystem: true}}, raw{archive: after})
		if err != nil || res.Candidate == nil {
			return
		}
		_, err = candidate.ReadTree(&store.Buffer, roomy, func(e candidate.Entry, _ io.Reader) error {
			if !strings.HasPrefix(e.Path, "app/") && !strings.HasPrefix(e.Path, "opt") {
				t.Errorf("%q was captured", e.Path)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// Get writes the archive.
func (r raw) Get(_ context.Context, _ string, _ int64, w io.Writer, _ ...string) error {
	_, err := w.Write(r.archive)
	return err
}

// rawRoot is a root to which /opt was added, with this archive.
type rawRoot struct{ archive []byte }

func (rawRoot) Changes(context.Context, int) ([]sandbox.Change, error) {
	return []sandbox.Change{{Path: "/opt/x", Kind: sandbox.Added, Type: sandbox.Directory}, {Path: "/opt/y", Kind: sandbox.Modified, Type: sandbox.Directory}}, nil
}

func (r rawRoot) Archive(_ context.Context, _ []string, _ int64, w io.Writer) error {
	_, err := w.Write(r.archive)
	return err
}

// memory is a sink that holds the last candidate.
type memory struct{ bytes.Buffer }

func (m *memory) Put(kind task.CandidateKind, origin candidate.Origin, content io.Reader) (candidate.Candidate, error) {
	m.Reset()
	sum, err := candidate.Copy(kind, content, m)
	return candidate.Candidate{Kind: kind, Digest: sum, Origin: origin}, err
}
