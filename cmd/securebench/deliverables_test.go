package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/gateway/scripted"
	"securebench/internal/sampletest"
)

// delivery is what an agent does for a file out/sum.csv that has to say 1 and 2, and how
// that ends.
type delivery struct{ name, script, want string }

func deliveries() []delivery {
	const right = `printf 'a,b\n1,2\n'`
	return []delivery{
		{"right", right + " > sum.csv", "passed "},
		{"crlf", `printf 'a,b\r\n1,2\r\n' > sum.csv`, "passed "},
		{"beside others", right + " > sum.csv; seq 1000 > notes; mkdir -p more; cp sum.csv more", "passed "},
		{"printed", right, "passed "},
		{"printed in a block", "echo '```csv'; " + right + "; echo '```'", "passed "},
		{"wrong", `printf 'a,b\n1,3\n' > sum.csv`, "failed wrong_answer"},
		{"wrong and right printed", `printf 'a,b\n1,3\n' > sum.csv; ` + right, "failed wrong_answer"},
		{"another name", right + " > Sum.csv; echo", "no_candidate candidate_missing"},
		{"nothing", ":", "no_candidate candidate_missing"},
		{"link", right + " > real; ln -s real sum.csv", "no_candidate candidate_not_regular"},
		{"link to the reference", "ln -s hidden/sum.csv sum.csv", "no_candidate candidate_not_regular"},
		{"folder", "mkdir sum.csv; " + right + " > sum.csv/sum.csv", "no_candidate candidate_not_regular"},
		{"pipe", "mkfifo sum.csv", "no_candidate candidate_not_regular"},
		{"unreadable", right + " > sum.csv; chmod 0 sum.csv", ""},
		{"guess", "cat hidden/sum.csv ../hidden/sum.csv /hidden/sum.csv /evaluation/sum.csv > sum.csv 2>/dev/null; :", "failed artifact_unreadable"},
		{"too large", "yes 1,2 | head -c 30000 > sum.csv", "limit candidate_too_large"},
		{"holes", "truncate -s 20000 sum.csv", "limit candidate_too_large"},
		{"nul", `printf 'a,b\n1,2\0\n' > sum.csv`, "failed artifact_unreadable"},
		{"open quote", `printf 'a,b\n"1,2\n' > sum.csv`, "failed artifact_unreadable"},
		{"two rows in one", `printf 'a,b\n"1,2\n3",4\n' > sum.csv`, "failed wrong_answer"},
		{"all guesses", `printf 'a,b,c\n1,2,3\n' > sum.csv`, "failed wrong_answer"},
	}
}

// TestDeliverables has agents leave files, on each engine: what is right passes however it
// is written, and nothing else does or is an error; the verdicts can be derived again.
func TestDeliverables(t *testing.T) {
	t.Parallel()
	for name, need := range map[string]func(*testing.T) place{"docker": func(t *testing.T) place { return place{engine: "docker", image: needDocker(t)} }, "native": needNative} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "docker" {
				sampletest.Nightly(t, "the same files are delivered natively")
			}
			where, pack := need(t), t.TempDir()
			var rows strings.Builder
			for _, d := range deliveries() {
				row := map[string]any{"id": d.name, "family": "artifact_task", "environment": map[string]any{"image": where.image},
					"input": map[string]any{"brief": d.script, "output_spec": map[string]any{"type": "csv", "path": "sum.csv", "max_bytes": 10000}},
					"eval":  map[string]any{"reference_artifact": map[string]any{"path": "sum.csv"}, "rubric": map[string]any{"type": "table"}}}
				line, err := json.Marshal(row)
				if err != nil {
					t.Fatal(err)
				}
				rows.Write(append(line, '\n'))
			}
			write(t, filepath.Join(pack, "tasks.jsonl"), rows.String())
			if err := os.Mkdir(filepath.Join(pack, "hidden"), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(pack, "hidden", "sum.csv"), "a,b\n1,2\n")
			write(t, filepath.Join(pack, "manifest.yaml"), "id: deliverables\nversion: 1\n")
			write(t, filepath.Join(pack, "tester.yaml"), fmt.Sprintf(`schema_version: "0.2"
run: {id: %s, output_dir: out, max_workers: 2}
benchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}
harness: {type: command, config: {command: [sh, -c, 'eval "$(python3 -c "import json, os; print(json.load(open(os.environ[\"SECUREBENCH_TASK_FILE\"]))[\"brief\"])")"']}}
sandbox: {engine: %s}
`, ownRun("deliverables-"+name), where.engine))
			ran := securebench(t, where.env, "run", filepath.Join(pack, "tester.yaml"), "-q")
			if ran.code != exitDone {
				t.Fatalf("exit %d\n%s%s", ran.code, ran.stdout, ran.stderr)
			}
			records := readRecords(t, filepath.Join(pack, "out", "candidates.jsonl"))
			for _, d := range deliveries() {
				r := records[d.name]
				if len(r) != 1 {
					t.Errorf("%s has %d records", d.name, len(r))
					continue
				}
				if got := r[0].Outcome + " " + r[0].Reason; d.want != "" && got != d.want || strings.HasPrefix(got, "passed") && !strings.HasPrefix(d.want, "passed") {
					t.Errorf("%s: %s, want %s", d.name, got, d.want)
				}
			}
			again := securebench(t, where.env, "reverify", filepath.Join(pack, "out"), "--pack", pack, "--engine", where.engine)
			if again.code != exitDone || !strings.Contains(again.stdout, " 0 different") {
				t.Errorf("again: exit %d\n%s%s", again.code, again.stdout, again.stderr)
			}
		})
	}
}

// TestDeliverablesOfModels: an answer is the file where one of a text is asked for, the
// texts among a row's files are in the question, and a row that asks for a workbook is
// refused before anything is asked.
func TestDeliverablesOfModels(t *testing.T) {
	t.Parallel()
	image, pack := needEngine(t), t.TempDir()
	row := func(id, typ, path string) string {
		reference := `"a,b\n1,2\n"`
		if typ == "xlsx" {
			reference = `{"path":"a.xlsx"}`
		}
		return fmt.Sprintf(`{"id":%q,"family":"artifact_task","environment":{"image":%q},"input":{"brief":"Request %s.","output_spec":{"type":%q,"path":%q}},"eval":{"reference_artifact":%s,"rubric":{"type":%q}}}`+"\n",
			id, image, id, typ, path, reference, map[string]string{"csv": "table", "text": "text", "xlsx": "table"}[typ])
	}
	write(t, filepath.Join(pack, "manifest.yaml"), "id: m\nversion: 1\n")
	if err := os.Mkdir(filepath.Join(pack, "assets"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(pack, "assets", "in.csv"), "x,y\n7,8\n")
	withFile := strings.Replace(row("3", "csv", "a.csv"), `{"id"`, `{"assets":[{"path":"in.csv"}],"id"`, 1)
	write(t, filepath.Join(pack, "tasks.jsonl"), row("0", "csv", "out/a.csv")+row("1", "csv", "a.csv")+row("2", "text", "a.txt")+withFile)
	script := &scripted.Script{Turns: []scripted.Turn{{Say: "OK"}}, Conversations: []scripted.Conversation{
		{Match: "x,y\n7,8", Turns: []scripted.Turn{{Say: "a,b\n1,2"}}},
		{Match: "Request 0.", Turns: []scripted.Turn{{Say: "a,b\n1,2"}}},
		{Match: "Request 1.", Turns: []scripted.Turn{{Say: "```csv\na,b\n1,2\n```"}}},
		{Match: "Request 2.", Turns: []scripted.Turn{{Say: "a,b\n1,3"}}},
	}}
	b := newModelBench(t, script)
	run := func() outcome {
		return securebench(t, nil, "run", pack, "--env-file", b.envFile, "-o", filepath.Join(t.TempDir(), "out"), "--model", "m-1", "--base-url", b.url, "-q")
	}
	if ran := run(); ran.code != exitDone || field(ran.stdout, "passed") != "3" || field(ran.stdout, "verified") != "4" {
		t.Errorf("exit %d\n%s%s", ran.code, ran.stdout, ran.stderr)
	}
	replay := filepath.Join(pack, "said.jsonl")
	write(t, replay, `{"task_id":"0","text":"a,b\n1,2\n"}`+"\n"+`{"task_id":"1","text":"a\n"}`+"\n")
	said := securebench(t, nil, "run", pack, "--agent", "replay:"+replay, "-o", filepath.Join(t.TempDir(), "out"), "-q")
	if said.code != exitDone || field(said.stdout, "passed") != "1" || field(said.stdout, "verified") != "4" {
		t.Errorf("replayed: exit %d\n%s%s", said.code, said.stdout, said.stderr)
	}
	if err := os.Mkdir(filepath.Join(pack, "hidden"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(pack, "hidden", "a.xlsx"), "any")
	write(t, filepath.Join(pack, "tasks.jsonl"), row("0", "xlsx", "a.xlsx"))
	before := len(b.provider.Requests())
	if ran := run(); ran.code == exitDone || !strings.Contains(ran.stderr, "the model harness answers in text") || len(b.provider.Requests()) != before {
		t.Errorf("a workbook: exit %d\n%s%s", ran.code, ran.stdout, ran.stderr)
	}
}

// TestHubDeliverables: workers read files, and references that only the hub had, as the
// machine of the run does.
func TestHubDeliverables(t *testing.T) {
	t.Parallel()
	image := needEngine(t)
	dir, f := t.TempDir(), newMachines(t)
	const right = `a,b\n1,2\n`
	row := func(id, says string) string {
		return fmt.Sprintf(`{"id": %q, "input": {"brief": %q, "output_spec": {"type": "csv", "path": "out/a.csv"}}, "eval": {"reference_artifact": {"path": "a.csv"}, "rubric": {"type": "table"}}}`+"\n", id, says)
	}
	write(t, filepath.Join(dir, "manifest.yaml"), "id: hub-files\nversion: 1\ndefaults: {family: artifact_task, environment: {image: \""+image+"\"}}\n")
	write(t, filepath.Join(dir, "tasks.jsonl"), row("right", "1")+row("wrong", "2")+row("missing", "3"))
	if err := os.Mkdir(filepath.Join(dir, "hidden"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "hidden", "a.csv"), strings.ReplaceAll(right, `\n`, "\n"))
	replay := filepath.Join(dir, "replay.jsonl")
	write(t, replay, `{"task_id": "right", "text": "`+right+`"}`+"\n"+`{"task_id": "wrong", "text": "a,b\n1,3\n"}`+"\n")
	here, there := filepath.Join(t.TempDir(), "here"), filepath.Join(t.TempDir(), "there")
	f.must("run", dir, "--agent", "replay:"+replay, "-o", here, "-q")
	run, addr := f.run(dir, "--agent", "replay:"+replay, "-o", there)
	worker := f.start("worker", "--hub", addr, "--credentials", f.invite("scorers", "verify"))
	f.ends(run, exitDone)
	f.ends(worker, exitDone)
	sameVerdicts(t, there, map[string]string{"right": "passed passed ", "wrong": "failed failed wrong_answer", "missing": "failed no_candidate candidate_missing"})
	if d := cmp.Diff(found(t, here), found(t, there)); d != "" {
		t.Errorf("records (-here +there):\n%s", d)
	}
}
