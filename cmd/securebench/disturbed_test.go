package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/awaittest"
	"securebench/internal/sampletest"
)

// TestSomebodyElsesKill: a sandbox that is killed or stopped from outside
// costs a try but gives no verdict, and the record shows it. The twins do the
// same to themselves.
func TestSomebodyElsesKill(t *testing.T) {
	t.Parallel()
	image := needDocker(t)
	const right = "def add(a, b):\n    return a + b\n"
	cases := []struct {
		name, role string
		action     []string // nil is nothing
		candidate  string
		outcome    string
		reason     string
		says       string // of the try that was lost
	}{
		{"the agent is killed", "agent", []string{"kill"}, right, "passed", "", `disturbed from outside: the engine's events show "kill"`},
		{"the agent is stopped", "agent", []string{"stop", "-t", "0"}, right, "passed", "", `disturbed from outside: the engine's events show "kill"`},
		{"the agent is removed", "agent", []string{"rm", "-f"}, right, "passed", "", "disturbed from outside"},
		{"the agent is paused", "agent", []string{"pause"}, right, "passed", "", `disturbed from outside: its container is paused`},
		{"the candidate sandbox is killed", "candidate", []string{"kill"}, right, "passed", "", `running the candidate: running a sandbox: the sandbox was disturbed from outside`},
		// The wait for the paused sandbox ends where it is, before or after the candidate's start.
		{"the candidate sandbox is paused", "candidate", []string{"pause"}, right, "passed", "", "verifying: "},
		{"the holder is killed", "workspace", []string{"kill"}, right, "passed", "", "the workspace's container"},
		{"the holder is removed", "workspace", []string{"rm", "-f"}, right, "passed", "", "the workspace's container"},
		{"itself", "", nil, "import os\nos.kill(os.getpid(), 9)\nos._exit(137)\n", "failed", "worker_exited", ""},
		{"itself, later", "", nil, "import os\ndef add(a, b):\n    os._exit(143)\n", "failed", "worker_exited", ""},
	}
	for _, c := range sampletest.Of(t, 3, cases) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir, run := t.TempDir(), ownRun(strings.NewReplacer(" ", "-", ",", "").Replace(c.name))
			disturbedPack(t, dir, image, run, c.candidate)
			p := background(t, dir, nil, "run", "tester.yaml", "-o", "out", "--progress", "plain")
			if c.action != nil {
				var id string
				awaittest.Until(t, "the agent", func() bool {
					ids := map[string]string{} // by role
					for line := range strings.Lines(dockerOutput(t, "ps", "--filter", "label=securebench.run="+run, "--filter", "status=running",
						"--format", `{{.Label "securebench.role"}} {{.ID}}`)) {
						role, found, _ := strings.Cut(strings.TrimSpace(line), " ")
						ids[role] += found + " "
					}
					id = ids[c.role]
					return ids["agent"] != "" && id != ""
				})
				dockerOutput(t, append(c.action, strings.Fields(id)...)...)
			}
			res := p.ended(t, hung)
			if res.code != exitDone {
				t.Fatalf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
			}
			checkDisturbed(t, dir, c.outcome, c.reason, c.says)
			if there := leftovers(t, run); len(there) != 0 {
				t.Errorf("on the engine are left: %v", there)
			}
			verified(t, filepath.Join(dir, "out"))
		})
	}
}

// disturbedPack makes a run of one task whose agent leaves time for a look at it.
func disturbedPack(t *testing.T, dir, image, run, candidate string) {
	t.Helper()
	row, err := json.Marshal(map[string]any{"id": "add", "input": map[string]any{"prompt": "Define add(a, b)."},
		"eval": map[string]any{"tests": map[string]any{"source": "inline", "code": "assert add(2, 3) == 5\n"}}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "tasks.jsonl"), string(row)+"\n")
	write(t, filepath.Join(dir, "manifest.yaml"), "id: disturbed\nversion: 1\ndefaults:\n  family: code_completion\n  environment:\n    image: "+image+"\n")
	script, err := json.Marshal("sleep 8; cat <<'END'\n" + candidate + "END\n")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "tester.yaml"), `schema_version: "0.2"
run: {id: `+run+`, output_dir: out, max_workers: 1}
benchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}
limits: {verify_seconds: 12}
harness:
  type: command
  config:
    timeout_seconds: 25
    command: ["sh", "-c", `+string(script)+`]
`)
}

// checkDisturbed checks the only record of a run.
func checkDisturbed(t *testing.T, dir, outcome, reason, says string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "out", "candidates.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Outcome string `json:"outcome"`
		Reason  string `json:"failure_reason"`
		Retries []struct {
			Error string `json:"error"`
		} `json:"retries"`
	}
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Outcome != outcome || got.Reason != reason {
		t.Errorf("outcome %s, reason %s; want %s, %s", got.Outcome, got.Reason, outcome, reason)
	}
	switch {
	case says == "" && len(got.Retries) > 0, says != "" && len(got.Retries) != 1:
		t.Errorf("retries: %+v", got.Retries)
	case says != "" && !strings.Contains(got.Retries[0].Error, says):
		t.Errorf("the lost try says %q, want %q", got.Retries[0].Error, says)
	}
}
