package cases_test

import (
	"strings"
	"testing"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/sandbox"
	"securebench/internal/verdict"
)

const honest = "a, b = map(int, input().split())\nprint(a + b)\n"

// TestCases scores programs of every form of row: right, wrong and broken ones.
func TestCases(t *testing.T) {
	t.Parallel()
	e := inMemory(t)
	files := object{"cases": []object{{"args": []string{"x", "7"}, "files": object{"in/a.txt": "3\n"}, "expect": object{"stdout": "", "exit_code": 4, "files": object{"out/b.txt": "10.0"}}}},
		"compare": "numeric", "tolerance": 0.5}
	writes := "import os, sys\nn = int(open('in/' + 'a.txt').read()) + int(sys.argv[2])\nos.mkdir('out')\nopen('out/b.txt', 'w').write(str(n))\nsys.exit(%)\n"
	compiled := object{"compile": []string{"python3", "-c", "import sys\nt = open('prog.src').read()\ncompile(t, 'prog.src', 'exec')\nopen('made.py', 'w').write(t)"},
		"file": "prog.src", "command": []string{"python3", "made.py"}}
	for _, tt := range []struct {
		name    string
		tests   object
		from    candidate.Candidate
		outcome verdict.Outcome
		reason  verdict.Reason
		how     string
	}{
		{"right", adder(), code(honest), verdict.Passed, "", "as_is"},
		{"right in the first case only", adder(), code("print(5)\n"), verdict.Failed, verdict.TestsFailed, "as_is"},
		{"right and more", adder(), code(honest + "print(1)\n"), verdict.Failed, verdict.TestsFailed, "as_is"},
		{"right, then an error", adder(), code(honest + "1 / 0\n"), verdict.Failed, verdict.TestsFailed, "as_is"},
		{"blank", adder(), code(" \n"), verdict.Failed, verdict.EmptyCandidate, "as_is"},
		{"no program", adder(), code("qwzxvbnk"), verdict.Failed, verdict.TestsFailed, "as_is"},
		{"said", adder(), said("<think>```python\nno\n```</think>Here:\n```python\n" + honest + "```\nTry `echo 2 3 | …`:\n```sh\npython3 x.py\n```\n"), verdict.Passed, "", "last_fence"},
		{"files and arguments", adder(files), code(strings.Replace(writes, "%", "4", 1)), verdict.Passed, "", "as_is"},
		{"another exit code", adder(files), code(strings.Replace(writes, "%", "3", 1)), verdict.Failed, verdict.TestsFailed, "as_is"},
		{"no file", adder(files), code("import sys\nsys.exit(4)\n"), verdict.Failed, verdict.TestsFailed, "as_is"},
		{"a link for a file", adder(files), code("import os, sys\nos.mkdir('out')\nopen('n', 'w').write('10')\nos.symlink('../n', 'out/b.txt')\nsys.exit(4)\n"), verdict.Failed, verdict.TestsFailed, "as_is"},
		{"a folder for a file", adder(files), code("import os, sys\nos.makedirs('out/b.txt')\nsys.exit(4)\n"), verdict.Failed, verdict.TestsFailed, "as_is"},
		{"compiled", adder(compiled), code(honest), verdict.Passed, "", "as_is"},
		{"it does not compile", adder(compiled), code("print("), verdict.Failed, verdict.TestsFailed, "as_is"},
		{"too slow for a case", adder(object{"case_seconds": 0.5}), code("import time\ntime.sleep(9)\n"), verdict.VerifierTimeout, verdict.VerificationTimeout, "as_is"},
		{"no interpreter", adder(object{"command": []string{"ruby", "candidate.rb"}}), code(honest), verdict.Pending, verdict.PackFault, "as_is"},
		{"no compiler", adder(object{"compile": []string{"cc"}}), code(honest), verdict.Pending, verdict.PackFault, "as_is"},
		{"the compiler makes nothing", adder(object{"compile": []string{"python3", "-c", ""}, "command": []string{"./made"}}), code(honest), verdict.Failed, verdict.TestsFailed, "as_is"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := verify(t, e, rowCase(t, sandbox.Image{Ref: "local", ID: "local"}, "python", tt.tests), tt.from)
			if got.Outcome != tt.outcome || got.Reason != tt.reason || got.Containment != verdict.Split || got.Extraction != tt.how {
				t.Errorf("%s/%s %q %q, want %s/%s %q\n%s", got.Outcome, got.Reason, got.Message, got.Extraction, tt.outcome, tt.reason, tt.how, printed(got))
			}
		})
	}
}

// TestTime: all commands together have the row's time, and no case makes it
// longer.
func TestTime(t *testing.T) {
	t.Parallel()
	c := rowCase(t, sandbox.Image{Ref: "local", ID: "local"}, "python", adder())
	c.Limits.Timeout = 6 * time.Second
	start := time.Now()
	got := verify(t, inMemory(t), c, code("import time\ntime.sleep(3.5)\n"+honest))
	if got.Reason != verdict.VerificationTimeout || time.Since(start) > 20*time.Second || !strings.HasPrefix(got.Message, "case 2 of 2") {
		t.Errorf("%s %q", got.Reason, got.Message)
	}
}
