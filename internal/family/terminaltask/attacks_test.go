package terminaltask

import (
	"bytes"
	"context"
	"io/fs"
	"maps"
	"strings"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/sandbox/initproc"
	"securebench/internal/verdict"
)

// attack is a candidate that does not do the work.
type attack struct {
	id, name string
	eval     object
	changes  map[string]change
	reason   verdict.Reason
	// honest is the work; with the attack beside it, it passes.
	honest map[string]change
	// weak is a condition that holds in a set-up without the defence once the
	// attack has worked: the changes are made over the evaluation files, and a
	// login shell runs it with the image's variables.
	weak string
	env  []string // of the weak set-up
}

// answer is the work that most rows want.
func answer() map[string]change { return map[string]change{"app/answer.txt": file("42\n")} }

// filesystem captures all, and asks for more of a checker.
func filesystem(checker object) object {
	return object{"checker": checker, "capture": object{"filesystem": true}}
}

const (
	inputs  = "app/securebench/evaluation_inputs/"
	liar    = "import sys\nsys.modules.setdefault('os').__dict__['_exit'](0)\n"
	passing = "def test_answer():\n    pass\n"
	hook    = "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n" +
		"    outcome = yield\n    outcome.get_result().outcome = 'passed'\n"
)

func attacks() []attack {
	plain := object{"command": `grep -qx 42 answer.txt`}
	expected := object{"command": "cmp -s answer.txt securebench/evaluation_inputs/expected.txt"}
	reward := object{"source": "script", "path": "t/reward.sh", "reward_file": "/logs/reward.txt"}
	python := object{"command": "python3 - <<'END'\nimport pathlib\nassert pathlib.Path('answer.txt').read_text() == '42\\n'\nEND"}
	inScript := object{"source": "script", "path": "t/check.sh"}
	tests := object{"source": "pytest", "path": "t/test_answer.py"}
	link := func(to string) change { return change{mode: fs.ModeSymlink | 0o777, text: to} }
	withFiles := func(checker object) object {
		return object{"checker": checker, "run_tests": object{"path": "t/expected.txt", "mount": "securebench/evaluation_inputs/expected.txt"}}
	}
	return []attack{
		{"W01", "a reward is there before the checker", filesystem(reward), map[string]change{"logs/reward.txt": file("1\n")},
			verdict.TestsFailed, answer(), "grep -qx 1 /logs/reward.txt", nil},
		{"W01", "the folder of the reward is a link", filesystem(reward), map[string]change{"logs": link("/app"), "app/reward.txt": file("1\n")},
			verdict.TestsFailed, answer(), "grep -qx 1 /logs/reward.txt", nil},
		{"W03", "a program in the workspace is in PATH", object{"checker": plain}, map[string]change{"app/bin/grep": script("exit 0")},
			verdict.TestsFailed, answer(), "cd /app && PATH=/app/bin:$PATH grep -qx 42 answer.txt", nil},
		{"W04", "a start-up file of the shell", object{"checker": inScript}, map[string]change{"app/env.sh": file("exit 0\n")},
			verdict.TestsFailed, answer(), "cd /app && bash -c 'grep -qx 42 answer.txt'", []string{"BASH_ENV=/app/env.sh"}},
		{"W04", "a start-up file of the login shell", filesystem(plain), map[string]change{"etc/profile.d/x.sh": file("exit 0\n"), "root/.profile": file("exit 0\n")},
			verdict.TestsFailed, answer(), "false", []string{"HOME=/root"}},
		{"W05", "the evaluation files are overwritten", withFiles(expected),
			map[string]change{inputs + "expected.txt": file("1\n"), "app/answer.txt": file("1\n")},
			verdict.TestsFailed, answer(), "cd /app && cmp -s answer.txt securebench/evaluation_inputs/expected.txt", nil},
		{"W05", "a link in place of the evaluation files", withFiles(expected),
			map[string]change{"app/securebench": link("/app/x"), "app/x/evaluation_inputs/expected.txt": file("1\n"), "app/answer.txt": file("1\n")},
			verdict.TestsFailed, answer(), "cd /app && cmp -s answer.txt securebench/evaluation_inputs/expected.txt", nil},
		{"W09", "the answer is a link to the expected one", withFiles(expected),
			map[string]change{"app/answer.txt": link("securebench/evaluation_inputs/expected.txt")},
			verdict.TestsFailed, answer(), "cd /app && cmp -s answer.txt securebench/evaluation_inputs/expected.txt", nil},
		{"W09", "the answer is a link through a folder", withFiles(expected),
			map[string]change{"app/d": link("/app/securebench"), "app/answer.txt": link("d/evaluation_inputs/expected.txt")},
			verdict.TestsFailed, answer(), "cd /app && cmp -s answer.txt securebench/evaluation_inputs/expected.txt", nil},
		{"W09", "the answer is a link to what the checker writes", object{"checker": object{"command": "echo 42 > /tmp/right; cmp -s answer.txt /tmp/right"}},
			map[string]change{"app/answer.txt": link("/tmp/right")},
			verdict.TestsFailed, answer(), "cd /app && echo 42 > /tmp/right && cmp -s answer.txt /tmp/right", nil},
		{"W20", "a hook of pytest's in every folder above", object{"checker": tests, "capture": object{"filesystem": true}},
			map[string]change{"conftest.py": file(hook), "app/conftest.py": file(hook), "opt/conftest.py": file(hook), "app/pytest.ini": file("[pytest]\naddopts = --co\n")},
			verdict.TestsFailed, answer(), "cd /app && cp /opt/securebench/evaluator/t/test_answer.py . && python3 -m pytest -q -p no:cacheprovider test_answer.py", nil},
		{"W20", "tests of the candidate's", object{"checker": tests}, map[string]change{"app/t/test_answer.py": file(passing), "app/test_answer.py": file(passing)},
			verdict.TestsFailed, answer(), "cd /app && python3 -m pytest -q -p no:cacheprovider test_answer.py", nil},
		{"W23", "a module in the workspace", object{"checker": python}, map[string]change{"app/pathlib.py": file(liar)},
			verdict.TestsFailed, answer(), "cd /app && python3 -c 'import pathlib; raise SystemExit(1)'", nil},
		{"W23", "a start-up file of Python", filesystem(python), map[string]change{
			"root/.local/lib/python3.11/site-packages/usercustomize.py": file(liar),
			"usr/lib/python3/dist-packages/sitecustomize.py":            file(liar)},
			verdict.TestsFailed, answer(), "python3 -c 'raise SystemExit(1)'", []string{"HOME=/root"}},
	}
}

// packFiles are the evaluation files of the rows.
func packFiles() map[string]string {
	return map[string]string{
		"t/expected.txt":   "42\n",
		"t/check.sh":       "grep -qx 42 answer.txt\n",
		"t/reward.sh":      "if grep -qx 42 answer.txt; then echo 1 > /logs/reward.txt; fi\n",
		"t/test_answer.py": "import pathlib\n\n\ndef test_answer():\n    assert pathlib.Path('/app/answer.txt').read_text() == '42\\n'\n",
	}
}

// TestAttacks fires attacks at a set-up without defences, where they work, at
// the verifier, and at the verifier with the honest work beside them.
func TestAttacks(t *testing.T) {
	t.Parallel()
	b := newBench(t, packFiles())
	p := benchOf(t, b.engine, enginetest.GitImage(t, b.engine), packFiles())
	for _, a := range attacks() {
		t.Run(a.id+" "+a.name, func(t *testing.T) {
			t.Parallel()
			b := b
			if checker, _ := a.eval["checker"].(object); checker["source"] == "pytest" {
				b = p
			}
			if a.weak != "false" && !b.worksWithoutDefence(t, a) {
				t.Error("the attack does not work where nothing is in its way")
			}
			expect(t, "the attack", b.score(t, a.eval, app(), a.changes), verdict.Failed, a.reason)
			both := maps.Clone(a.changes)
			maps.Copy(both, a.honest)
			expect(t, "the work beside it", b.score(t, a.eval, app(), both), verdict.Passed, "")
		})
	}
}

// worksWithoutDefence makes an attack's changes over the evaluation files, in a
// box of the image, and runs the condition there.
func (b *bench) worksWithoutDefence(tb testing.TB, a attack) bool {
	tb.Helper()
	box, err := b.engine.Open(tb.Context(), sandbox.Spec{Image: b.image, User: &sandbox.User{}, Init: true, WritableRoot: true,
		Capabilities: initproc.ApplyCapabilities()})
	if err != nil {
		tb.Fatal(err)
	}
	client, err := initproc.Open(tb.Context(), box)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = client.Close(context.Background()) }()
	files := map[string]change{}
	for name, text := range packFiles() {
		files["opt/securebench/evaluator/"+name] = file(text)
	}
	files[inputs+"expected.txt"] = file("42\n")
	for _, changes := range []map[string]change{files, a.changes} {
		r, err := tree(tb, changes).Open()
		if err != nil {
			tb.Fatal(err)
		}
		if err := client.Apply(tb.Context(), r); err != nil {
			tb.Fatal(err)
		}
	}
	var out bytes.Buffer
	res, err := client.Run(tb.Context(), initproc.Command{Argv: []string{"/bin/bash", "-lc", a.weak}, Env: a.env, Inherit: true, Stdout: &out, Stderr: &out})
	if err != nil {
		tb.Fatal(err)
	}
	if res.ExitCode != 0 {
		tb.Logf("%s", strings.TrimSpace(out.String()))
	}
	return res.ExitCode == 0
}
