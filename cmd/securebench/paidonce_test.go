package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"securebench/internal/awaittest"
	"securebench/internal/gateway/scripted"
	"securebench/internal/pipeline/record"
)

// fileRow asks for a file. Its check takes its time.
func fileRow(name string, seconds int) map[string]any {
	return map[string]any{"id": name, "family": "terminal_task", "input": map[string]any{"instructions": "Make the file " + name + ".txt."},
		"eval":        map[string]any{"checker": map[string]any{"command": []string{"sh", "-c", fmt.Sprintf("sleep %d; test -e %s.txt", seconds, name)}}},
		"environment": map[string]any{"image": repoImage}}
}

// fileTurns are the turns that make a file. The first reads the task.
func fileTurns(name string) []scripted.Turn {
	return []scripted.Turn{readTask(), {Run: "echo made > " + name + ".txt"}, {Say: "It is there."}}
}

func readTask() scripted.Turn {
	return scripted.Turn{Run: "cat \"$SECUREBENCH_TASK_FILE\""}
}

// gated is a provider that keeps requests of some tasks waiting.
type gated struct {
	http.Handler
	gates map[string]*requestGate // by a text in the requests
}

type requestGate struct {
	open chan struct{}
	once sync.Once
	came chan struct{} // closed when the first request has come
	quit sync.Once
	left chan struct{} // closed when the client of a request that waits has gone
}

func newGated(texts ...string) *gated {
	g := &gated{gates: map[string]*requestGate{}}
	for _, text := range texts {
		g.gates[text] = &requestGate{open: make(chan struct{}), came: make(chan struct{}), left: make(chan struct{})}
	}
	return g
}

func (g *gated) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := readAll(r)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	for text, at := range g.gates {
		if !bytes.Contains(body, []byte(text)) {
			continue
		}
		at.once.Do(func() { close(at.came) })
		select {
		case <-at.open:
		case <-r.Context().Done():
			at.quit.Do(func() { close(at.left) })
			panic(http.ErrAbortHandler)
		}
	}
	g.Handler.ServeHTTP(w, r)
}

// readAll reads a request's body, which can then be read again.
func readAll(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, err
}

// TestNothingIsPaidTwice: a run is killed while one task has its record, one is
// being verified, and the agent of a third works. When it is resumed, the
// provider is asked for the third alone.
func TestNothingIsPaidTwice(t *testing.T) {
	t.Parallel()
	script := &scripted.Script{Turns: []scripted.Turn{readTask()}}
	for _, name := range []string{"one", "two", "three"} {
		script.Conversations = append(script.Conversations, scripted.Conversation{Seen: name + ".txt", Turns: fileTurns(name)})
	}
	g := newGated("two.txt", "three.txt")
	b := newAgentBench(t, script, func(h http.Handler) http.Handler { g.Handler = h; return g })
	tester := b.config("paid-once", newCodex(plainModel), []map[string]any{fileRow("one", 0), fileRow("two", 5), fileRow("three", 0)})
	out := filepath.Join(filepath.Dir(tester), "out")
	p := background(t, b.dir, b.env(), "run", tester, "-q", "--workers", "3")
	during := func(what string, ok func() bool) {
		awaittest.Until(t, what, func() bool { return ok() || !p.running() })
	}
	during("the first record", func() bool { return countLines(out) == 1 })
	during("the third agent", func() bool { return isClosed(g.gates["three.txt"].came) })
	captured := func() int {
		data, _ := os.ReadFile(filepath.Join(out, record.CapturedName))
		return bytes.Count(data, []byte("\n"))
	}
	had := captured()
	close(g.gates["two.txt"].open)
	during("the second candidate", func() bool { return captured() > had })
	if err := p.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatalf("the run ended before it was killed: %v\n%s", err, p.stderr.String())
	}
	p.ended(t, hung)
	if n := countLines(out); n != 1 {
		t.Fatalf("%d records are there, want one: the kill came too late", n)
	}
	awaittest.Until(t, "the killed run's request to be gone", func() bool { return isClosed(g.gates["three.txt"].left) })
	before := len(b.provider.Requests())
	close(g.gates["three.txt"].open)
	res := securebench(t, b.env(), "run", tester, "--resume", "-q", "--workers", "3")
	if res.code != exitDone || !strings.Contains(res.stdout, " passed=3 ") {
		t.Fatalf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
	}
	again := b.provider.Requests()[before:]
	if want := len(fileTurns("")); len(again) != want {
		t.Errorf("the provider got %d requests after the kill, want %d", len(again), want)
	}
	for _, r := range again {
		if r.Conversation != "" && !strings.Contains(r.Conversation, "three") || bytes.Contains(r.Body, []byte("one.txt")) || bytes.Contains(r.Body, []byte("two.txt")) {
			t.Errorf("the provider was asked again for a captured task: %s", r.Conversation)
		}
	}
	want := map[string]string{"one": "passed passed ", "two": "passed passed ", "three": "passed passed "}
	sameVerdicts(t, out, want)
	verified(t, out)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
