package codecompletion

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/sandbox"
	"securebench/internal/verdict"
)

// add is the row that most attacks are about.
func add() spec {
	return spec{
		prompt:    "Define add(a, b).",
		tests:     "assert add(2, 3) == 5\nassert add(-4, 10) == 6\n",
		reference: "def add(a, b):\n    return a + b\n",
	}
}

// attack is a candidate that does not solve its row.
type attack struct {
	id, name  string
	candidate string
	row       spec // add when it has no tests
	// weak is the mode of the naive runner in which the attack passes; ""
	// is for attacks on something else than the verdict.
	weak   string
	reason verdict.Reason
	// alone is set where the candidate harms processes around it, so that
	// it runs only where it is kept from them.
	alone bool
}

func (a attack) spec() spec {
	if a.row.tests == "" {
		a.row = add()
	}
	return a.row
}

// TestCorpus runs each attack against the naive runner, where it must pass,
// and against the verifier, where it must not; then its honest twin, which
// must pass with the same verifier.
func TestCorpus(t *testing.T) {
	t.Parallel()
	engine := newLocalEngine(t)
	v := newTestVerifier(t, engine)
	for _, a := range slices.Concat(verdictAttacks(), protocolAttacks(), resourceAttacks()) {
		t.Run(a.id+" "+a.name, func(t *testing.T) {
			if a.spec().limits.Timeout == 0 { // it has time to wait for others
				t.Parallel()
			}
			if a.alone && !engine.isolated {
				t.Skip("it would harm other processes: run as root, or see the Docker test")
			}
			if a.weak != "" && !naivePasses(t, engine, a) {
				t.Errorf("the attack does not fire against the naive runner")
			}
			checkAttack(t, v, makeCase(t, a.spec()), a)
		})
	}
}

// ample is more time than a row needs on a machine with much else to do. It is
// less than verify waits.
const ample = 3 * time.Minute

// checkAttack verifies an attack and then the honest twin. Where the attack is
// meant to run into the row's limit, that is short; the twin has ample time.
func checkAttack(t *testing.T, v family.Verifier, c family.Case, a attack) {
	t.Helper()
	if c.Limits.Timeout == 0 {
		c.Limits.Timeout = ample
	}
	got := verify(t, v, c, a.candidate)
	if got.Score() != 0 || got.Reason != a.reason || got.Containment != verdict.Split {
		t.Errorf("got %s; want 0 and %s", describe(got), a.reason)
	}
	c.Limits.Timeout = ample
	if got := verify(t, v, c, a.spec().reference); got.Outcome != verdict.Passed {
		t.Errorf("the honest twin: %s", describe(got))
	}
}

// naivePasses runs a candidate in the weak runner and takes its verdict as
// the mode does: by exit status, by a file or by a line on a descriptor.
func naivePasses(t *testing.T, e *localEngine, a attack) bool {
	t.Helper()
	dir, err := os.MkdirTemp("", "naive")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	runner, err := os.ReadFile("testdata/naive.py")
	if err != nil {
		t.Fatal(err)
	}
	source := "TEST_SOURCE = " + string(familytest.JSON(t, a.spec().tests)) + "\n" + string(runner)
	for name, data := range map[string]string{"solution_test.py": source, "candidate.py": a.candidate} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	mode, starts, _ := strings.Cut(a.weak, "*")
	n, _ := strconv.Atoi(starts) // "bare*2" starts it twice in one folder
	var status int
	var line string
	for range max(n, 1) {
		status, line = runNaive(t, e, dir, mode)
	}
	sentinel, _ := os.ReadFile(filepath.Join(dir, "sentinel"))
	switch mode {
	case "sentinel":
		return status == 0 && len(sentinel) > 0
	case "file":
		return string(sentinel) == "1"
	case "fd":
		return strings.HasPrefix(line, `{"passed": true}`)
	}
	return status == 0
}

// runNaive returns the exit status and what was written to descriptor 3. The
// shell stays until a daemon has overwritten the verdict, or none does for long.
func runNaive(t *testing.T, e *localEngine, dir, mode string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), ample)
	defer cancel()
	script := `"$@"; status=$?; n=100; while [ "$1 $3" = "$0 file" ] && [ "$(cat "$5")" != 1 ] && [ $((n -= 1)) -gt 0 ]; do sleep 0.1; done; exit $status`
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", script, e.python,
		e.python, "solution_test.py", mode, "candidate.py", filepath.Join(dir, "sentinel"))
	cmd.Dir, cmd.SysProcAttr, cmd.WaitDelay = dir, e.attributes(sandbox.Nobody), time.Second
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	out, err := os.Create(filepath.Join(dir, "fd3"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.ExtraFiles = []*os.File{out}
	text, _ := cmd.CombinedOutput()
	t.Logf("naive runner: %v %s", cmd.ProcessState, bytes.TrimSpace(text))
	line, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(line)
}

// TestNaiveRunnerWorks: an honest candidate passes in every mode and a wrong
// one in none, so that a pass there means that an attack has fired.
func TestNaiveRunnerWorks(t *testing.T) {
	t.Parallel()
	e := newLocalEngine(t)
	for _, mode := range []string{"bare", "sentinel", "file", "fd", "pickle"} {
		if !naivePasses(t, e, attack{weak: mode, candidate: add().reference}) {
			t.Errorf("%s: an honest candidate fails", mode)
		}
		if naivePasses(t, e, attack{weak: mode, candidate: "def add(a, b):\n    return 4\n"}) {
			t.Errorf("%s: a wrong candidate passes", mode)
		}
	}
}

// TestCanaryStaysAway: nothing of the tests or the reference can be found in
// the candidate box: not in files, arguments, environment, frames or objects (C03,
// C04, C28).
func TestCanaryStaysAway(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	s := add()
	s.tests += "# canary-5f2e in the tests\n"
	s.reference += "# canary-5f2e in the reference\n"
	got := verify(t, v, makeCase(t, s), canaryHunter)
	out := string(got.Restricted["candidate-output.txt"])
	if !strings.Contains(out, "looked at") {
		t.Fatalf("the hunter did not run: %s\n%s", describe(got), out)
	}
	if strings.Contains(out, "FOUND") {
		t.Errorf("the candidate box found the canary: %s", out)
	}
}

// canaryHunter never spells the canary, so that it does not find itself.
const canaryHunter = `
import gc, glob, os, sys
drow = 'e2f5-yranac'
seen = 0
def look(where, text):
    global seen
    seen += 1
    if drow in str(text)[::-1]:
        print('FOUND in', where)
look('argv', sys.argv)
look('orig argv', sys.orig_argv)
look('environment', dict(os.environ))
for path in glob.glob('/tmp/*') + glob.glob('/proc/self/*') + ['/proc/1/cmdline', '/proc/1/environ']:
    try:
        with open(path, 'rb') as f:
            look(path, f.read(1 << 20).decode('latin-1'))
    except OSError:
        pass
frame = sys._getframe()
while frame:
    look('frame', {**frame.f_globals, **frame.f_locals})
    frame = frame.f_back
for x in gc.get_objects():
    if type(x) in (dict, list, tuple, set):
        try:
            look('object', x)
        except Exception:
            pass
print('looked at', seen)
`

// TestHardCodedAnswers shows two residuals. A table of the visible examples
// (C19) fails as soon as a hidden input differs from them, and passes where
// the pack repeats them as its tests. State between calls (C20) is no
// boundary: a counter that knows the hidden values passes, and it is only
// their secrecy that keeps a candidate from knowing them.
func TestHardCodedAnswers(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	const visible = "def add(a, b):\n    return {(2, 3): 5}.get((a, b))\n"
	if got := verify(t, v, makeCase(t, add()), visible); got.Reason != verdict.TestsFailed {
		t.Errorf("a table of visible examples: %s", describe(got))
	}
	weak := add()
	weak.tests = "assert add(2, 3) == 5\n"
	if got := verify(t, v, makeCase(t, weak), visible); got.Outcome != verdict.Passed {
		t.Errorf("a table that is all of the tests: %s", describe(got))
	}
	const counter = "n = 0\ndef add(a, b):\n    global n\n    n += 1\n    return (%s)[n - 1]\n"
	if got := verify(t, v, makeCase(t, add()), strings.ReplaceAll(counter, "%s", "4, 5")); got.Reason != verdict.TestsFailed {
		t.Errorf("a counter that guesses: %s", describe(got))
	}
	if got := verify(t, v, makeCase(t, add()), strings.ReplaceAll(counter, "%s", "5, 6")); got.Outcome != verdict.Passed {
		t.Errorf("a counter that knows the hidden values: %s", describe(got))
	}
}

// TestEncodings: what a file may look like decides nothing (C25).
func TestEncodings(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	honest := add().reference
	tests := map[string]struct {
		candidate string
		want      verdict.Reason
	}{
		"BOM":                   {"\xef\xbb\xbf" + honest, ""},
		"latin-1 cookie":        {"# -*- coding: latin-1 -*-\nname = '\xe9'\n" + honest, ""},
		"utf-7 cookie":          {"# -*- coding: utf-7 -*-\n" + strings.ReplaceAll(honest, "+", "+-"), ""},
		"CRLF and tabs":         {"def add(a, b):\r\n\treturn a + b\r\n", ""},
		"lone CR":               {"def add(a, b):\r    return a + b\r", ""},
		"bidi in a comment":     {"# \u202e\u2066 x\n" + honest, ""},
		"utf-7 and wrong":       {"# -*- coding: utf-7 -*-\ndef add(a, b):\n    return 4\n", verdict.TestsFailed},
		"NUL":                   {honest + "\x00", verdict.TestsFailed},
		"NUL ahead":             {"\x00" + honest, verdict.TestsFailed},
		"invalid UTF-8":         {honest + "name = '\xff'\n", verdict.InvalidUTF8},
		"unknown cookie":        {"# -*- coding: nonsense -*-\n" + honest, verdict.TestsFailed},
		"blank":                 {" \n\t\r\n", verdict.EmptyCandidate},
		"empty":                 {"", verdict.EmptyCandidate},
		"over the cap":          {"#" + strings.Repeat("x", maxSource), verdict.CandidateTooLarge},
		"not Python":            {"```python\n" + honest + "```\n", verdict.TestsFailed},
		"100,000 open brackets": {strings.Repeat("(", 100_000), verdict.TestsFailed},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := verify(t, v, makeCase(t, add()), tc.candidate); got.Reason != tc.want {
				t.Errorf("got %s; want reason %q", describe(got), tc.want)
			}
		})
	}
}

// TestBlankCandidateStartsNothing: no sandbox is waited for.
func TestBlankCandidateStartsNothing(t *testing.T) {
	v := newTestVerifier(t, deadEngine{})
	got := verify(t, v, makeCase(t, add()), "\n")
	if got.Outcome != verdict.Failed || got.Reason != verdict.EmptyCandidate {
		t.Errorf("got %s", describe(got))
	}
}

// deadEngine fails at everything.
type deadEngine struct{ sandbox.Engine }

func (deadEngine) Open(context.Context, sandbox.Spec) (sandbox.Box, error) {
	return nil, errDead
}
