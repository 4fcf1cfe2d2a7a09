package pipeline_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"securebench/internal/agent"
	columns "securebench/internal/agent/answers"
	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/evidence"
	"securebench/internal/family"
	"securebench/internal/pipeline/commit"
	"securebench/internal/pipeline/record"
	"securebench/internal/reverify"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// taker is a verifier that extracts a word from the agent's output.
type taker struct{ word, how string }

func (v taker) Open(context.Context, family.Case) family.Session { return v }
func (v taker) Close(context.Context) error                      { return nil }

func (v taker) Verify(_ context.Context, c candidate.Candidate) (family.Verdict, error) {
	out := family.Verdict{Outcome: verdict.Passed, Containment: verdict.Passive, Extraction: "as_is"}
	if c.Said() {
		out.Extraction, out.Extracted = v.how, []byte(v.word)
	}
	return out, nil
}

// TestExtractedIsEvidence: what a verifier extracts from an agent's output is
// stored and named in the record, whether the output was printed or replayed,
// and a derived verdict is equal only if the same is extracted again.
func TestExtractedIsEvidence(t *testing.T) {
	replay := filepath.Join(t.TempDir(), "replay.jsonl")
	if err := os.WriteFile(replay, []byte(`{"task_id": "q", "text": "words\n"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	replayed, err := agent.OpenReplay(replay, columns.Map{}, agent.Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	for origin, made := range map[candidate.Origin]agent.Agent{candidate.Stdout: nil, candidate.Replay: replayed, candidate.Given: &agent.Oracle{}} {
		t.Run(string(origin), func(t *testing.T) {
			b := newBench(t, answers)
			if made != nil {
				b.cfg.Agent = made
			}
			b.cfg.Verifiers = map[string]family.Verifier{"short_answer": taker{"word", "fence"}}
			q := question(t, "q", "words", `"right"`)
			if sum, err := b.run(t.Context(), q); err != nil || sum.Of(verdict.Computed).Passed != 1 {
				t.Fatalf("%+v, %v", sum, err)
			}
			line := b.entries()[0]
			said := origin != candidate.Given
			want := ""
			if said {
				want = digest.Bytes([]byte("word"))
				if data, err := b.stored(task.Text, want).Bytes(); err != nil || string(data) != "word" {
					t.Errorf("stored: %q, %v", data, err)
				}
			}
			if line.Digests.Extracted != want || line.Origin() != origin || (line.Extraction() == "fence") != said {
				t.Errorf("extracted %q, from %q by %q", line.Digests.Extracted, line.Origin(), line.Extraction())
			}
			// A record that says nothing of it is compared in the rest.
			silent := reverify.Rederived{Was: commit.JudgedOf(line.Line), Is: commit.JudgedOf(line.Line)}
			silent.Was.Extraction, silent.Was.Extracted = "", ""
			if !silent.Equal() {
				t.Errorf("of an earlier build: %+v", silent)
			}
			if silent.Is.Outcome = "failed"; silent.Equal() {
				t.Error("another outcome counts as the same")
			}
			for _, again := range []taker{{"word", "fence"}, {"other", "fence"}, {"word", "text"}} {
				if got := b.rederive(t.Context(), q, line, again); got.Equal() != (again == taker{"word", "fence"} || !said) {
					t.Errorf("%+v: %+v", again, got)
				}
			}
		})
	}
}

// waiting returns records of attempts that wait to be verified as a resume reads them.
func (b *bench) waiting(entries ...record.Entry) map[record.AttemptKey]*record.Line {
	b.t.Helper()
	out := map[record.AttemptKey]*record.Line{}
	for _, e := range entries {
		out[e.Key()] = e.Line
	}
	err := record.EachCaptured(b.dir.FS(), b.dir.Salt(), func(e record.Entry) {
		if l := out[e.Key()]; l != nil {
			l.Produced = e.Produced
		}
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}

// entries reads the records back.
func (b *bench) entries() (out []record.Entry) {
	b.t.Helper()
	f, err := b.dir.FS().Open(record.LinesName)
	if err != nil {
		b.t.Fatal(err)
	}
	defer f.Close()
	for raw, err := range record.Lines(f) {
		if err != nil {
			b.t.Fatal(err)
		}
		e, err := record.Decode(raw.Bytes)
		if err != nil {
			b.t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// stored finds a candidate of the run.
func (b *bench) stored(kind task.CandidateKind, sum string) candidate.Candidate {
	b.t.Helper()
	c, err := evidence.Candidate(b.dir.FS(), candidate.Candidate{Kind: kind, Digest: sum})
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// rederive derives a recorded verdict again with a verifier.
func (b *bench) rederive(ctx context.Context, of task.Task, e record.Entry, v family.Verifier) (out reverify.Rederived) {
	b.t.Helper()
	err := reverify.Run(ctx, reverify.Config{
		Families: b.families, Verifiers: map[string]family.Verifier{of.Family(): v}, Images: b.cfg.Images, Workers: 1,
		Tasks:         func(yield func(task.Task, error) bool) { yield(of, nil) },
		VerifyTimeout: func(string) time.Duration { return time.Minute },
		Recorded: func(task.Task) ([]reverify.Recorded, error) {
			c := b.stored(of.Extraction().Kind, e.Digests.Candidate)
			c.Origin = e.Origin()
			return []reverify.Recorded{{Attempt: 1, Verdict: commit.JudgedOf(e.Line), Candidate: &c}}, nil
		},
		Done: func(r reverify.Rederived) { out = r },
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}
