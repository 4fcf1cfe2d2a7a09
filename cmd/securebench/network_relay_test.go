package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// agentCorpora are the harnesses of agents' programs, with a model of each, and the further
// APIs that a command speaks.
var agentCorpora = map[string]string{"codex": "gpt-1", "claude_code": "claude-one-1", "openai_chat": "chat-1", "gemini": "gemini-1"}

// isProgram reports whether a corpus is that of an agent's program.
func isProgram(api string) bool { return api == "codex" || api == "claude_code" }

// maxAsked is the budget of requests of the corpus, for one attempt.
const maxAsked = 40

// ofRelay returns a script of testdata/network for a relay.
func ofRelay(t *testing.T, name, api, address string) string {
	t.Helper()
	common, err := networkScripts.ReadFile("testdata/network/common.py")
	if err != nil {
		t.Fatal(err)
	}
	script := pythonOf(t, name, "API="+api+" RELAY="+address)
	return strings.Replace(script, "<<'END'\n", "<<'END'\n"+string(common), 1)
}

// relayScripts are scripts of testdata/network. Those that look for one another
// are neighbours, so that they run at the same time. Only programs keep notes.
func relayScripts(api string) []string {
	if !isProgram(api) {
		return []string{"keeper", "thief", "relay", "drain"}
	}
	return []string{"keeper", "thief", "leaves", "finds", "relay", "drain"}
}

// relayCorpus are agents behind a relay.
func relayCorpus(t *testing.T, api string) []attack {
	t.Helper()
	var out []attack
	for _, id := range append(relayScripts(api), "rejected") {
		a := attack{id: id, script: ofRelay(t, id, api, "127.0.0.1:61081"), outcome: "failed", reason: "wrong_answer", seconds: 900}
		switch id {
		case "drain":
			a.outcome, a.reason = "limit", "budget"
		case "rejected":
			a.outcome, a.reason = "no_candidate", "provider_refused"
		}
		out = append(out, a)
	}
	return out
}

// relayTwin is honest work behind the relay.
const relayTwin = `if honest() and b"hello" in says("again"): print("an honest answer")
`

// TestProviderCorpus is [TestCorpus] for agents with a provider: the rows L08, L15,
// L19, and N14 to N23 at the relay. The shipped binary runs them, with programs
// and a provider of the test.
func TestProviderCorpus(t *testing.T) {
	t.Parallel()
	image := needEngine(t)
	registry := fakePrograms(t)
	for api, model := range agentCorpora {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			p := &modelProvider{api: api, counts: map[string]int{}}
			server := httptest.NewServer(p)
			t.Cleanup(server.Close)
			kind := questions(image)
			kind.honest, kind.share = strings.Replace(ofRelay(t, "drain", api, "127.0.0.1:61081"), readScript(t, "drain"), relayTwin, 1), 12
			kind.env = []string{"OPENAI_API_KEY=" + secret, "ANTHROPIC_API_KEY=" + secret, "GEMINI_API_KEY=" + secret, "SECUREBENCH_AGENT_CACHE=" + filepath.Join(t.TempDir(), "cache"),
				"npm_config_registry=" + registry, "npm_config_userconfig=/dev/null", "npm_config_globalconfig=/dev/null"}
			kind.harness = fmt.Sprintf("  type: %s\n  config: {model: %s, version: 0.0.1, base_url: %q, timeout_seconds: 600, budget: {requests: %d}}\n",
				api, model, server.URL, maxAsked)
			if !isProgram(api) {
				kind.harness = strings.NewReplacer("  env: [SB_TEST_API_KEY]\n", "", "timeout_seconds: 60", fmt.Sprintf(
					"timeout_seconds: 600\n    model: %s\n    api: %s\n    base_url: %q\n    budget: {requests: %d}", model, api, server.URL, maxAsked)).Replace(commandWith(kind.field, ""))
			}
			out := runCorpus(t, "corpus-"+api, 1, relayCorpus(t, api), kind)
			records := readRecords(t, filepath.Join(out, "candidates.jsonl"))
			delete(records, "rejected") // which was ended before it said anything
			if isProgram(api) {
				unfold(t, records)
			}
			checkProbes(t, records, relayScripts(api)...)
			if isProgram(api) { // which is removed from the engine too
				if res := securebench(t, kind.env, "agent", "remove", api+"@0.0.1"); res.code != exitDone {
					t.Errorf("removing the program: exit %d, %s", res.code, res.stderr)
				}
			}
			checkProvider(t, p)
			t.Run("N22", func(t *testing.T) {
				if lines := ledgerOf(t, out, records["relay"][0]); len(lines) < 60 || strings.Contains(fmt.Sprint(lines), " forged ") {
					t.Errorf("the ledger has %d lines: %+v", len(lines), lines)
				}
			})
		})
	}
}

// unfold puts what the scripts printed in the place of the programs' output.
func unfold(t *testing.T, records map[string][]rec) {
	t.Helper()
	for _, list := range records {
		for i := range list {
			var line struct {
				Result string
				Item   struct{ Text string }
			}
			if err := json.Unmarshal([]byte(list[i].Stdout), &line); err != nil {
				t.Errorf("%s: %v", list[i].TaskID, err)
			}
			list[i].Stdout = line.Result + line.Item.Text
		}
	}
}

func readScript(t *testing.T, name string) string {
	t.Helper()
	code, err := networkScripts.ReadFile("testdata/network/" + name + ".py")
	if err != nil {
		t.Fatal(err)
	}
	return string(code)
}

// checkProvider: nothing reached the provider that should not, and no more than
// the budget.
func checkProvider(t *testing.T, p *modelProvider) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.reached) > 0 {
		t.Errorf("the provider was asked for: %q", p.reached)
	}
	if n := p.counts["drain"]; n != maxAsked {
		t.Errorf("%d requests of one attempt reached the provider, want %d", n, maxAsked)
	}
	if n := p.counts["echo rejection"]; n != 1 {
		t.Errorf("an agent that was rejected ran %d times", n)
	}
}

// TestProviderWeakSetUps is [TestWeakSetUps] for agents with a provider: all
// scripts in one container on the machine's own network, with the provider's key,
// and a careless relay.
func TestProviderWeakSetUps(t *testing.T) {
	t.Parallel()
	image := needDocker(t)
	for api := range agentCorpora {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(&modelProvider{api: api, counts: map[string]int{}})
			t.Cleanup(server.Close)
			var log bytes.Buffer
			relay := carelessRelay(t, server.URL, &log)
			script := "mkdir -p $HOME /opt/securebench/codex /opt/securebench/claude-code\n"
			for _, pair := range [][2]string{{"keeper", "thief"}, {"leaves", "finds"}} {
				script += "(\n" + strings.Replace(ofRelay(t, pair[0], api, relay), "API=", "OPENAI_API_KEY=former ANTHROPIC_API_KEY=former GEMINI_API_KEY=former API=", 1) + ") &\n" +
					ofRelay(t, pair[1], api, relay) + "wait\n"
			}
			script += ofRelay(t, "relay", api, relay) + ofRelay(t, "drain", api, relay)
			text := weakRun(t, []string{"--network=host", "-e", "OPENAI_API_KEY=" + secret, "-e", "ANTHROPIC_API_KEY=" + secret, "-e", "GEMINI_API_KEY=" + secret, "-e", "SB_OTHER_TOKEN=x",
				"-e", "HOME=/root/home"}, image, "echo "+secret+" > /tmp/key; mkdir -p /root/home; : > /root/home/.bash_history\n"+script)
			tried, won := probes(text)
			for what := range tried {
				if !won[what] && !strings.Contains(what, "? ") {
					t.Errorf("%s does not work even against a weak set-up", what)
				}
			}
			if len(tried) < 60 || strings.Count(text, "HONEST") != 6 {
				t.Errorf("the scripts printed: %s", text)
			}
			if strings.Count(log.String(), "\n{\"gate\":\"relay\",\"method\":\"POST\",\"target\":\"forged\",\"allowed\":true}") < 3 {
				t.Errorf("a careless ledger has no forged lines: %s", log.String())
			}
		})
	}
}
