package main

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/agent/agenttest"
	"securebench/internal/gateway/scripted"
	"securebench/internal/sampletest"
)

// TestACP: an operator's own agent that speaks the agent client protocol needs nothing but
// its command. It gets its prompt and may do what it asks for, and neither files nor a
// terminal of the client's; what it prints beside the protocol is no answer.
func TestACP(t *testing.T) {
	t.Parallel()
	image, dir := needEngine(t), t.TempDir()
	provider := scripted.New(&scripted.Script{Open: true, Turns: []scripted.Turn{{Say: "Answer: 4"}}}, nil)
	upstream := httptest.NewServer(provider)
	defer upstream.Close()
	want := map[string]string{"honest": "passed passed ", "permission": "passed passed ", "files": "passed passed ", "flood": "passed passed ",
		"forged": "failed no_candidate empty_candidate", "early": "failed no_candidate agent_failed"}
	var rows strings.Builder
	for mode := range want {
		row, err := json.Marshal(map[string]any{"id": mode, "family": "short_answer", "environment": map[string]any{"image": image},
			"input": map[string]any{"question": "2+2? " + mode}, "eval": map[string]any{"accepted_answers": []string{"4"}}})
		if err != nil {
			t.Fatal(err)
		}
		rows.Write(append(row, '\n'))
	}
	write(t, filepath.Join(dir, "acp.py"), agentFile(t, "acp.py"))
	write(t, filepath.Join(dir, "manifest.yaml"), "id: acp\nversion: 1\n")
	write(t, filepath.Join(dir, "tasks.jsonl"), rows.String())
	write(t, filepath.Join(dir, "tester.yaml"), fmt.Sprintf(`schema_version: "0.2"
run: {id: %s, output_dir: out}
benchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}
harness:
  type: command
  config: {command: [python3, /opt/securebench/agent/acp.py], protocol: acp, files: [acp.py], model: m, api: openai_chat, auth: none, base_url: %q}
`, ownRun("acp"), upstream.URL))
	if res := securebench(t, nil, "run", filepath.Join(dir, "tester.yaml"), "-q"); res.code != exitDone {
		t.Fatalf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
	}
	sameVerdicts(t, filepath.Join(dir, "out"), want)
	if n := len(provider.Requests()); n != len(want) {
		t.Errorf("the provider was asked %d times, want %d", n, len(want))
	}
}

// TestRealACP: the agents of the catalogue that speak the protocol pass every step of a
// check by it.
func TestRealACP(t *testing.T) {
	sampletest.Nightly(t, "other agents speak the protocol")
	t.Parallel()
	image := needEngine(t)
	for _, name := range []string{"qwen-code", "opencode", "gemini-cli"} {
		t.Run(name, func(t *testing.T) {
			release := name + "@" + agenttest.Pinned(name)
			needAgent(t, release)
			res := securebench(t, nil, "agent", "check", release, "--acp", "--image", image)
			if res.code != exitDone || strings.Count(res.stdout, " yes ") != 8 {
				t.Errorf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
			}
		})
	}
}
