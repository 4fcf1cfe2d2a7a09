package importer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"securebench/internal/source"
)

// FuzzParse: a row is refused with a place, or has what a pack needs: a plain
// id, a command, tests, and no test that must pass twice.
func FuzzParse(f *testing.F) {
	f.Add(`{"instance_id": "o__r-1", "repo": "o/r", "base_commit": "0123456789012345678901234567890123456789", "problem_statement": "x", "patch": "p", "test_patch": "--- a/t.py\n", "FAIL_TO_PASS": "[\"t.py::a\"]", "PASS_TO_PASS": ["t.py::b"]}`,
		`{"o/r": {"packages": ["git"], "command": ["pytest", "{tests}"], "env": {"A": "{repo_dir}"}}}`)
	f.Add(`{"instance_id": "o__r-1", "repo": "o/r", "base_commit": "0123456789012345678901234567890123456789", "problem_statement": "x", "patch": "p", "test_patch": "t", "FAIL_TO_PASS": ["test_a"], "PASS_TO_PASS": [], "image": "i", "eval_script": ": 'Start Test Output'\nA=1 bin/test 'x y'\n: 'End Test Output'", "log_parser": "sympy"}`, `{}`)
	f.Fuzz(func(t *testing.T, row, specs string) {
		s, err := parseSpecs("specs", []byte(specs))
		if err != nil {
			s = nil
		}
		node, err := source.ParseJSON("rows", 1, []byte(row))
		if err != nil || node.Kind != source.Map {
			return
		}
		o := &object{node: node}
		r, problems := o.sweRow(s), o.problems
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

// TestWrites: a specification writes plain files below the checkout, none of them
// where another needs a folder.
func TestWrites(t *testing.T) {
	for write, want := range map[string]string{
		`"a/b.py": "", "a/c.py": ""`: "", `"a": "", "a.b": ""`: "",
		`"/x": ""`: "not a plain path", `"../x": ""`: "not a plain path", `"a/../b": ""`: "not a plain path", `".git/x": ""`: "not a plain path",
		`"a\nRUN x": ""`: "not a plain path", `"a": "", "a/b/c": ""`: `"a" is a file and a folder`,
	} {
		_, err := parseSpecs("specs", []byte(`{"o/r": {"command": ["pytest"], "write": {`+write+`}}}`))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", write, err, want)
		}
	}
}

// TestManyTests: lists of half a million tests are read in time that grows with
// their length.
func TestManyTests(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this computes for long, one thing at a time")
	}
	var list strings.Builder
	for i := range 500_000 {
		fmt.Fprintf(&list, `"t::%d",`, i)
	}
	tests := strings.TrimSuffix(list.String(), ",")
	node, err := source.ParseJSON("rows", 1, []byte(`{"instance_id": "o__r-1", "repo": "o/r", "base_commit": "0123456789012345678901234567890123456789", "problem_statement": "x", "patch": "p", "test_patch": "t", "FAIL_TO_PASS": [`+tests+`], "PASS_TO_PASS": [`+tests+`, "t::x"], "image": "i", "eval_script": ": 'Start Test Output'\npytest t\n: 'End Test Output'", "log_parser": "pytest"}`))
	if err != nil {
		t.Fatal(err)
	}
	o := &object{node: node}
	row, problems := o.sweRow(nil), o.problems
	if len(problems) > 0 || len(row.FailToPass) != 500_000 || !slices.Equal(row.PassToPass, []string{"t::x"}) {
		t.Errorf("%v, %d and %d tests", problems, len(row.FailToPass), len(row.PassToPass))
	}
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
		if got := preserved(c.repo, c.names, c.gold); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestCorrections: the corrections that "make data" applies to SWE-bench can be
// read.
func TestCorrections(t *testing.T) {
	if _, err := readSpecs("../../scripts/swebench.json"); err != nil {
		t.Error(err)
	}
}
