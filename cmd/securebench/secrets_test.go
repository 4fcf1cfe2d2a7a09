package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/redact"
)

// TestSplitSecrets: an agent that was given a key prints it in ways that a
// search of each stream for bytes in a row does not find: wrapped, half to one
// stream and half to the other, in turns, or half to a stream and half into
// its answer. No piece of it is published or shown. An answer that holds no
// key is scored as it came.
func TestSplitSecrets(t *testing.T) {
	t.Parallel()
	image := needEngine(t)
	const head, tail = "sb-Zq4f1c9a7e", "2d8bX6035kPw"
	key := head + tail
	scripts := map[string]string{
		"wrapped":   `echo "$SB_TEST_API_KEY" | fold -w 5; echo "$SB_TEST_API_KEY" | fold -w 5 | sed "s/^/    /" >&2`,
		"base64":    `printf "%s" "the key: $SB_TEST_API_KEY" | base64 -w 8`,
		"halves":    `printf "%s" "${SB_TEST_API_KEY%` + tail + `}"; sleep 1; printf "%s" "${SB_TEST_API_KEY#` + head + `}" >&2`,
		"reversed":  `printf "%s" "${SB_TEST_API_KEY%` + tail + `}" >&2; sleep 1; printf "%s" "${SB_TEST_API_KEY#` + head + `}"`,
		"in-lines":  `echo "${SB_TEST_API_KEY%` + tail + `}"; sleep 1; echo "${SB_TEST_API_KEY#` + head + `}" >&2`,
		"an-answer": `printf "%s" "${SB_TEST_API_KEY#` + head + `}" > answer.txt; printf "%s" "${SB_TEST_API_KEY%` + tail + `}" >&2`,
		"honest":    `echo 4 | tee answer.txt; echo sb-Zq >&2`,
	}
	for _, artifact := range []string{"", "answer.txt"} {
		t.Run("artifact="+artifact, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var rows strings.Builder
			ids := 0
			for id, script := range scripts {
				if (id == "an-answer") != (artifact != "") && id != "honest" {
					continue
				}
				ids++
				fmt.Fprintf(&rows, `{"id": %q, "input": {"question": %q}, "eval": {"accepted_answers": ["4"], "match": {"type": "span", "max_extra_words": 9}}}`+"\n", id, script)
			}
			write(t, filepath.Join(dir, "tasks.jsonl"), rows.String())
			write(t, filepath.Join(dir, "manifest.yaml"), "id: secrets\nversion: 1\ndefaults:\n  family: short_answer\n  environment:\n    image: "+image+"\n")
			line := ""
			if artifact != "" {
				line = "    artifact_path: " + artifact + "\n"
			}
			write(t, filepath.Join(dir, "tester.yaml"), `schema_version: "0.2"
run: {id: secrets, output_dir: out}
benchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}
harness:
  type: command
  env: [SB_TEST_API_KEY]
  config:
`+line+`    command: ["sh", "-c", "eval \"$(python3 -c 'import json; print(json.load(open(\"task.json\"))[\"question\"])')\""]
`)
			res := securebench(t, []string{"SB_TEST_API_KEY=" + key}, "run", filepath.Join(dir, "tester.yaml"),
				"--show-agent-output", "--show-command-output", "--progress", "plain")
			if res.code != exitDone {
				t.Fatalf("exit %d:\n%s%s", res.code, res.stdout, res.stderr)
			}
			out := filepath.Join(dir, "out")
			hidden := newNeedles()
			hidden.addWindows("the first half", head[3:], 6)
			hidden.addWindows("the second half", tail, 6)
			seen := published(t, out)
			delete(seen, "candidates.jsonl") // it holds the questions, which name the halves
			if artifact == "" {
				seen["standard error"] = []byte(res.stderr)
			} else {
				delete(seen, "agent-trace.log") // written before there was an answer: half of the key stays
			}
			records := readRecords(t, filepath.Join(out, "candidates.jsonl"))
			for id, r := range records {
				seen["the record of "+id] = []byte(r[0].Stdout + r[0].Stderr + r[0].Text)
			}
			for name, data := range maps.Clone(seen) {
				seen[name+" without line breaks"] = []byte(strings.NewReplacer("\n", "", "\\n", "", " ", "").Replace(string(data)))
			}
			hidden.check(t, seen)
			if len(records) != ids {
				t.Errorf("%d tasks are recorded, want %d", len(records), ids)
			}
			if r := records["honest"][0]; r.Outcome != "passed" || strings.Contains(r.Stdout+r.Stderr+r.Text, "redacted") {
				t.Errorf("the honest one: %+v", r)
			}
			for id, r := range records {
				if text := r[0].Stdout + r[0].Stderr; id != "honest" && !strings.Contains(text, "[redacted:SB_TEST_API_KEY]") {
					t.Errorf("%s: nothing was taken out: %q", id, text)
				}
			}
		})
	}

	// The weak set-up: each stream for itself.
	weak := &redact.Registry{}
	if err := weak.Add("KEY", []byte(key)); err != nil {
		t.Fatal(err)
	}
	if got := string(weak.Bytes([]byte(head))) + string(weak.Bytes([]byte(tail))); got != key {
		t.Errorf("each half by itself gives %q: the test shows nothing", got)
	}
}
