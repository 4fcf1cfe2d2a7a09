package run

import (
	"bytes"
	"context"
	"net/http"
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
	"securebench/internal/verdict"
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
	if sum, _ := b.run(Fresh); sum.Of(verdict.Computed).Passed != 6 || captured == 0 {
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
		if sum, unverified := b.run(Resume); sum.Of(verdict.Computed).Passed != 6 || b.agents.Load() != 6-captured || len(unverified) == 0 || len(unverified) > int(captured) {
			t.Errorf("%d kills: %+v after %d agents; %d had run before, %d waited", kills, sum, b.agents.Load(), captured, len(unverified))
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
	if sum, _ := a.run(Resume); sum.Of(verdict.Computed).Passed != 6 || len(a.provider.Requests())-before != int(6-captured) {
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
			if sum.Of(verdict.Computed).Passed != 6 || b.agents.Load() != 6-captured+tt.again {
				t.Errorf("%+v after %d agents; %d had run before", sum, b.agents.Load(), captured)
			}
			if strings.Contains(said.String(), record.CapturedName) != tt.warns {
				t.Errorf("warnings: %s", &said)
			}
		})
	}
}

// killAt is a transport that copies the output directory when the first request is under
// way: what is left of a run that is killed then.
type killAt struct {
	b    *bench
	left string
	once sync.Once
}

func (k *killAt) RoundTrip(r *http.Request) (*http.Response, error) {
	k.once.Do(func() { k.b.copyTo(k.left) })
	return http.DefaultTransport.RoundTrip(r)
}

// TestKilledRequest: what an agent has asked its provider for when a run is killed is
// counted by the run that resumes it, in the usage and the budget of that attempt and of
// no other: one request, and at most its tokens. One request may always be made.
func TestKilledRequest(t *testing.T) {
	for kind, tt := range map[string]struct {
		model, budget string
		more          int
		output        int64
		outcome       verdict.Outcome
	}{
		"codex":       {"gpt-1", "{requests: 3}", 1, 4096, verdict.Passed},
		"claude_code": {"claude-one-1", "{requests: 1}", 0, 10, verdict.Passed},
		"codex ":      {"gpt-1", "{requests: 2}", 1, 4096, verdict.Limit},
	} {
		a := newAgents(t, strings.TrimSpace(kind), "model: "+tt.model+"\nbudget: "+tt.budget+"\n")
		kill := &killAt{b: a.bench, left: filepath.Join(t.TempDir(), "left")}
		a.opts.Transport, a.opts.Config.MaxWorkers, a.more = kill, 1, tt.more
		if sum, _ := a.run(Fresh); sum.Of(verdict.Computed).Passed != 6 {
			t.Fatalf("%s: %+v without a kill", kind, sum)
		}
		whole := a.used(a.opts.Config.OutputDir)
		a.opts.Config.OutputDir = kill.left
		a.run(Resume)
		for key, l := range a.used(kill.left) {
			want := whole[key].Usage
			outcome := verdict.Passed
			if key == (record.AttemptKey{Task: "t0", Attempt: 1}) {
				outcome = tt.outcome
				want["requests"]++
				want["output_tokens"] += tt.output
			}
			got := l.Usage
			if outcome == verdict.Passed && (got["requests"] != want["requests"] || got["output_tokens"] != want["output_tokens"]) || l.Outcome != outcome {
				t.Errorf("%s: %v ends %s with %v, want %s with %v", kind, key, l.Outcome, got, outcome, want)
			}
		}
		if _, err := os.Stat(filepath.Join(kill.left, record.SpentName)); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", record.SpentName, err)
		}
	}
}

// used returns the records of a run.
func (b *bench) used(dir string) map[record.AttemptKey]*record.Line {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, record.LinesName))
	if err != nil {
		b.t.Fatal(err)
	}
	out := map[record.AttemptKey]*record.Line{}
	for line := range bytes.Lines(data) {
		e, err := record.Decode(bytes.TrimSpace(line))
		if err != nil {
			b.t.Fatal(err)
		}
		out[e.Key()] = e.Line
	}
	return out
}
