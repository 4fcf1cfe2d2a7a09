package forms

import (
	"strings"
	"testing"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/family"
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
		{"right", adder(), casesCode(honest), verdict.Passed, "", "as_is"},
		{"right in the first case only", adder(), casesCode("print(5)\n"), verdict.Failed, verdict.TestsFailed, "as_is"},
		{"right and more", adder(), casesCode(honest + "print(1)\n"), verdict.Failed, verdict.TestsFailed, "as_is"},
		{"right, then an error", adder(), casesCode(honest + "1 / 0\n"), verdict.Failed, verdict.TestsFailed, "as_is"},
		{"blank", adder(), casesCode(" \n"), verdict.Failed, verdict.EmptyCandidate, "as_is"},
		{"no program", adder(), casesCode("qwzxvbnk"), verdict.Failed, verdict.TestsFailed, "as_is"},
		{"said", adder(), said("<think>```python\nno\n```</think>Here:\n```python\n" + honest + "```\nTry `echo 2 3 | …`:\n```sh\npython3 x.py\n```\n"), verdict.Passed, "", "last_fence"},
		{"files and arguments", adder(files), casesCode(strings.Replace(writes, "%", "4", 1)), verdict.Passed, "", "as_is"},
		{"another exit code", adder(files), casesCode(strings.Replace(writes, "%", "3", 1)), verdict.Failed, verdict.TestsFailed, "as_is"},
		{"no file", adder(files), casesCode("import sys\nsys.exit(4)\n"), verdict.Failed, verdict.TestsFailed, "as_is"},
		{"a link for a file", adder(files), casesCode("import os, sys\nos.mkdir('out')\nopen('n', 'w').write('10')\nos.symlink('../n', 'out/b.txt')\nsys.exit(4)\n"), verdict.Failed, verdict.TestsFailed, "as_is"},
		{"a folder for a file", adder(files), casesCode("import os, sys\nos.makedirs('out/b.txt')\nsys.exit(4)\n"), verdict.Failed, verdict.TestsFailed, "as_is"},
		{"compiled", adder(compiled), casesCode(honest), verdict.Passed, "", "as_is"},
		{"it does not compile", adder(compiled), casesCode("print("), verdict.Failed, verdict.TestsFailed, "as_is"},
		{"too slow for a case", adder(object{"case_seconds": 0.5}), casesCode("import time\ntime.sleep(9)\n"), verdict.VerifierTimeout, verdict.VerificationTimeout, "as_is"},
		{"no interpreter", adder(object{"command": []string{"ruby", "candidate.rb"}}), casesCode(honest), verdict.Pending, verdict.PackFault, "as_is"},
		{"no compiler", adder(object{"compile": []string{"cc"}}), casesCode(honest), verdict.Pending, verdict.PackFault, "as_is"},
		{"the compiler makes nothing", adder(object{"compile": []string{"python3", "-c", ""}, "command": []string{"./made"}}), casesCode(honest), verdict.Failed, verdict.TestsFailed, "as_is"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := verifyCases(t, e, casesCase(t, sandbox.Image{Ref: "local", ID: "local"}, "python", tt.tests), tt.from)
			if got.Outcome != tt.outcome || got.Reason != tt.reason || got.Containment != verdict.Split || got.Extraction != tt.how {
				t.Errorf("%s/%s %q %q, want %s/%s %q\n%s", got.Outcome, got.Reason, got.Message, got.Extraction, tt.outcome, tt.reason, tt.how, casesPrinted(got))
			}
		})
	}
}

// TestTime: all commands together have the row's time, and no case makes it
// longer: the second has less than it needs, and would have enough alone.
func TestTime(t *testing.T) {
	t.Parallel()
	c := casesCase(t, sandbox.Image{Ref: "local", ID: "local"}, "python", adder())
	c.Limits.Timeout = 20 * time.Second
	got := verifyCases(t, inMemory(t), c, casesCode("import time\n"+strings.Replace(honest, "\n", "\ntime.sleep(1 if a == 2 else 19.5)\n", 1)))
	if got.Reason != verdict.VerificationTimeout || !strings.HasPrefix(got.Message, "case 2 of 2") {
		t.Errorf("%s %q", got.Reason, got.Message)
	}
}

// TestConstantTwin: a program that does what the first case expects passes cases that
// all expect the same, and validation can show it.
func TestConstantTwin(t *testing.T) {
	t.Parallel()
	e := inMemory(t)
	one := func(stdin, stdout string) object { return object{"stdin": stdin, "expect": object{"stdout": stdout}} }
	wrote := object{"stdin": "x", "expect": object{"exit_code": 3, "files": object{"out/é.txt": "ü\n"}}}
	for name, tt := range map[string]struct {
		cases []object
		twins int
		pass  bool
	}{
		"different":     {[]object{one("1", "1\n"), one("2", "2\n")}, 1, false},
		"alike":         {[]object{one("1", "5\n"), one("2", "5\n")}, 1, true},
		"nothing":       {[]object{one("1", "")}, 1, true},
		"files":         {[]object{wrote, wrote}, 1, true},
		"without input": {[]object{{"expect": object{"stdout": "5\n"}}}, 0, false},
	} {
		c := casesCase(t, sandbox.Image{Ref: "local", ID: "local"}, "python", adder(object{"cases": tt.cases}))
		twins, err := newCases(family.Resources{}).(family.Twinner).Twins(t.Context(), c)
		if err != nil || len(twins) != tt.twins {
			t.Fatalf("%s: %v, %v", name, twins, err)
		}
		for _, twin := range twins {
			if got := verifyCases(t, e, c, twin.Candidate); (got.Outcome == verdict.Passed) != tt.pass {
				t.Errorf("%s: %s %q", name, got.Outcome, got.Message)
			}
		}
	}
}

// TestExpected: the author sees what a case expected, and why a near miss is one.
func TestExpected(t *testing.T) {
	t.Parallel()
	e := inMemory(t)
	for want, tt := range map[string]struct {
		tests object
		code  string
	}{
		`standard output "5\n"`:         {adder(), "print(6)\n"},
		"only white space differs":      {adder(object{"compare": "exact"}), "print(5, end='')\n"},
		"exit code 0, not 7":            {adder(), "import sys\nsys.exit(7)\n"},
		"no command names candidate.py": {adder(object{"command": []string{"python3", "main.py"}}), honest},
		`file out.txt with "4"`:         {adder(object{"cases": []object{{"expect": object{"files": object{"out.txt": "4"}}}}}), "print(5)\n"},
	} {
		got := verifyCases(t, e, casesCase(t, sandbox.Image{Ref: "local", ID: "local"}, "python", tt.tests), casesCode(tt.code))
		if text := string(got.Restricted["case-expected.txt"]); got.Outcome != verdict.Failed || !strings.Contains(text, want) {
			t.Errorf("%s: %s %q", want, got.Outcome, text)
		}
	}
}
