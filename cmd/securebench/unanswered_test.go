package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"securebench/internal/gateway/scripted"
	"securebench/internal/pipeline"
)

// TestAnswersInReport: what a score should be read with is in the summary, the report
// in its forms, and can be a condition of the exit code.
func TestAnswersInReport(t *testing.T) {
	for name, c := range map[string]struct {
		script    scripted.Turn
		condition string
		says      string
		column    int // of those of the report's CSV that end it, from the end
	}{
		"cut off": {scripted.Turn{Say: "four and", Stop: "length"}, "truncated>1%", "got an answer that was cut off at its most tokens", 6},
		"empty":   {scripted.Turn{Say: " "}, "empty>1%", "got an empty answer", 5},
		"refused": {scripted.Turn{Refusal: "I will not."}, "refused>1%", "got an answer that the model or its provider refused", 4},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := sample(t)
			b := newModelBench(t, &scripted.Script{Turns: []scripted.Turn{c.script}})
			code, _, stderr := b.run("--model", "m-1", "--base-url", b.url, "--limit", "2", "--fail-on", c.condition, dir)
			if code != exitFailOn || !strings.Contains(stderr, fmt.Sprintf("--fail-on %q: 2 of 2 attempts", c.condition)) ||
				!strings.Contains(stderr, "of 2 attempts that asked a model, 2 "+c.says) {
				t.Errorf("exit %d: %s", code, stderr)
			}
			table := reported(t, b.out)
			asJSON := reported(t, b.out, "--json")
			csv := reported(t, b.out, "--csv")
			word, _, _ := strings.Cut(c.condition, ">")
			if !strings.Contains(table, "2 of 2 attempts "+c.says) || !strings.Contains(asJSON, `"`+word+`": 2`) {
				t.Errorf("%s\n%s", table, asJSON)
			}
			for line := range strings.Lines(strings.TrimSpace(csv)) {
				cells := strings.Split(strings.TrimSpace(line), ",")
				if got := cells[len(cells)-c.column]; got != word && got != "true" {
					t.Errorf("%q in %s", got, line)
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
