package forms

import (
	"fmt"
	"maps"
	"os/exec"
	"testing"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/task"
)

// object is a part of a row as these tests write it.
type object = map[string]any

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

// ample is more time than a row needs on a machine with much else to do. It is
// meant for rows whose verdict does not depend on the time.
const ample = 5 * time.Minute

// casesCase compiles tests into the views that a verifier gets.
func casesCase(tb testing.TB, img sandbox.Image, language string, tests object) family.Case {
	tb.Helper()
	c := familytest.Case(tb, "code_completion",
		task.Resource{Name: "prompt", Lane: task.Public, Value: familytest.JSON(tb, "Add two numbers.")},
		task.Resource{Name: "language", Lane: task.Public, Value: familytest.JSON(tb, language)},
		task.Resource{Name: "tests", Lane: task.EvaluationInputs, Value: familytest.JSON(tb, tests)})
	c.Image, c.Limits.Timeout = img, ample
	return c
}

// inMemory is an engine whose only program is Python.
func inMemory(tb testing.TB) sandbox.Engine {
	tb.Helper()
	if _, err := exec.LookPath("python3"); err != nil || testing.Short() {
		tb.Skip("it runs Python processes")
	}
	return sandboxtest.New(sandboxtest.Config{Programs: map[string]sandboxtest.Program{"python3": sandboxtest.Local}})
}

func verifyCases(tb testing.TB, e sandbox.Engine, c family.Case, submitted candidate.Candidate) family.Verdict {
	tb.Helper()
	return familytest.Verify(tb, newCases(family.Resources{Engine: e, RunID: "test"}), c, submitted)
}

func casesCode(text string) candidate.Candidate { return familytest.Code(text) }

func said(text string) candidate.Candidate { return familytest.Said(text) }

// casesPrinted is the beginning of what a candidate printed.
func casesPrinted(v family.Verdict) (out string) {
	for name, data := range v.Restricted {
		out += fmt.Sprintf("%s: %.500q\n", name, data)
	}
	return out
}
