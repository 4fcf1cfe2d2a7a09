package pipeline_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/family"
	"securebench/internal/pipeline"
	"securebench/internal/sandbox"
	"securebench/internal/verdict"
)

// filesVerifier passes where the pack's checker can be laid out.
type filesVerifier struct{ files family.Files }

func (v filesVerifier) Open(_ context.Context, c family.Case) family.Session {
	return filesSession{v.files, c}
}
func (filesVerifier) Close(context.Context) error { return nil }

type filesSession struct {
	files family.Files
	c     family.Case
}

func (s filesSession) Close(context.Context) error { return nil }
func (s filesSession) Verify(context.Context, candidate.Candidate) (family.Verdict, error) {
	layout, err := s.files.Layout(s.c.Sandbox, nil, sandbox.Limits{}, "check.sh")
	if err != nil {
		return family.Verdict{}, err
	}
	var tar bytes.Buffer
	if err := layout.WriteTar(&tar, 0, 0); err != nil {
		return family.Verdict{}, err
	}
	v := family.Verdict{Outcome: verdict.Failed, Reason: verdict.TestsFailed, Containment: verdict.Shared}
	if bytes.Contains(tar.Bytes(), []byte("the checker")) {
		v = family.Verdict{Outcome: verdict.Passed, Containment: verdict.Shared}
	}
	return v, nil
}

// TestChangedEvaluationFileIsAPackFault: a checker that changed after loading
// is not used. The attempt is pending because of a pack fault, without
// retries. In the weak set-up, without the digests, the changed checker
// decides.
func TestChangedEvaluationFileIsAPackFault(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		checked bool
		want    func(pipeline.Summary) bool
	}{
		"unchanged": {"the checker", true, func(s pipeline.Summary) bool { return s.Of(verdict.Computed).Passed == 1 }},
		"changed": {"EVIL", true, func(s pipeline.Summary) bool {
			return s.Of(verdict.Computed).Pending == 1 && s.PackFaults == 1 && s.Infrastructure == 0
		}},
		"without digests": {"EVIL", false, func(s pipeline.Summary) bool { return s.Of(verdict.Computed).Failed == 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, answers)
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "check.sh"), []byte(c.content), 0o644); err != nil {
				t.Fatal(err)
			}
			var digests map[string]string
			if c.checked {
				digests = map[string]string{"check.sh": digest.Bytes([]byte("the checker"))}
			}
			files, err := family.OpenFiles(filepath.Join(dir, "none"), dir, nil, digests)
			if err != nil {
				t.Fatal(err)
			}
			defer files.Close()
			b.cfg.Verifiers["short_answer"] = filesVerifier{files}
			sum, err := b.run(t.Context(), question(t, "a", "4", `"4"`))
			if err != nil || !c.want(sum) || b.events.count("retry") != 0 {
				t.Errorf("%+v, %v, %d retries", sum, err, b.events.count("retry"))
			}
		})
	}
}
