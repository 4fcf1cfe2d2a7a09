package validate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/checkout"
	"securebench/internal/family"
	"securebench/internal/fault"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/validate"
	"securebench/internal/verdict"
)

// unusable is a verifier of rows whose image has no checkout, except one row.
type unusable struct {
	opened *int
	id     string
}

func (u unusable) Open(_ context.Context, c family.Case) family.Session {
	*u.opened++
	return unusable{u.opened, c.Sandbox.ID()}
}

func (unusable) Close(context.Context) error { return nil }

func (u unusable) Verify(_ context.Context, c candidate.Candidate) (family.Verdict, error) {
	if u.id != "good" {
		return family.Verdict{}, fmt.Errorf("%w: HEAD is another commit", checkout.ErrUnusable)
	}
	data, err := c.Bytes()
	out := family.Verdict{Outcome: verdict.Failed}
	if string(data) == "patch" {
		out.Outcome = verdict.Passed
	}
	return out, err
}

// TestUnusableImage: a row whose image cannot be used is a bad row, without
// retries, and the rest of the pack is still checked.
func TestUnusableImage(t *testing.T) {
	opened := 0
	fam := family.Family{Name: "f", Reference: func(task.EvaluatorView) (family.Solution, bool) { return family.Solve(task.Patch, "patch"), true }}
	var results []validate.Result
	err := validate.Run(t.Context(), validate.Config{Families: family.NewRegistry(fam), Verifiers: map[string]family.Verifier{"f": unusable{opened: &opened}},
		Workers: 1, Retries: 3, Done: func(r validate.Result) { results = append(results, r) },
		Tasks: rows("bad", "good")})
	if err != nil || len(results) != 2 {
		t.Fatalf("%v, %+v", err, results)
	}
	want := validate.Check{Candidate: "reference", Want: "pass", Outcome: verdict.Pending, Reason: verdict.PackFault,
		Message: "the image's checkout cannot be used: HEAD is another commit"}
	if c := results[0].Checks; len(c) != 1 || !reflect.DeepEqual(c[0], want) || results[0].OK() {
		t.Errorf("the bad row: %+v", c)
	}
	if !results[1].OK() || len(results[1].Checks) != 3 {
		t.Errorf("the good row: %+v", results[1])
	}
	if opened != 2+3 { // the next check's sandboxes are made ahead
		t.Errorf("%d verifications were opened", opened)
	}
}

// breaking is a verifier that the engine fails for all rows except one.
type breaking struct{ unusable }

func (b breaking) Open(ctx context.Context, c family.Case) family.Session {
	s, _ := b.unusable.Open(ctx, c).(unusable)
	return breaking{s}
}

func (b breaking) Verify(ctx context.Context, c candidate.Candidate) (family.Verdict, error) {
	if b.id != "good" {
		return family.Verdict{}, errors.New("the sandbox was disturbed from outside")
	}
	return b.unusable.Verify(ctx, c)
}

// TestOthersGoOn: neither a row that its image cannot have nor an engine that fails
// for one row ends the checks of the others; an engine that does not answer does.
func TestOthersGoOn(t *testing.T) {
	dead := errors.New("nobody answers")
	for name, test := range map[string]struct {
		fault, answers error
		outcome        verdict.Outcome
		reason         verdict.Reason
		end            error
	}{
		"the row's fault":    {fault: sandbox.Unusable(errors.New("the image has a file at /app")), outcome: verdict.Pending, reason: verdict.PackFault},
		"the engine's fault": {outcome: verdict.Infrastructure, reason: verdict.InfrastructureError},
		"a dead engine":      {answers: dead, end: dead},
	} {
		t.Run(name, func(t *testing.T) {
			opened := 0
			fam := family.Family{Name: "f", Reference: func(task.EvaluatorView) (family.Solution, bool) { return family.Solve(task.Patch, "patch"), true }}
			report := validate.NewReport(io.Discard, false, func(line int) string { return fmt.Sprintf("tasks.jsonl:%d", line) }, family.NewRegistry(fam))
			var results []validate.Result
			err := validate.Run(t.Context(), validate.Config{Families: family.NewRegistry(fam),
				Verifiers: map[string]family.Verifier{"f": breaking{unusable{opened: &opened}}}, Workers: 1, Tasks: rows("bad", "good"),
				Fault: func(_ context.Context, tk task.Task) error {
					if tk.ID() == "bad" {
						return test.fault
					}
					return nil
				},
				Answers: func(context.Context) error { return test.answers },
				Done:    func(r validate.Result) { results = append(results, r); report.Add(r) }})
			if !errors.Is(err, test.end) {
				t.Fatalf("ended with %v, want %v", err, test.end)
			}
			if test.end != nil {
				if fault.KindOf(err) != fault.Engine || len(results) != 0 {
					t.Errorf("%v after %d results", err, len(results))
				}
				return
			}
			if len(results) != 2 || !results[1].OK() {
				t.Fatalf("%+v", results)
			}
			if c := results[0].Checks; len(c) != 1 || c[0].Outcome != test.outcome || c[0].Reason != test.reason || c[0].OK {
				t.Errorf("the bad row: %+v", c)
			}
			want := fault.Problems
			if test.reason == verdict.InfrastructureError {
				want = fault.Infrastructure
			}
			if failed, _ := report.Finish(); fault.KindOf(failed) != want {
				t.Errorf("the report ends with %v, want %s", failed, want)
			}
		})
	}
}

// rows yields tasks with these ids.
func rows(ids ...string) func(func(task.Task, error) bool) {
	return func(yield func(task.Task, error) bool) {
		for _, id := range ids {
			tk, err := task.New(task.Config{ID: id, Family: "f", Pack: task.Pack{ID: "p"}, Extraction: task.Extraction{Mode: task.FromGitDiff, Kind: task.Patch}})
			if !yield(tk, err) {
				return
			}
		}
	}
}
