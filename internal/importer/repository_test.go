package importer_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"securebench/internal/importer"
)

const quixBugsRow = `{"instance_id": "quixbugs__one", "program": "one", "buggy_path": "python_programs/one.py", "buggy_source": "def one(x):\n    return 2\n", ` +
	`"fixed_source": "def one(x):\n    return 1\n", "gold_patch": "--- a/python_programs/one.py\n+++ b/python_programs/one.py\n@@ -1,2 +1,2 @@\n def one(x):\n-    return 2\n+    return 1\n", ` +
	`"tests": {"python_testcases/test_one.py": "import pytest\n\n\n@pytest.mark.parametrize(\"input_data,expected\", testdata)\ndef test_one(input_data, expected):\n    if input_data == [\n        1,\n    ]:\n        pytest.skip(\"slow\")\n    assert one(*input_data) == expected\n", ` +
	`"json_testcases/one.json": "[[2], 1.50]\n[[1], \"a\\u00e9\"]\n[[3], [1]]\n[[4], null]"}, "slow_or_infinite_when_buggy": false}`

const exercismRow = `{"instance_id": "exercism-go/two-fer", "language": "go", "exercise": "two-fer", "blurb": "b", "source": null, "source_url": null, "authors": ["a"], ` +
	`"instructions": "Do.", "solution_files": ["two_fer.go"], "starter_files": {"go.mod": "module twofer\n", "two_fer.go": "package twofer"}, ` +
	`"tests": {"two_fer_test.go": "package twofer\n\nfunc TestA(t *testing.T) {}\nfunc TestMain(m *testing.M) {}\nfunc Testing(t *testing.T) {}\nfunc helper() {}\n"}, "reference_solution": {".meta/example.go": "package twofer\n\nvar x = 1\n"}}`

const sweRow = `{"instance_id": "o__r-1", "repo": "o/r", "base_commit": "0123456789012345678901234567890123456789", "problem_statement": "x", "patch": "diff --git a/a.py b/a.py\n", "test_patch": "diff --git a/t.py b/t.py\n", ` +
	`"FAIL_TO_PASS": "[\"t.py::a\", \"[100%]\"]", "PASS_TO_PASS": ["t.py::b[x", "------"], "hints_text": "secret", ` +
	`"image": "registry/img:1", "eval_script": "source /opt/miniconda3/bin/activate\nconda activate testbed\n: '>>>>> Start Test Output'\nX='1 2' pytest -rA t.py\n: '>>>>> End Test Output'\n", "log_parser": "parse_log_pytest"}`

// repoRow is what the tests look at of a row.
type repoRow struct {
	ID          string
	Input       map[string]string
	Environment struct {
		Image, Workdir string
		Env            map[string]string
	}
	Eval struct {
		GoldPatch string `json:"gold_patch"`
		Tests     struct {
			Command    []string
			Runner     string
			FailToPass []string `json:"fail_to_pass"`
			PassToPass []string `json:"pass_to_pass"`
			Expected   map[string]string
			TestPatch  string `json:"test_patch"`
			Policy     struct {
				OnDenied  string   `json:"on_denied"`
				Sensitive []string `json:"allow_sensitive_paths"`
				Preserved []string `json:"patch_preserved_paths"`
			} `json:"candidate_policy"`
		}
	}
	Metadata map[string]any
}

func oneRow(t *testing.T, dir string) (r repoRow) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, dir, "tasks.jsonl")), &r, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestQuixBugsRow: cases have pytest's names, the one that the test skips is
// expected to be, and neither the checkout nor the public part has the fix.
func TestQuixBugsRow(t *testing.T) {
	dir, sum, err := run(t, importer.QuixBugs, quixBugsRow, importer.Options{ID: "q"})
	if err != nil || sum.Images != 1 {
		t.Fatal(sum, err)
	}
	r, id := oneRow(t, dir), "python_testcases/test_one.py::test_one"
	if diff := cmp.Diff([]string{id + "[input_data0-1.5]", id + "[input_data2-expected2]", id + "[input_data3-None]"}, r.Eval.Tests.FailToPass); diff != "" {
		t.Errorf("fail_to_pass (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{id + `[input_data1-a\xe9]`: "skipped"}, r.Eval.Tests.Expected); diff != "" {
		t.Errorf("expected (-want +got):\n%s", diff)
	}
	if r.Environment.Image != "localhost/q/programs:1" || r.Environment.Workdir != "/testbed" || r.Eval.Tests.Policy.OnDenied != "drop" {
		t.Errorf("row %+v", r)
	}
	if got := read(t, dir, "images/programs/testbed/python_programs/one.py"); got != "def one(x):\n    return 2\n" {
		t.Errorf("the program is %q", got)
	}
	if strings.Contains(r.Input["instructions"], "return 1") {
		t.Error("the instructions have the fix")
	}
	if recipe := read(t, dir, "images/programs/Dockerfile"); !strings.Contains(recipe, r.Input["base_commit"]) {
		t.Errorf("the recipe does not check the commit:\n%s", recipe)
	}
	checkCommit(t, filepath.Join(dir, "images", "programs", "testbed"), r)
}

// TestExercismNames: tests are found whose parameters are on the next line, and
// none in functions beside classes or in files that are not built.
func TestExercismNames(t *testing.T) {
	const code = `"two_fer_test.py": "import unittest\n\nclass T(unittest.TestCase):\n    def test_a(self):\n        pass\n\n    def test_b(\n        self,\n    ):\n        pass\n\n\ndef test_c(self):\n    pass\n\nclass Helper:\n    def test_d(self):\n        pass\n"`
	in := strings.NewReplacer(`"two_fer.go"`, `"two_fer.py"`, `"language": "go"`, `"language": "python"`, "exercism-go/", "exercism-python/").Replace(exercismRow)
	head, rest, _ := strings.Cut(in, `"two_fer_test.go": `)
	_, rest, _ = strings.Cut(rest, `"}`)
	dir, _, err := run(t, importer.Exercism, head+code+"}"+rest, importer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"two-fer/two_fer_test.py::T::test_a", "two-fer/two_fer_test.py::T::test_b"}, oneRow(t, dir).Eval.Tests.FailToPass); diff != "" {
		t.Errorf("Python (-want +got):\n%s", diff)
	}
	bonus := change(exercismRow, `"tests": {`, `"tests": {"bonus_test.go": "//go:build bonus\n\npackage twofer\n\nfunc TestBonus(t *testing.T) {}\n", `)
	if dir, _, err = run(t, importer.Exercism, bonus, importer.Options{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"TestA"}, oneRow(t, dir).Eval.Tests.FailToPass); diff != "" {
		t.Errorf("Go (-want +got):\n%s", diff)
	}
}

func TestExercismRow(t *testing.T) {
	dir, _, err := run(t, importer.Exercism, exercismRow, importer.Options{ID: "e"})
	if err != nil {
		t.Fatal(err)
	}
	r := oneRow(t, dir)
	if diff := cmp.Diff([]string{"TestA"}, r.Eval.Tests.FailToPass); diff != "" {
		t.Errorf("tests (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"go", "test", "-json", "./two-fer"}, r.Eval.Tests.Command); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
	if got := read(t, dir, "images/go/testbed/go.work"); got != "go 1.18\n\nuse (\n\t./two-fer\n)\n" {
		t.Errorf("go.work is %q", got)
	}
	checkCommit(t, filepath.Join(dir, "images", "go", "testbed"), r)
}

// checkCommit makes the commit with git, as the recipe does, and applies the
// row's patches.
func checkCommit(t *testing.T, dir string, r repoRow) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	git := func(stdin string, args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=securebench", "GIT_AUTHOR_EMAIL=securebench@localhost",
			"GIT_COMMITTER_NAME=securebench", "GIT_COMMITTER_EMAIL=securebench@localhost", "GIT_AUTHOR_DATE=2001-01-01T00:00:00+0000", "GIT_COMMITTER_DATE=2001-01-01T00:00:00+0000")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("", "init", "-q")
	git("", "add", "-A", "-f", ".")
	git("", "commit", "-q", "-m", "The files of "+strings.Split(r.Input["repo"], "/")[0])
	if head := git("", "rev-parse", "HEAD"); head != r.Input["base_commit"] {
		t.Errorf("git makes the commit %s, the row names %s", head, r.Input["base_commit"])
	}
	git(r.Eval.GoldPatch, "apply", "-")
	git(r.Eval.Tests.TestPatch, "apply", "-")
}

// TestSWEBenchRow: a row of SWE-bench 5 brings its image and its test command.
func TestSWEBenchRow(t *testing.T) {
	denied := func(paths []string) []string { return paths[:1] }
	dir, _, err := run(t, importer.SWEBench, "["+sweRow+"]", importer.Options{Denied: denied})
	if err != nil {
		t.Fatal(err)
	}
	r := oneRow(t, dir)
	tests := r.Eval.Tests
	if !cmp.Equal(tests.FailToPass, []string{"t.py::a"}) || !cmp.Equal(tests.PassToPass, []string{"t.py::b[x"}) || tests.Runner != "pytest" ||
		!cmp.Equal(tests.Command, []string{"pytest", "-rA", "t.py"}) || !cmp.Equal(tests.Policy.Sensitive, []string{"a.py"}) || tests.Policy.OnDenied != "drop" {
		t.Errorf("tests %+v", tests)
	}
	if env := r.Environment; env.Image != "registry/img:1" || env.Env["X"] != "1 2" || !strings.HasPrefix(env.Env["PATH"], "/opt/miniconda3/envs/testbed/bin:") {
		t.Errorf("environment %+v", env)
	}
	if all := read(t, dir, "tasks.jsonl"); strings.Contains(all, "secret") {
		t.Error("the hints are in the pack")
	}
	for _, want := range []string{"`[100%]`", "`------`", "`a.py`"} {
		if !strings.Contains(read(t, dir, "ATTRIBUTION.md"), want) {
			t.Errorf("ATTRIBUTION.md does not list %s", want)
		}
	}
}

// TestNotesAreWords: what a data set calls a test cannot become a heading of
// ATTRIBUTION.md, nor control the terminal that shows it.
func TestNotesAreWords(t *testing.T) {
	in := change(sweRow, `\"t.py::a\"`, `\"t.py::a\", \"a `+"`"+`\\n\\n## Licence: \\u001b[2Jnone\"`)
	dir, _, err := run(t, importer.SWEBench, in, importer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := read(t, dir, "ATTRIBUTION.md")
	if strings.Contains(got, "\n## Licence: ") || strings.ContainsAny(got, "\x1b") || !strings.Contains(got, "`a '\\x0a\\x0a## Licence: \\x1b[2Jnone`") {
		t.Errorf("the notes are\n%s", got)
	}
}

func TestMalformedRepositories(t *testing.T) {
	for _, c := range []struct{ name, format, in, want string }{
		{"program is code", importer.QuixBugs, change(quixBugsRow, `"program": "one"`, `"program": "../one"`), "program must be a Python identifier"},
		{"another file", importer.QuixBugs, change(quixBugsRow, "python_programs/one.py", "setup.py"), "buggy_path must be python_programs/one.py"},
		{"no bug", importer.QuixBugs, change(quixBugsRow, `"def one(x):\n    return 1\n"`, `"def one(x):\n    return 2\n"`), "fixed_source is buggy_source"},
		{"a step out", importer.QuixBugs, change(quixBugsRow, "json_testcases/one.json", "../one.json"), "is not a plain path"},
		{"a hidden file", importer.QuixBugs, change(quixBugsRow, "json_testcases/one.json", ".git/config"), "is not a plain path"},
		{"a decorator", importer.QuixBugs, change(quixBugsRow, "parametrize", "other"), "which is not known"},
		{"a case", importer.QuixBugs, change(quixBugsRow, "[[2], 1.50]", "[[2]]"), "is not a list of two values"},
		{"no tests", importer.QuixBugs, change(quixBugsRow, "def test_one", "def check"), "has no tests"},
		{"another language", importer.Exercism, change(exercismRow, `"language": "go"`, `"language": "zig"`), "instance_id must be"},
		{"an exercise", importer.Exercism, change(exercismRow, `"exercise": "two-fer"`, `"exercise": "../two-fer"`), "instance_id must be"},
		{"no specification", importer.SWEBench, change(sweRow, `"eval_script"`, `"x"`), "rows.jsonl:1:1: it does not say how its tests run"},
		{"a commit", importer.SWEBench, change(sweRow, "0123456789", "HEAD"), "rows.jsonl:1:"},
		{"a repository", importer.SWEBench, change(sweRow, `"o/r"`, `"../r"`), "want owner/name"},
		{"an id", importer.SWEBench, change(sweRow, "o__r-1", "../x"), "instance_id is"},
		{"a shell", importer.SWEBench, change(sweRow, "pytest -rA t.py", "pytest | tee x"), "needs a shell"},
		{"no marks", importer.SWEBench, change(sweRow, "Start Test Output", "Start"), "between its marks"},
		{"a broken list", importer.SWEBench, change(sweRow, `[\"t.py::a\", `, `[\"t.py::a\" `), "FAIL_TO_PASS holds no list"},
		{"no ids", importer.SWEBench, change(sweRow, `\"t.py::a\"`, `\"----\"`), "FAIL_TO_PASS names no test"},
		{"a field is missing", importer.SWEBench, change(sweRow, `"test_patch"`, `"other"`), `the field "test_patch" is missing`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, _, err := run(t, c.format, c.in, importer.Options{Name: "rows.jsonl"})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "rows.jsonl:1") {
				t.Errorf("error %v, want one with %q and a place", err, c.want)
			}
			if entries, _ := os.ReadDir(dir); len(entries) != 0 {
				t.Errorf("the import left %v behind", entries)
			}
		})
	}
}

// TestCheckoutOfAClone: a row without an image gets the commit of a clone.
func TestCheckoutOfAClone(t *testing.T) {
	clones := t.TempDir()
	dir := filepath.Join(clones, "o", "r")
	git := func(args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		out, err := cmd.CombinedOutput()
		if errors.Is(err, exec.ErrNotFound) {
			t.Skip("git is not installed")
		}
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "tests"), 0o755), os.WriteFile(filepath.Join(dir, "tests", "conftest.py"), []byte("x = 1\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	git("init", "-q")
	git("add", "-A")
	git("commit", "-q", "-m", "base")
	in := change(change(sweRow, "0123456789012345678901234567890123456789", git("rev-parse", "HEAD")), `"eval_script"`, `"other"`)
	specs := filepath.Join(t.TempDir(), "specs.json")
	if err := os.WriteFile(specs, []byte(`{"o/r": {"packages": ["python3-pytest"], "command": ["python3", "-m", "pytest", "{tests}"], "env": {"PYTHONPATH": "{repo_dir}/src"}, "write": {"v.py": "v = 1\n"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	out, sum, err := run(t, importer.SWEBench, in, importer.Options{Repos: clones, Specs: specs})
	if err != nil || sum.Images != 2 {
		t.Fatal(sum, err)
	}
	r := oneRow(t, out)
	if r.Environment.Image != "localhost/swebench/o__r-1:1" || r.Environment.Env["PYTHONPATH"] != "/testbed/src" ||
		!cmp.Equal(r.Eval.Tests.Command, []string{"python3", "-m", "pytest", "t.py"}) || !cmp.Equal(r.Eval.Tests.Policy.Preserved, []string{"tests/conftest.py"}) {
		t.Errorf("row %+v", r)
	}
	want := "FROM localhost/swebench/base-1:1\nADD checkout.tar /\nCOPY write/v.py /testbed/v.py\nWORKDIR /testbed\n"
	if got := read(t, out, "images/o__r-1/Dockerfile"); got != want {
		t.Errorf("recipe %q, want %q", got, want)
	}
	if got := read(t, out, "images/base-1/Dockerfile"); !strings.Contains(got, " git python3 python3-distutils python3-pytest ") {
		t.Errorf("the base image's recipe is %q", got)
	}
	if !bytes.Contains([]byte(read(t, out, "images/o__r-1/checkout.tar")), []byte("testbed/tests/conftest.py")) {
		t.Error("the checkout has no files")
	}
	for id, want := range map[string]string{"base-1": "an image that rows share", "Base-12": "an image that rows share", "base_1": ""} {
		_, _, err := run(t, importer.SWEBench, change(in, "o__r-1", id), importer.Options{Repos: clones, Specs: specs})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("a row with the id %s: %v, want %q", id, err, want)
		}
	}
	missing := change(in, git("rev-parse", "HEAD"), strings.Repeat("1", 40))
	left, _, err := run(t, importer.SWEBench, missing, importer.Options{Repos: clones, Specs: specs, Name: "rows.jsonl"})
	if err == nil || !strings.Contains(err.Error(), "rows.jsonl:1:1: o__r-1") || !strings.Contains(err.Error(), "fetch it") {
		t.Errorf("a commit that is missing: %v", err)
	}
	if entries, _ := os.ReadDir(left); len(entries) != 0 {
		t.Errorf("the import left %v behind", entries)
	}
	if _, err := importer.Import(context.Background(), importer.SWEBench, strings.NewReader(in), t.TempDir(), importer.Options{Repos: t.TempDir(), Specs: specs}); err == nil {
		t.Error("a clone that is missing was found")
	}
}
