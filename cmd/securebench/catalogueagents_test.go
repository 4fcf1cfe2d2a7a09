package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"securebench/internal/agent/agenttest"
	"securebench/internal/agent/catalogue"
	"securebench/internal/agent/debian"
	"securebench/internal/gateway/scripted"
)

var updateDocs = flag.Bool("update", false, "write what the tests of agents found to docs/agents.md")

// agentsDoc has the table of agents, of which tests write a row each.
var (
	agentsDoc = filepath.Join("..", "..", "docs", "agents.md")
	agentsRow sync.Mutex
)

// TestCatalogueAgents: the agents of the catalogue solve a row of each family that an
// agent works on, in each API that they speak (the first alone if not all agents are
// asked for, and not those that work in bare images), as root and as another user, in images that have nothing of theirs. None of
// them has the provider's key, and nothing of a run has it. Their steps are known, and
// what is found is the table of docs/agents.md.
func TestCatalogueAgents(t *testing.T) {
	t.Parallel()
	for _, a := range catalogue.Builtin() {
		if a.Name == "codex" || a.Name == "claude_code" {
			continue // TestRealAgents
		}
		t.Run(a.Name, func(t *testing.T) {
			version := agenttest.Pinned(a.Name)
			needAgent(t, a.Name+"@"+version)
			if slices.Contains(inBareImages(), a.Name) && !agenttest.All() {
				t.Skip("SKIPPED: TestAgentsInBareImages runs it (make agents-test runs all)")
			}
			if !agenttest.All() {
				a.Providers = a.Providers[:1]
			}
			for _, by := range a.Providers {
				t.Run(by.API, func(t *testing.T) { runsRows(t, a, by.API, version) })
			}
			if agenttest.All() && !t.Failed() {
				checkAgentRow(t, a, version)
			}
		})
	}
}

// needAgent skips or fails where a program cannot be had.
func needAgent(t *testing.T, release string) {
	t.Helper()
	mode := agenttest.Current()
	if mode == agenttest.Never || !slices.Contains(agenttest.Releases(), release) && !agenttest.All() {
		t.Skipf("SKIPPED: SECUREBENCH_TEST_AGENTS is %q: %s does not run (make agents-test runs all)", mode, release)
	}
	if err := fetch(release); err != nil {
		if mode != "" {
			t.Fatalf("the agent's program is required: %v", err)
		}
		t.Skipf("SKIPPED: %v", err)
	}
}

// workingScript solves the rows in the way of an agent.
func workingScript(t *testing.T, work catalogue.Work) *scripted.Script {
	t.Helper()
	if work.Files {
		s, err := scripted.Load(filepath.Join("testdata", "writing.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := solvingScript(t)
	if work.Last != "" {
		s.EndBy(work.Last)
	}
	return s
}

// runsRows runs an agent over a row of each family.
func runsRows(t *testing.T, a catalogue.Agent, api, version string) {
	b := newAgentBench(t, workingScript(t, a.Work), nil)
	all, want := b.solvableRows(), map[string]string{}
	var rows []map[string]any
	for _, id := range []string{"code/tester", "repo/root", "term/tester"} {
		rows, want[id] = append(rows, all[id]), "passed passed "
	}
	b.runs(a, api, version, rows, want)
}

// runs runs an agent over rows, and checks what came of it.
func (b *agentBench) runs(a catalogue.Agent, api, version string, rows []map[string]any, want map[string]string) {
	t := b.t
	t.Helper()
	h := realHarness{a.Name, "some-model-1", version}
	tester := b.config(a.Name+"-"+strings.ReplaceAll(api, "_", "-"), h, rows)
	text, err := os.ReadFile(tester)
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(strings.Replace(string(text), "  type: "+a.Name, "  type: agent\n  name: "+a.Name+"\n  version: "+version, 1),
		"version: "+version+", base_url", "api: "+api+", base_url", 1))
	write(t, tester, string(text))
	res := securebench(t, b.env(), "run", tester, "-q", "--show-agent-output", "--show-command-output")
	if res.code != exitDone {
		t.Fatalf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
	}
	out := filepath.Join(filepath.Dir(tester), "out")
	sameVerdicts(t, out, want)
	checkManifest(t, out, h)
	if !a.Work.Files {
		checkSteps(t, out, len(rows), a.Work.Last != "")
	}
	checkAgain(t, out, tester, want)
	b.checkAgent(api, version, out, !a.Work.Files)
}

// busybox is a shell with tools that need no C library, for the image of a test.
func busybox() debian.Package {
	return debian.Package{File: "pool/main/b/busybox/busybox-static_1.35.0-4+deb12u1+b1_amd64.deb", SHA256: "3d3fdbe91d4660c873e14b092c213fe81c1da6362daa236eb25d0171eb108744"}
}

// bareImage makes an image that has no C library, no program but a shell and its tools, and
// variables that no Python survives.
func bareImage(t *testing.T) string {
	t.Helper()
	c, err := debian.Open(os.Getenv, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	deb, err := c.Fetch(t.Context(), busybox())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	at := filepath.Join(dir, "images", "bare")
	if err := os.MkdirAll(at, 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(at)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := debian.Unpack(t.Context(), deb, root, func(name string) string { return map[string]string{"bin/busybox": "busybox"}[name] }); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(at, "Dockerfile"), "FROM scratch\nENV PYTHONHOME=/nowhere PYTHONPATH=/bin\nCOPY busybox /bin/busybox\nRUN [\"/bin/busybox\", \"--install\", \"-s\", \"/bin\"]\nCOPY bash systemd-inhibit /bin/\nCOPY mini.yaml .aider.conf.yml /srv/\n")
	write(t, filepath.Join(at, "mini.yaml"), "agent: {system_template: x, instance_template: y}\nmodel: {model_kwargs: {api_base: 'http://127.0.0.1:1', api_key: x}}\n")
	write(t, filepath.Join(at, ".aider.conf.yml"), "openai-api-base: http://127.0.0.1:1\nedit-format: ask\n")
	for name, script := range map[string]string{
		"bash":            `exec /bin/sh "$@"`, // with which agents in JavaScript run commands
		"systemd-inhibit": "echo \"$@\" >> inhibited",
	} {
		if err := os.WriteFile(filepath.Join(at, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "manifest.yaml"), "id: bare\nversion: 1\n")
	write(t, filepath.Join(dir, "tasks.jsonl"), "")
	if res := securebench(t, nil, "pack", "build", dir); res.code != exitDone {
		t.Fatalf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
	}
	return "localhost/bare/bare:1"
}

// inBareImages are the agents that [TestAgentsInBareImages] runs.
func inBareImages() []string { return []string{"aider", "mini-swe-agent", "qwen-code"} }

// TestAgentsInBareImages: agents in Python and JavaScript solve a task, and answer a question
// with their last message, in an image without a C library, in which no Python and no Node of
// the image's could run. They keep no machine awake: Qwen Code may lose what a command
// prints if another process that it started ends at the same time, and it would start one
// beside each command. A configuration of theirs in the folder that they work in is not
// theirs.
func TestAgentsInBareImages(t *testing.T) {
	t.Parallel()
	for _, name := range inBareImages() {
		t.Run(name, func(t *testing.T) {
			a, _ := catalogue.Find(name)
			version := agenttest.Pinned(name)
			needAgent(t, name+"@"+version)
			script := workingScript(t, a.Work)
			answer := []scripted.Turn{{Run: `cat "$SECUREBENCH_TASK_FILE"`}, {Run: whoAmI}, {Say: "42", Run: a.Work.Last}}
			if a.Work.Files {
				answer = []scripted.Turn{{Say: "42"}}
			}
			script.Conversations = append(script.Conversations, scripted.Conversation{Seen: "How many are there?", Turns: answer})
			b := newAgentBench(t, script, nil)
			image := bareImage(t)
			work := b.solvableRows()["term/root"]
			work["environment"] = map[string]any{"image": image, "workdir": "/srv"}
			work["eval"] = map[string]any{"checker": map[string]any{"command": []string{"sh", "-c", "grep -qx 'Hello, world!' hello.txt && test ! -e inhibited"}}}
			question := map[string]any{"id": "answer", "family": "short_answer", "input": map[string]any{"question": "How many are there?"},
				"eval": map[string]any{"accepted_answers": []string{"42"}}, "environment": map[string]any{"image": image}}
			b.runs(a, a.Providers[0].API, version, []map[string]any{work, question}, map[string]string{"term/root": "passed passed ", "answer": "passed passed "})
		})
	}
}

// ownWords are what an agent says of itself: its commands find the one token that it has,
// and nothing of what runs it.
const ownWords = "with key 1 without Node."

// checkAgent checks what came to the provider, and that no key is anywhere else.
func (b *agentBench) checkAgent(api, version, out string, says bool) {
	b.t.Helper()
	if got := b.provider.Credentials(); !slices.Equal(got, []string{b.key}) {
		b.t.Errorf("the provider got %d credentials, want only the key", len(got))
	}
	said := 0
	for _, r := range b.provider.Requests() {
		if r.Refused != "" || r.Model != "some-model-1" {
			b.t.Errorf("a request for %s that a provider would refuse: %s", r.Model, r.Refused)
		}
		if string(r.API) != api {
			b.t.Errorf("a request of the API %q, want %s: %s", r.API, api, r.Path)
		}
		if bytes.Contains(r.Body, []byte(ownWords)) {
			said++
		}
	}
	if says && said == 0 {
		b.t.Error("no agent said that it has a token, and that its commands find none of its runtime")
	}
	key := newNeedles()
	key.addWindows("the key", b.key, leakSize)
	files := allFiles(b.t, out)
	key.check(b.t, files)
	if lines := files[filepath.Join(out, "candidates.jsonl")]; !bytes.Contains(lines, []byte(`_version": "`+version+`"`)) {
		b.t.Errorf("no record names the version %s that ran", version)
	}
}

// checkAgentRow compares the row of an agent in the documents with what was found.
func checkAgentRow(t *testing.T, a catalogue.Agent, version string) {
	t.Helper()
	var apis []string
	for _, by := range a.Providers {
		apis = append(apis, "`"+by.API+"`")
	}
	row := fmt.Sprintf("| `%s` | %s | %s | `code_completion`, `repo_patch`, `terminal_task` |", a.Name, version, strings.Join(apis, ", "))
	agentsRow.Lock()
	defer agentsRow.Unlock()
	text, err := os.ReadFile(agentsDoc)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "| `"+a.Name+"` |") })
	switch {
	case i < 0:
		t.Errorf("docs/agents.md has no row of %s: add %s", a.Name, row)
	case lines[i] == row || strings.HasPrefix(lines[i], row+" "):
	case *updateDocs:
		rest := strings.SplitN(lines[i], "|", 6)
		lines[i] = row + rest[len(rest)-1]
		if err := os.WriteFile(agentsDoc, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("docs/agents.md has the row\n%s\nwant it to begin with (go test -update writes it)\n%s", lines[i], row)
	}
}
