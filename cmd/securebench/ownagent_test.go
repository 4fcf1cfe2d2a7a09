package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/gateway/scripted"
)

// ownExample copies examples/own-agent beside the packs, with a provider of the test's
// own, and returns its tester YAML.
func ownExample(t *testing.T, baseURL string) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	at := filepath.Join(dir, "examples", "own-agent")
	if err := os.CopyFS(at, os.DirFS(filepath.Join(root, "examples", "own-agent"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "packs"), filepath.Join(dir, "packs")); err != nil {
		t.Fatal(err)
	}
	tester := filepath.Join(at, "scripted.yaml")
	text, err := os.ReadFile(tester)
	if err != nil {
		t.Fatal(err)
	}
	const fixed = "http://127.0.0.1:7113"
	if strings.Count(string(text), fixed) != 1 {
		t.Fatalf("%s does not have %s once", tester, fixed)
	}
	write(t, tester, strings.Replace(string(text), fixed, baseURL, 1))
	return tester
}

// TestOwnAgentExample: the agent of examples/own-agent solves the tasks that its
// scripted model knows, and the provider's key is nowhere in what the run leaves.
func TestOwnAgentExample(t *testing.T) {
	t.Parallel()
	needEngine(t)
	script, err := scripted.Load(filepath.Join("..", "..", "examples", "own-agent", "model.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	provider := scripted.New(script, nil)
	upstream := httptest.NewServer(provider)
	defer upstream.Close()
	tester := ownExample(t, upstream.URL)
	const key = "sk-canary-0f6b2d91c4"
	res := securebench(t, []string{"OPENAI_API_KEY=" + key}, "run", "--config", tester, "-q", "--limit", "4")
	if res.code != exitDone || !strings.Contains(res.stdout, "total=4 verification=complete verified=4 passed=3 ") {
		t.Fatalf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
	}
	out := filepath.Join(filepath.Dir(tester), "..", "..", "runs", "own-agent")
	for _, r := range provider.Requests() {
		if r.Refused != "" || strings.Join(r.Credentials, " ") != key {
			t.Errorf("a request of the relay: refused %q, credentials %q", r.Refused, r.Credentials)
		}
	}
	err = filepath.WalkDir(out, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		if strings.Contains(string(content), key) {
			t.Errorf("%s has the provider's key", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if res := securebench(t, nil, "verify", out); res.code != exitDone {
		t.Errorf("verify: %d %s", res.code, res.stderr)
	}
	// Another agent is another run.
	agent := filepath.Join(filepath.Dir(tester), "agent", "agent.py")
	text, err := os.ReadFile(agent)
	if err != nil {
		t.Fatal(err)
	}
	write(t, agent, string(text)+"\n")
	res = securebench(t, []string{"OPENAI_API_KEY=" + key}, "run", "--config", tester, "-q", "--limit", "4", "--resume")
	if res.code != exitRefused || !strings.Contains(res.stderr, "setting agent_files: was ") {
		t.Errorf("exit %d: %s", res.code, res.stderr)
	}
}

// TestOwnAgentWithoutKey: the example asks for no key where its model is served on this
// machine without one, and a model that the server does not have ends the run in one line
// that names it.
func TestOwnAgentWithoutKey(t *testing.T) {
	t.Parallel()
	needEngine(t)
	script, err := scripted.Load(filepath.Join("..", "..", "examples", "own-agent", "model.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	script.Models = []string{"scripted"}
	provider := scripted.New(script, nil)
	upstream := httptest.NewServer(provider)
	defer upstream.Close()
	tester := ownExample(t, upstream.URL)
	res := securebench(t, []string{"OPENAI_API_KEY="}, "run", "--config", tester, "-q", "--limit", "1")
	if res.code != exitDone || !strings.Contains(res.stdout, " verified=1 ") {
		t.Fatalf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
	}
	for _, r := range provider.Requests() {
		if r.Refused != "" || len(r.Credentials) > 0 {
			t.Errorf("a request of the relay: refused %q, credentials %q", r.Refused, r.Credentials)
		}
	}
	text, err := os.ReadFile(tester)
	if err != nil {
		t.Fatal(err)
	}
	write(t, tester, strings.Replace(string(text), "model: scripted", "model: another", 1))
	res = securebench(t, []string{"OPENAI_API_KEY="}, "run", "--config", tester, "-q", "--limit", "1", "--force")
	if res.code != exitConfig || strings.Count(res.stderr, "error:") != 1 || !strings.Contains(res.stderr, `it does not know the model "another"`) {
		t.Errorf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
	}
}

// looks is an agent that answers only if its files are as they should be, and if it
// has no key.
const looks = `#!/bin/sh
cd /opt/securebench/agent || exit 9
[ "$SECUREBENCH_AGENT_FILES" = "$PWD" ] && [ "$SECUREBENCH_MODEL" = m ] || { echo "variables" >&2; exit 8; }
[ "$(stat -c '%u %a' looks)" = "0 755" ] && [ "$(stat -c '%u %a' data/note)" = "0 644" ] || { ls -lR >&2; exit 7; }
[ "$(cat now/note)" = note ] || { echo "link" >&2; exit 6; }
for attempt in "echo x > data/note" "touch new" "rm looks" "mkdir data/x"; do
	if (eval "$attempt") 2>/dev/null; then echo "it can be written: $attempt" >&2; exit 5; fi
done
case "$OPENAI_API_KEY" in *canary*|"") echo "the key" >&2; exit 4 ;; esac
echo "Answer: 4"
`

// TestOwnAgentFiles: on each engine, the files of an agent are there, can be executed
// and not written, and a command that is not there ends the run before the first task.
func TestOwnAgentFiles(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"docker", "native"} {
		t.Run(engine, func(t *testing.T) {
			if engine == "docker" {
				needDocker(t)
			} else if !nativeRuns() {
				t.Skip("the native engine does not run here")
			}
			dir := t.TempDir()
			if err := os.MkdirAll(filepath.Join(dir, "agent", "data"), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "agent", "looks"), looks)
			write(t, filepath.Join(dir, "agent", "data", "note"), "note")
			if err := os.Chmod(filepath.Join(dir, "agent", "looks"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("data", filepath.Join(dir, "agent", "now")); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "manifest.yaml"), "id: own\nversion: 1\n")
			write(t, filepath.Join(dir, "tasks.jsonl"), `{"id": "a", "family": "short_answer", "input": {"question": "2+2?"}, "eval": {"accepted_answers": ["4"]}}`+"\n")
			tester := func(command string) string {
				write(t, filepath.Join(dir, "tester.yaml"), `schema_version: "0.2"
run: {id: own, output_dir: out}
benchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}
harness:
  type: command
  config: {files: agent, command: `+command+`, image: "`+testImage()+`", model: m, base_url: "http://127.0.0.1:1"}
`)
				return filepath.Join(dir, "tester.yaml")
			}
			upstream := httptest.NewServer(scripted.New(&scripted.Script{}, nil))
			defer upstream.Close()
			run := func(command string) outcome {
				file := tester(command)
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				write(t, file, strings.Replace(string(text), "http://127.0.0.1:1", upstream.URL, 1))
				return securebench(t, []string{"OPENAI_API_KEY=sk-canary-0f6b2d91c4"}, "run", file, "-q", "--force", "--engine", engine)
			}
			for _, command := range []string{"[/opt/securebench/agent/looks]", "/opt/securebench/agent/looks"} {
				if res := run(command); res.code != exitDone || !strings.Contains(res.stdout, "passed=1 ") {
					t.Errorf("%s: exit %d\n%s%s", command, res.code, res.stdout, lastRecord(dir))
				}
			}
			if engine == "docker" { // on which each run takes seconds; internal/sandbox/initproc has the rest
				return
			}
			for command, want := range map[string]string{
				"[looks]":                             "has no command looks that its user can execute",
				"looks --now":                         "has no command looks that its user can execute",
				"[/opt/securebench/agent/data/note]":  "the agent's user cannot execute data/note (chmod +x that file of harness.config.files, ",
				"[sh, /opt/securebench/agent/nosuch]": "harness.config.files has no nosuch",
			} {
				res := run(command)
				if line := errorLine(t, res); res.code != exitConfig || !strings.Contains(line, "tester.yaml:6:35: harness.config.command") || !strings.Contains(line, want) {
					t.Errorf("%s: exit %d: %s", command, res.code, line)
				}
			}
		})
	}
}

// lastRecord is what the run in a folder recorded.
func lastRecord(dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, "out", "candidates.jsonl"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}
