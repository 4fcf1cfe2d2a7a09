package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/gateway/scripted"
)

// callsRow is a row of tool_call, with what attacks it and an honest answer.
type callsRow struct{ id, expected, attack, twin string }

// callsAttacks are the attacks on stated calls, each with a twin.
func callsAttacks() []callsRow {
	const expects, right = `[{"name":"tank.pump","arguments":{"litres":10}}]`, `{"name":"tank.pump","arguments":{"litres":10}}`
	const two = `[{"name":"tank.pump","accepted":{"litres":[10,20]}},{"name":"tank.pump","accepted":{"litres":[10]}}]`
	call := func(args string) string { return `{"name":"tank.pump","arguments":{` + args + `}}` }
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	return []callsRow{
		{"C1", expects, `[` + right + `,` + call(`"litres":11`) + `,{"name":"tank.stop","arguments":{}}]`, `[` + right + `]`},
		{"C1-blocks", expects, "```\n" + right + "\n```\n```\n" + call(`"litres":11`) + "\n```", "The call is\n```json\n" + right + "\n```\nand no other."},
		{"C2", expects, `[` + right + `,` + right + `]`, `{"arguments":{"litres":10},"name":"tank.pump"}`},
		{"C3", expects, `[` + right + `,{"name":"tank.stop","arguments":{}}]`, `<tool_call>` + right + `</tool_call>`},
		{"C4", expects, call(`"litres":9,"litres":10`), `{"function":{"name":"tank.pump","arguments":"{\"litres\":10}"}}`},
		{"C5-text", expects, call(`"litres":"10"`), call(`"litres":10.0`)},
		{"C5-true", expects, call(`"litres":true`), call(`"litres":1e1`)},
		{"C5-huge", expects, call(`"litres":1e400`), `{"tank.pump":{"litres":10}}`},
		{"C5-near", expects, call(`"litres":10.0000000000000001`), call(`"litres":10.0000000000000000`)},
		{"C6", expects, `[tank.pump(litres=__import__("os").getpid())]`, `[tank.pump(litres=10)]`},
		{"C7", expects, `{"name":"tаnk.pump","arguments":{"litres":10}}`, `{"name":"tank_pump","arguments":{"litres":10}}`},
		{"C8-more", expects, call(`"litres":10,"unit":"l"`), `tank.pump(litres=10.0)`},
		{"C8-default", expects, call(`"litres":10,"fast":false`), right},
		{"C9", expects, call(`"litres":-10`), call(`"litres":10`)},
		{"C10", `[]`, `[` + call(`"litres":10`), `None of the tools can do this.`},
		{"C11", expects, `<think>` + right + `</think>I would rather not.`, `<think>` + call(`"litres":9`) + `</think>` + right},
		{"C12", expects, "Answer with one JSON list that has an object for each call, and with nothing else.", right + "\n"},
		{"C13", expects, call(`"litres":10,"fast":` + deep), "\n\n" + right},
		{"C14", two, `[` + right + `,` + call(`"litres":30`) + `]`, `[` + right + `,` + call(`"litres":20`) + `]`},
		{"nothing", `[]`, "   ", `[]`},
	}
}

// writeCalls writes a pack of these rows, and the attacks and twins as replay files.
func writeCalls(t *testing.T, rows []callsRow) (pack, attacks, twins string) {
	t.Helper()
	dir := t.TempDir()
	pack, attacks, twins = filepath.Join(dir, "pack"), filepath.Join(dir, "attacks.jsonl"), filepath.Join(dir, "twins.jsonl")
	const tools = `[{"name":"tank.pump","parameters":{"type":"object","properties":{"litres":{"type":"number"},"fast":{"type":"boolean","default":false}},"required":["litres"]}},{"name":"tank.stop","parameters":{}}]`
	var lines, attack, twin strings.Builder
	for i, r := range rows {
		fmt.Fprintf(&lines, `{"id":%q,"family":"tool_call","input":{"prompt":"Request %d.","tools":%s},"eval":{"expected_calls":%s}}`+"\n", r.id, i, tools, r.expected)
		for to, text := range map[*strings.Builder]string{&attack: r.attack, &twin: r.twin} {
			b, err := json.Marshal(map[string]string{"task_id": r.id, "text": text})
			if err != nil {
				t.Fatal(err)
			}
			to.Write(append(b, '\n'))
		}
	}
	if err := os.Mkdir(pack, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(pack, "manifest.yaml"), "id: calls\nversion: 1\n")
	write(t, filepath.Join(pack, "tasks.jsonl"), lines.String())
	write(t, attacks, attack.String())
	write(t, twins, twin.String())
	return pack, attacks, twins
}

// TestStatedCalls fires the attacks on stated calls at the program: none passes, every
// twin does, and so when verdicts are derived again. No engine is needed.
func TestStatedCalls(t *testing.T) {
	t.Parallel()
	rows := callsAttacks()
	pack, attacks, twins := writeCalls(t, rows)
	if checked := securebench(t, nil, "validate", pack); checked.code != exitDone {
		t.Fatalf("the rows: exit %d\n%s%s", checked.code, checked.stdout, checked.stderr)
	}
	for file, want := range map[string]int{attacks: 0, twins: len(rows)} {
		out := filepath.Join(t.TempDir(), "out")
		ran := securebench(t, nil, "run", pack, "--agent", "replay:"+file, "-o", out, "-q")
		if ran.code != exitDone || field(ran.stdout, "passed") != fmt.Sprint(want) || field(ran.stdout, "verified") != fmt.Sprint(len(rows)) {
			t.Errorf("%s: exit %d, want %d passes\n%s%s", filepath.Base(file), ran.code, want, ran.stdout, ran.stderr)
		}
		again := securebench(t, nil, "reverify", out, "--pack", pack)
		if equal := fmt.Sprintf("%d equal, 0 different", len(rows)); again.code != exitDone || !strings.Contains(again.stdout, equal) {
			t.Errorf("again: exit %d\n%s%s", again.code, again.stdout, again.stderr)
		}
	}
}

// TestCallsSample: the sample of BFCL is sound, and validate says what declining passes.
func TestCallsSample(t *testing.T) {
	t.Parallel()
	pack := patient(t, filepath.Join("..", "..", "packs", "bfcl-sample"))
	rows, err := os.ReadFile(filepath.Join(pack, "tasks.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	declined, all := bytes.Count(rows, []byte(`"expected_calls":[]`)), bytes.Count(rows, []byte("\n"))
	checked := securebench(t, nil, "pack", "check", pack, "--strict")
	valid := securebench(t, nil, "validate", pack, "--strict")
	if checked.code != exitDone || valid.code != exitDone || strings.Contains(checked.stderr+valid.stderr, "warning") {
		t.Errorf("exits %d and %d\n%s%s%s", checked.code, valid.code, checked.stderr, valid.stdout, valid.stderr)
	}
	for _, rate := range []string{fmt.Sprintf(`"declining", which passes %d of %d rows`, declined, all), `"every tool", which passes 0 of`, `"nothing", which passes 0 of`} {
		if !strings.Contains(valid.stdout, rate) {
			t.Errorf("validate does not say %s:\n%s", rate, valid.stdout[max(0, len(valid.stdout)-600):])
		}
	}
}

// TestServedToolsArePending: a row whose tools must be called loads, says what is missing,
// and its agent is not run; one that doing nothing would pass is refused.
func TestServedToolsArePending(t *testing.T) {
	t.Parallel()
	pack := t.TempDir()
	write(t, filepath.Join(pack, "manifest.yaml"), "id: served\nversion: 1\n")
	row := func(eval string) {
		write(t, filepath.Join(pack, "tasks.jsonl"), `{"id":"a","family":"tool_call","input":{"prompt":"p","tools":[{"name":"f","parameters":{}}]},"eval":`+eval+`}`+"\n")
	}
	row(`{"expected_calls":[{"name":"f"}],"initial_state":{},"simulator":{"source":"python","path":"x.py","class":"X"}}`)
	out := filepath.Join(t.TempDir(), "out")
	ran := securebench(t, nil, "run", pack, "--agent", "null", "-o", out, "-q")
	if ran.code != exitDone || field(ran.stdout, "verified") != "0" || field(ran.stdout, "total") != "1" {
		t.Errorf("exit %d\n%s%s", ran.code, ran.stdout, ran.stderr)
	}
	shown := securebench(t, nil, "show", out, "a")
	if !strings.Contains(shown.stdout, "simulator (eval.simulator)") {
		t.Errorf("the record does not say what is missing:\n%s%s", shown.stdout, shown.stderr)
	}
	row(`{"expected_calls":[],"simulator":{"source":"mcp","command":["x"]}}`)
	if checked := securebench(t, nil, "pack", "check", pack); checked.code != exitPack || !strings.Contains(checked.stderr, "would be passed by doing nothing") {
		t.Errorf("exit %d\n%s%s", checked.code, checked.stdout, checked.stderr)
	}
}

// TestCallsOfModels: a model is offered the tools over each API; the calls that come back
// are the candidate, and so is a text without any.
func TestCallsOfModels(t *testing.T) {
	t.Parallel()
	rows := []callsRow{
		{id: "call", expected: `[{"name":"tank.pump","arguments":{"litres":10}}]`},
		{id: "wrong", expected: `[{"name":"tank.pump","arguments":{"litres":20}}]`},
		{id: "decline", expected: `[]`},
		{id: "text", expected: `[{"name":"tank.stop"}]`},
	}
	pack, _, _ := writeCalls(t, rows)
	pump := &scripted.Call{Name: "tank_pump", Arguments: map[string]any{"litres": 10}}
	script := &scripted.Script{Turns: []scripted.Turn{{Say: "OK"}}, Conversations: []scripted.Conversation{
		{Match: "Request 0.", Turns: []scripted.Turn{{Say: "I pump.", Call: pump}}},
		{Match: "Request 1.", Turns: []scripted.Turn{{Call: pump}}},
		{Match: "Request 2.", Turns: []scripted.Turn{{Say: "No tool fits."}}},
		{Match: "Request 3.", Turns: []scripted.Turn{{Say: "tank_stop()"}}},
	}}
	b := newModelBench(t, script)
	for _, api := range []string{"responses", "chat", "messages"} {
		b.out = filepath.Join(t.TempDir(), "out")
		code, stdout, stderr := b.run(pack, "--model", "m-1", "--base-url", b.url, "--api", api, "-q")
		if code != exitDone || field(stdout, "passed") != "3" || field(stdout, "verified") != "4" {
			t.Errorf("%s: exit %d\n%s%s", api, code, stdout, stderr)
		}
		all := b.provider.Requests()
		for _, r := range all[len(all)-4:] {
			if !bytes.Contains(r.Body, []byte(`"name":"tank_stop"`)) || bytes.Contains(r.Body, []byte("State which of the tools")) {
				t.Errorf("%s: the question is %s", api, r.Body)
			}
		}
	}
}
