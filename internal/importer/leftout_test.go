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

// TestExercismLeftOut: a row that cannot be imported is left out, with what is true of
// it, and the others are imported. A build constraint that the recipe's Go meets leaves
// nothing out.
func TestExercismLeftOut(t *testing.T) {
	other := func(name string, pairs ...string) string {
		return strings.NewReplacer(append([]string{"two-fer", name}, pairs...)...).Replace(exercismRow)
	}
	constrained := func(line string) []string {
		return []string{`"package twofer\n\nfunc TestA`, `"// Tests.\n\n` + line + `\n\npackage twofer\n\nfunc TestA`}
	}
	in := strings.Join([]string{
		exercismRow,
		other("met", constrained("//go:build linux && go1.18 && !race")...),
		other("comment", `func helper() {}`, `// //go:build never is no constraint here\n`),
		other("bonus", constrained("//go:build bonus")...),
		other("windows", constrained("//go:build windows || go1.99")...),
		other("malformed", constrained("//go:build &&")...),
		other("nameless", "func TestA", "func testA"),
		other("twice", "func helper()", "func TestA(t *testing.T)"),
		other("two-files", `["two_fer.go"]`, `["two_fer.go", "go.mod"]`),
		other("no-starter", `["two_fer.go"]`, `["three.go"]`),
		other("rusty", `"language": "go"`, `"language": "rust"`, "exercism-go/", "exercism-rust/"),
	}, "\n")
	dir, sum, err := run(t, importer.Exercism, in, importer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"exercism-go/bonus: its tests in two_fer_test.go have the build constraint \"//go:build bonus\", with which no build here has them",
		"exercism-go/windows: its tests in two_fer_test.go have the build constraint \"//go:build windows || go1.99\", with which no build here has them",
		"exercism-go/malformed: its tests in two_fer_test.go have the build constraint \"//go:build &&\", with which no build here has them",
		"exercism-go/nameless: no test was found in its files nameless/two_fer_test.go",
		"exercism-go/twice: two of its tests have the name TestA",
		"exercism-go/two-files: it has 2 solution files and 1 reference solutions, and one of each can be imported",
		"exercism-go/no-starter: its solution file three.go has no starter",
		"exercism-rust/rusty: its language is rust, and Python and Go can be imported",
	}
	if diff := cmp.Diff(want, sum.LeftOut); diff != "" || sum.Rows != 3 {
		t.Errorf("%d rows, left out (-want +got):\n%s", sum.Rows, diff)
	}
	rows, about := read(t, dir, "tasks.jsonl"), read(t, dir, "ATTRIBUTION.md")
	for _, name := range []string{"two-fer", "met", "comment"} {
		if !strings.Contains(rows, `"exercism-go/`+name+`"`) {
			t.Errorf("the row %s is not there", name)
		}
	}
	for _, line := range want {
		if !strings.Contains(about, "- "+line+"\n") {
			t.Errorf("ATTRIBUTION.md does not say: %s", line)
		}
	}
	if _, _, err := run(t, importer.Exercism, other("bonus", constrained("//go:build bonus")...), importer.Options{}); err == nil || !strings.Contains(err.Error(), "no row that can be imported; the first: exercism-go/bonus") {
		t.Errorf("without any other row: %v", err)
	}
}
