package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/awaittest"
	"securebench/internal/gateway/scripted"
)

// relayedAgent asks for a domain that is not allowed, and its provider for a stream, and
// prints what that says.
const relayedAgent = `
import json, os, urllib.request
try:
    urllib.request.urlopen("http://other.example/")
except OSError:
    pass
body = json.dumps({"model": os.environ["SECUREBENCH_MODEL"], "stream": True, "input": "2+2?"}).encode()
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/responses", body,
    {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
for line in urllib.request.urlopen(request):
    if line.startswith(b"data: "):
        event = json.loads(line[6:])
        if event["type"] == "response.output_text.done":
            print(event["text"])
`

// relayedPack writes a pack of four questions and the tester YAML of an agent that asks a
// provider, and returns what writes it with another budget.
func relayedPack(t *testing.T, image, url, id string) func(budget string) (tester string) {
	t.Helper()
	dir := t.TempDir()
	var rows strings.Builder
	for i := range 4 {
		fmt.Fprintf(&rows, `{"id": "t%d", "input": {"question": "2+2?"}, "eval": {"accepted_answers": ["4"]}}`+"\n", i)
	}
	write(t, filepath.Join(dir, "tasks.jsonl"), rows.String())
	write(t, filepath.Join(dir, "manifest.yaml"), "id: p\nversion: 1\ndefaults: {family: short_answer, environment: {image: \""+image+"\"}}\n")
	return func(budget string) string {
		tester := filepath.Join(dir, "tester.yaml")
		write(t, tester, fmt.Sprintf("schema_version: \"0.2\"\nrun: {id: %q, output_dir: out}\nbenchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}\n"+
			"harness:\n  type: command\n  env: [OPENAI_API_KEY]\n  config:\n    command: [python3, -c, %q]\n    allowed_domains: [docs.example]\n    model: m-1\n    base_url: %q\n    budget: %s\n", id, relayedAgent, url, budget))
		return tester
	}
}

// inMemory reports whether a text is in the memory of a process.
func inMemory(t *testing.T, pid int, text string) bool {
	t.Helper()
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer maps.Close()
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var from, to int64
		var rights string
		if n, _ := fmt.Sscanf(lines.Text(), "%x-%x %s", &from, &to, &rights); n < 3 || !strings.HasPrefix(rights, "rw") {
			continue
		}
		piece := make([]byte, 1<<20+len(text))
		for at := from; at < to; at += 1 << 20 {
			n, _ := mem.ReadAt(piece[:min(int64(len(piece)), to-at)], at)
			if bytes.Contains(piece[:n], []byte(text)) {
				return true
			}
		}
	}
	return false
}

// TestHubProvider: agents of workers reach their provider through the relay of the run.
// The records are those of one machine, and the provider's key is not in the memory of
// the worker, nor in anything that the run leaves.
func TestHubProvider(t *testing.T) {
	t.Parallel()
	image := needEngine(t)
	key := "sk-canary-" + ownRun("k")
	script := &scripted.Script{Key: key, Models: []string{"m-1"}, Turns: []scripted.Turn{{Say: "Answer: 4"}}}
	var asked, searched = make(chan struct{}), make(chan struct{})
	var once sync.Once
	provider := scripted.New(script, nil)
	near := httptest.NewServer(provider)
	defer near.Close()
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(asked) })
		<-searched
		provider.ServeHTTP(w, r)
	}))
	defer far.Close()
	f, keys := newMachines(t), filepath.Join(t.TempDir(), "keys.env")
	write(t, keys, "OPENAI_API_KEY="+key+"\n")
	here, there := filepath.Join(t.TempDir(), "here"), filepath.Join(t.TempDir(), "there")
	f.must("run", relayedPack(t, image, near.URL, ownRun("hub-provider"))("{requests: 3}"), "-o", here, "-q", "--env-file", keys)
	run, addr := f.run(relayedPack(t, image, far.URL, ownRun("hub-provider"))("{requests: 3}"), "-o", there, "--env-file", keys)
	agents := f.start("worker", "--hub", addr, "--credentials", f.invite("agents", "produce"))
	awaittest.Until(t, "a question", func() bool {
		select {
		case <-asked:
			return true
		case <-run.done:
			t.Fatalf("the run ended: %s%s", run.out.String(), agents.out.String())
		default:
		}
		return false
	})
	if inMemory(t, agents.Process.Pid, key) || !inMemory(t, agents.Process.Pid, "2+2?") || !inMemory(t, run.Process.Pid, key) {
		t.Error("the worker has the key, or the search finds nothing")
	}
	close(searched)
	scorers := f.start("worker", "--hub", addr, "--credentials", f.invite("scorers", "verify"))
	f.ends(run, exitDone)
	f.ends(agents, exitDone)
	f.ends(scorers, exitDone)
	records := func(out string) map[string]map[string]any {
		all := found(t, out)
		for _, r := range all {
			digests, _ := r["digests"].(map[string]any)
			delete(digests, "config") // the addresses of the providers differ
			files, _ := r["restricted"].([]any)
			for _, file := range files {
				if of, ok := file.(map[string]any); ok {
					delete(of, "bytes") // times are a part of what was said, with as many digits as they have
				}
			}
		}
		return all
	}
	if d := cmp.Diff(records(here), records(there)); d != "" {
		t.Errorf("records (-here +there):\n%s", d)
	}
	if got := fmt.Sprint(records(there)["t0 1"]["producer_metadata"]); !strings.Contains(got, "network:map[proxy_denied:1 relay_allowed:1]") {
		t.Errorf("what the agent asked for is not all in its record: %s", got)
	}
	f.must("verify", there)
	err := filepath.WalkDir(there, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		if bytes.Contains(content, []byte(key)) {
			t.Errorf("%s has the provider's key", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestHubBudget: when agents of workers have used the budget of the run, it ends as on
// one machine, and goes on with a larger one.
func TestHubBudget(t *testing.T) {
	t.Parallel()
	image := needEngine(t)
	const key = "sk-canary-hub-budget-42"
	provider := scripted.New(&scripted.Script{Key: key, Models: []string{"m-1"}, Turns: []scripted.Turn{{Say: "Answer: 4"}}}, nil)
	upstream := httptest.NewServer(provider)
	defer upstream.Close()
	f, keys := newMachines(t), filepath.Join(t.TempDir(), "keys.env")
	write(t, keys, "OPENAI_API_KEY="+key+"\n")
	out, credentials, set := filepath.Join(t.TempDir(), "out"), f.invite("both", "produce,verify"), relayedPack(t, image, upstream.URL, ownRun("hub-budget"))
	run, addr := f.run(set("{total: {requests: 2}}"), "-o", out, "--env-file", keys)
	w := f.start("worker", "--hub", addr, "--credentials", credentials, "--slots", "1", "--grace", "0s", "--stay")
	f.ends(run, exitInterrupted)
	if want := "stopped after 2 of 4: harness.config.budget.total is spent: 2 of 2 requests; the records are kept"; !strings.Contains(run.out.String(), want) || len(provider.Requests()) != 2 {
		t.Errorf("%d requests, want %s: %s", len(provider.Requests()), want, run.out.String())
	}
	if err := w.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	f.ends(w, exitDrained)
	again, addr := f.run(set("{total: {requests: 4}}"), "-o", out, "--env-file", keys, "--resume")
	w = f.start("worker", "--hub", addr, "--credentials", credentials, "--slots", "1")
	f.ends(again, exitDone)
	f.ends(w, exitDone)
	if len(provider.Requests()) != 4 {
		t.Errorf("%d requests: %s", len(provider.Requests()), again.out.String())
	}
	f.must("verify", out)
}
