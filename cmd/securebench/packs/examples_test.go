package packs

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"securebench/internal/families"
	"securebench/internal/schemas"
	"securebench/internal/schemas/schematest"
	"securebench/internal/source"
)

// tree reads a YAML or JSON document as the program does.
func tree(t *testing.T, name string, data []byte) any {
	t.Helper()
	n, err := source.ParseYAML(name, data)
	if strings.HasSuffix(name, ".jsonl") {
		n, err = source.ParseJSON(name, 1, data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n.Any()
}

// TestPackSchemaExamples: the schemas accept the manifests, tester files and rows of
// this repository, and refuse each of them with a mistake.
func TestPackSchemaExamples(t *testing.T) {
	refused := map[string]int{}
	for name, pattern := range map[string]string{"manifest": "*/manifest.yaml", "tester": "*/*.yaml", schemas.Row: "*/tasks.jsonl"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "..", "packs", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if name == "tester" && filepath.Base(file) == "manifest.yaml" {
				continue
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			docs := [][]byte{data}
			if name == schemas.Row {
				docs = first(data, 3)
			}
			for _, doc := range docs {
				refused[name] += schematest.Refuses(t, name, families.All(), tree(t, file, doc))
			}
		}
	}
	for name, n := range refused {
		if n < 15 {
			t.Errorf("the schema of %s refused only %d documents", name, n)
		}
	}
	full := tree(t, "full.yaml", []byte(fullTester))
	if n := schematest.Refuses(t, "tester", nil, full); n < 40 {
		t.Errorf("only %d mistakes of a tester YAML were refused", n)
	}
	if problems := testerProblems(t, fullTester); problems != "" {
		t.Errorf("the program refuses what the schema accepts: %s", problems)
	}
}

// fullTester has a value for each key outside of harness.config.
const fullTester = `schema_version: "0.2"
run: {id: my-run, output_dir: runs/my-run, max_workers: 4, attempts: 1, retries: 2, score_timeouts: true}
benchmark: {manifest: pack/manifest.yaml, tasks: pack/tasks.jsonl}
harness:
  type: command
  env: [TZ]
  config: {command: [python3, agent.py], timeout_seconds: 300, task_file: in/task.json, artifact_path: out/answer, allowed_domains: [docs.python.org]}
limits: {memory: 1GiB, cpus: 1, pids: 256, disk: 256MiB, files: 65536, output: 8MiB, candidate: 1MiB, produce_seconds: 900, verify_seconds: 30}
sandbox: {engine: auto, runtime: runc, commands: {allow: [python3], deny: [sh]}, capabilities: [CHOWN]}
verification: {disallow_dangerous_commands: true, deny_commands: [chroot]}
`

// first returns the first n lines.
func first(data []byte, n int) (out [][]byte) {
	lines := bufio.NewScanner(strings.NewReader(string(data)))
	lines.Buffer(nil, 16<<20)
	for len(out) < n && lines.Scan() {
		out = append(out, []byte(lines.Text()))
	}
	return out
}

// TestRowSchemaCases: of the rows on which the program's own checks are tested, the
// schema accepts all that pass without a warning, and refuses all whose input, eval
// or keys are not of their form.
func TestRowSchemaCases(t *testing.T) {
	file, err := os.Open(filepath.Join("..", "..", "..", "internal", "pipeline", "compile", "testdata", "rows.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	compiled := schematest.Compile(t, schemas.Row, families.All())
	beyond := []string{ // what one value says about another
		"sa match: words without span", "sa match: number without numbers", "cc: inline in another language", "tt: file reference elsewhere",
	}
	good, bad := 0, 0
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		root, err := source.ParseJSON("rows.jsonl", 1, lines.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		row, name := root.Get("row"), root.Get("name").Text
		if row == nil || row.Kind != source.Map {
			continue
		}
		var said string
		for _, key := range []string{"errors", "warnings"} {
			said += string(root.Get(key).JSON())
		}
		invalid := compiled.Validate(row.Any())
		switch {
		case root.Get("errors") == nil && root.Get("warnings") == nil:
			good++
			if invalid != nil {
				t.Errorf("%s: the program accepts it, the schema says %v", name, invalid)
			}
		case strings.Contains(said, "must be ") || strings.Contains(said, "is required") || strings.Contains(said, "unknown field"):
			bad++
			if invalid == nil && !slices.Contains(beyond, name) {
				t.Errorf("%s: the program says %s, and the schema accepts it", name, said)
			}
		}
	}
	if good < 50 || bad < 50 {
		t.Errorf("only %d good rows and %d bad ones", good, bad)
	}
}
