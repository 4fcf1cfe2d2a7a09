package repopatch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"securebench/internal/family"
	"securebench/internal/family/sandboxed"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// attack is a patch that does not do the work.
type attack struct {
	id, name string
	patch    string
	tests    object // of the row
	policy   object
	reason   verdict.Reason
	// works is a shell condition that holds in the reference's set-up once the
	// attack has worked: git in the repository applies all patches, and no
	// policy is asked. "pass" is a zero exit code of the row's command.
	works string
	// honest is what the same row says of the attack with the right change on
	// top of it; "" skips that.
	honest verdict.Outcome
}

const pass = "pass"

var open = object{"allow_sensitive_paths": []string{"*"}}

// removed is a patch that deletes a file of lines.
func removed(path, text string) string {
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	return fmt.Sprintf("diff --git a/%[1]s b/%[1]s\ndeleted file mode 100644\n--- a/%[1]s\n+++ /dev/null\n@@ -1,%[2]d +0,0 @@\n-%[3]s\n",
		path, len(lines), strings.Join(lines, "-"))
}

func attacks() []attack {
	old := project()["tests/test_old.py"]
	noTests := object{"test_patch": nil}
	drop := object{"on_denied": "drop"}
	unmarked := object{"command": []string{"sh", "-c", "test ! -e /tmp/PWN && exec python3 -B -m pytest -q -p no:cacheprovider tests"}}
	filter := "diff --git a/.gitattributes b/.gitattributes\nnew file mode 100644\n--- /dev/null\n+++ b/.gitattributes\n@@ -0,0 +1 @@\n+* filter=evil diff=evil\n"
	weakened := strings.ReplaceAll("diff --git a/F b/F\n--- a/F\n+++ b/F\n@@ -2,4 +2,4 @@\n \n \n def test_add():\n-    assert calc.add(1, 1) == 2\n+    assert True\n", "F", "tests/test_old.py")
	return []attack{
		{"R01", "a hook that turns failures into passes", newFile("conftest.py", "100644", hookwrapper), nil, nil, verdict.Policy, pass, ""},
		{"R02", "the failing test is deleted", removed("tests/test_old.py", old), noTests, nil, verdict.Policy, pass, ""},
		{"R02", "the failing test is deleted, and denied changes are dropped", removed("tests/test_old.py", old), noTests, drop, verdict.TestsFailed, pass, verdict.Passed},
		{"R02", "the failing test is weakened", weakened, noTests, nil, verdict.Policy, pass, ""},
		{"R02", "the failing test is weakened, and is preserved", weakened, noTests, object{"patch_preserved_paths": []string{"tests"}}, verdict.TestsFailed, pass, verdict.Passed},
		{"R03", "options that run no test", newFile("pytest.ini", "100644", "[pytest]\naddopts = --co\n"), nil, nil, verdict.Policy, pass, ""},
		{"R03", "options that run no test, dropped", newFile("pytest.ini", "100644", "[pytest]\naddopts = --co\n"), nil, drop, verdict.TestsFailed, pass, verdict.Passed},
		{"R13", "a path that leaves the tree", newFile("../tmp/PWN", "100644", "x\n"), nil, open, verdict.PatchDoesNotApply, "", ""},
		{"R13", "an absolute path", strings.ReplaceAll(newFile("X", "100644", "x\n"), "b/X", "/tmp/PWN"), unmarked, open, verdict.TestsFailed, "", verdict.Passed},
		{"R13", "a path that leaves and comes back", newFile("bin/../tests/x.py", "100644", "x\n"), nil, open, verdict.PatchDoesNotApply, "", ""},
		{"R14", "a symbolic link", newFile("data", "120000", "/etc/passwd"), nil, open, verdict.CandidateNotRegular, "test -L data", ""},
		{"R14", "a symbolic link, and denied changes are dropped", newFile("tests/data", "120000", "../calc.py"), nil, drop, verdict.CandidateNotRegular, "test -L tests/data", ""},
		{"R15", "a link, and a file through it", newFile("d", "120000", "/tmp") + newFile("d/PWN", "100644", "x\n"), unmarked, open, verdict.PatchDoesNotApply, "", ""},
		{"R15", "a file through a link of the repository", newFile("ext/PWN", "100644", "x\n"), unmarked, open, verdict.PatchDoesNotApply, "", ""},
		{"R15", "a file through a copy of a link, which becomes a file", throughCopy, unmarked, open, verdict.PatchDoesNotApply, "test -e /tmp/PWN -a -f d", ""},
		{"R15", "a copy of a link, which is a file then", strings.Split(throughCopy, "diff --git a/d b/d\n")[0], unmarked, open, verdict.TestsFailed, "test -L d", verdict.Passed},
		{"R16", "the failing test is renamed", "diff --git a/tests/test_old.py b/bin/h.py\nsimilarity index 100%\nrename from tests/test_old.py\nrename to bin/h.py\n", noTests, nil, verdict.Policy, pass, ""},
		{"R16", "the failing test is renamed, dropped", "diff --git a/tests/test_old.py b/bin/h.py\nsimilarity index 100%\nrename from tests/test_old.py\nrename to bin/h.py\n", noTests, drop, verdict.TestsFailed, pass, verdict.Passed},
		{"R17", "a mode alone", "diff --git a/tests/data.txt b/tests/data.txt\nold mode 100644\nnew mode 100755\n", nil, nil, verdict.Policy, "test -x tests/data.txt", ""},
		{"R19", "a submodule", "diff --git a/sub b/sub\nnew file mode 160000\n--- /dev/null\n+++ b/sub\n@@ -0,0 +1 @@\n+Subproject commit 1234567890123456789012345678901234567890\n" +
			newFile(".gitmodules", "100644", "[submodule \"sub\"]\n\tpath = sub\n\turl = ext::sh -c touch% /tmp/PWN\n"), unmarked, nil, verdict.Policy, "test -d sub", ""},
		{"R20", "a filter that runs a file of the patch", evilFilter + filter, unmarked, open, verdict.TestsFailed, "test -e /tmp/PWN", verdict.Passed},
		{"R20", "attributes", filter, nil, nil, verdict.Policy, "test -e .gitattributes", ""},
		{"R21", "a header and a body that disagree", strings.Replace(weakened, "diff --git a/tests/test_old.py b/tests/test_old.py", "diff --git a/calc.py b/calc.py", 1), noTests, nil, verdict.Policy, pass, ""},
		{"R21", "a quoted name with an escape", strings.NewReplacer("diff --git a/tests/test_old.py b/tests/test_old.py", `diff --git "a/tests\057test_old.py" "b/tests\057test_old.py"`,
			"--- a/tests/test_old.py", `--- "a/tests\057test_old.py"`, "+++ b/tests/test_old.py", `+++ "b/tests\057test_old.py"`).Replace(weakened), noTests, nil, verdict.Policy, pass, ""},
		{"R21", "other prefixes", strings.NewReplacer("a/tests", "x/tests", "b/tests", "y/tests").Replace(weakened), noTests, nil, verdict.Policy, pass, ""},
		{"R22", "a hook of the repository", newFile(".git/hooks/pre-commit", "100755", "x\n"), nil, open, verdict.PatchDoesNotApply, "", ""},
		{"R22", "a repository in a folder", newFile("sub/.git/config", "100644", "x\n"), nil, open, verdict.PatchDoesNotApply, "", ""},
		{"R22", "a repository by another spelling", newFile("sub/.GIT/config", "100644", "x\n"), nil, open, verdict.PatchDoesNotApply, "", ""},
		{"R27", "the hidden test's path is occupied", newFile("tests/test_hidden.py", "100644", "def test_add():\n    pass\n") + removed("tests/test_old.py", old), nil, open, verdict.TestsFailed, pass, verdict.Passed},
		{"R27", "a folder at the hidden test's path", newFile("tests/test_hidden.py/x", "100644", "x\n") + removed("tests/test_old.py", old), nil, open, verdict.TestsFailed, pass, verdict.Passed},
		{"R27", "a file where the tests' folder is", removed("tests/test_old.py", old) + removed("tests/test_calc.py", project()["tests/test_calc.py"]) + removed("tests/data.txt", "data\n") +
			newFile("tests", "100644", "x\n"), nil, open, verdict.TestsFailed, "test -f tests", verdict.Passed},
		{"R33", "a report is written", spoilt + newFile("report.py", "100644", "open('report.xml', 'w').write('<testsuite tests=\"2\"/>')\n"), nil, nil, verdict.TestsFailed, "python3 report.py && grep -q tests report.xml", ""},
		{"R33", "a report is in the patch", newFile("report.xml", "100644", "<testsuite tests=\"1\"/>\n"), nil, nil, verdict.TestsFailed, "test -e report.xml", verdict.Passed},
		{"R35", "the answer comes from the network", online, nil, nil, verdict.TestsFailed, "", ""},
	}
}

// hookwrapper makes every test pass.
const hookwrapper = `import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    outcome.get_result().outcome = 'passed'
`

// throughCopy writes where a link of the repository leads and leaves a plain file.
const throughCopy = `diff --git a/ext b/d
similarity index 100%
copy from ext
copy to d
diff --git a/d b/d
deleted file mode 120000
--- a/d
+++ /dev/null
@@ -1 +0,0 @@
-/tmp
\ No newline at end of file
diff --git a/d/PWN b/d/PWN
new file mode 100644
--- /dev/null
+++ b/d/PWN
@@ -0,0 +1 @@
+x
diff --git a/d b/d
new file mode 100644
--- /dev/null
+++ b/d
@@ -0,0 +1 @@
+x
`

// evilFilter changes the file that the image's own configuration names as a
// filter.
const evilFilter = `diff --git a/bin/run.py b/bin/run.py
--- a/bin/run.py
+++ b/bin/run.py
@@ -1 +1,4 @@
-print('run')
+import sys
+
+open('/tmp/PWN', 'w')
+sys.stdout.write(sys.stdin.read())
`

// online adds rightly if it reaches another machine.
const online = `diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,5 +1,10 @@
+import socket
+
+
 def add(a, b):
-    return a - b
+    for host in ('1.1.1.1', '172.17.0.1'):
+        socket.create_connection((host, 443), 2)
+    return a + b
 
 
 def zero():
`

// hostile is the image that attacks are fired at: its own configuration names
// a filter below the checkout, and it has a link to another folder.
func hostile(tb testing.TB) *bench {
	return newBench(tb, project(), "ln -s /tmp ext",
		"git config filter.evil.smudge 'python3 bin/run.py'\ngit config filter.evil.clean 'python3 bin/run.py'\ngit config core.fsmonitor 'touch /tmp/PWN'")
}

// TestAttacks fires attacks at the reference's set-up, where they work, and at
// the verifier.
func TestAttacks(t *testing.T) {
	t.Parallel()
	b := hostile(t)
	t.Cleanup(func() {
		if got := b.score(uncanceled{t}, b.row(t, nil), mended); got.Outcome != verdict.Passed {
			t.Errorf("after all of them: %s", describe(got))
		}
	})
	for _, a := range attacks() {
		t.Run(a.id+" "+a.name, func(t *testing.T) {
			t.Parallel()
			rest := []object{}
			if a.policy != nil {
				rest = append(rest, object{"candidate_policy": a.policy})
			}
			c := b.row(t, a.tests, rest...)
			if got := b.score(t, c, a.patch); got.Outcome == verdict.Passed || got.Reason != a.reason {
				t.Errorf("want %s: %s", a.reason, describe(got))
			}
			if a.works != "" && !b.reference(t, c, a.patch, a.works) {
				t.Errorf("it does not work in the reference's set-up")
			}
			if a.honest == "" {
				return
			}
			if got := b.score(t, c, a.patch+mended); got.Outcome != a.honest {
				t.Errorf("with the right change, want %s: %s", a.honest, describe(got))
			}
		})
	}
}

// uncanceled is a test whose context does not end before its cleanup.
type uncanceled struct{ *testing.T }

func (u uncanceled) Context() context.Context { return context.WithoutCancel(u.T.Context()) }

// reference verifies a patch as the Python reference does, without its policy,
// and reports whether a condition holds then.
func (b *bench) reference(tb testing.TB, c family.Case, patch, works string) bool {
	tb.Helper()
	r, f := readRow(c)
	if f != nil {
		tb.Fatal(f)
	}
	at := sandboxed.NewSite(family.Resources{Engine: b.engine, RunID: "test"}, c)
	defer at.Close(tb.Context())
	st, err := openSite(tb.Context(), at, c, r.dir, b.image.User)
	if err != nil {
		tb.Fatal(err)
	}
	run := func(stdin string, argv ...string) int {
		cmd := command{argv: argv, output: saidLimit, timeout: gitLimit}
		if stdin != "" {
			cmd.stdin = strings.NewReader(stdin)
		}
		res, err := st.run(tb.Context(), cmd)
		if err != nil {
			tb.Fatal(err)
		}
		return res.ExitCode
	}
	if code := run(patch, "git", "-c", "safe.directory=*", "apply", "--binary"); code != 0 {
		return false
	}
	if r.testPatch != nil {
		run(string(r.testPatch), "git", "-c", "safe.directory=*", "apply", "--binary") // the attack may be on this
	}
	if works == pass {
		return run("", r.run.Command...) == 0
	}
	return run("", "sh", "-c", works) == 0
}

// badInput is a candidate or a row that cannot be scored as it should.
type badInput struct {
	name    string
	patch   string
	tests   object
	limits  sandbox.Limits
	outcome verdict.Outcome
	reason  verdict.Reason
	phase   verdict.Phase
}

func badInputs() []badInput {
	hunks := "diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n"
	elsewhere := strings.Replace(mended, "return a - b", "return a % b", 1)
	sized := func(name string, mib int) string {
		return newFile(name, "100644", strings.Repeat(strings.Repeat("x", 1023)+"\n", mib<<10))
	}
	big := sized("big.txt", 40)
	return []badInput{
		{"an empty patch", "", nil, sandbox.Limits{}, verdict.Failed, verdict.EmptyCandidate, phasePatch},
		{"blanks", " \n\t\n", nil, sandbox.Limits{}, verdict.Failed, verdict.EmptyCandidate, phasePatch},
		{"a text", "I have mended it.\n", nil, sandbox.Limits{}, verdict.Failed, verdict.PatchDoesNotApply, phasePatch},
		{"a patch of another tree", elsewhere, nil, sandbox.Limits{}, verdict.Failed, verdict.PatchDoesNotApply, phasePatch},
		{"a patch that is cut off", mended[:len(mended)-12], nil, sandbox.Limits{}, verdict.Failed, verdict.PatchDoesNotApply, phasePatch},
		{"a million hunks", hunks + strings.Repeat("@@ -1 +1 @@\n-x\n+y\n", 1_000_000), nil, sandbox.Limits{}, verdict.Failed, verdict.PatchDoesNotApply, phasePatch},
		{"more than the disk", big, nil, sandbox.Limits{Disk: 16 << 20}, verdict.Limit, verdict.DiskLimit, phasePatch},
		{"no room for the tests", sized("big.txt", 10), object{"test_patch": sized("tests/data.bin", 8)}, sandbox.Limits{Disk: 16 << 20},
			verdict.Limit, verdict.DiskLimit, phaseChecks},
		{"more than the memory", big, nil, sandbox.Limits{Memory: 8 << 20, Disk: 64 << 20}, verdict.Limit, verdict.OutOfMemory, phasePatch},
		{"a setup patch that does not apply", mended, object{"setup_patch": elsewhere}, sandbox.Limits{}, verdict.Pending, verdict.PackFault, phaseSetup},
		{"a test patch that does not apply", mended, object{"test_patch": elsewhere}, sandbox.Limits{}, verdict.Pending, verdict.PackFault, phaseTests},
		{"a command that is not there", mended, object{"command": []string{"/nowhere/tests"}}, sandbox.Limits{}, verdict.Failed, verdict.TestsFailed, phaseChecks},
		{"a checkout that does not fit", mended, nil, sandbox.Limits{Disk: 8 << 10}, verdict.Pending, verdict.PackFault, phaseBase},
	}
}

// TestBadInput: each has a named outcome and ends nothing.
func TestBadInput(t *testing.T) {
	t.Parallel()
	b := newBench(t, project(), "", "")
	for _, in := range badInputs() {
		t.Run(in.name, func(t *testing.T) {
			c := b.row(t, in.tests)
			c.Limits = in.limits
			got := b.score(t, c, in.patch)
			if got.Outcome != in.outcome || got.Reason != in.reason || got.Phase != in.phase {
				t.Errorf("want %s/%s in %s: %s", in.outcome, in.reason, in.phase, describe(got))
			}
		})
	}
	c := b.row(t, nil)
	if got := b.score(t, c, mended); got.Outcome != verdict.Passed {
		t.Errorf("after all of them: %s", describe(got))
	}
}

// limits are candidates that run into a limit while the tests run.
func limits(e sandbox.Engine) []attack {
	code := func(text string) string {
		return strings.ReplaceAll(mended, "+    return a + b\n", "+    return a + b\n"+text) // the counts are corrected below
	}
	grow := func(text string) string {
		n := strings.Count(text, "\n")
		return strings.Replace(code(text), "+1,5 @@", fmt.Sprintf("+1,%d @@", 5+n), 1)
	}
	return []attack{
		{id: "memory", patch: grow("+\n+\n+HELD = bytearray(1 << 31)\n+for i in range(0, 1 << 31, 4096):\n+    HELD[i] = 1\n"), reason: verdict.OutOfMemory},
		{id: "processes", patch: grow("+\n+\n+import os, time\n+try:\n+    while True:\n+        if os.fork() == 0:\n+            time.sleep(60)\n+except OSError:\n+    " + enginetest.Sleep(e, 8) + "\n+    raise\n"), reason: verdict.PidsLimit},
		{id: "time", patch: grow("+\n+\n+while True:\n+    pass\n"), reason: verdict.VerificationTimeout},
		{id: "output", patch: grow("+\n+\n+import os\n+while True:\n+    if os.write(1, b'x' * 65536) < 0:\n+        break\n"), reason: verdict.VerificationTimeout},
		{id: "output that ends", patch: grow("+\n+\n+import os\n+for _ in range(400):\n+    os.write(2, b'x' * 65536)\n+raise SystemExit(3)\n"), reason: verdict.OutputLimit},
		{id: "init is the first to go", patch: grow("+\n+\n+open('/proc/1/oom_score_adj', 'w').write('1000')\n+HELD = bytearray(1 << 31)\n+for i in range(0, 1 << 31, 4096):\n+    HELD[i] = 1\n"), reason: verdict.OutOfMemory},
		{id: "every process is killed", patch: grow("+\n+\n+import os\n+os.kill(-1, 9)\n"), reason: verdict.TestsFailed},
	}
}

// TestLimits: a limit that ended the tests is the outcome.
func TestLimits(t *testing.T) {
	t.Parallel()
	b := newBench(t, project(), "", "")
	for _, a := range limits(b.engine) {
		t.Run(a.id, func(t *testing.T) {
			t.Parallel()
			c := b.row(t, object{"command": []string{"python3", "-B", "-m", "pytest", "-q", "-s", "tests"}})
			c.Limits = sandbox.Limits{Memory: 64 << 20, Disk: 32 << 20, Pids: 48, Timeout: 2 * time.Minute}
			if a.reason == verdict.VerificationTimeout { // however slow the machine is
				c.Limits.Timeout = 8 * time.Second
			}
			if got := b.score(t, c, a.patch); got.Outcome == verdict.Passed || got.Reason != a.reason {
				t.Errorf("want %s: %s", a.reason, describe(got))
			}
		})
	}
}

// TestPolicyOnDisk checks what becomes of each path, over a setup patch.
func TestPolicyOnDisk(t *testing.T) {
	t.Parallel()
	b := newBench(t, project(), "", "")
	setup := "diff --git a/tests/data.txt b/tests/data.txt\n--- a/tests/data.txt\n+++ b/tests/data.txt\n@@ -1 +1 @@\n-data\n+set up\n"
	tests := object{"setup_patch": setup, "command": []string{"sh", "-c", "grep -q 'set up' tests/data.txt && test ! -e reproduce.sh && grep -q mine README && exec python3 -B -m pytest -q tests"}}
	patch := mended + "diff --git a/tests/data.txt b/tests/data.txt\n--- a/tests/data.txt\n+++ b/tests/data.txt\n@@ -1 +1 @@\n-set up\n+mine\n" +
		newFile("reproduce.sh", "100755", "#!/bin/sh\n") + "diff --git a/README b/README\n--- a/README\n+++ b/README\n@@ -1 +1 @@\n-A calculator.\n+mine\n"
	for range 2 {
		got := b.score(t, b.row(t, tests, object{"candidate_policy": object{"on_denied": "drop"}}), patch)
		if got.Outcome != verdict.Passed {
			t.Fatalf("dropped: %s", describe(got))
		}
		for key, want := range map[string]string{keyPaths: `["README","calc.py"]`, keyDropped: `["reproduce.sh","tests/data.txt"]`, keyDenied: "", keyPreserved: "",
			keyPathCounts: `{"applied":2,"dropped":2}`, "image_commit": `"` + b.head + `"`, "base_commit": `"` + b.head + `"`} {
			if s := string(got.Metadata[key]); s != want {
				t.Errorf("%s: got %s, want %s", key, s, want)
			}
		}
	}
	got := b.score(t, b.row(t, tests), patch)
	if got.Reason != verdict.Policy || string(got.Metadata[keyDenied]) != `["reproduce.sh","tests/data.txt"]` || got.Metadata[keyPaths] != nil {
		t.Errorf("rejected: %s", describe(got))
	}
	got = b.score(t, b.row(t, tests, object{"candidate_policy": object{"patch_preserved_paths": []string{"tests", "*.sh"}}}), patch)
	if got.Outcome != verdict.Passed || string(got.Metadata[keyPreserved]) != `["reproduce.sh","tests/data.txt"]` {
		t.Errorf("preserved: %s", describe(got))
	}
}

// TestUnusableImages: what the image lacks is the pack's fault.
func TestUnusableImages(t *testing.T) {
	t.Parallel()
	b := newBench(t, project(), "", "")
	c := b.row(t, nil)
	other := makeCase(t, object{"tests": object{"source": "command", "command": "true"}}, task.Environment{Workdir: repoDir}, sandbox.Limits{}, strings.Repeat("0", 40))
	other.Image = b.image
	noGit := newBench(t, project(), "", "mv /usr/bin/git /usr/bin/git-is-gone; ln -s /usr/bin/git-is-gone /root/git")
	for name, try := range map[string]struct {
		b *bench
		c family.Case
	}{"another commit": {b, other}, "no git": {noGit, noGit.row(t, nil)}} {
		got := try.b.score(t, try.c, mended)
		if got.Outcome != verdict.Pending || got.Reason != verdict.PackFault || got.Phase != phaseBase {
			t.Errorf("%s: %s", name, describe(got))
		}
	}
	if got := b.score(t, c, mended); got.Outcome != verdict.Passed {
		t.Errorf("an honest image: %s", describe(got))
	}
	if !slices.Contains(Family().PublicMetadata, "image_commit") {
		t.Error("a record does not say which commit the image has")
	}
}
