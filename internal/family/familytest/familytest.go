// Package familytest provides what the tests of families share. It also runs text
// families on the vectors, which say what the reference does, and holds them to the
// list of deviations.
package familytest

import (
	"context"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/task"
)

// JSON encodes a value of a row.
func JSON(tb testing.TB, v any) jsontext.Value {
	tb.Helper()
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// Case compiles the resources of a task into the views that a verifier gets.
func Case(tb testing.TB, name string, resources ...task.Resource) family.Case {
	tb.Helper()
	compiled, err := task.New(task.Config{ID: "task", Family: name, Pack: task.Pack{ID: "pack", Version: 1}, Resources: resources})
	if err != nil {
		tb.Fatal(err)
	}
	return family.Case{Attempt: 1, Sandbox: compiled.TestSandbox(), Evaluator: compiled.Evaluator(), Seed: [32]byte{1}}
}

// Code is a candidate that is code as it is.
func Code(text string) candidate.Candidate {
	return candidate.New(task.Code, candidate.Given, []byte(text))
}

// Said is a candidate that is in what an agent printed.
func Said(text string) candidate.Candidate {
	return candidate.New(task.Code, candidate.Stdout, []byte(text))
}

// Content reads a candidate; there is nothing to read of none.
func Content(tb testing.TB, c candidate.Candidate) string {
	tb.Helper()
	if c.Digest == "" {
		return ""
	}
	data, err := c.Bytes()
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}

// Verify brings a case with a candidate to its verdict.
func Verify(tb testing.TB, v family.Verifier, c family.Case, submitted candidate.Candidate) family.Verdict {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	s := v.Open(ctx, c)
	got, err := s.Verify(ctx, submitted)
	if closeErr := s.Close(ctx); closeErr != nil {
		tb.Errorf("closing the session: %v", closeErr)
	}
	if err != nil {
		tb.Fatalf("verifying: %v", err)
	}
	return got
}
