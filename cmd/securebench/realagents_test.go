package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"securebench/internal/agent/agenttest"
	"securebench/internal/agent/catalogue"
	"securebench/internal/gateway/scripted"
	"securebench/internal/sampletest"
	"securebench/internal/trajectory"
)

// fetched puts the programs of the agents into the cache, once. A download that fails is
// tried again once.
var fetched = sync.OnceValue(func() error {
	for _, release := range agenttest.Releases() {
		if err := fetch(release); err != nil {
			return err
		}
	}
	return nil
})

// fetch puts a program into the cache.
func fetch(release string) error {
	path, err := binary()
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		cmd := exec.Command(path, "agent", "fetch", release)
		out, err := cmd.CombinedOutput()
		if err == nil {
			return nil
		}
		if try == 2 || cmd.ProcessState.ExitCode() != exitInfra {
			return fmt.Errorf("fetching %s: %w: %s", release, err, out)
		}
	}
}

// needAgents skips or fails where the real agents' programs cannot be had.
func needAgents(t *testing.T) {
	t.Helper()
	mode := agenttest.Current()
	if mode == agenttest.Never {
		t.Skip("SKIPPED: SECUREBENCH_TEST_AGENTS=never: no test with the real agents runs")
	}
	err := fetched()
	if err != nil && (mode == agenttest.Require || mode == agenttest.Fetched) {
		t.Fatalf("the agents' programs are required: %v", err)
	}
	if err != nil {
		t.Skipf("SKIPPED: no test with the real agents runs: %v", err)
	}
}

// userDockerfile makes an image whose user is not root. Neither it nor what it
// comes from has Node.
const userDockerfile = `FROM ` + repoImage + `
RUN useradd --uid 4711 --create-home --shell /bin/bash tester && chown -R tester /testbed
USER tester
`

// agentBench runs real agents against a scripted provider.
type agentBench struct {
	t        *testing.T
	dir      string
	key      string
	provider *scripted.Server
	url      string
	images   map[string]string // by user
}

// newAgentBench starts a provider with a script. Its handler may be wrapped.
func newAgentBench(t *testing.T, script *scripted.Script, wrap func(http.Handler) http.Handler) *agentBench {
	t.Helper()
	needEngine(t)
	needAgents(t)
	b := &agentBench{t: t, dir: t.TempDir(), key: canaries{}.text("key"), images: map[string]string{
		"root": repoImage, "tester": corpusImage(t, "real-agents", userDockerfile)}}
	script.Key = b.key
	b.provider = scripted.New(script, nil)
	handler := http.Handler(b.provider)
	if wrap != nil {
		handler = wrap(handler)
	}
	upstream := httptest.NewServer(handler)
	t.Cleanup(upstream.Close)
	b.url = upstream.URL
	return b
}

// config writes a pack of rows and a tester YAML for an agent, and returns the
// latter.
func (b *agentBench) config(runID string, h realHarness, rows []map[string]any) (tester string) {
	b.t.Helper()
	dir := filepath.Join(b.dir, runID)
	if err := os.Mkdir(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	var lines bytes.Buffer
	for _, row := range rows {
		line, err := json.Marshal(row)
		if err != nil {
			b.t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	write(b.t, filepath.Join(dir, "tasks.jsonl"), lines.String())
	write(b.t, filepath.Join(dir, "manifest.yaml"), "id: real-agents\nversion: 1\n")
	tester = filepath.Join(dir, "tester.yaml")
	write(b.t, tester, fmt.Sprintf(`schema_version: "0.2"
run: {id: %s, output_dir: out, max_workers: 2}
benchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}
harness:
  type: %s
  config: {model: %s, version: %s, base_url: %q}
`, ownRun(runID), h.harness, h.model, h.version, b.url))
	return tester
}

// env gives the key to the command.
func (b *agentBench) env() []string {
	return []string{"OPENAI_API_KEY=" + b.key, "ANTHROPIC_API_KEY=" + b.key, "GEMINI_API_KEY=" + b.key}
}

// realHarness is an agent.
type realHarness struct{ harness, model, version string }

// The agents: both versions of Codex, and a model of each of its dialects.
const (
	plainModel  = "gpt-5.5"
	codeModel   = "gpt-6-astra"
	claudeModel = "claude-sonnet-5-5"
)

func oldCodex(model string) realHarness {
	return realHarness{"codex", model, agenttest.Versions("codex")[0]}
}

func newCodex(model string) realHarness {
	return realHarness{"codex", model, agenttest.Versions("codex")[1]}
}

func claude(model string) realHarness {
	return realHarness{"claude_code", model, agenttest.Versions("claude_code")[0]}
}

// sampleRow reads a row of a pack of this repository.
func sampleRow(t *testing.T, pack, id string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "packs", pack, "tasks.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var row map[string]any
		if err := json.Unmarshal(line, &row); err != nil {
			t.Fatal(err)
		}
		if row["id"] == id {
			return row
		}
	}
	t.Fatalf("%s has no row %s", pack, id)
	return nil
}

// solvableRows are a row of each family, by name and user, such as code/root.
// The scripts of the package scripted solve them.
func (b *agentBench) solvableRows() map[string]map[string]any {
	out := map[string]map[string]any{}
	code, repo := sampleRow(b.t, "humaneval-sample", "HumanEval/0"), sampleRow(b.t, "quixbugs", "quixbugs__bitcount")
	for user, image := range b.images {
		for name, row := range map[string]map[string]any{
			"code": {"family": "code_completion", "input": code["input"], "eval": code["eval"], "environment": map[string]any{"image": image}},
			"repo": {"family": "repo_patch", "input": repo["input"], "eval": repo["eval"], "environment": map[string]any{"image": image, "workdir": "/testbed"}},
			"term": {"family": "terminal_task", "input": map[string]any{"instructions": "Create a file called hello.txt that says: Hello, world!"},
				"eval": map[string]any{"checker": map[string]any{"command": []string{"grep", "-qx", "Hello, world!", "hello.txt"}}}, "environment": map[string]any{"image": image}},
		} {
			id := name + "/" + user
			row["id"] = id
			out[id] = row
		}
	}
	return out
}

// solvingScript solves the rows, and says who the agent is.
func solvingScript(t *testing.T) *scripted.Script {
	t.Helper()
	s, err := scripted.Load(filepath.Join("..", "..", "internal", "gateway", "scripted", "testdata", "rows.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Conversations {
		turn := &s.Conversations[i].Turns[1]
		if turn.Run == "" {
			s.Conversations[i].Turns = slices.Insert(s.Conversations[i].Turns, 1, scripted.Turn{})
			turn = &s.Conversations[i].Turns[1]
		}
		turn.Run = strings.TrimPrefix(turn.Run+"; ", "; ") + whoAmI
	}
	return s
}

// whoAmI is a command without substitutions, which Gemini CLI refuses, of programs that
// small images have.
const whoAmI = `{ echo The agent is; id -un; echo with key; env | grep -c -e ^OPENAI_API_KEY= -e ^ANTHROPIC_API_KEY= -e ^GEMINI_API_KEY=; command -v node || echo without Node.; } | xargs echo`

// TestRealAgents: the real Codex, in two versions and for models of both of its
// dialects, and the real Claude Code solve tasks of the three families that an
// agent works on, as root and as another user, in images without Node. Their
// runs verify, and score the same again.
func TestRealAgents(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		realHarness
		rows []string
	}{
		"codex-old-plain": {oldCodex(plainModel), []string{"code/root", "repo/tester", "term/root"}},
		"codex-new-code":  {newCodex(codeModel), []string{"code/tester", "repo/root", "term/tester"}},
		"claude":          {claude("sonnet"), []string{"code/tester", "repo/root", "term/tester", "term/root"}},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.version != agenttest.Pinned(tt.harness) {
				sampletest.Nightly(t, "the newest release runs")
			}
			b := newAgentBench(t, solvingScript(t), nil)
			all, want := b.solvableRows(), map[string]string{}
			var rows []map[string]any
			for _, id := range tt.rows {
				rows, want[id] = append(rows, all[id]), "passed passed "
			}
			tester := b.config(name, tt.realHarness, rows)
			res := securebench(t, b.env(), "run", tester, "-q")
			if res.code != exitDone {
				t.Fatalf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
			}
			out := filepath.Join(filepath.Dir(tester), "out")
			sameVerdicts(t, out, want)
			b.checkRequests(tt.realHarness, tt.rows)
			checkManifest(t, out, tt.realHarness)
			checkSteps(t, out, len(rows), false)
			checkAgain(t, out, tester, want)
			if !t.Failed() && tt.version == agenttest.Pinned(tt.harness) {
				a, _ := catalogue.Find(tt.harness)
				checkAgentRow(t, a, tt.version)
			}
		})
	}
}

// checkRequests checks what came to the provider.
func (b *agentBench) checkRequests(h realHarness, rows []string) {
	b.t.Helper()
	if got := b.provider.Credentials(); !slices.Equal(got, []string{b.key}) {
		b.t.Errorf("the provider got %d credentials, want only the key", len(got))
	}
	users, codes := map[string]int{}, 0
	for _, r := range b.provider.Requests() {
		if r.Refused != "" || !r.Stream {
			b.t.Errorf("a request that a provider would refuse: %s", r.Refused)
		}
		if !strings.HasPrefix(r.Model, strings.Replace(h.model, "sonnet", "claude-sonnet-", 1)) {
			b.t.Errorf("a request for the model %s", r.Model)
		}
		if slices.ContainsFunc(r.Tools, func(t scripted.Tool) bool { return t.Name == "exec" }) {
			codes++
		}
		for user := range b.images {
			if bytes.Contains(r.Body, []byte("The agent is "+user+" with key 1 without Node.")) {
				users[user]++
			}
		}
	}
	if (codes > 0) != (h.model == codeModel) {
		b.t.Errorf("%d requests in code mode for the model %s", codes, h.model)
	}
	for user := range b.images {
		wants := slices.ContainsFunc(rows, func(id string) bool { return strings.HasSuffix(id, "/"+user) })
		if wants != (users[user] > 0) {
			b.t.Errorf("agents that ran as %s made %d requests", user, users[user])
		}
	}
}

// checkSteps checks that the steps of honest agents are told: calls of tools and their
// results, and nothing that their model is not known to have said.
// An attempt that a command ends has no result of it.
func checkSteps(t *testing.T, out string, attempts int, endedByCommand bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(out, "restricted", "*", "*", "agent-steps.jsonl"))
	if err != nil || len(files) != attempts {
		t.Errorf("%d attempts of %d have steps, %v", len(files), attempts, err)
	}
	for _, name := range files {
		lines, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		steps, left, err := trajectory.Read(lines)
		calls, results, said, answers := map[string]bool{}, 0, 0, 0
		for _, s := range steps {
			switch {
			case s.By == trajectory.Model && s.Kind == trajectory.Call:
				calls[s.Call] = true
			case s.By == trajectory.Agent && s.Kind == trajectory.Result && calls[s.Call] && s.Text != "":
				results++
			case s.By == trajectory.Model && s.Kind == trajectory.Message:
				said++
			case s.Kind == trajectory.Answer && s.Usage != nil && s.Usage.Output > 0:
				answers++
			case s.By == trajectory.Agent && (s.Kind != trajectory.Message || s.Role == "assistant"):
				t.Errorf("%s: the agent makes up %+v", name, s)
			}
		}
		if endedByCommand {
			results++
		}
		if err != nil || left > 0 || len(calls) == 0 || results != len(calls) || said == 0 || answers < 2 {
			t.Errorf("%s: %d calls, %d results, %d messages, %d answers, %d left out, %v", name, len(calls), results, said, answers, left, err)
		}
	}
}

// checkManifest checks that a run says which program and model it ran.
func checkManifest(t *testing.T, out string, h realHarness) {
	t.Helper()
	var m struct {
		Model    string `json:"model"`
		Programs []struct{ Name, Version, Integrity, Digest string }
	}
	data, err := os.ReadFile(filepath.Join(out, "run.json"))
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{h.harness: h.version} // and what runs it
	if a, ok := catalogue.Find(h.harness); ok {
		for _, by := range a.Program.Runtimes() {
			want[by.Name] = by.Exact
		}
	}
	for _, p := range m.Programs {
		if want[p.Name] != p.Version || !strings.HasPrefix(p.Integrity, "sha") || p.Digest == "" {
			t.Errorf("the run manifest has the program %+v, want those of %v", p, want)
		}
		delete(want, p.Name)
	}
	if len(want) > 0 {
		t.Errorf("the run manifest has the programs %+v, and not %v", m.Programs, want)
	}
	if m.Model == "" || m.Model == "sonnet" {
		t.Errorf("the run manifest has the model %q", m.Model)
	}
}
