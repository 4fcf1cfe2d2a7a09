package swebench_test

import (
	"slices"
	"strings"
	"testing"

	"securebench/internal/importer/swebench"
	"securebench/internal/source"
)

// FuzzParse: a row is refused with a place, or has what a pack needs: a plain
// id, a command, tests, and no test that must pass twice.
func FuzzParse(f *testing.F) {
	f.Add(`{"instance_id": "o__r-1", "repo": "o/r", "base_commit": "0123456789012345678901234567890123456789", "problem_statement": "x", "patch": "p", "test_patch": "--- a/t.py\n", "FAIL_TO_PASS": "[\"t.py::a\"]", "PASS_TO_PASS": ["t.py::b"]}`,
		`{"o/r": {"packages": ["git"], "command": ["pytest", "{tests}"], "env": {"A": "{repo_dir}"}}}`)
	f.Add(`{"instance_id": "o__r-1", "repo": "o/r", "base_commit": "0123456789012345678901234567890123456789", "problem_statement": "x", "patch": "p", "test_patch": "t", "FAIL_TO_PASS": ["test_a"], "PASS_TO_PASS": [], "image": "i", "eval_script": ": 'Start Test Output'\nA=1 bin/test 'x y'\n: 'End Test Output'", "log_parser": "sympy"}`, `{}`)
	f.Fuzz(func(t *testing.T, row, specs string) {
		s, err := swebench.ParseSpecs("specs", []byte(specs))
		if err != nil {
			s = nil
		}
		node, err := source.ParseJSON("rows", 1, []byte(row))
		if err != nil || node.Kind != source.Map {
			return
		}
		r, problems := swebench.Parse(node, s)
		if len(problems) > 0 {
			for _, p := range problems {
				if p.Pos.Line == 0 {
					t.Errorf("a problem without a place: %v", p)
				}
			}
			return
		}
		if r.ID == "" || strings.ContainsAny(r.ID, "/\n") || len(r.Command) == 0 || r.Runner == "" || len(r.FailToPass) == 0 {
			t.Errorf("row %+v", r)
		}
		for _, id := range r.PassToPass {
			if slices.Contains(r.FailToPass, id) {
				t.Errorf("%q is in both lists", id)
			}
		}
	})
}

// TestPreserved: what runs the tests comes from the base, unless the gold patch
// changes it.
func TestPreserved(t *testing.T) {
	names := []string{"bin/test", "conftest.py", "a/conftest.py", "sympy/testing/runtests.py", "sympy/testing/x.py", "sympy/core.py"}
	for name, c := range map[string]struct {
		repo, gold string
		names      []string
		want       []string
	}{
		"all":            {"sympy/sympy", "", names, []string{"a/conftest.py", "bin/test", "conftest.py", "sympy/testing"}},
		"gold needs one": {"sympy/sympy", "--- a/sympy/testing/x.py\n", names, []string{"a/conftest.py", "bin/test", "conftest.py", "sympy/testing/runtests.py"}},
		"gold needs two": {"other/one", "diff --git a/a/conftest.py b/a/conftest.py\n", names, []string{"conftest.py"}},
		"no clone":       {"django/django", "--- a/tests/runtests.py\n", nil, []string{"conftest.py", "*/conftest.py", "tests/test_sqlite.py", "django/test/runner.py"}},
	} {
		if got := swebench.Preserved(c.repo, c.names, c.gold); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
