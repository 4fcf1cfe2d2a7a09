package run

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/evidence"
	"securebench/internal/family"
	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
)

// onVerify is a verifier that calls a function before each verification.
type onVerify struct {
	family.Verifier
	call func()
}

func (v onVerify) Open(ctx context.Context, c family.Case) family.Session {
	return watchedSession{v.Verifier.Open(ctx, c), v.call}
}

type watchedSession struct {
	family.Session
	call func()
}

func (s watchedSession) Verify(ctx context.Context, c candidate.Candidate) (family.Verdict, error) {
	s.call()
	return s.Session.Verify(ctx, c)
}

// killedAt makes the output directory of a bench what a run leaves that is killed
// in its verification of the given number. It returns how many agents had
// stored their candidates then.
func killedAt(t *testing.T, b *bench, n int) (captured int32) {
	t.Helper()
	b.opts.Config.MaxWorkers = 1
	left := filepath.Join(t.TempDir(), "left")
	var mu sync.Mutex
	fam := b.opts.Families["short_answer"]
	verifier := fam.NewVerifier
	fam.NewVerifier = func(r family.Resources) family.Verifier {
		return onVerify{verifier(r), func() {
			mu.Lock()
			defer mu.Unlock()
			if n--; n == 0 {
				captured = b.agents.Load()
				b.copyTo(left)
			}
		}}
	}
	b.opts.Families["short_answer"] = fam
	if sum, _ := b.run(Fresh); sum.Passed != 6 || captured == 0 {
		t.Fatalf("%+v, %d", sum, captured)
	}
	b.opts.Config.OutputDir = left
	b.reset()
	return captured
}

// copyTo copies the output directory.
func (b *bench) copyTo(dir string) {
	b.t.Helper()
	if err := os.CopyFS(dir, os.DirFS(b.opts.Config.OutputDir)); err != nil {
		b.t.Fatal(err)
	}
}

// TestKilledInVerification: an agent whose candidate was stored before the run
// was killed does not run again, however often the run is killed before it comes
// to that attempt. Records of verified attempts may still have been on their way.
func TestKilledInVerification(t *testing.T) {
	for _, kills := range []int{1, 2, 3} {
		b := newBench(t)
		captured := killedAt(t, b, 3)
		for range kills - 1 { // before the first attempt
			b.opts.Mode = Resume
			r, err := Open(t.Context(), b.opts)
			if err != nil {
				t.Fatal(err)
			}
			left := filepath.Join(t.TempDir(), "left")
			b.copyTo(left)
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			b.opts.Config.OutputDir = left
		}
		res, err := evidence.Verify(t.Context(), os.DirFS(b.opts.Config.OutputDir), evidence.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range res.Problems {
			if strings.HasPrefix(p.File, record.RestrictedName) || strings.HasPrefix(p.File, record.CandidatesName+"/") {
				t.Errorf("the killed run: %s", p)
			}
		}
		if sum, unverified := b.run(Resume); sum.Passed != 6 || b.agents.Load() != 6-captured || len(unverified) == 0 || len(unverified) > int(captured) {
			t.Errorf("%d kills: %+v after %d agents, of which %d had run; %d waited", kills, sum, b.agents.Load(), captured, len(unverified))
		}
		if _, err := os.Stat(filepath.Join(b.opts.Config.OutputDir, record.CapturedName)); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", record.CapturedName, err)
		}
	}
}

// TestKilledAsksNobody: the provider is asked nothing for what was captured.
func TestKilledAsksNobody(t *testing.T) {
	a := newAgents(t, "codex", "model: gpt-1")
	captured := killedAt(t, a.bench, 3)
	before := len(a.provider.Requests())
	if sum, _ := a.run(Resume); sum.Passed != 6 || len(a.provider.Requests())-before != int(6-captured) {
		t.Errorf("%+v after %d more requests; %d candidates were captured", sum, len(a.provider.Requests())-before, captured)
	}
}

// warnings keeps the warnings of a run.
type warnings struct{ bytes.Buffer }

func (w *warnings) Event(e progress.Event) {
	if m, ok := e.(progress.Warning); ok {
		w.WriteString(m.Message + "\n")
	}
}

// TestForgedCapture: a captured candidate counts only as this run stored it. An
// attempt whose line was changed, or copied from a record, is run again; one whose
// write was cut short is, too, without a warning.
func TestForgedCapture(t *testing.T) {
	for name, tt := range map[string]struct {
		forge func(captured, records []byte) []byte
		warns bool
		again int32
	}{
		"honest":        {func(c, _ []byte) []byte { return c }, false, 0},
		"changed":       {func(c, _ []byte) []byte { return bytes.Replace(c, []byte(`"attempt": 1`), []byte(`"attempt": 2`), 1) }, true, 1},
		"from a record": {func(_, r []byte) []byte { return bytes.SplitAfter(r, []byte("\n"))[0] }, true, 1},
		"cut short":     {func(c, _ []byte) []byte { return c[:len(c)-20] }, false, 1},
		"removed":       {func([]byte, []byte) []byte { return nil }, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var b *bench
			var captured int32
			var path string
			var was, records []byte
			for len(records) == 0 { // a killed run may have written none yet
				b = newBench(t)
				captured = killedAt(t, b, 3)
				path = filepath.Join(b.opts.Config.OutputDir, record.CapturedName)
				var err error
				if was, err = os.ReadFile(path); err != nil {
					t.Fatal(err)
				}
				if records, err = os.ReadFile(filepath.Join(b.opts.Config.OutputDir, record.LinesName)); err != nil {
					t.Fatal(err)
				}
			}
			lines := bytes.SplitAfter(was, []byte("\n"))
			last := lines[len(lines)-2] // the others have their records
			forged := append(bytes.TrimSuffix(bytes.Clone(was), last), tt.forge(last, records)...)
			if err := os.WriteFile(path, forged, 0o600); err != nil {
				t.Fatal(err)
			}
			var said warnings
			b.opts.Progress = &said
			sum, _ := b.run(Resume)
			if sum.Passed != 6 || b.agents.Load() != 6-captured+tt.again {
				t.Errorf("%+v after %d agents, of which %d had run", sum, b.agents.Load(), captured)
			}
			if strings.Contains(said.String(), record.CapturedName) != tt.warns {
				t.Errorf("warnings: %s", &said)
			}
		})
	}
}
