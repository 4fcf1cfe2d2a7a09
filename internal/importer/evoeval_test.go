package importer_test

import (
	"strings"
	"testing"

	"securebench/internal/importer"
)

const evoEvalRow = `{"id": "evoeval/7", "instruction": "Write twice.", "source": {"license": "Apache-2.0"}, "workdir": "/app", "apt_packages": [], ` +
	`"max_agent_timeout_sec": 600.0, "max_test_timeout_sec": 120.0, "tests": {"test_outputs.py": "def test(): pass\n"}, ` +
	`"oracle_solution_sh": "echo x > /app/solution.py\n"}`

func TestEvoEval(t *testing.T) {
	dir, _, err := run(t, importer.EvoEval, evoEvalRow, importer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"evoeval/7","input":{"instructions":"Write twice."},"eval":{` +
		`"checker":{"path":"evoeval/7/test_outputs.py","source":"pytest","timeout_seconds":120},` +
		`"solution":{"command":["bash","-c","echo x > /app/solution.py\n"]}},"environment":{"timeout_seconds":600,"workdir":"/app"},` +
		`"metadata":{"dataset":"EvoEval","source":{"license":"Apache-2.0"}}}` + "\n"
	if got := read(t, dir, "tasks.jsonl"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := read(t, dir, "eval/evoeval/7/test_outputs.py"); got != "def test(): pass\n" {
		t.Errorf("the tests are %q", got)
	}
	if got := read(t, dir, "manifest.yaml"); !strings.Contains(got, "family: terminal_task\n") || !strings.Contains(got, "image: \"securebench-pytest:1\"\n") ||
		!strings.Contains(got, "asset_roots:\n  eval: eval/\n") {
		t.Errorf("the manifest is %s", got)
	}
}

func TestEvoEvalRefused(t *testing.T) {
	for name, change := range map[string][2]string{
		"id": {"evoeval/7", "evoeval/../7"}, "tests": {"test_outputs.py", "other.py"}, "packages": {`"apt_packages": []`, `"apt_packages": ["x"]`},
		"path": {"test_outputs.py", "../test_outputs.py"}, "time": {"600.0", "-1"}, "unknown": {`"workdir"`, `"folder"`},
	} {
		if _, _, err := run(t, importer.EvoEval, strings.Replace(evoEvalRow, change[0], change[1], 1), importer.Options{}); err == nil || !strings.Contains(err.Error(), "input:1") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
