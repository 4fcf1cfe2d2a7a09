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
	t.Parallel()
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

// TestLinksToNothing: a link to where the checker makes what it expects is not there;
// other links to nothing are.
func TestLinksToNothing(t *testing.T) {
	t.Parallel()
	b := system(t, newBench(t, map[string]string{"t/run.sh": "echo 42 > made.txt\ncmp -s made.txt answer.txt\n"}))
	root := task.Environment{Workdir: "/app", MaterializeWorkdir: true, Capabilities: []string{"DAC_OVERRIDE"}}
	user := task.Environment{Workdir: "/app", MaterializeWorkdir: true, User: "me"}
	all := object{"filesystem": true}
	temporary := object{"checker": object{"command": "echo 42 > /tmp/expected.txt; cmp -s /tmp/expected.txt answer.txt"}}
	nested := object{"checker": object{"command": "mkdir -p /tmp/a/b; echo 42 > /tmp/a/b/expected; cmp -s /tmp/a/b/expected answer.txt"}}
	folder := object{"checker": object{"command": "echo 42 > /tmp/answer.txt; cmp -s /tmp/answer.txt out/answer.txt"}}
	inside := object{"checker": object{"source": "script", "path": "t/run.sh"}}
	captured := object{"checker": object{"command": "echo 42 > /srv/expected.txt; cmp -s /srv/expected.txt answer.txt"}, "capture": all}
	looks := object{"checker": object{"command": "test -L l && test $(readlink l) = nowhere && test -L m && test -L n"}}
	for _, tt := range []struct {
		name   string
		eval   object
		env    task.Environment
		links  map[string]string
		passes bool
	}{
		{"a temporary file", temporary, root, map[string]string{"app/answer.txt": "/tmp/expected.txt"}, false},
		{"a temporary file, as a user", temporary, user, map[string]string{"app/answer.txt": "../tmp/expected.txt"}, false},
		{"through another link", temporary, user, map[string]string{"app/a": "/tmp", "app/answer.txt": "a/expected.txt"}, false},
		{"folders that are made", nested, user, map[string]string{"app/answer.txt": "/tmp/a/b/expected"}, false},
		{"a folder that is there", folder, user, map[string]string{"app/out": "/tmp"}, false},
		{"a file of the workspace", inside, user, map[string]string{"app/answer.txt": "made.txt"}, false},
		{"a captured file", captured, root, map[string]string{"app/answer.txt": "/srv/expected.txt"}, false},
		{"links that are looked at", looks, user, map[string]string{"app/l": "nowhere", "app/m": "sub/x", "app/n": "/usr/lib/none"}, true},
	} {
		changes := map[string]change{}
		for name, target := range tt.links {
			changes[name] = change{mode: fs.ModeSymlink | 0o777, text: target, uid: 1000}
		}
		got := b.score(t, tt.eval, tt.env, changes)
		if tt.passes {
			expect(t, tt.name, got, verdict.Passed, "")
			continue
		}
		expect(t, tt.name, got, verdict.Failed, verdict.TestsFailed)
		if got.Metadata[keyLeftCount] == nil {
			t.Errorf("%s: the link is not counted: %s", tt.name, describe(got))
		}
		for name := range tt.links {
			delete(changes, name)
		}
		changes["app/answer.txt"], changes["app/out"], changes["app/out/answer.txt"] = file("42\n"), change{mode: fs.ModeDir | 0o755}, file("42\n")
		expect(t, tt.name+": the work", b.score(t, tt.eval, tt.env, changes), verdict.Passed, "")
	}
}

// TestOwnImageIsNoAnswer: what only the checker's image has passes neither by a link
// through its programs nor in place of a captured path that the row's image lacks.
func TestOwnImageIsNoAnswer(t *testing.T) {
	t.Parallel()
	b := system(t, newBench(t, nil))
	tool := "mkdir -p /opt/tool; printf '#!/bin/sh\necho 42\n' > /opt/tool/tool; chmod 755 /opt/tool/tool; ln -s /opt/tool/tool /usr/bin/tool\n"
	b.image = enginetest.Script(t, b.engine, b.image, tool+"mkdir -p /srv/own; echo 41 > /srv/own/file")
	own := enginetest.Script(t, b.engine, enginetest.Image(t, b.engine), tool+`mkdir -p /tests /data /srv/own
echo 42 | tee /tests/expected /data/answer /srv/own/file; ln -s /tests/expected /usr/share/expected`)
	b.images["own:1"] = own
	eval := func(command string) object {
		return object{"checker": object{"image": "own:1", "command": command}, "capture": object{"roots": []string{"/app", "/data", "/srv/own/file"}}}
	}
	env := task.Environment{Workdir: "/app", MaterializeWorkdir: true}
	compare := eval("cmp answer.txt /tests/expected")
	expect(t, "a link through a program folder", b.score(t, compare, env, map[string]change{"app/answer.txt": linkTo("/usr/share/expected")}), verdict.Failed, verdict.TestsFailed)
	expect(t, "the work", b.score(t, compare, env, map[string]change{"app/answer.txt": file("42\n")}), verdict.Passed, "")
	expect(t, "a link to a program", b.score(t, eval("./t"), env, map[string]change{"app/t": linkTo("/usr/bin/tool")}), verdict.Passed, "")
	for name, change := range map[string]map[string]change{"data/answer": {"data/answer": file("42\n")}, "srv/own/file": {"srv/own/file": file("42\n")}} {
		compare := eval("cmp /" + name + " /tests/expected")
		expect(t, name+": nothing", b.score(t, compare, env, nil), verdict.Failed, verdict.TestsFailed)
		expect(t, name+": the work", b.score(t, compare, env, change), verdict.Passed, "")
	}
	expect(t, "a file of the row's image", b.score(t, eval("grep -qx 41 /srv/own/file"), env, nil), verdict.Passed, "")
}

// TestOldPython: a Python that knows no safe path loads the workspace's modules,
// and the record says that it could.
func TestOldPython(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	b := system(t, newBench(t, nil))
	eval := object{"checker": object{"command": `test "$HOME" = /home/me`}, "capture": object{"filesystem": true}}
	env := task.Environment{Workdir: "/app", User: "me"}
	expect(t, "another home", b.score(t, eval, env, map[string]change{"etc/passwd": file("me:x:1000:1000::/tmp/evil:/bin/sh\n")}), verdict.Passed, "")
}
