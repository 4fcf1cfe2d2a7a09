package terminaltask

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"securebench/internal/sandbox/enginetest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// linkTo is a link of a candidate's.
func linkTo(target string) change { return change{mode: fs.ModeSymlink | 0o777, text: target} }

// TestLinksOfTheImage: a link of the candidate's that leads to the evaluation files
// through a link of the image's is not there for the checker. Others that go the
// same way are. A row whose workspace is at a link cannot be scored.
func TestLinksOfTheImage(t *testing.T) {
	b := newBench(t, map[string]string{"t/expected": "42\n", "t/check.sh": "cmp \"$SECUREBENCH_EVALUATOR/t/expected\" \"$SECUREBENCH_WORKSPACE/answer.txt\"\n"})
	b.image = enginetest.Script(t, b.engine, b.image, `mkdir -p /srv/real /srv/data
ln -s / /srv/host; ln -s /opt /srv/programs; ln -s real /srv/link; ln -s /srv/link /work; echo 42 > /srv/data/right`)
	script := object{"checker": object{"source": "script", "path": "t/check.sh"}}
	command := object{"checker": object{"command": "cmp securebench/evaluation_inputs/t/expected answer.txt"}, "run_tests": object{"path": "t/expected"}}
	for name, tt := range map[string]struct {
		eval    object
		changes map[string]change
		passes  bool
	}{
		"the root":             {script, map[string]change{"app/answer.txt": linkTo("/srv/host/opt/securebench/evaluator/t/expected")}, false},
		"the folder above":     {script, map[string]change{"app/answer.txt": linkTo("/srv/programs/securebench/evaluator/t/expected")}, false},
		"one after the other":  {script, map[string]change{"app/a": linkTo("/srv/programs/securebench"), "app/answer.txt": linkTo("a/evaluator/t/expected")}, false},
		"another path":         {command, map[string]change{"app/answer.txt": linkTo("/srv/host/app/securebench/evaluation_inputs/t/expected")}, false},
		"the image's own file": {script, map[string]change{"app/answer.txt": linkTo("/srv/host/srv/data/right")}, true},
		"its own file":         {script, map[string]change{"app/answer.txt": linkTo("/srv/host/app/mine"), "app/mine": file("42\n")}, true},
	} {
		got := b.score(t, tt.eval, app(), tt.changes)
		if tt.passes {
			expect(t, name, got, verdict.Passed, "")
			continue
		}
		expect(t, name, got, verdict.Failed, verdict.TestsFailed)
		if got.Metadata[keyLeftCount] == nil || !strings.Contains(string(got.Restricted["ignored_candidate_paths.json"]), linkNote) {
			t.Errorf("%s: the link is not counted: %s", name, describe(got))
		}
	}
	linked := b.score(t, command, task.Environment{Workdir: "/work"}, nil)
	expect(t, "a workspace at a link", linked, verdict.Pending, verdict.PackFault)
}

// TestOldPython: a Python that knows no safe path loads the workspace's modules,
// and the record says that it could.
func TestOldPython(t *testing.T) {
	b := newBench(t, nil)
	eval := object{"checker": object{"command": "python3 -c 'import json; assert json.loads(\"42\") == 42'"}}
	liar := map[string]change{"app/json.py": file("import os\nos._exit(0)\n")}
	honest := b.score(t, eval, app(), nil)
	expect(t, "a later Python", honest, verdict.Passed, "")
	if slices.Contains(honest.Labels, pythonPathOpen) {
		t.Errorf("a later Python is labelled: %v", honest.Labels)
	}
	wrong := object{"checker": object{"command": "python3 -c 'import json; assert json.loads(\"42\") == 41'"}}
	expect(t, "a module of the workspace's", b.score(t, wrong, app(), liar), verdict.Failed, verdict.TestsFailed)

	// An older Python: one without -P that takes no notice of the variable.
	b.image = enginetest.Script(t, b.engine, b.image, `p=$(readlink -f "$(command -v python3)"); mkdir -p /usr/local/bin
printf '#!/bin/sh\ncase "$1" in -P) exit 2;; esac\nunset PYTHONSAFEPATH\nexec %s "$@"\n' "$p" > /usr/local/bin/python3.9
chmod 755 /usr/local/bin/python3.9; ln -sf python3.9 /usr/local/bin/python3`)
	open := b.score(t, wrong, app(), liar)
	expect(t, "an older Python is open", open, verdict.Passed, "")
	if !slices.Contains(open.Labels, pythonPathOpen) {
		t.Errorf("an older Python is not labelled: %v", open.Labels)
	}
}

// TestHomeIsTheImages: a candidate that is a whole system does not choose the
// folder in which the checker's programs look for their settings.
func TestHomeIsTheImages(t *testing.T) {
	b := system(t, newBench(t, nil))
	eval := object{"checker": object{"command": `test "$HOME" = /home/me`}, "capture": object{"filesystem": true}}
	env := task.Environment{Workdir: "/app", User: "me"}
	expect(t, "another home", b.score(t, eval, env, map[string]change{"etc/passwd": file("me:x:1000:1000::/tmp/evil:/bin/sh\n")}), verdict.Passed, "")
}
