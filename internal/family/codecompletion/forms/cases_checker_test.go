package forms

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/verdict"
)

// anyPrime is a special judge: any prime factor of the input is right.
const anyPrime = `
def check(answer, text, row):
    n = int(row["case"]["stdin"])
    if answer is None or not answer.isdigit() or int(answer) < 2 or n % int(answer):
        return 0, "no factor of " + str(n)
    p = int(answer)
    prime = all(p % d for d in range(2, int(p ** 0.5) + 1))
    return (1 if prime else 0.5), row["files"].get("log.txt", "")
`

// TestCasesOfAChecker: a special judge of the pack decides about what a program prints,
// what the program does with the judge's language is data, and a judge that fails is the
// pack's fault.
func TestCasesOfAChecker(t *testing.T) {
	t.Parallel()
	e := enginetest.Open(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"prime.py": anyPrime, "broken.py": "def check(answer, text, row):\n    return row['no']\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := family.OpenFiles("", dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	v := newCases(family.Resources{Engine: e, RunID: enginetest.Run("cases"), Files: files})
	defer func() {
		if err := v.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	row := func(path string, passAt any) object {
		compare := object{"path": path}
		if passAt != nil {
			compare["pass_at"] = passAt
		}
		one := func(stdin string) object {
			return object{"stdin": stdin, "expect": object{"exit_code": 0, "files": object{"log.txt": ""}}}
		}
		return adder(object{"compare": compare, "cases": []object{one("12\n"), one("35\n")}})
	}
	factor := "n = int(input())\nprint(next(d for d in range(2, n + 1) if n % d == 0))\n"
	measures := map[string]float64{"a right answer": 1, "another right answer": 1, "a file": 1, "a wrong answer": 0, "half right": 0.25,
		"half right, which is enough": 0.5, "an attack on the judge": 0, "no text": 0, "another exit code": 0}
	for name, tt := range map[string]struct {
		tests   object
		code    string
		outcome verdict.Outcome
		reason  verdict.Reason
	}{
		"a right answer":              {row("prime.py", nil), factor, verdict.Passed, ""},
		"another right answer":        {row("prime.py", nil), "n = int(input())\nprint(3 if n == 12 else 7)\n", verdict.Passed, ""},
		"a file":                      {row("prime.py", nil), "open('log.txt', 'w').write('x')\n" + factor, verdict.Passed, ""},
		"a wrong answer":              {row("prime.py", nil), "print(5)\n", verdict.Failed, verdict.TestsFailed},
		"half right":                  {row("prime.py", nil), "n = int(input())\nprint(4 if n == 12 else 35)\n", verdict.Failed, verdict.TestsFailed},
		"half right, which is enough": {row("prime.py", 0.5), "n = int(input())\nprint(4 if n == 12 else 35)\n", verdict.Passed, ""},
		"an attack on the judge":      {row("prime.py", nil), "print('__import__(\"os\")._exit(0)')\n", verdict.Failed, verdict.TestsFailed},
		"no text":                     {row("prime.py", nil), "import sys\nsys.stdout.buffer.write(b'\\xff')\n", verdict.Failed, verdict.TestsFailed},
		"another exit code":           {row("prime.py", nil), factor + "raise SystemExit(1)\n", verdict.Failed, verdict.TestsFailed},
		"a broken judge":              {row("broken.py", nil), factor, verdict.Pending, verdict.PackFault},
		"no judge":                    {row("none.py", nil), factor, verdict.Pending, verdict.PackFault},
	} {
		c := casesCase(t, enginetest.Image(t, e), "python", tt.tests)
		got := familytest.Verify(t, v, c, casesCode(tt.code))
		if got.Outcome != tt.outcome || got.Reason != tt.reason || !slices.Contains(got.Labels, verdict.PackChecker) {
			t.Errorf("%s: %s/%s %q %v\n%s", name, got.Outcome, got.Reason, got.Message, got.Labels, casesPrinted(got))
		}
		if want, ok := measures[name]; ok != (got.Measure != nil) || ok && got.Measure.Value != want {
			t.Errorf("%s: measure %v, want %v", name, got.Measure, want)
		}
		if strings.Contains(got.Message, "factor") {
			t.Errorf("%s: the message has the judge's words: %q", name, got.Message)
		}
	}
}
