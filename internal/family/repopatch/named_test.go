package repopatch

import (
	"strings"
	"testing"

	"securebench/internal/verdict"
)

// named is a row whose tests are graded by name.
func named() object {
	return object{"command": []string{"python3", "-B", "-m", "pytest", "-q", "tests"}, "runner": "pytest",
		"fail_to_pass": []string{"tests/test_hidden.py::test_add", "tests/test_old.py::test_add"},
		"pass_to_pass": []string{"tests/test_calc.py::test_zero"}}
}

// TestNamedTests grades by name: what ends the tests early, or reports other
// tests, does not pass, though its exit code does.
func TestNamedTests(t *testing.T) {
	t.Parallel()
	b := newBench(t, project(), "", "")
	exit := newFile("early.py", "100644", "import os\nos._exit(0)\n") + strings.Replace(mended, "@@ -1,5 +1,5 @@\n", "@@ -1,5 +1,6 @@\n+import early\n", 1)
	for _, tt := range []struct {
		name    string
		tests   object
		patch   string
		outcome verdict.Outcome
		reason  verdict.Reason
	}{
		{"the right patch", named(), mended, verdict.Passed, ""},
		{"a wrong patch", named(), spoilt, verdict.Failed, verdict.TestsFailed},
		{"an exit at import, by its exit code", merged(named(), object{"runner": nil, "fail_to_pass": nil, "pass_to_pass": nil}), exit, verdict.Passed, ""},
		{"an exit at import, by name", named(), exit, verdict.Failed, verdict.WorkerExited},
		{"ids that no run reports", merged(named(), object{"fail_to_pass": []string{"tests/test_hidden.py::test_gone"}}), mended, verdict.Failed, verdict.TestsFailed},
		{"a command that no driver takes over", merged(named(), object{"command": "make test"}), mended, verdict.Pending, verdict.PackFault},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := b.score(t, b.row(t, tt.tests), tt.patch)
			if got.Outcome != tt.outcome || got.Reason != tt.reason {
				t.Errorf("want %s/%s: %s", tt.outcome, tt.reason, describe(got))
			}
			if got.Outcome == verdict.Passed && tt.tests["runner"] != nil && string(got.Metadata["runner"]) != `"pytest"` {
				t.Errorf("metadata: %v", got.Metadata)
			}
		})
	}
}

// TestNoPatchInTheBox: while tests run, no file of the sandbox holds a patch
// from which a candidate could read the hidden tests or the work of others.
func TestNoPatchInTheBox(t *testing.T) {
	t.Parallel()
	b := newBench(t, project(), "", "")
	c := b.row(t, object{"command": []string{"sh", "-c", "grep -rqs --exclude-dir=proc --exclude-dir=sys --exclude-dir=dev -e '^[+][+][+] b/tests/test_hidden.py' -e '^[+][+][+] b/calc.py' / && exit 1; " +
		"exec python3 -B -m pytest -q -p no:cacheprovider tests"}})
	if got := b.score(t, c, mended); got.Outcome != verdict.Passed {
		t.Errorf("a patch is in the box: %s", describe(got))
	}
	for _, line := range []string{"+++ b/tests/test_hidden.py\n", "+++ b/calc.py\n"} {
		if got := b.score(t, c, mended+newFile("copy.txt", "100644", line)); got.Reason != verdict.TestsFailed {
			t.Errorf("the search does not find %q: %s", line, describe(got))
		}
	}
}
