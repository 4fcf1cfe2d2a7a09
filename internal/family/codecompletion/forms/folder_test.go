package forms

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/sampletest"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/verdict"
)

// stackFolder is a folder of pytest's files: settings, fixtures, helpers, data, a package and
// folders with files of the same name.
func stackFolder() map[string]string {
	return map[string]string{
		"pytest.ini":            "[pytest]\nmarkers = slow\n",
		"conftest.py":           "import pytest\nfrom candidate import Stack\nfrom helpers import filled\n\n\n@pytest.fixture\ndef stack():\n    return filled(Stack())\n",
		"helpers.py":            "import os\n\n\ndef filled(stack):\n    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'data', 'items.txt')) as f:\n        for line in f:\n            stack.push(line.strip())\n    return stack\n",
		"data/items.txt":        "one\ntwo\n",
		"test_order.py":         "def test_last(stack):\n    assert stack.pop() == 'two'\n\n\ndef test_length(stack):\n    assert len(stack) == 2\n",
		"test_base.py":          "class Base:\n    def test_empty(self):\n        s = Stack()\n        try:\n            s.pop()\n        except EmptyStack:\n            return\n        assert False\n",
		"deep/conftest.py":      "import pytest\n\n\n@pytest.fixture\ndef stack(stack):\n    stack.push('three')\n    return stack\n",
		"deep/test_order.py":    "import pytest\nfrom test_base import Base\n\n\n@pytest.mark.slow\n@pytest.mark.parametrize('n', [1, 2])\ndef test_more(stack, n):\n    assert stack.pop() == 'three', n\n\n\nclass TestEmpty(Base):\n    def test_own(self):\n        assert len(Stack()) == 0\n",
		"package/__init__.py":   "",
		"package/shared.py":     "LIMIT = 3\n",
		"package/limit_test.py": "from .shared import LIMIT\n\n\ndef test_limit(stack):\n    assert len(stack) < LIMIT\n",
	}
}

// TestSharedFolder scores candidates by a folder of pytest's files.
func TestSharedFolder(t *testing.T) {
	t.Parallel()
	e := enginetest.Open(t)
	img := enginetest.GitImage(t, e)
	with := func(change map[string]string) map[string]string {
		files := stackFolder()
		for name, text := range change {
			files[name] = text
		}
		return files
	}
	for _, tt := range []struct {
		name    string
		tests   map[string]string
		from    candidate.Candidate
		outcome verdict.Outcome
		reason  verdict.Reason
		says    string
	}{
		{"right", stackFolder(), code(stack), verdict.Passed, "", ""},
		{"wrong", stackFolder(), code(strings.Replace(stack, "self.items.pop()", "self.items.pop(0)", 1)), verdict.Failed, verdict.TestsFailed, ""},
		{"wrong for one file below", stackFolder(), code(strings.Replace(stack, "self.items.pop()", "[x for x in self.items if x != 'three'][-1]", 1)), verdict.Failed, verdict.TestsFailed, ""},
		{"wrong for a package", with(map[string]string{"package/shared.py": "LIMIT = 2\n"}), code(stack), verdict.Failed, verdict.TestsFailed, ""},
		{"nothing of it", stackFolder(), code("pass\n"), verdict.Failed, "", ""},
		{"an error in the module", stackFolder(), code("raise ValueError('no')\n"), verdict.Failed, "", ""},
		{"tests that do not parse", with(map[string]string{"deep/test_order.py": "x = 1\ndef (:\n"}), code(stack), verdict.Pending, verdict.PackFault, "the row's tests do not parse: deep/test_order.py line 2"},
		{"no tests", map[string]string{"test_a.py": "def check(): pass\n"}, code(stack), verdict.Pending, verdict.PackFault, "the row's folder of tests has no test that must pass"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := verify(t, e, rowCase(t, img, "Write a stack.", tt.tests), tt.from)
			if got.Outcome != tt.outcome || tt.reason != "" && got.Reason != tt.reason || got.Containment != verdict.Shared || !strings.Contains(got.Message, tt.says) {
				t.Errorf("%s/%s %s %q\n%.3000s", got.Outcome, got.Reason, got.Containment, got.Message, printed(got))
			}
		})
	}
	adder := map[string]string{"conftest.py": "from candidate import add as added\n", "test_row.py": adderTests, "deep/test_more.py": "def test_one():\n    assert add(1, 1) == 2\n"}
	t.Run("honest", func(t *testing.T) {
		t.Parallel()
		if got := verify(t, e, rowCase(t, img, "p", adder), code("def add(a, b): return a + b\n")); got.Outcome != verdict.Passed {
			t.Errorf("%s/%s %q\n%.3000s", got.Outcome, got.Reason, got.Message, printed(got))
		}
	})
	for _, a := range sampletest.Of(t, 4, attacks()) { // all of them run on one text
		t.Run(a.id+" "+a.name, func(t *testing.T) {
			t.Parallel()
			got := verify(t, e, rowCase(t, img, "p", adder), code(a.candidate))
			if got.Outcome == verdict.Passed || got.Outcome == verdict.Pending {
				t.Errorf("%s/%s %q\n%.3000s", got.Outcome, got.Reason, got.Message, printed(got))
			}
		})
	}
}

// TestFolderNames: files of tests have fresh names, but for those that others mention.
func TestFolderNames(t *testing.T) {
	t.Parallel()
	c := Code{Files: stackFolder()}
	first, again, other := c.tests([32]byte{1}), c.tests([32]byte{1}), c.tests([32]byte{2})
	for name, f := range first {
		kept := name == "test_base.py"
		if (f.name == name) != kept || f.name != again[name].name || (f.name == other[name].name) != kept || !isTestFile(f.name) {
			t.Errorf("%s is %s, again %s, and with another seed %s", name, f.name, again[name].name, other[name].name)
		}
	}
	if len(first) != 4 {
		t.Errorf("%d files of tests", len(first))
	}
}

// TestFolderRules refuses folders before a run.
func TestFolderRules(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		spec string
		want []string
	}{
		"shared":       {`{"source":"inline","containment":"shared","code":{"test_a.py":"def test_a(): pass"}}`, nil},
		"split":        {`{"source":"inline","code":{"test_a.py":"def test_a(): pass"}}`, []string{"is a folder of pytest files, and tests that are split from the candidate are one text"}},
		"no test":      {`{"source":"inline","containment":"shared","code":{"conftest.py":"","check.py":""}}`, []string{"has no file of tests"}},
		"outside":      {`{"source":"inline","containment":"shared","code":{"test_a.py":"","../x.py":"","a//b.py":""}}`, []string{`has a file "../x.py", which is no relative path`, `has a file "a//b.py", which is no relative path`}},
		"ours":         {`{"source":"inline","containment":"shared","code":{"test_a.py":"","securebench_row.py":"","prompt.txt/test_b.py":"","candidate.py":""}}`, []string{`has a file "candidate.py", in the place of one of securebench's own`, `has a file "prompt.txt/test_b.py", in the place of one of securebench's own`, `has a file "securebench_row.py", in the place of one of securebench's own`}},
		"below a file": {`{"source":"inline","containment":"shared","code":{"test_a.py":"","test_a.py/b.py":""}}`, []string{`has a file "test_a.py/b.py", below another file`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !json.Valid([]byte(tt.spec)) {
				t.Fatal("no JSON")
			}
			var got []string
			for _, p := range Check(family.Row{Eval: map[string]jsontext.Value{"tests": jsontext.Value(tt.spec)}}) {
				got = append(got, p.Message)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q", got)
			}
		})
	}
}
