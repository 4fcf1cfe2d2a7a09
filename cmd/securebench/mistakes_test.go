package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mistake is one mistake of an author in the pack that init writes: a text of a file
// that is replaced, or, if old is empty, a file that is written. The command must say
// where it is, and in these words what to do.
type mistake struct {
	name, file, old, new string
	place, fix           string
}

// The rows of the pack, in its order, which is that of the families' names.
const (
	codeRow = "tasks.jsonl:1:"
	textRow = "tasks.jsonl:2:"
	mcRow   = "tasks.jsonl:3:"
	repoRow = "tasks.jsonl:4:"
	saRow   = "tasks.jsonl:5:"
	termRow = "tasks.jsonl:6:"
)

func manifestMistakes() []mistake {
	const f = "manifest.yaml"
	return []mistake{
		{"id left out", f, "id: my-pack\n", "", "manifest.yaml:4:1", "manifest.id is required"},
		{"id is a number", f, "id: my-pack", "id: 7", "manifest.yaml:4:5", `quote it: "7"`},
		{"id is empty", f, "id: my-pack", `id: ""`, "manifest.yaml:4:5", "must be a non-empty string"},
		{"id has a line break", f, "id: my-pack", `id: "my\npack"`, "manifest.yaml:4:5", "remove it: ids are shown"},
		{"version is text", f, "version: 1", `version: "1"`, "manifest.yaml:5:10", "must be an integer"},
		{"version has a dot", f, "version: 1", "version: 1.0", "manifest.yaml:5:10", "must be an integer"},
		{"version left out", f, "version: 1\n", "", "manifest.yaml:4:1", "manifest.version is required"},
		{"misspelt version", f, "version: 1", "verssion: 1", "manifest.yaml:5:1", `did you mean "version"?`},
		{"version in capitals", f, "version: 1", "Version: 1", "manifest.yaml:5:1", "write version"},
		{"unknown key", f, "version: 1", "version: 1\nauthor: me", "manifest.yaml:6:1", "known: id, version, defaults"},
		{"key twice", f, "version: 1", "version: 1\nversion: 2", "manifest.yaml:6:1", `duplicate key "version"`},
		{"misspelt defaults", f, "defaults:", "default:", "manifest.yaml:8:1", `did you mean "defaults"?`},
		{"defaults is a list", f, "defaults:\n  environment:\n", "defaults:\n  - environment:\n", "manifest.yaml:9:3", "must be an object"},
		{"misspelt image", f, "    image:", "    imgae:", "manifest.yaml:10:5", `did you mean "image"?`},
		{"image is no reference", f, "securebench-python:3", `"python 3"`, "manifest.yaml:10:12", "write name:tag or name@sha256:digest"},
		{"time limit is text", f, "timeout_seconds: 120", "timeout_seconds: 2 minutes", "manifest.yaml:11:22", "must be a positive number"},
		{"time limit is zero", f, "timeout_seconds: 120", "timeout_seconds: 0", "manifest.yaml:11:22", "must be above 0"},
		{"misspelt time limit", f, "timeout_seconds:", "timeout_second:", "manifest.yaml:11:5", `did you mean "timeout_seconds"?`},
		{"tabs", f, "  environment:\n", "\tenvironment:\n", "manifest.yaml:9:1", `indent with spaces, not with tabs`},
		{"unclosed quote", f, "id: my-pack", `id: "my-pack`, "manifest.yaml:4:5", `close the quote`},
		{"folder that leads out", f, "version: 1", "version: 1\nasset_roots: {public: ../files}", "manifest.yaml:6:23", "write a relative path"},
		{"unknown family", f, "defaults:\n", "defaults:\n  family: short-answer\n", "manifest.yaml:9:11", `did you mean "short_answer"?`},
	}
}

func rowMistakes() []mistake {
	const f = "tasks.jsonl"
	return []mistake{
		{"row is no JSON", f, `{"id": "code-completion-1",`, `{"id": "code-completion-1"`, codeRow, `write a comma before it`},
		{"single quotes", f, `"family": "code_completion"`, `'family': 'code_completion'`, codeRow, `use double quotes`},
		{"row in two lines", f, `"family": "code_completion", `, "\"family\": \"code_completion\",\n", codeRow, `a value is on one line`},
		{"comma at the end", f, `"answer": "C"}`, `"answer": "C",}`, mcRow, `remove the comma`},
		{"row is a list", f, `{"id": "short-answer-1"`, `[{"id": "short-answer-1"`, saRow, `close its quotes, brackets and braces`},
		{"id twice", f, `"id": "short-answer-1"`, `"id": "multiple-choice-1"`, saRow, `give every task a unique id`},
		{"id left out", f, `"id": "short-answer-1", `, ``, saRow, `give every task a unique id`},
		{"id is a number", f, `"id": "short-answer-1"`, `"id": 5`, saRow, `quote it: "5"`},
		{"family left out", f, `"family": "short_answer", `, ``, saRow, "defaults.family"},
		{"misspelt family", f, `"family": "short_answer"`, `"family": "short_anwser"`, saRow, `did you mean "short_answer"?`},
		{"unknown family", f, `"family": "short_answer"`, `"family": "essay"`, saRow, "known: "},
		{"misspelt input", f, `"input": {"question": "A train`, `"inputs": {"question": "A train`, saRow, `did you mean "input"?`},
		{"input in capitals", f, `"input": {"question": "A train`, `"Input": {"question": "A train`, saRow, "write input"},
		{"unknown key", f, `"family": "short_answer"`, `"family": "short_answer", "level": 3`, saRow, "known: id, family"},
		{"misspelt question", f, `"question": "A train`, `"qestion": "A train`, saRow, `did you mean "question"?`},
		{"key twice", f, `"answer": "C"`, `"answer": "C", "answer": "A"`, mcRow, `remove one of the two`},
		{"answer is none of the choices", f, `"answer": "C"`, `"answer": "60"`, mcRow, `write a label such as A, a choice's text`},
		{"answer beyond the choices", f, `"answer": "C"`, `"answer": "E"`, mcRow, `write a label such as A, a choice's text`},
		{"answer is an index beyond the choices", f, `"answer": "C"`, `"answer": 4`, mcRow, `write a label such as A, a choice's text`},
		{"choices as one text", f, `["51", "57", "59", "63"]`, `"51, 57, 59, 63"`, mcRow, "a list of 1 to 26 non-empty strings"},
		{"choices as numbers", f, `["51", "57", "59", "63"]`, `[51, 57, 59, 63]`, mcRow, "a non-empty string"},
		{"a choice twice", f, `["51", "57", "59", "63"]`, `["51", "59", "59", "63"]`, mcRow, `remove one of the two`},
		{"an empty choice", f, `["51", "57", "59", "63"]`, `["51", "", "59", "63"]`, mcRow, "a non-empty string"},
		{"answers as text", f, `"accepted_answers": [85]`, `"accepted_answers": 85`, saRow, "a non-empty list"},
		{"no answers", f, `"accepted_answers": [85]`, `"accepted_answers": []`, saRow, "a non-empty list"},
		{"an answer that is punctuation", f, `"accepted_answers": [85]`, `"accepted_answers": ["..."]`, saRow, `is empty after normalisation (spaces, quotes and`},
		{"misspelt answers", f, `"accepted_answers": [85]`, `"accepted_answer": [85]`, saRow, `did you mean "accepted_answers"?`},
		{"tolerance below zero", f, `"accepted_answers": [85]`, `"accepted_answers": [85], "tolerance": -1`, saRow, "a number >= 0"},
		{"tolerance for text", f, `"accepted_answers": [85]`, `"accepted_answers": ["noon"], "tolerance": 1`, saRow, `remove it, or write the answers as numbers`},
		{"unknown match", f, `"accepted_answers": [85]`, `"accepted_answers": [85], "match": {"type": "glob"}`, saRow, "one of: number, text, span, set"},
		{"answer in the question", f, `"question": "A train`, `"answer": 85, "question": "A train`, saRow, `unknown field "answer"`},
		{"misspelt rubric type", f, `"type": "contains_any"`, `"type": "contain_any"`, textRow, "contains_any"},
		{"rubric without answers", f, `"accepted_answers": ["It melts", "It becomes liquid water"], `, ``, textRow, "accepted_answers is required"},
		{"an answer that is accepted and rejected", f, `["It stays frozen", "Nothing happens to it"]`, `["It melts"]`, textRow, `remove it from one of the two`},
		{"tests left out", f, `"eval": {"tests": {"source": "inline"`, `"eval": {"test": {"source": "inline"`, codeRow, `did you mean "tests"?`},
		{"unknown source of tests", f, `"source": "inline"`, `"source": "file"`, codeRow, "one of: inline, cases"},
		{"tests as a list", f, `"code": "assert initials`, `"code": ["assert initials`, codeRow, `close what is open`},
		{"misspelt entry point", f, `"entry_point":`, `"entrypoint":`, codeRow, `did you mean "entry_point"?`},
		{"entry point that is no name", f, `"entry_point": "initials"`, `"entry_point": "initials()"`, codeRow, "must be a name"},
		{"another language", f, `"language": "python"`, `"language": "go"`, codeRow, `source "cases"`},
		{"misspelt reference", f, `"reference_solution":`, `"reference_solutoin":`, codeRow, `did you mean "reference_solution"?`},
		{"prompt left out", f, `"prompt": "def initials`, `"promt": "def initials`, codeRow, `did you mean "prompt"?`},
		{"misspelt checker", f, `"checker":`, `"cheker":`, termRow, `did you mean "checker"?`},
		{"unknown checker", f, `"source": "pytest"`, `"source": "unittest"`, termRow, "one of: pytest, script"},
		{"test that is not there", f, `tests/test_total.py`, `tests/test_totals.py`, termRow, `put it below hidden/ beside the manifest`},
		{"test that leads out", f, `terminal-task-1/tests/test_total.py`, `../test_total.py`, termRow, `write a relative path`},
		{"solution that is not there", f, `solution/solve.sh`, `solution/solver.sh`, termRow, `put it below hidden/ beside the manifest`},
		{"asset that is not there", f, `"path": "terminal-task-1/orders.csv"`, `"path": "terminal-task-1/order.csv"`, termRow, `put it below assets/ beside the manifest`},
		{"asset with an absolute path", f, `"path": "terminal-task-1/orders.csv"`, `"path": "/orders.csv"`, termRow, "write a relative path"},
		{"asset at a reserved place", f, `"mount": "orders.csv"`, `"mount": "eval/orders.csv"`, termRow, "choose another mount"},
		{"misspelt asset", f, `"mount": "orders.csv"`, `"mout": "orders.csv"`, termRow, `did you mean "mount"?`},
		{"assets as an object", f, `"assets": [{"path": "terminal-task-1/orders.csv", "mount": "orders.csv"}]`, `"assets": {"path": "terminal-task-1/orders.csv"}`, termRow, "must be a list"},
		{"workspace in a folder of the system", f, `"environment": {"image": "securebench-pytest:1"}`, `"environment": {"image": "securebench-pytest:1", "workdir": "/usr/src"}`, termRow, "choose another folder"},
		{"working folder that is relative", f, `"workdir": "/repository"`, `"workdir": "repository"`, repoRow, "write an absolute path"},
		{"commit left out", f, `"base_commit": "28a502dab489b14eb0e910622239230a9bf31f65", `, ``, repoRow, "base_commit is required"},
		{"commit that is none", f, `"28a502dab489b14eb0e910622239230a9bf31f65"`, `"main"`, repoRow, `write what git rev-parse HEAD prints`},
		{"unknown runner", f, `"runner": "pytest"`, `"runner": "nose"`, repoRow, "one of pytest, unittest"},
		{"misspelt list of tests", f, `"fail_to_pass":`, `"fail_to_pas":`, repoRow, `did you mean "fail_to_pass"?`},
		{"a test in both lists", f, `"pass_to_pass": ["test_temperature.py::test_freezing_point"]`, `"pass_to_pass": ["test_temperature.py::test_boiling_point"]`, repoRow, `remove it from one of the two`},
		{"patch that is none", f, `"gold_patch": "diff --git a/temperature.py b/temperature.py\nindex cdbc0b5..25975a7 100644\n--- a/temperature.py\n+++ b/temperature.py\n`, `"gold_patch": "`, repoRow, `write what git diff prints`},
		{"runner that runs nothing", f, `"fail_to_pass": ["test_temperature.py::test_boiling_point"], "pass_to_pass": ["test_temperature.py::test_freezing_point"], `, ``, repoRow, `name the tests, or remove it`},
		{"repository without a folder", f, `, "workdir": "/repository"`, ``, repoRow, `set environment.workdir to the path of the repository`},
		{"setup as text", f, `"environment": {"image": "localhost/my-pack/repo-patch-1:1", "workdir": "/repository"}`, `"environment": "localhost/my-pack/repo-patch-1:1"`, repoRow, "must be an object"},
		{"metadata as text", f, `"family": "short_answer"`, `"family": "short_answer", "metadata": "easy"`, saRow, "must be an object"},
		{"unknown capability", f, `"environment": {"image": "securebench-pytest:1"}`, `"environment": {"image": "securebench-pytest:1", "capabilities": ["NET_ADMIN"]}`, termRow, "choose from CHOWN"},
		{"variable of securebench's", f, `"environment": {"image": "securebench-pytest:1"}`, `"environment": {"image": "securebench-pytest:1", "env": {"SECUREBENCH_X": "1"}}`, termRow, `rename or remove it`},
		{"number that is not finite", f, `[85]`, `[NaN]`, saRow, `write a finite number`},
		{"an invisible mark at the beginning", f, `{"id": "code-completion-1"`, "\ufeff" + `{"id": "code-completion-1"`, codeRow, "save the file as UTF-8 without one"},
	}
}

func testerMistakes() []mistake {
	const f = "tester.yaml"
	return []mistake{
		{"version unquoted", f, `schema_version: "0.2"`, `schema_version: 0.2`, "tester.yaml:4:17", `write schema_version: "0.2"`},
		{"version left out", f, `schema_version: "0.2"`, ``, "tester.yaml:", `write schema_version: "0.2"`},
		{"another version", f, `schema_version: "0.2"`, `schema_version: "1.0"`, "tester.yaml:4:17", `write schema_version: "0.2"`},
		{"misspelt section", f, `harness:`, `harnes:`, "tester.yaml:14:1", `did you mean "harness"?`},
		{"misspelt folder", f, `output_dir:`, `output_dirs:`, "tester.yaml:8:3", `did you mean "output_dir"?`},
		{"unknown harness", f, `type: command`, `type: comand`, "tester.yaml:15:9", "must be one of"},
		{"command left out", f, "    command: [", "    cmd: [", "tester.yaml:20:5", "known: command"},
		{"time limit with a unit", f, `timeout_seconds: 60`, `timeout_seconds: 60s`, "tester.yaml:17:22", "must be a positive number"},
		{"unknown limit", f, "harness:", "limits: {mem: 1GiB}\nharness:", "tester.yaml:14:10", "known: memory"},
		{"memory without a unit", f, "harness:", "limits: {memory: 1024}\nharness:", "tester.yaml:14:18", "such as 512MiB"},
		{"memory in another unit", f, "harness:", "limits: {memory: 1GB}\nharness:", "tester.yaml:14:18", "such as 512MiB"},
		{"no attempts", f, "  output_dir: runs/first\n", "  output_dir: runs/first\n  attempts: 0\n", "tester.yaml:9:13", "must be from 1 to"},
		{"unknown engine", f, "harness:", "sandbox: {engine: podman}\nharness:", "tester.yaml:14:19", "must be one of: auto, docker, native"},
		{"value of a variable", f, "  type: command\n", "  type: command\n  env: [KEY=abc]\n", "tester.yaml:16:9", "list only the name"},
		{"variables as an object", f, "  type: command\n", "  type: command\n  env: {KEY: abc}\n", "tester.yaml:16:8", "must be a list"},
		{"domain with a scheme", f, "    timeout_seconds: 60\n", "    timeout_seconds: 60\n    allowed_domains: [\"https://python.org\"]\n", "tester.yaml:18:23", `list host names, such as docs.python.org`},
		{"pack that is not there", f, "manifest: manifest.yaml", "manifest: manifests.yaml", "tester.yaml:11:13", `no such file`},
		{"model left out", f, "  type: command\n", "  type: codex\n", "tester.yaml:17:5", `harness.config.model is required`},
	}
}

// fileMistakes are of files beside the three.
func fileMistakes() []mistake {
	return []mistake{
		{"no rows", "tasks.jsonl", "", "\n", "tasks.jsonl:1", `write one task a line`},
		{"two names that differ by case", "assets/terminal-task-1/Orders.csv", "", "x", termRow, "rename one"},
	}
}

// TestMistakes: every mistake of the corpus is refused, in a line that names the file
// and the line, and says what to do.
func TestMistakes(t *testing.T) {
	base := filepath.Join(t.TempDir(), "my-pack")
	args := []string{"init", base}
	for _, f := range []string{"code_completion", "free_response", "multiple_choice", "repo_patch", "short_answer", "terminal_task"} { // by their rows
		args = append(args, "--family", f)
	}
	var out bytes.Buffer
	if code := execute(args, &out, &out); code != 0 {
		t.Fatalf("exit %d: %s", code, &out)
	}
	n := 0
	for _, group := range [][]mistake{manifestMistakes(), rowMistakes(), testerMistakes(), fileMistakes()} {
		for _, m := range group {
			n++
			t.Run(m.name, func(t *testing.T) { m.check(t, os.DirFS(base)) })
		}
	}
	if n < 100 {
		t.Errorf("the corpus has only %d mistakes", n)
	}
}

// check makes the mistake in a copy of a pack.
func (m mistake) check(t *testing.T, pack fs.FS) {
	t.Chdir(t.TempDir())
	if err := os.CopyFS(".", pack); err != nil {
		t.Fatal(err)
	}
	text := m.new
	if m.old != "" {
		before, _ := os.ReadFile(m.file)
		text = strings.Replace(string(before), m.old, m.new, 1)
	}
	put(t, m.file, text)
	if before, _ := fs.ReadFile(pack, m.file); !strings.Contains(string(before), m.old) {
		t.Fatalf("the pack of init has no %q in %s", m.old, m.file)
	}
	if m.fix == "" || m.place == "" {
		t.Fatal("the corpus does not say what is expected")
	}
	if m.file == "tester.yaml" {
		m.refused(t, exitConfig, "run", "--config", "tester.yaml")
		return
	}
	m.refused(t, exitPack, "pack", "check", ".", "--strict")
	m.refused(t, exitPack, "validate", ".", "--strict") // before it needs an engine
}

// refused runs a command, which must end with this code and name the mistake.
func (m mistake) refused(t *testing.T, want int, args ...string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := execute(args, &stdout, &stderr); code != want {
		t.Fatalf("exit %d, want %d: %s%s", code, want, &stdout, &stderr)
	}
	place, says := false, false
	for line := range strings.Lines(stderr.String()) {
		place = place || strings.Contains(line, m.place)
		says = says || strings.Contains(line, m.place) && strings.Contains(line, m.fix)
	}
	if !says {
		t.Errorf("the place is named: %v; no line has %q and %q:\n%s", place, m.place, m.fix, &stderr)
	}
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
