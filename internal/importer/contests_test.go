package importer_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/importer"
)

// Rows in the form of each data set, written for these tests.
const (
	appsRow = `{"id": 7, "question": "Add two numbers.", "solutions": "[\"print(sum(map(int, input().split())))\", \"x\"]", ` +
		`"input_output": "{\"inputs\": [\"1 2\\n\", [\"3\", \"4\"]], \"outputs\": [\"3\\n\", [\"7\"]]}", "difficulty": "interview", "url": "https://example.org/7", "starter_code": ""}`
	contestRow = `{"name": "12_A. Sum & more", "description": "Add.", "public_tests": {"input": ["1 2\n"], "output": ["3\n"]}, ` +
		`"private_tests": {"input": [], "output": []}, "generated_tests": {"input": ["5 5\n"], "output": ["10\n"]}, "source": 2, "difficulty": 7, ` +
		`"solutions": {"language": [2, 3], "solution": ["int main(){}", "print(3)"]}, "time_limit": {"seconds": 1, "nanos": 500000000}, ` +
		`"memory_limit_bytes": 256000000, "input_file": "", "output_file": "sum.out", "cf_tags": ["math"]}`
)

func TestContests(t *testing.T) {
	for _, tt := range []struct{ format, in, want, left string }{
		{importer.APPS, appsRow + "\n" + strings.Replace(strings.Replace(appsRow, `{\"inputs`, `{\"fn_name\": \"f\", \"inputs`, 1), `"id": 7`, `"id": 8`, 1),
			`{"id":"APPS/7","input":{"prompt":"Add two numbers.\n","language":"python"},"eval":{"tests":{"source":"cases","command":["python3","candidate.py"],` +
				`"compare":"whitespace","case_seconds":10,"timeout_seconds":300,"cases":[{"stdin":"1 2\n","expect":{"stdout":"3\n"}},{"stdin":"3\n4\n","expect":{"stdout":"7\n"}}]},` +
				`"reference_solution":"print(sum(map(int, input().split())))"},"metadata":{"dataset":"APPS","difficulty":"interview","url":"https://example.org/7"}}`,
			"APPS/8: its tests call a function"},
		{importer.CodeContests, contestRow + "\n" + `{"name": "b", "description": "d", "public_tests": {"input": [], "output": []}}`,
			`{"id":"CodeContests/12-A-Sum-more","input":{"prompt":"Add.\n","language":"python"},"eval":{"tests":{"source":"cases","command":["python3","candidate.py"],` +
				`"compare":"whitespace","case_seconds":7.5,"timeout_seconds":300,"cases":[{"stdin":"1 2\n","expect":{"files":{"sum.out":"3\n"}}},{"stdin":"5 5\n","expect":{"files":{"sum.out":"10\n"}}}]},` +
				`"reference_solution":"print(3)"},"metadata":{"dataset":"CodeContests","name":"12_A. Sum & more"}}`,
			"CodeContests/b: it has no tests"},
	} {
		dir, sum, err := run(t, tt.format, tt.in+"\n", importer.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want+"\n", read(t, dir, "tasks.jsonl")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.format, diff)
		}
		if diff := cmp.Diff([]string{tt.left}, sum.LeftOut); diff != "" || sum.Rows != 1 {
			t.Errorf("%s: %d rows, left out (-want +got):\n%s", tt.format, sum.Rows, diff)
		}
	}
}

func TestBadContests(t *testing.T) {
	for _, tt := range []struct{ format, old, with, want string }{
		{importer.APPS, `"id": 7`, `"id": "x"`, "id"},
		{importer.APPS, `[\"3\", \"4\"]`, `7`, "a text or a list of lines"},
		{importer.APPS, `, [\"7\"]`, ``, "the same length"},
		{importer.APPS, `{\"inputs`, `{\"inputs\": 1, \"inputs`, "is not JSON"},
		{importer.APPS, `"url"`, `"link"`, `unsupported field "link"`},
		{importer.APPS, `{\"inputs\"`, `{\"fn_name\": \"f\", \"inputs\"`, "no row that can be imported"},
		{importer.CodeContests, `"sum.out"`, `"../sum.out"`, "plain name"},
		{importer.CodeContests, `[2, 3]`, `[2]`, "the same length"},
		{importer.CodeContests, `"seconds": 1`, `"seconds": -1`, "seconds"},
		{importer.CodeContests, `"Add."`, `""`, "description"},
	} {
		in := map[string]string{importer.APPS: appsRow, importer.CodeContests: contestRow}[tt.format]
		changed := strings.Replace(in, tt.old, tt.with, 1)
		if changed == in {
			t.Fatalf("%q is not in the row", tt.old)
		}
		if _, _, err := run(t, tt.format, changed+"\n", importer.Options{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s with %s: %v, want %q", tt.format, tt.with, err, tt.want)
		}
	}
}
