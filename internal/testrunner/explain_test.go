package testrunner

import (
	"slices"
	"strings"
	"testing"
)

// TestExplain: what is said about a row's own tests is shown, and nothing of
// canaries.
func TestExplain(t *testing.T) {
	const results = `{"tests": [{"id": "t.py::a", "status": "failed"}, {"id": "t.py::b", "status": "passed"}], "broken": ["u.py"], "missing": ["t.py::c"],
		"canaries": [{"id": "test_x.py::a", "status": "failed"}, {"id": "d/test_y.py::a", "status": "failed"}], "canaries_lost": [], "canaries_beaten": [], "exit_status": 1}`
	const output = `{"key":"1","type":"end"}
===== test session starts =====
collected 3 items
====== FAILURES ======
_____ a _____
>   assert 1 == 2
test_x.py:3: AssertionError
_____ a _____
>   assert f() == 2
t.py:7: AssertionError
_____ K.a _____
canary
/elsewhere/d/test_y.py:4: Error
===== short test summary info =====
FAILED t.py::a
`
	want := []string{"u.py: cannot be collected", "t.py::a: failed", "t.py::c: was not run", "_____ a _____", ">   assert f() == 2", "t.py:7: AssertionError"}
	if got := Explain(map[string][]byte{"test-results.json": []byte(results), "tests-stdout.txt": []byte(output)}); !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	plain := strings.Repeat("x\n", 50) + "the end\n"
	if got := Explain(map[string][]byte{"checker-stderr.txt": []byte(plain)}); len(got) != maxShown || got[maxShown-1] != "the end" {
		t.Errorf("%q", got)
	}
	if got := Explain(map[string][]byte{"test-results.json": []byte("{"), "tests-stdout.txt": []byte(output)}); got != nil {
		t.Errorf("%q", got)
	}
}

// FuzzExplain: whatever a sandbox printed, lines of a canary's part are not shown.
func FuzzExplain(f *testing.F) {
	f.Add("== FAILURES ==\n___ a ___\nx\ntest_x.py:1: E\n", "")
	f.Add("{\"key\":\"\"}\n\n", `{"tests": [{"id": "a", "status": "failed"}], "canaries": []}`)
	f.Fuzz(func(t *testing.T, output, results string) {
		if results == "" {
			results = `{"canaries": [{"id": "test_x.py::a", "status": "failed"}]}`
		}
		for _, line := range Explain(map[string][]byte{"test-results.json": []byte(results), "x.txt": []byte(output)}) {
			if strings.ContainsAny(line, "\n") && !strings.Contains(results, "\\n") {
				t.Errorf("%q is more than a line", line)
			}
		}
	})
}
