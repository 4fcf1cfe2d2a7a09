package validate_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/checkout"
	"securebench/internal/family"
	"securebench/internal/task"
	"securebench/internal/validate"
	"securebench/internal/verdict"
)

// unusable is a verifier of rows whose image has no checkout, but for one row.
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
		Tasks: func(yield func(task.Task, error) bool) {
			for _, id := range []string{"bad", "good"} {
				tk, err := task.New(task.Config{ID: id, Family: "f", Pack: task.Pack{ID: "p"}, Extraction: task.Extraction{Mode: task.FromGitDiff, Kind: task.Patch}})
				if !yield(tk, err) {
					return
				}
			}
		}})
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
