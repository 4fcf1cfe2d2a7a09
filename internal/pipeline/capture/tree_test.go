package capture_test

import (
	"archive/tar"
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

// agentLeaves runs an agent in memory that writes into its workspace.
func agentLeaves(t *testing.T, write func(dir string) error) sandbox.Workspace {
	t.Helper()
	e := sandboxtest.New(sandboxtest.Config{Programs: map[string]sandboxtest.Program{
		"agent": func(_ context.Context, p *sandboxtest.Process) int {
			if err := write(p.Dir); err != nil {
				t.Error(err)
			}
			return 0
		}}})
	space, err := e.Workspace(t.Context(), sandbox.WorkspaceSpec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { space.Close(context.Background()) })
	box, err := e.Open(t.Context(), sandbox.Spec{Image: sandbox.Image{ID: "x"}, Command: []string{"agent"}, Mounts: []sandbox.Mount{{Workspace: space, Target: "/w"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close(context.Background())
	if _, err := box.Run(t.Context(), sandbox.Streams{}); err != nil {
		t.Fatal(err)
	}
	return space
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
	sum, err := candidate.ReadTree(r, candidate.Bounds{Bytes: 1 << 30, Files: 1 << 20, Links: true}, func(e candidate.Entry, content io.Reader) error {
		data, err := io.ReadAll(content)
		out = append(out, fmt.Sprintf("%v %s %q%s", e.Mode, e.Path, data, e.Target))
		return err
	})
	if err != nil || sum != c.Digest {
		t.Fatalf("digest %s, want %s: %v", sum, c.Digest, err)
	}
	return out
}

func TestTreeIsCaptured(t *testing.T) {
	space := agentLeaves(t, files(map[string]string{"b/c": "two", "b.txt": "three", "a": "one", "empty/": ""}))
	got, err := capture.Stage{Sink: newStore(t)}.Capture(t.Context(), capture.Request{Extraction: tree, Outcome: exited, Tree: roomy}, space)
	if err != nil || got.Candidate == nil {
		t.Fatalf("%+v, %v", got, err)
	}
	want := []string{`-rw-r--r-- a "one"`, `drwxr-xr-x b ""`, `-rw-r--r-- b/c "two"`, `-rw-r--r-- b.txt "three"`, `drwxr-xr-x empty ""`}
	if d := cmp.Diff(want, read(t, *got.Candidate)); d != "" {
		t.Errorf("tree (-want +got):\n%s", d)
	}
	below := tree
	below.Path = "b"
	got, err = capture.Stage{Sink: newStore(t)}.Capture(t.Context(), capture.Request{Extraction: below, Outcome: exited, Tree: roomy}, space)
	if err != nil || got.Candidate == nil {
		t.Fatalf("%+v, %v", got, err)
	}
	if d := cmp.Diff([]string{`-rw-r--r-- c "two"`}, read(t, *got.Candidate)); d != "" {
		t.Errorf("folder (-want +got):\n%s", d)
	}
}

// TestSecretsLeaveTrees: contents are redacted before the digest is made, even
// in files that are too large for memory, and across the boundaries of writes.
// A name with a secret is refused.
func TestSecretsLeaveTrees(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	leave := files(map[string]string{"a": "key=sk-secret-value\n", "big": long + "sk-secret-value", "c": "clean"})
	b := candidate.Bounds{Bytes: 8 << 20, Files: 10}
	capturing := func(s capture.Stage) capture.Result {
		got, err := s.Capture(t.Context(), capture.Request{Extraction: tree, Outcome: exited, Tree: b}, agentLeaves(t, leave))
		if err != nil || got.Candidate == nil {
			t.Fatalf("%+v, %v", got, err)
		}
		return got
	}
	weak := capturing(capture.Stage{Sink: newStore(t)})
	if !strings.Contains(strings.Join(read(t, *weak.Candidate), ""), "sk-secret-value") || weak.Candidate.Redacted {
		t.Error("without secrets to look for, nothing is redacted: the test looks in the wrong place")
	}
	got := capturing(capture.Stage{Sink: newStore(t), Secrets: secrets(t)})
	all := strings.Join(read(t, *got.Candidate), "\n")
	if strings.Contains(all, "sk-secret-value") || strings.Count(all, "[redacted:KEY]") != 2 || !strings.Contains(all, `c "clean"`) || !got.Candidate.Redacted {
		t.Errorf("redacted %v: %.200s", got.Candidate.Redacted, all)
	}
	named := agentLeaves(t, files(map[string]string{"sk-secret-value": "x"}))
	res, err := capture.Stage{Sink: newStore(t), Secrets: secrets(t)}.Capture(t.Context(), capture.Request{Extraction: tree, Outcome: exited, Tree: b}, named)
	if err != nil || res.Rejection == nil || strings.Contains(res.Rejection.Message, "sk-secret") {
		t.Errorf("a secret as a name: %+v, %v", res, err)
	}
}

// TestRefusedNamesHideSecrets: what is refused is named in the record, so that
// a secret in the name of a pipe or a link would be published.
func TestRefusedNamesHideSecrets(t *testing.T) {
	for name, h := range map[string]tar.Header{
		"pipe":       {Name: "sk-secret-value", Typeflag: tar.TypeFifo},
		"unreadable": {Name: "x/sk-secret-value", Typeflag: tar.TypeFifo, PAXRecords: map[string]string{holder.RecordType: holder.Unreadable}},
		"link":       {Name: "sk-secret-value", Typeflag: tar.TypeSymlink, Linkname: "x"},
		"climbing":   {Name: "../sk-secret-value", Typeflag: tar.TypeReg},
		"backslash":  {Name: `\sk-secret-value`, Typeflag: tar.TypeReg},
	} {
		refused := func(s capture.Stage) string {
			s.Sink = newStore(t)
			got, err := s.Capture(t.Context(), capture.Request{Extraction: tree, Outcome: exited, Tree: roomy}, fakeSpace{headers: []tar.Header{h}})
			if err != nil || got.Rejection == nil {
				t.Fatalf("%s: %+v, %v", name, got, err)
			}
			return got.Rejection.Message
		}
		if weak := refused(capture.Stage{}); !strings.Contains(weak, "sk-secret-value") {
			t.Errorf("%s: without secrets to look for, the message is %q", name, weak)
		}
		if got := refused(capture.Stage{Secrets: secrets(t)}); strings.Contains(got, "sk-secret") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestTreesThatAreRefused: what cannot be a candidate is named, and nothing of
// it is stored.
func TestTreesThatAreRefused(t *testing.T) {
	entry := func(h tar.Header) fakeSpace { return fakeSpace{headers: []tar.Header{h}, data: "x"} }
	links := tree
	links.Links = true
	for name, tt := range map[string]struct {
		space      sandbox.Workspace
		extraction task.Extraction
		bounds     candidate.Bounds
		reason     verdict.Reason
		want       string
	}{
		"a link":           {entry(tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}), tree, roomy, verdict.CandidateNotRegular, `"l" is a symbolic link`},
		"a pipe":           {entry(tar.Header{Name: "p", Typeflag: tar.TypeFifo}), tree, roomy, verdict.CandidateNotRegular, `"p" is a pipe`},
		"a device":         {entry(tar.Header{Name: "d", Typeflag: tar.TypeBlock}), tree, roomy, verdict.CandidateNotRegular, `"d" is a device`},
		"a socket":         {entry(tar.Header{Name: "s", Typeflag: tar.TypeFifo, PAXRecords: map[string]string{holder.RecordType: holder.Socket}}), tree, roomy, verdict.CandidateNotRegular, `"s" is a socket`},
		"what is closed":   {entry(tar.Header{Name: "u", Typeflag: tar.TypeFifo, PAXRecords: map[string]string{holder.RecordType: holder.Unreadable}}), tree, roomy, verdict.CandidateNotRegular, `"u" is unreadable`},
		"a climbing name":  {entry(tar.Header{Name: "../x", Typeflag: tar.TypeReg}), links, roomy, verdict.CandidateNotRegular, `"../x"`},
		"nothing":          {fakeSpace{}, tree, roomy, verdict.CandidateMissing, "no files"},
		"too many bytes":   {agentLeaves(t, files(map[string]string{"a": "0123456789"})), tree, candidate.Bounds{Bytes: 9, Files: 5}, verdict.CandidateTooLarge, `9 bytes with "a"`},
		"too many files":   {agentLeaves(t, files(map[string]string{"a": "", "b": ""})), tree, candidate.Bounds{Bytes: 9, Files: 1}, verdict.CandidateTooLarge, `"b" is one`},
		"more than fits":   {fakeSpace{err: sandbox.ErrTooLarge}, tree, roomy, verdict.CandidateTooLarge, "more than"},
		"a file as folder": {agentLeaves(t, files(map[string]string{"a": "x"})), task.Extraction{Mode: task.FromWorkspace, Kind: task.Workspace, Path: "a"}, roomy, verdict.CandidateNotRegular, "not a folder"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			store, err := candidate.OpenStore(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			got, err := capture.Stage{Sink: store}.Capture(t.Context(), capture.Request{Extraction: tt.extraction, Outcome: exited, Tree: tt.bounds}, tt.space)
			if err != nil || got.Rejection == nil || got.Rejection.Reason != tt.reason || !strings.Contains(got.Rejection.Message, tt.want) {
				t.Errorf("%+v, %v; want %s, %q", got.Rejection, err, tt.reason, tt.want)
			}
			if left, err := fs.Glob(os.DirFS(dir), "*"); err != nil || len(left) > 0 {
				t.Errorf("the store holds %v, %v", left, err)
			}
		})
	}
	got, err := capture.Stage{Sink: newStore(t)}.Capture(t.Context(), capture.Request{Extraction: links, Outcome: exited, Tree: candidate.Bounds{Bytes: 9, Files: 9, Links: true}},
		entry(tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}))
	if err != nil || got.Candidate == nil || strings.Join(read(t, *got.Candidate), "") != `Lrwxrwxrwx l ""/etc/passwd` {
		t.Errorf("an allowed link: %+v, %v", got, err)
	}
}
