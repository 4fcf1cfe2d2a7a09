package terminaltask

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/family"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// bench is an engine with an image, and a verifier for a pack's rows.
type bench struct {
	engine enginetest.Engine
	image  sandbox.Image
	files  family.Files
	by     family.Commands
	images map[string]sandbox.Image
	run    string // in the labels of sandboxes
}

// named returns an image that rows name.
func (b *bench) named(ref string) (sandbox.Image, bool) {
	img, ok := b.images[ref]
	return img, ok
}

// newBench makes a bench of a pack with evaluation files.
func newBench(tb testing.TB, files map[string]string) *bench {
	tb.Helper()
	e := enginetest.Open(tb)
	return benchOf(tb, e, enginetest.Image(tb, e), files)
}

func benchOf(tb testing.TB, e enginetest.Engine, image sandbox.Image, files map[string]string) *bench {
	tb.Helper()
	dir, digests := tb.TempDir(), map[string]string{}
	for name, text := range files {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			tb.Fatal(err)
		}
		digests[name] = digest.Bytes([]byte(text))
	}
	opened, err := family.OpenFiles(filepath.Join(dir, "none"), dir, nil, digests)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = opened.Close() })
	return &bench{engine: e, image: image, files: opened, images: map[string]sandbox.Image{}, run: "test"}
}

// change is one change of a candidate.
type change struct {
	mode   fs.FileMode // 0 is a file with 0644
	text   string      // of a file, or the target of a link
	uid    int
	remove bool
}

// file and script are new files of the image's user.
func file(text string) change   { return change{text: text} }
func script(text string) change { return change{mode: 0o755, text: "#!/bin/sh\n" + text + "\n"} }

// tree is a stored candidate of changes by path.
func tree(tb testing.TB, changes map[string]change) candidate.Candidate {
	tb.Helper()
	var b bytes.Buffer
	w := candidate.NewTreeWriter(&b, candidate.Bounds{Bytes: 1 << 30, Files: 1 << 16})
	for _, name := range slices.SortedFunc(maps.Keys(changes), candidate.ComparePaths) {
		c := changes[name]
		e := candidate.Entry{Path: name, Mode: c.mode, UID: c.uid, GID: c.uid, Deleted: c.remove}
		switch {
		case c.remove:
		case c.mode&fs.ModeSymlink != 0:
			e.Target, c.text = c.text, ""
		case c.mode == 0:
			e.Mode = 0o644
		}
		e.Size = int64(len(c.text))
		if err := w.Add(e, strings.NewReader(c.text)); err != nil {
			tb.Fatal(err)
		}
	}
	if _, err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	store, err := candidate.OpenStore(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = store.Close() })
	c, err := store.Put(task.Workspace, candidate.Given, &b)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// app is the environment of most rows.
func app() task.Environment { return task.Environment{Workdir: "/app"} }

// score verifies a candidate.
func (b *bench) score(tb testing.TB, eval object, env task.Environment, changes map[string]change) family.Verdict {
	tb.Helper()
	v, err := b.try(tb, eval, env, sandbox.Limits{}, tree(tb, changes))
	if err != nil {
		tb.Fatalf("verifying: %v", err)
	}
	return v
}

func (b *bench) try(tb testing.TB, eval object, env task.Environment, limits sandbox.Limits, c candidate.Candidate) (family.Verdict, error) {
	tb.Helper()
	v := newVerifier(family.Resources{Engine: b.engine, RunID: b.run, Files: b.files, Image: b.named, Commands: b.by})
	at := makeCase(tb, eval, env)
	at.Image, at.Limits = b.image, limits
	s := v.Open(tb.Context(), at)
	got, err := s.Verify(tb.Context(), c)
	if closeErr := s.Close(context.Background()); closeErr != nil {
		tb.Errorf("closing the session: %v", closeErr)
	}
	return got, err
}

// describe renders a verdict for an error message.
func describe(v family.Verdict) string {
	out := fmt.Sprintf("%s/%s in %s: %q %v\n%v", v.Outcome, v.Reason, v.Phase, v.Message, v.Labels, v.Metadata)
	for _, name := range slices.Sorted(maps.Keys(v.Restricted)) {
		out += fmt.Sprintf("\n-- %s\n%.2000s", name, v.Restricted[name])
	}
	return out
}

// expect reports a verdict that is not the expected one.
func expect(tb testing.TB, what string, v family.Verdict, outcome verdict.Outcome, reason verdict.Reason) {
	tb.Helper()
	if v.Outcome != outcome || v.Reason != reason || v.Containment != verdict.Shared {
		tb.Errorf("%s: want %s/%s, got %s", what, outcome, reason, describe(v))
	}
}

// TestCommand: the exit status of a command decides.
func TestCommand(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	eval := object{"checker": object{"command": `test "$(cat answer.txt)" = 42`}}
	right := b.score(t, eval, app(), map[string]change{"app/answer.txt": file("42\n")})
	expect(t, "right", right, verdict.Passed, "")
	if right.Phase != phaseChecker || !slices.Contains(right.Labels, evidenceExitCode) ||
		slices.Contains(right.Labels, family.DiskSampled) != b.engine.Info().DiskSampled {
		t.Errorf("right: %s", describe(right))
	}
	expect(t, "wrong", b.score(t, eval, app(), map[string]change{"app/answer.txt": file("41\n")}), verdict.Failed, verdict.TestsFailed)
	expect(t, "nothing", b.score(t, eval, app(), nil), verdict.Failed, verdict.TestsFailed)
}
