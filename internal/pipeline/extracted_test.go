package pipeline_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"securebench/internal/digest"
	"securebench/internal/evidence"
	"securebench/internal/family"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/capture"
	"securebench/internal/pipeline/record"
	"securebench/internal/reverify"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// taker is a verifier that takes a word from what an agent said.
type taker struct{ word, how string }

func (v taker) Open(context.Context, family.Case) family.Session { return v }
func (v taker) Close(context.Context) error                      { return nil }

func (v taker) Verify(_ context.Context, c family.Candidate) (family.Verdict, error) {
	out := family.Verdict{Outcome: verdict.Passed, Containment: verdict.Passive, Extraction: "as_is"}
	if c.Said {
		out.Extraction, out.Extracted = v.how, []byte(v.word)
	}
	return out, nil
}

// TestExtractedIsEvidence: what a verifier took from an agent's words is stored
// beside them and named in the record, whether they were printed or replayed,
// and a verdict is only equal if the same is taken again.
func TestExtractedIsEvidence(t *testing.T) {
	replay := filepath.Join(t.TempDir(), "replay.jsonl")
	if err := os.WriteFile(replay, []byte(`{"task_id": "q", "text": "words\n"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	replayed, err := pipeline.OpenReplay(replay, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, agent := range map[string]pipeline.Agent{capture.Stdout: nil, capture.Replay: replayed, capture.Given: pipeline.Oracle{}} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, answers)
			if agent != nil {
				b.cfg.Agent = agent
			}
			b.cfg.Verifiers = map[string]family.Verifier{"short_answer": taker{"word", "fence"}}
			q := question(t, "q", "words", `"right"`)
			if sum, err := b.run(t.Context(), q); err != nil || sum.Passed != 1 {
				t.Fatalf("%+v, %v", sum, err)
			}
			line := b.entries()[0]
			said := name != capture.Given
			want := ""
			if said {
				want = digest.Bytes([]byte("word"))
				if data, err := evidence.Candidate(b.dir.FS(), want); err != nil || string(data) != "word" {
					t.Errorf("stored: %q, %v", data, err)
				}
			}
			if line.Digests.Extracted != want || line.Origin() != name || (line.Extraction() == "fence") != said {
				t.Errorf("extracted %q, from %q by %q", line.Digests.Extracted, line.Origin(), line.Extraction())
			}
			// A record that says nothing of it is compared in the rest.
			silent := reverify.Rederived{Was: pipeline.JudgedOf(line.Line), Is: pipeline.JudgedOf(line.Line)}
			silent.Was.Extraction, silent.Was.Extracted = "", ""
			if !silent.Equal() {
				t.Errorf("of an earlier build: %+v", silent)
			}
			if silent.Is.Outcome = "failed"; silent.Equal() {
				t.Error("another outcome is taken for the same")
			}
			for _, again := range []taker{{"word", "fence"}, {"other", "fence"}, {"word", "text"}} {
				if got := b.rederive(t.Context(), q, line, again); got.Equal() != (again == taker{"word", "fence"} || !said) {
					t.Errorf("%+v: %+v", again, got)
				}
			}
		})
	}
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

// rederive derives a recorded verdict again with a verifier.
func (b *bench) rederive(ctx context.Context, of task.Task, e record.Entry, v family.Verifier) (out reverify.Rederived) {
	b.t.Helper()
	err := reverify.Run(ctx, reverify.Config{
		Families: b.families, Verifiers: map[string]family.Verifier{"short_answer": v}, Images: b.cfg.Images, Workers: 1,
		Tasks:         func(yield func(task.Task, error) bool) { yield(of, nil) },
		VerifyTimeout: func(string) time.Duration { return time.Minute },
		Recorded: func(task.Task) ([]reverify.Recorded, error) {
			return []reverify.Recorded{{Attempt: 1, Said: capture.Said(e.Origin()), Verdict: pipeline.JudgedOf(e.Line),
				Candidate: func() ([]byte, error) { return evidence.Candidate(b.dir.FS(), e.Digests.Candidate) }}}, nil
		},
		Done: func(r reverify.Rederived) { out = r },
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return out
}
