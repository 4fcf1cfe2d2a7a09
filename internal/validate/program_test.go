package validate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/agent"
	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/pipeline/produce"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/task"
	"securebench/internal/validate"
	"securebench/internal/verdict"
)

// scripted is a family whose candidates are trees and whose solutions are
// programs.
func scripted() family.Family {
	return family.Family{Name: "scripted", NeedsImage: true, VerifySeconds: 5,
		NewVerifier: func(family.Resources) family.Verifier { return answerIs4{} },
		Reference: func(v task.EvaluatorView) (family.Solution, bool) {
			r, ok := v.Get("solution")
			text, _ := r.Text()
			return family.Solution{Command: strings.Fields(text)}, ok
		}}
}

// answerIs4 passes a tree whose file "out/answer" holds 4.
type answerIs4 struct{}

func (answerIs4) Open(context.Context, family.Case) family.Session { return answerIs4{} }
func (answerIs4) Close(context.Context) error                      { return nil }

func (answerIs4) Verify(_ context.Context, c candidate.Candidate) (family.Verdict, error) {
	out := family.Verdict{Outcome: verdict.Failed, Reason: verdict.TestsFailed, Containment: verdict.Passive}
	r, err := c.Open()
	if err != nil {
		return out, err
	}
	defer r.Close()
	_, err = candidate.ReadTree(r, candidate.Bounds{Bytes: 1 << 20, Files: 10}, func(e candidate.Entry, content io.Reader) error {
		if !strings.HasPrefix(e.Path, "workspace/") || e.UID != 1000 && e.UID != os.Getuid() { // the image's user, or this one, as which the engine's programs run
			return fmt.Errorf("a change at %q of user %d", e.Path, e.UID)
		}
		b, err := io.ReadAll(content)
		if e.Path == "workspace/out/answer" && string(b) == "4" {
			out = family.Verdict{Outcome: verdict.Passed, Containment: verdict.Passive}
		}
		return err
	})
	return out, err
}

// TestReferencePrograms: a solution that is a program runs in a sandbox of its
// row's image, and what it leaves must pass like any other reference.
func TestReferencePrograms(t *testing.T) {
	for solution, want := range map[string]string{
		"solve 4":    "reference pass passed  true",
		"solve 5":    "reference pass failed tests_failed false",
		"idle":       "reference pass failed tests_failed false",
		"print much": "reference pass limit output_limit false",
		"fail":       "reference pass no_candidate agent_failed false\n  the solution ended with exit code 3\n  solution-stderr:\n    fail: no such thing",
	} {
		t.Run(solution, func(t *testing.T) {
			got := checkProgram(t, solution)
			lines := []string{want, "empty fail failed tests_failed true", "garbage fail failed tests_failed true"}
			if strings.Join(got, "\n") != strings.Join(lines, "\n") {
				t.Errorf("checks\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
			}
		})
	}
}

// checkProgram validates a row with a program and returns its checks.
func checkProgram(t *testing.T, solution string) (out []string) {
	t.Helper()
	engine := sandboxtest.New(sandboxtest.Config{Programs: map[string]sandboxtest.Program{
		"solve": func(_ context.Context, p *sandboxtest.Process) int {
			dir := filepath.Join(p.Dir, "out")
			if errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "answer"), []byte(p.Args[1]), 0o600)) != nil {
				return 1
			}
			return 0
		},
		"idle": func(context.Context, *sandboxtest.Process) int { return 0 },
		"fail": func(_ context.Context, p *sandboxtest.Process) int {
			fmt.Fprintln(p.Stderr, "fail: no such thing")
			return 3
		},
		"print": func(_ context.Context, p *sandboxtest.Process) int {
			for {
				if _, err := fmt.Fprintln(p.Stdout, strings.Repeat("much ", 100)); err != nil {
					return 1
				}
			}
		},
	}})
	tk, err := task.New(task.Config{ID: "q", Family: "scripted", Pack: task.Pack{ID: "p"}, Row: []byte("x"), Environment: task.Environment{Image: "img"},
		Extraction: task.Extraction{Mode: task.FromWorkspace, Kind: task.Workspace, Path: "out"},
		Resources:  []task.Resource{{Name: "solution", Lane: task.Hidden, Value: fmt.Appendf(nil, "%q", solution)}}})
	if err != nil {
		t.Fatal(err)
	}
	img, err := engine.Image(t.Context(), "img")
	if err != nil {
		t.Fatal(err)
	}
	store, err := candidate.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	err = validate.Run(t.Context(), validate.Config{
		Families: family.NewRegistry(scripted()), Tasks: each([]task.Task{tk}), Workers: 1,
		Verifiers: map[string]family.Verifier{"scripted": answerIs4{}}, Images: map[string]sandbox.Image{"img": img}, Store: store,
		Runner: &agent.Runner{RunID: "validate", Producer: &produce.Producer{Engine: engine}, Limits: sandbox.Limits{Output: 1 << 16}},
		Done: func(r validate.Result) {
			for _, c := range r.Checks {
				out = append(out, fmt.Sprintf("%s %s %s %s %v", c.Candidate, c.Want, c.Outcome, c.Reason, c.OK))
				for _, line := range c.Why {
					out = append(out, "  "+line)
				}
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := engine.Left(); n != 0 {
		t.Errorf("%d sandboxes and workspaces are left", n)
	}
	return out
}
