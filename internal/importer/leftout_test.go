package importer_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/importer"
)

// classEvalRow is a row in the form of ClassEval, written for these tests.
const classEvalRow = `{"task_id": "ClassEval_0", "skeleton": "import math\n\nclass A:\n    def f(self):\n        \"\"\" One. \"\"\"\n", ` +
	`"test": "import unittest\n\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(A().f(), 1)\n", ` +
	`"solution_code": "class A:\n    def f(self):\n        return 1\n", "import_statement": ["import math"], "class_description": "", "class_name": "A", ` +
	`"test_classes": ["T"], "class_constructor": "", "fields": [], "methods_info": []}`

// TestClassEval: the data set is one JSON array; what is left out is named.
func TestClassEval(t *testing.T) {
	other := strings.NewReplacer("ClassEval_0", "ClassEval_5", `["import math"]`, `["import pandas as pd"]`).Replace(classEvalRow)
	for _, in := range []string{"[" + classEvalRow + ",\n" + other + "]", classEvalRow + "\n" + other} {
		dir, sum, err := run(t, importer.ClassEval, in, importer.Options{})
		if err != nil {
			t.Fatal(err)
		}
		want := `{"id":"ClassEval_0","input":{"prompt":"import math\n\nclass A:\n    def f(self):\n        \"\"\" One. \"\"\"\n","language":"python"},` +
			`"eval":{"tests":{"source":"inline","code":"import math\n\nimport unittest\n\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(A().f(), 1)\n","timeout_seconds":120},` +
			`"reference_solution":"import math\n\nclass A:\n    def f(self):\n        return 1\n"},"metadata":{"dataset":"ClassEval"}}` + "\n"
		if diff := cmp.Diff(want, read(t, dir, "tasks.jsonl")); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"ClassEval_5: it needs the package pandas"}, sum.LeftOut); diff != "" {
			t.Errorf("left out (-want +got):\n%s", diff)
		}
		if got := read(t, dir, "manifest.yaml"); !strings.Contains(got, `image: "securebench-pytest:1"`) {
			t.Error(got)
		}
	}
}

// TestHumanEvalXLeftOut: rows whose solutions fail their own tests are named.
func TestHumanEvalXLeftOut(t *testing.T) {
	const row = `{"task_id": "JavaScript/0", "prompt": "const f = (x) => {\n", "declaration": "const f = (x) => {\n", "canonical_solution": "  return x\n}\n", "test": "console.assert(f(1) === 1)\n"}`
	dir, sum, err := run(t, importer.HumanEvalX, row+"\n"+strings.Replace(row, "JavaScript/0", "JavaScript/112", 1), importer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"HumanEval-X/JavaScript/112: its solution fails its own tests"}, sum.LeftOut); diff != "" || sum.Rows != 1 {
		t.Errorf("%d rows, left out (-want +got):\n%s", sum.Rows, diff)
	}
	if got := read(t, dir, "ATTRIBUTION.md"); !strings.Contains(got, "112, 155 and 162") {
		t.Error(got)
	}
}
