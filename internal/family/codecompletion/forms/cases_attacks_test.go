package forms

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/verdict"
)

// canary is expected by a case, and so must not be in the candidate's sandbox.
const canary = "canary7f3a91"

// casesAttack is a program that wants to pass without doing the work.
type casesAttack struct {
	id, name  string
	candidate string
	weak      func(status int, output, expected string) bool // a scorer that it deceives
	engine    bool                                           // it needs an engine's confinement
	reason    verdict.Reason
	tests     object
}

func byStatus(status int, _, _ string) bool { return status == 0 }
func byMention(_ int, output, expected string) bool {
	return strings.Contains(output, strings.TrimSpace(expected))
}
func byWord(_ int, output, _ string) bool { return strings.Contains(output, "PASSED") }
func hidden() object {
	return object{"cases": []object{{"stdin": "2 3\n", "expect": object{"stdout": canary + "\n"}}}}
}

func casesAttacks() []casesAttack {
	search := `
import os, sys
def found():
    places = ['/workspace', '/tmp', '/dev/shm', '/run', '/var', '/proc/self', '/proc/1', '/.securebench']
    for key, value in os.environ.items():
        if b'anary7f3a91' in (key + value).encode()[0:]: return True
    for place in places:
        for top, dirs, files in os.walk(place):
            dirs[:] = dirs[:64]
            for f in files[:256]:
                try:
                    path = os.path.join(top, f)
                    if path.endswith(('candidate.py', '/pagemap', '/kmsg', '/mem')) or os.path.getsize(path) > 1 << 22: continue
                    with open(path, 'rb') as h:
                        if b'c' + b'anary7f3a91' in h.read(1 << 22): return True
                except OSError:
                    pass
    return False
print('c' + 'anary7f3a91' if found() else 'nothing')
`
	return []casesAttack{
		{id: "C01", name: "os._exit(0) at once", candidate: "import os\nos._exit(0)\n", weak: byStatus, reason: verdict.TestsFailed},
		{id: "C02", name: "sys.exit(0), also at exit", candidate: "import sys, atexit\natexit.register(sys.exit, 0)\nsys.exit(0)\n", weak: byStatus, reason: verdict.TestsFailed},
		{id: "C03", name: "the expected output searched", candidate: search, tests: hidden(), engine: true, reason: verdict.TestsFailed},
		{id: "C05", name: "a verdict printed", candidate: "print('ALL TESTS PASSED')\nprint('{\"passed\": true, \"score\": 1}')\nopen('success', 'w').write('1')\n", weak: byWord, reason: verdict.TestsFailed},
		{id: "C19", name: "every answer", candidate: "for n in range(100):\n    print(n)\n", weak: byMention, reason: verdict.TestsFailed},
		{id: "C12", name: "a daemon that answers for the next case", engine: true, reason: verdict.TestsFailed, candidate: `
import os, time
if os.path.exists('/tmp/was'): # only who is still alive can answer
    try: os.remove('/tmp/answer')
    except OSError: pass
    time.sleep(1)
    print(open('/tmp/answer').read() if os.path.exists('/tmp/answer') else 'alone')
else:
    open('/tmp/was', 'w').close()
    print(5, flush=True)
    if os.fork() == 0:
        os.setsid()
        for fd in range(3): os.close(fd)
        while True:
            time.sleep(0.1)
            open('/tmp/answer', 'w').write('42')
`},
		{id: "C16", name: "a flood", engine: true, reason: verdict.OutputLimit, candidate: "while True:\n    print('x' * 65536)\n"},
		{id: "C17", name: "no end", reason: verdict.VerificationTimeout, tests: object{"case_seconds": 0.5},
			candidate: "import signal\nfor s in (signal.SIGTERM, signal.SIGINT):\n    signal.signal(s, signal.SIG_IGN)\nwhile True: pass\n"},
		{id: "C15", name: "the folder closed to the next case", engine: true, reason: verdict.TestsFailed, candidate: "import os\nprint(5, flush=True)\nos.chmod('/workspace', 0)\n"},
		{id: "C15", name: "the next case's folder laid out of reach", engine: true, reason: verdict.TestsFailed, candidate: `
import os
print(5, flush=True)
os.makedirs('/workspace/case-2/candidate.py/x', exist_ok=True)
os.chmod('/workspace/case-2/candidate.py', 0)
`},
		{id: "C15", name: "the folder filled for the next case", engine: true, reason: verdict.DiskLimit, candidate: `
import os
print(5, flush=True)
os.makedirs('/workspace/mine', exist_ok=True)
with open('/workspace/mine/x', 'wb') as f:
    try:
        while True: f.write(bytes(1 << 20))
    except OSError:
        pass
`},
	}
}

// TestAttacks: the attacks deceive the scorers that they are made for, and none
// of them passes here; the honest program does.
func TestAttacks(t *testing.T) {
	t.Parallel()
	e := inMemory(t)
	for _, a := range casesAttacks() {
		t.Run(a.id+" "+a.name, func(t *testing.T) {
			t.Parallel()
			if a.weak != nil && !a.weak(runPlain(t, a.candidate)) {
				t.Error("the attack does not deceive a weak scorer")
			}
			if a.engine {
				return // see TestEngineAttacks
			}
			got := verifyCases(t, e, casesCase(t, sandbox.Image{Ref: "local", ID: "local"}, "python", adder(a.tests)), casesCode(a.candidate))
			if got.Outcome == verdict.Passed || got.Reason != a.reason {
				t.Errorf("%s/%s %q", got.Outcome, got.Reason, got.Message)
			}
		})
	}
}

// runPlain runs a program as a plain process with the first case's input.
func runPlain(t *testing.T, program string) (status int, output, expected string) {
	t.Helper()
	cmd := exec.Command("python3", "-c", program)
	cmd.Dir, cmd.Stdin = t.TempDir(), strings.NewReader("2 3\n")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("running the attack: %v", err)
	}
	return cmd.ProcessState.ExitCode(), string(out), "5\n"
}

// TestEngineAttacks runs in real sandboxes what needs their confinement, beside
// honest programs: one that is compiled, and one that leaves a process behind.
func TestEngineAttacks(t *testing.T) {
	t.Parallel()
	e := enginetest.Open(t)
	img := enginetest.Image(t, e)
	for _, a := range casesAttacks() {
		if !a.engine {
			continue
		}
		t.Run(a.id+" "+a.name, func(t *testing.T) {
			t.Parallel()
			c := casesCase(t, img, "python", adder(a.tests))
			c.Limits.Disk = 8 << 20
			got := verifyCases(t, e, c, casesCode(a.candidate))
			if got.Outcome == verdict.Passed || got.Reason != a.reason {
				t.Errorf("%s/%s %q\n%s", got.Outcome, got.Reason, got.Message, casesPrinted(got))
			}
		})
	}
	t.Run("honest, with folders of its own", func(t *testing.T) {
		t.Parallel()
		got := verifyCases(t, e, casesCase(t, img, "python", adder()), casesCode("import os\nos.makedirs('/workspace/case-2/candidate.py', exist_ok=True)\nos.chmod('/workspace/case-2/candidate.py', 0)\n"+honest))
		if got.Outcome != verdict.Passed {
			t.Errorf("%s/%s %q\n%s", got.Outcome, got.Reason, got.Message, casesPrinted(got))
		}
	})
	t.Run("honest", func(t *testing.T) {
		t.Parallel()
		build := object{"compile": []string{"/bin/sh", "-c", "cp prog.src made && chmod 755 made && ln -s made link && mkdir d"}, "file": "prog.src", "command": []string{"./made"}}
		got := verifyCases(t, e, casesCase(t, img, "python", adder(build)), casesCode("#!/usr/bin/env python3\nimport os\n"+honest+"if os.fork() == 0:\n    import time\n    time.sleep(60)\n"))
		if got.Outcome != verdict.Passed {
			t.Errorf("%s/%s %q\n%s", got.Outcome, got.Reason, got.Message, casesPrinted(got))
		}
	})
}

// TestWeakSearch: the search for the expected output finds it where it is.
func TestWeakSearch(t *testing.T) {
	t.Parallel()
	inMemory(t) // there is Python
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "expected.txt"), []byte(canary), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, a := range casesAttacks() {
		if a.id != "C03" {
			continue
		}
		cmd := exec.Command("python3", "-c", strings.Replace(a.candidate, "'/workspace'", "'"+dir+"'", 1))
		if out, err := cmd.Output(); err != nil || strings.TrimSpace(string(out)) != canary {
			t.Errorf("the search finds nothing: %v %q", err, out)
		}
	}
}
