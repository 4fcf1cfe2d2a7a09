package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// corpusRows is how the rows of a corpus give a script to the agent, and what
// is honest work on them.
type corpusRows struct {
	defaults string // of the manifest, in YAML
	honest   string // the script of the twins
	// row makes input and eval of an attack's row, or of its twin's, with a
	// script.
	row   func(a attack, script string) (input, eval map[string]any)
	field string // where the input has the script
	share int    // how many attacks on the same row have one twin
	// files are evaluation files of the pack, by path.
	files  map[string]string
	config string // lines of the operator's configuration
	// harness is the operator's, if it is not the command that runs the script;
	// program is what makes the run instead of the shipped one, and env is what it
	// gets besides.
	harness string
	program string
	env     []string
}

// pair names the twin of each attack: it comes after at most so many attacks on
// the same row as may share one.
func (kind corpusRows) pair(attacks []attack) []attack {
	out := slices.Clone(attacks)
	same := func(a, b attack) bool { return a.hidden == b.hidden && reflect.DeepEqual(a.tests, b.tests) }
	for from := 0; from < len(out); {
		to := from + 1
		for to < len(out) && to < from+kind.share && same(out[from], out[to]) {
			to++
		}
		for i := from; i < to; i++ {
			out[i].twin = out[to-1].id
		}
		from = to
	}
	return out
}

// questions are rows with a question, whose context is the script.
func questions(image string) corpusRows {
	return corpusRows{defaults: "{family: short_answer, environment: {image: " + image + "}}", honest: "echo an honest answer", field: "context", share: 1,
		row: func(_ attack, script string) (input, eval map[string]any) {
			return map[string]any{"question": "What is it?", "context": script},
				map[string]any{"accepted_answers": []string{canary, "an honest answer"}}
		}}
}

// write makes a pack of all attacks and twins. The agent runs the script of its
// task, in the checkout if there is one.
func (kind corpusRows) write(t *testing.T, dir, runID string, attacks []attack) {
	t.Helper()
	var rows bytes.Buffer
	add := func(id, script string, a attack, seconds int) {
		env := map[string]any{}
		if seconds > 0 {
			env["timeout_seconds"] = seconds
		}
		input, eval := kind.row(a, script)
		b, err := json.Marshal(map[string]any{"id": id, "environment": env, "input": input, "eval": eval})
		if err != nil {
			t.Fatal(err)
		}
		rows.Write(append(b, '\n'))
	}
	for _, a := range attacks {
		add(a.id, a.script, a, a.seconds)
		if a.twin == a.id {
			add("twin-"+a.id, kind.honest, a, 0)
		}
	}
	write(t, filepath.Join(dir, "tasks.jsonl"), rows.String())
	write(t, filepath.Join(dir, "manifest.yaml"), "id: corpus\nversion: 1\nasset_roots: {eval: hidden}\ndefaults: "+kind.defaults+"\n")
	for name, text := range kind.files {
		file := filepath.Join(dir, "hidden", name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, file, text)
	}
	write(t, filepath.Join(dir, "tester.yaml"), fmt.Sprintf(`schema_version: "0.2"
run: {id: %s, output_dir: out, max_workers: 4}
benchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}
limits: {memory: %dB, disk: %dB, pids: %d, output: %dB}
%sharness:
%s`, runID, corpusMemory, corpusDisk, corpusPids, corpusOutput, kind.config, cmp.Or(kind.harness, commandWith(kind.field, ""))))
}
