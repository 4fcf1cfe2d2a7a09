package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"

	"securebench/internal/gateway/scripted"
	"securebench/internal/pipeline"
)

// TestAnswersInReport: what a score should be read with is in the summary, the report
// in its forms, and can be a condition of the exit code.
func TestAnswersInReport(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script    scripted.Turn
		condition string
		says      string
	}{
		"cut off": {scripted.Turn{Say: "four and", Stop: "length"}, "truncated>1%", "got an answer that was cut off at its most tokens"},
		"empty":   {scripted.Turn{Say: " "}, "empty>1%", "got an empty answer"},
		"refused": {scripted.Turn{Refusal: "I will not."}, "refused>1%", "got an answer that the model or its provider refused"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := sample(t)
			b := newModelBench(t, &scripted.Script{Turns: []scripted.Turn{c.script}})
			code, _, stderr := b.run("--model", "m-1", "--base-url", b.url, "--limit", "2", "--fail-on", c.condition, dir)
			if code != exitFailOn || !strings.Contains(stderr, fmt.Sprintf("--fail-on %q: 2 of 2 attempts", c.condition)) ||
				!strings.Contains(stderr, "2 of 2 attempts that asked a model "+c.says) {
				t.Errorf("exit %d: %s", code, stderr)
			}
			table := reported(t, b.out)
			asJSON := reported(t, b.out, "--json")
			csv := reported(t, b.out, "--csv")
			word, _, _ := strings.Cut(c.condition, ">")
			if !strings.Contains(table, "2 of 2 attempts "+c.says) || !strings.Contains(asJSON, `"`+word+`": 2`) {
				t.Errorf("%s\n%s", table, asJSON)
			}
			if page := paged(t, b.out); !strings.Contains(page, "2 of 2 attempts "+c.says) {
				t.Errorf("the page does not say that they %s", c.says)
			}
			head, rows, _ := strings.Cut(strings.TrimSpace(csv), "\n")
			at := slices.Index(strings.Split(strings.TrimSpace(head), ","), word)
			for line := range strings.Lines(rows) {
				if cells := strings.Split(strings.TrimSpace(line), ","); at < 0 || cells[at] != "true" {
					t.Errorf("%s, column %d of %s", word, at, line)
				}
			}
			honest := newModelBench(t, &scripted.Script{Turns: []scripted.Turn{{Say: "Answer: 1"}}})
			if code, _, stderr := honest.run("--model", "m-1", "--base-url", honest.url, "--limit", "2", "--fail-on", c.condition, dir); code != 0 {
				t.Errorf("an honest twin: exit %d: %s", code, stderr)
			}
		})
	}
}

// TestUnansweredRunStops: a run whose provider sends what can be no answer asks once for
// each attempt, and stops after five. A server that cannot stream is read.
func TestUnansweredRunStops(t *testing.T) {
	t.Parallel()
	dir, rows := sample(t)
	if len(rows) <= pipeline.FirstAttempts {
		t.Fatal("the sample has too few rows")
	}
	for text, c := range map[string]struct{ code, asked int }{
		`{"choices": []}`: {exitInterrupted, pipeline.FirstAttempts},
		`{"choices": [{"message": {"content": "Answer: 1"}, "finish_reason": "stop"}]}`: {0, len(rows)},
	} {
		var asked atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.Method == http.MethodGet {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			asked.Add(1)
			_, _ = io.WriteString(w, text)
		}))
		t.Cleanup(server.Close)
		b := newModelBench(t, &scripted.Script{Turns: []scripted.Turn{{Say: "x"}}})
		code, _, stderr := b.run("--model", "m-1", "--base-url", server.URL, "--workers", "1", dir)
		if code != c.code || int(asked.Load()) != c.asked || code != 0 && !strings.Contains(stderr, "the agents of the first 5 attempts all asked a model and got no answer") {
			t.Errorf("%s: exit %d after %d questions: %s", text, code, asked.Load(), stderr)
		}
	}
}

// reported is what the report of a run says.
func reported(t *testing.T, dir string, flags ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := execute(append([]string{"report", dir}, flags...), &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	return out.String()
}

// paged is the page of a run.
func paged(t *testing.T, dir string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "page.html")
	reported(t, dir, "--html", name)
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// TestWrongAPI: agents that speak another API than the relay print an error and end
// well. Scored, as with --keep-going, that is a result that says what it is; a run stops
// after five, and says which setting is wrong. Agents that ask for what is served, and
// those that ask nothing, are scored.
func TestWrongAPI(t *testing.T) {
	t.Parallel()
	image := needEngine(t)
	server := httptest.NewServer(scripted.New(&scripted.Script{Turns: []scripted.Turn{{Say: "four"}}}, nil))
	t.Cleanup(server.Close)
	const served = "only POST /v1/responses is served here, because harness.config says api: openai_responses"
	for name, c := range map[string]struct {
		path, flag string
		code       int
		says       string
	}{
		"another API":         {"/chat/completions", "", exitInterrupted, "the agents of the first 5 attempts all asked a model and got no answer"},
		"another API, scored": {"/chat/completions", "--keep-going", 0, "6 of 6 attempts that asked a model made requests that the relay refused"},
		"what is served":      {"/responses", "", 0, "wrong_answer"},
		"nothing":             {"", "", 0, "wrong_answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var rows []hiddenRow
			for i := range pipeline.FirstAttempts + 1 {
				rows = append(rows, hiddenRow{id: fmt.Sprintf("q%d", i), family: "short_answer", input: map[string]any{"question": "Two and two?"}, eval: map[string]any{"accepted_answers": []string{"4"}}})
			}
			agent := `import os,urllib.request as u
p="` + c.path + `"
try:
  if p: u.urlopen(u.Request(os.environ["OPENAI_BASE_URL"]+p,b'{"model":"m-1","input":"hi"}',{"Authorization":"Bearer "+os.environ["OPENAI_API_KEY"],"Content-Type":"application/json"})).read()
except Exception as e: print(e)
print("Welcome!")`
			command, err := json.Marshal([]string{"python3", "-c", agent})
			if err != nil {
				t.Fatal(err)
			}
			writePack(t, dir, "wrong-api", image, string(command), rows)
			tester := filepath.Join(dir, "tester.yaml")
			text, err := os.ReadFile(tester)
			if err != nil {
				t.Fatal(err)
			}
			write(t, tester, string(text)+fmt.Sprintf("    model: m-1\n    base_url: %q\n", server.URL))
			args := []string{"run", "--config", tester, "--workers", "1"}
			if c.flag != "" {
				args = append(args, c.flag)
			}
			res := securebench(t, []string{"OPENAI_API_KEY=sk-canary-0f6b2d91c4"}, args...)
			if res.code != c.code || !strings.Contains(res.stderr, c.says) || strings.Contains(res.stderr, served) != (c.code != 0) {
				t.Errorf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
			}
			if c.flag == "" {
				return
			}
			if table := reported(t, filepath.Join(dir, "out"), "--any-signer"); !strings.Contains(table, "NO MODEL ANSWERED: each of 6 attempts") {
				t.Errorf("%s", table)
			}
		})
	}
}
