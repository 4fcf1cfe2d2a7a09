package main

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"securebench/internal/agent/agenttest"
	"securebench/internal/agent/catalogue"
	"securebench/internal/gateway/scripted"
	"securebench/internal/sampletest"
	"securebench/internal/trajectory"
)

// addition is what an operator adds to an agent: something of its own configuration and of
// its command, and how its model calls the tool word of the server notes. An agent that
// takes no servers has a text of its requests that shows the rest.
type addition struct {
	config, args string
	call         scripted.Call
	asks         string
}

func additions() map[string]addition {
	return map[string]addition{
		"codex":          {"{hide_agent_reasoning: true}", "[--color, never]", scripted.Call{Namespace: "mcp__notes", Name: "word"}, ""},
		"claude_code":    {"{includeCoAuthoredBy: false}", "[--exclude-dynamic-system-prompt-sections]", scripted.Call{Name: "mcp__notes__word"}, ""},
		"gemini-cli":     {"{general: {vimMode: true}}", "[--include-directories, /tmp]", scripted.Call{Name: "mcp_notes_word"}, ""},
		"opencode":       {"{snapshot: false}", "[--thinking]", scripted.Call{Name: "notes_word"}, ""},
		"aider":          {"", "[--edit-format, diff, --map-tokens, '0']", scripted.Call{}, "*SEARCH/REPLACE* block"},
		"mini-swe-agent": {"{model: {model_kwargs: {temperature: 0.25}}, environment: {timeout: 9}}", "", scripted.Call{}, `"temperature":0.25`},
		"qwen-code":      {"{general: {vimMode: true}}", "[--max-tool-calls, '9']", scripted.Call{Name: "mcp__notes__word"}, ""},
	}
}

// TestAdditions: what an operator adds comes to the real agents: a server of the model
// context protocol, which they start and whose tool their model calls, values of their
// own configuration, and words of their command. A server is in the sandbox like
// everything of an agent: a hostile one, which fires in a container of its own, reaches
// neither the provider nor its key.
func TestAdditions(t *testing.T) {
	t.Parallel()
	image := needDocker(t)
	all := additions()
	for _, a := range catalogue.Builtin() {
		add, ok := all[a.Name]
		if !ok {
			t.Errorf("nothing is added to %s", a.Name)
			continue
		}
		t.Run(a.Name, func(t *testing.T) {
			if a.Name != "codex" && a.Name != "claude_code" {
				sampletest.Nightly(t, "what is added comes to two agents in the same way")
			}
			version := agenttest.Pinned(a.Name)
			needAgent(t, a.Name+"@"+version)
			if a.Accepts.MCP == nil {
				addsWords(t, a, version, image, add)
				return
			}
			add.call.Arguments = map[string]any{}
			script := &scripted.Script{Turns: []scripted.Turn{{Call: &add.call}, {Say: "Answer: 4"}}}
			b := newAgentBench(t, script, nil)
			b.key = "sk-canary-of-notes-" + b.key
			script.Key = b.key
			address := strings.TrimPrefix(b.url, "http://")
			servers := map[string]string{"WORD: bramble": "bramble"}
			if a.Name == "codex" {
				servers["ADDRESS: '"+address+"'"] = "net-False-key-False"
			}
			for name, want := range servers {
				tester := b.adds(strings.ToLower(name[:4]), a.Name, version, image,
					fmt.Sprintf("files: [notes.py], mcp: {notes: {command: [python3, '{files}/notes.py'], env: {NOTES_%s}}}, config: %s, args: %s", name, add.config, add.args))
				dir := filepath.Dir(tester)
				write(t, filepath.Join(dir, "notes.py"), agentFile(t, "notes.py"))
				if res := securebench(t, b.env(), "run", tester, "-q"); res.code != exitDone {
					t.Fatalf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
				}
				sameVerdicts(t, filepath.Join(dir, "out"), map[string]string{"q": "passed passed "})
				if got := resultsOf(t, filepath.Join(dir, "out")); !strings.Contains(got, "the word is "+want) {
					t.Errorf("%s: the tool says %q, want %s", name, got, want)
				}
			}
		})
	}
	// The attack fires where nothing keeps it.
	upstream := httptest.NewServer(scripted.New(&scripted.Script{}, nil))
	defer upstream.Close()
	text := weakRun(t, []string{"--network=host", "-e", "OPENAI_API_KEY=sk-canary-of-notes", "-e", "NOTES_ADDRESS=" + strings.TrimPrefix(upstream.URL, "http://")}, image,
		"cat > /notes.py <<'EOF'\n"+agentFile(t, "notes.py")+"EOF\n"+`echo '{"id":1,"method":"tools/call"}' | python3 /notes.py`)
	if !strings.Contains(text, "the word is net-True-key-True") {
		t.Errorf("the hostile server does not work even against a weak set-up: %s", text)
	}
}

// TestAgentsTake: the table of docs/agents.md says what each agent takes.
func TestAgentsTake(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(agentsDoc)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range catalogue.Builtin() {
		row := "| `" + a.Name + "` |"
		takes := []bool{a.Accepts.Args != nil, a.Accepts.Config != nil, a.Accepts.MCP != nil}
		for i, name := range []string{"reasoning_effort", "max_turns", "system_prompt"} {
			takes = slices.Insert(takes, i, len(a.Settings[name]) > 0)
		}
		for _, yes := range takes {
			row += map[bool]string{true: " yes |", false: " |"}[yes]
		}
		if !strings.Contains(string(text), row+"\n") {
			t.Errorf("docs/agents.md does not have the row\n%s", row)
		}
	}
}

// adds writes a run of a question whose configuration has more.
func (b *agentBench) adds(run, agent, version, image, more string) (tester string) {
	b.t.Helper()
	tester = b.config(run+"-"+strings.ReplaceAll(agent, "_", "-"), realHarness{agent, "claude-some-1", version}, []map[string]any{{"id": "q", "family": "short_answer",
		"input": map[string]any{"question": "2+2?"}, "eval": map[string]any{"accepted_answers": []string{"4"}}, "environment": map[string]any{"image": image}}})
	yaml, err := os.ReadFile(tester)
	if err != nil {
		b.t.Fatal(err)
	}
	write(b.t, tester, strings.NewReplacer("type: "+agent, "type: agent\n  name: "+agent+"\n  version: "+version, "version: "+version+", base_url", more+", base_url").Replace(string(yaml)))
	return tester
}

// addsWords adds to an agent that takes no servers. What it takes comes to its provider;
// a flag that is not written whole, which no list of refused ones has, comes nowhere.
func addsWords(t *testing.T, a catalogue.Agent, version, image string, add addition) {
	const prompt = "Mind the {{garden}}'s {third} gate."
	b := newAgentBench(t, &scripted.Script{Turns: []scripted.Turn{{Say: "Answer: 4", Run: a.Work.Last}}}, nil)
	more := "system_prompt: \"" + prompt + "\""
	for key, value := range map[string]string{"config": add.config, "args": add.args} {
		if value != "" {
			more += ", " + key + ": " + value
		}
	}
	tester := b.adds("more", a.Name, version, image, more)
	if res := securebench(t, b.env(), "run", tester, "-q"); res.code != exitDone {
		t.Fatalf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
	}
	sameVerdicts(t, filepath.Join(filepath.Dir(tester), "out"), map[string]string{"q": "passed passed "})
	asked := b.provider.Requests()
	for _, r := range asked {
		if !bytes.Contains(r.Body, []byte(add.asks)) || !bytes.Contains(r.Body, []byte(prompt)) {
			t.Errorf("a request without %q or the system prompt: %s", add.asks, r.Body)
		}
	}
	if a.Accepts.Args == nil {
		return
	}
	res := securebench(t, b.env(), "run", b.adds("short", a.Name, version, image, "args: ['--openai-api-b=http://127.0.0.1:1']"), "-q")
	if res.code == exitDone || len(b.provider.Requests()) > len(asked) || !strings.Contains(res.stderr, "unrecognized arguments: --openai-api-b") {
		t.Errorf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
	}
}

// resultsOf are what the tools of a run's only attempt said.
func resultsOf(t *testing.T, out string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(out, "restricted", "*", "*", "agent-steps.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q have steps, %v", files, err)
	}
	lines, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	steps, _, err := trajectory.Read(lines)
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for _, s := range steps {
		if s.By == trajectory.Agent && s.Kind == trajectory.Result {
			said.WriteString(s.Text + "\n")
		}
	}
	return said.String()
}

// TestHostileArgs: a word of the command that has the provider run something is refused
// by its name before anything is made. Where a description does not name it, it comes to
// the agent, and the relay refuses what the agent then asks for.
func TestHostileArgs(t *testing.T) {
	t.Parallel()
	image := needEngine(t)
	provider := scripted.New(&scripted.Script{Open: true, Turns: []scripted.Turn{{Say: "Answer: 4"}}}, nil)
	upstream := httptest.NewServer(provider)
	defer upstream.Close()
	small := newAgent(t, smallAgent, map[string]string{"small.py": agentFile(t, "small.py")})
	describe := strings.NewReplacer("MODE", "works", `"{prompt}"]`, `"{prompt}", "{settings}"]`).Replace(smallAgent) + "accepts: {args: {refuse: [%s]}}\n"
	for name, tt := range map[string]struct {
		refuse, args string
		code         int
		stderr       string
		refused      bool // by the relay
	}{
		"weak":   {"", "[--hosted]", exitInterrupted, "the relay refused", true},
		"ours":   {"--hosted", "[--hosted]", exitConfig, "harness.config.args[0]: --hosted is not the operator's to give", false},
		"honest": {"--hosted", "[--other, '1']", exitDone, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			small.describe(t, fmt.Sprintf(describe, tt.refuse))
			dir := t.TempDir()
			write(t, filepath.Join(dir, "manifest.yaml"), "id: args\nversion: 1\n")
			write(t, filepath.Join(dir, "tasks.jsonl"), `{"id": "a", "family": "short_answer", "environment": {"image": "`+image+`"}, "input": {"question": "2+2?"}, "eval": {"accepted_answers": ["4"]}}`+"\n")
			write(t, filepath.Join(dir, "tester.yaml"), fmt.Sprintf("schema_version: \"0.2\"\nrun: {id: %s, output_dir: out}\nbenchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}\nharness: {type: agent, name: %s, config: {model: m, auth: none, base_url: %q, args: %s}}\n",
				ownRun("args"), small.name, upstream.URL, tt.args))
			before := len(provider.Requests())
			res := securebench(t, small.env, "run", filepath.Join(dir, "tester.yaml"), "-q")
			if res.code != tt.code || !strings.Contains(res.stderr, tt.stderr) {
				t.Errorf("exit %d, want %d with %q\n%s%s", res.code, tt.code, tt.stderr, res.stdout, res.stderr)
			}
			if asked := len(provider.Requests()) > before; asked != (name == "honest") {
				t.Errorf("the provider was asked: %t", asked)
			}
			if records, err := os.ReadFile(filepath.Join(dir, "out", "candidates.jsonl")); strings.Contains(string(records), "external_tools_blocked") != tt.refused {
				t.Errorf("the relay refused: %t, want %t, %v\n%s", !tt.refused, tt.refused, err, records)
			}
		})
	}
}
