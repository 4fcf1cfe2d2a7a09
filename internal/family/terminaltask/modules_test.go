package terminaltask

import (
	"maps"
	"slices"
	"testing"

	"securebench/internal/sandbox/enginetest"
	"securebench/internal/verdict"
)

// startsPython are tests that start Python in the workspace, in each way.
const startsPython = `import pathlib, subprocess, sys

def run(*args, **more):
    return subprocess.run(args, cwd="/app", check=True, capture_output=True, text=True, **more).stdout

def test_module():
    assert run("python3", "-m", "json.tool", "/app/a.json").split() == ["{", '"answer":', "42", "}"]

def test_code():
    assert run("python3", "-c", "import csv; print(csv.__name__, open('/app/answer.txt').read())").split() == ["csv", "42"]

def test_stdin():
    assert run(sys.executable, "-", input="import csv; print(csv.__name__, open('/app/answer.txt').read())").split() == ["csv", "42"]

def test_compiles():
    run("python3", "-m", "py_compile", "/app/program.py")
    assert "def main" in pathlib.Path("/app/program.py").read_text()

def test_program():
    assert run("python3", "program.py").split() == ["42"]
`

// TestModulesOfTheCandidate: what a checker starts loads no module of the candidate's in
// place of Python's own, and obeys no settings of it. A row can ask for both, which is
// the weak set-up here, and is labelled.
func TestModulesOfTheCandidate(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b = benchOf(t, b.engine, enginetest.GitImage(t, b.engine), map[string]string{
		"t/test_python.py": startsPython,
		"t/test_answer.py": "def test_answer():\n    assert open('/app/answer.txt').read() == '42\\n'\n",
		"u/test_answer.py": "import pytest\n\n\n@pytest.mark.good\ndef test_answer():\n    assert open('/app/answer.txt').read() == '42\\n'\n",
		"u/pytest.ini":     "[pytest]\nmarkers = good\naddopts = --strict-markers\n",
	})
	lies := `import os, sys
print('csv 42' if '-m' not in sys.orig_argv else '{ "answer": 42 }')
sys.stdout.flush()
os._exit(0)
`
	modules := map[string]change{"app/json/__init__.py": file(""), "app/json/tool.py": file(lies), "app/csv.py": file(lies), "app/py_compile.py": file(lies),
		"app/encodings.py": file(lies), "app/sitecustomize.py": file(lies), "app/program.py": file("def main(): pass\nprint(42)\n")}
	work := map[string]change{"app/a.json": file(`{"answer": 42}`), "app/answer.txt": file("42\n"),
		"app/program.py": file("import helper\n\n\ndef main():\n    print(helper.answer())\n\n\nmain()\n"), "app/helper.py": file("def answer(): return 42\n")}
	settings := map[string]change{"app/pytest.ini": file("[pytest]\naddopts = --co\n"), "app/conftest.py": file(hook), "conftest.py": file(hook),
		"pytest.ini": file("[pytest]\naddopts = --co\n"), "tox.ini": file("[pytest]\naddopts = --co\n"), "opt/pytest.ini": file("[pytest]\naddopts = --co\n")}
	withTests := func(command string, folder string) object {
		return object{"checker": object{"command": command}, "capture": object{"filesystem": true}, "run_tests": object{"path": folder, "mount": "securebench/evaluation_inputs/" + folder}}
	}
	inputs := withTests("python3 -m pytest -q -p no:cacheprovider securebench/evaluation_inputs/t/test_answer.py", "t")
	beside := object{"checker": object{"command": "python3 program.py | grep -qx 42"}}
	expect(t, "a program finds the modules beside it", b.score(t, beside, app(), work), verdict.Passed, "")
	for _, tt := range []struct {
		name    string
		eval    object
		changes map[string]change
		weak    bool // with the row's wish it passes
	}{
		{"tests that start Python", object{"checker": object{"source": "pytest", "path": "t/test_python.py"}}, modules, true},
		{"a command that starts Python", object{"checker": object{"command": "test \"$(python3 -c 'import csv; print(csv.__name__, open(\"answer.txt\").read())')\" = 'csv 42'"}}, modules, true},
		{"a command that starts pytest", withTests("python3 -m pytest -q -p no:cacheprovider $SECUREBENCH_EVALUATOR/t/test_answer.py", "t"), settings, false},
		{"a command that starts pytest, in the old layout", inputs, settings, true},
		{"a command with settings of the pack's", withTests("python3 -m pytest -q -p no:cacheprovider $SECUREBENCH_EVALUATOR/u", "u"), settings, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			expect(t, "the attack", b.score(t, tt.eval, app(), tt.changes), verdict.Failed, verdict.TestsFailed)
			both := maps.Clone(tt.changes)
			maps.Copy(both, work)
			expect(t, "the work beside it", b.score(t, tt.eval, app(), both), verdict.Passed, "")
			if !tt.weak {
				return
			}
			weak := maps.Clone(tt.eval)
			checker := maps.Clone(tt.eval["checker"].(object))
			checker["candidate_modules"], weak["checker"] = true, checker
			got := b.score(t, weak, app(), tt.changes)
			expect(t, "where the row asks for it", got, verdict.Passed, "")
			if !slices.Contains(got.Labels, candidateModules) {
				t.Errorf("the labels are %q", got.Labels)
			}
		})
	}
}
