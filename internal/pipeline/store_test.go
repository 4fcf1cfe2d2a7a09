package pipeline_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/family"
	"securebench/internal/verdict"
)

// meddler is a verifier during which the stored candidate is changed. It
// scores the candidate that it was given; if weak, it scores the content of
// the store at that time.
type meddler struct {
	store string
	weak  bool
}

func (m meddler) Open(context.Context, family.Case) family.Session { return m }
func (m meddler) Close(context.Context) error                      { return nil }

func (m meddler) Verify(_ context.Context, c candidate.Candidate) (family.Verdict, error) {
	data, err := c.Bytes()
	if err != nil {
		return family.Verdict{}, err
	}
	name := filepath.Join(m.store, strings.TrimPrefix(c.Digest, "sha256:"))
	if err := os.WriteFile(name, []byte("right"), 0o644); err != nil {
		return family.Verdict{}, err
	}
	if m.weak {
		data, _ = os.ReadFile(name)
	}
	v := family.Verdict{Outcome: verdict.Failed, Reason: verdict.WrongAnswer, Containment: verdict.Passive}
	if strings.TrimSpace(string(data)) == "right" {
		v = family.Verdict{Outcome: verdict.Passed, Containment: verdict.Passive}
	}
	return v, nil
}

// TestScoredBytesAreTheRecordedOnes (D11): a candidate that changes while it
// is scored gains nothing, and the change is detected. A verifier that reads
// the store again, as if it shared a folder with the agent, is fooled.
func TestScoredBytesAreTheRecordedOnes(t *testing.T) {
	for name, weak := range map[string]bool{"weak": true, "ours": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, answers)
			b.cfg.Verifiers = map[string]family.Verifier{"short_answer": meddler{b.dir.StorePath(), weak}}
			sum, err := b.run(t.Context(), question(t, "q", "wrong", `"right"`))
			if err != nil || sum.Total != 1 {
				t.Fatalf("%+v, %v", sum, err)
			}
			if fell := sum.Of(verdict.Computed).Passed == 1; fell != weak {
				t.Errorf("passed: %v, want %v", fell, weak)
			}
			recorded := b.lines()[0]["digests"].(map[string]any)["candidate"].(string)
			if recorded != digest.Bytes([]byte("wrong\n")) {
				t.Errorf("the record names %s, not what was captured", recorded)
			}
			if err := b.cfg.Store.Check(recorded); !errors.Is(err, candidate.ErrDamaged) {
				t.Errorf("the change is not noticed: %v", err)
			}
		})
	}
}
