package cases_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/codecompletion/cases"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/task"
)

// object is a part of a row as these tests write it.
type object = map[string]any

func mustJSON(tb testing.TB, v any) jsontext.Value {
	tb.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// adder is a row whose program adds two numbers.
func adder(changes ...object) object {
	out := object{"source": "cases", "command": []string{"python3", "candidate.py"}, "compare": "whitespace",
		"cases": []object{
			{"stdin": "2 3\n", "expect": object{"stdout": "5\n"}},
			{"stdin": "40 2\n", "expect": object{"stdout": "42\n"}},
		}}
	for _, c := range changes {
		maps.Copy(out, c)
	}
	return out
}

// rowCase compiles tests into the views that a verifier gets.
func rowCase(tb testing.TB, img sandbox.Image, language string, tests object) family.Case {
	tb.Helper()
	compiled, err := task.New(task.Config{ID: "task", Family: "code_completion", Pack: task.Pack{ID: "pack", Version: 1}, Resources: []task.Resource{
		{Name: "prompt", Lane: task.Public, Value: mustJSON(tb, "Add two numbers.")},
		{Name: "language", Lane: task.Public, Value: mustJSON(tb, language)},
		{Name: "tests", Lane: task.EvaluationInputs, Value: mustJSON(tb, tests)},
	}})
	if err != nil {
		tb.Fatal(err)
	}
	return family.Case{Attempt: 1, Sandbox: compiled.TestSandbox(), Evaluator: compiled.Evaluator(), Image: img}
}

// python runs the Python of this machine in a box of the engine in memory. It is
// not confined.
func python(ctx context.Context, p *sandboxtest.Process) int {
	dir, err := p.Path(p.Workdir, true)
	if err != nil {
		return 126
	}
	cmd := exec.CommandContext(ctx, "python3", p.Args[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = dir, p.Stdin, p.Stdout, p.Stderr, time.Second
	cmd.Env = append(os.Environ(), p.Env...)
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode() & 0xff
	case err != nil:
		return 126
	}
	return 0
}

// inMemory is an engine whose only program is Python.
func inMemory(tb testing.TB) sandbox.Engine {
	tb.Helper()
	if _, err := exec.LookPath("python3"); err != nil || testing.Short() {
		tb.Skip("it runs Python processes")
	}
	return sandboxtest.New(sandboxtest.Config{Programs: map[string]sandboxtest.Program{"python3": python}})
}

func verify(tb testing.TB, e sandbox.Engine, c family.Case, submitted candidate.Candidate) family.Verdict {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	v := cases.New(family.Resources{Engine: e, RunID: "test"})
	s := v.Open(ctx, c)
	got, err := s.Verify(ctx, submitted)
	if closeErr := errors.Join(s.Close(ctx), v.Close(ctx)); closeErr != nil {
		tb.Errorf("closing: %v", closeErr)
	}
	if err != nil {
		tb.Fatalf("verifying: %v", err)
	}
	return got
}

func code(text string) candidate.Candidate {
	return candidate.New(task.Code, candidate.Given, []byte(text))
}

func said(text string) candidate.Candidate {
	return candidate.New(task.Code, candidate.Stdout, []byte(text))
}

// printed is the beginning of what a candidate printed.
func printed(v family.Verdict) (out string) {
	for name, data := range v.Restricted {
		out += fmt.Sprintf("%s: %.500q\n", name, data)
	}
	return out
}
