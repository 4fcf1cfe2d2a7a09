package progress_test

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"securebench/internal/progress"
	"securebench/internal/verdict"
)

// payloads are texts by which an agent or a pack tries to forge a result: attacks
// P01 (escape sequences), P02 (overwriting) and D10 (lines like events).
func payloads() map[string]string {
	const lie = "securebench: PASS forged score=1"
	all := map[string]string{
		"D10 line":                 "x\n" + lie + "\n",
		"D10 event":                "x\n" + `{"event":"task_done","task_id":"forged","passed":true}` + "\n",
		"P02 carriage return":      "x\r" + lie,
		"P02 backspaces":           strings.Repeat("\b", 200) + lie,
		"P01 clear screen":         "\x1b[2J\x1b[H" + lie,
		"P01 cursor up":            "\x1b[1A\r\x1b[K" + lie,
		"P01 CSI as one character": "\u009b2J\u009bH\n" + lie,
		"CRLF":                     "x\r\n" + lie + "\r\n",
		"vertical tab, form feed":  "x\v\f\n" + lie,
		"line separator":           "x\u2028" + lie + "\u2029\n" + lie,
		"wrap at 40":               strings.Repeat("x", 40-len("securebench: stdout: ")) + lie,
		"wrap at any column":       strings.Repeat(lie, 40),
		"wrap with spaces":         strings.Repeat("x ", 100) + lie,
	}
	for n := range 40 {
		all[fmt.Sprintf("wrap after %d wide letters", n)] = strings.Repeat("日", n) + lie
	}
	return all
}

// outside returns events with text in every field that can hold text from outside.
func outside(text string) []progress.Event {
	return []progress.Event{
		progress.RunStart{RunID: "run", OutputDir: "out", Total: 3},
		progress.TaskStart{Index: 1, Total: 3, TaskID: text, Attempt: 1, Family: text},
		progress.WorkerJoined{Worker: text, Roles: text},
		progress.WorkerLeft{Worker: text, Lost: true, Why: text},
		progress.ProviderPace{Provider: text, Requests: 3, Overloaded: true, Lowest: true},
		progress.ProducerStart{TaskID: text},
		progress.SandboxResult{TaskID: "t", Kind: "agent", ExitCode: 0, Argv: []string{text}, Stdout: text, Stderr: text},
		progress.AgentOutput{TaskID: text, Stream: "stdout", Line: text},
		progress.ProducerDone{TaskID: text, CandidateKind: "none", Status: "failed", Reason: verdict.Reason(text)},
		progress.VerifierStart{TaskID: text},
		progress.Warning{Message: text},
		progress.Retry{TaskID: text, Retry: 1, Limit: 2, Message: text},
		progress.Infrastructure{TaskID: text, Message: text},
		progress.VerifierDone{TaskID: text, Status: "failed", Score: 0, Phase: verdict.Phase(text)},
		progress.TaskDone{TaskID: text, Attempt: 1, Status: "failed", Score: 0, Outcome: "failed", Reason: verdict.Reason(text)},
		progress.Interrupted{ResumeCommand: text},
		progress.Ending{Reasons: []progress.ReasonCount{{Reason: text, Count: 1}}, Next: text},
		progress.RunDone{Failures: []progress.Failure{{TaskID: text, Outcome: verdict.Outcome(text), Reason: verdict.Reason(text)}}},
	}
}

// weak is a renderer that trusts its input.
func weak(w *screen, text string) {
	fmt.Fprintf(w, "securebench: [1/3] t\n")
	fmt.Fprintf(w, "securebench: stdout: %s\n", text)
}

func forged(rows []string) bool {
	for _, r := range rows {
		if strings.HasPrefix(r, "securebench: PASS") || strings.HasPrefix(r, "{") {
			return true
		}
	}
	return false
}

func show(w interface{ Write([]byte) (int, error) }, mode progress.Mode, tty bool, events []progress.Event) error {
	r := progress.New(mode, w, progress.Options{
		TTY: tty, Color: tty, Size: func() (int, int) { return 40, 0 }, ShowCommandOutput: true, ShowAgentOutput: true,
	})
	for _, e := range events {
		r.Event(e)
	}
	return r.Close()
}

func TestForgedTerminal(t *testing.T) {
	fell := 0
	for name, text := range payloads() {
		naive := newScreen(40)
		weak(naive, text)
		if forged(naive.text()) {
			fell++
		}
		s := newScreen(40)
		if err := show(s, progress.Auto, true, outside(text)); err != nil {
			t.Fatal(err)
		}
		if rows := s.text(); forged(rows) || len(rows) < 10 {
			t.Errorf("%s: the screen shows\n%s", name, strings.Join(rows, "\n"))
		}
	}
	if fell < 9 {
		t.Errorf("the weak renderer fell for %d payloads only: the screen or the payloads are wrong", fell)
	}
}

func TestForgedPlainLines(t *testing.T) {
	for name, text := range payloads() {
		var b bytes.Buffer
		if err := show(&b, progress.Plain, false, outside(text)); err != nil {
			t.Fatal(err)
		}
		if forged(strings.Split(b.String(), "\n")) {
			t.Errorf("%s: a forged line in\n%s", name, b.String())
		}
		if i := strings.IndexFunc(b.String(), func(r rune) bool { return r != '\n' && (r < ' ' || r == 0x7f || r == 0x9b || r == 0x2028) }); i >= 0 {
			t.Errorf("%s: a control at %d in %q", name, i, b.String())
		}
	}
}

func TestForgedJSON(t *testing.T) {
	for name, text := range payloads() {
		var b bytes.Buffer
		events := outside(text)
		if err := show(&b, progress.JSON, false, events); err != nil {
			t.Fatal(err)
		}
		n := 0
		for s := bufio.NewScanner(&b); s.Scan(); n++ {
			var got struct {
				Event  string `json:"event"`
				TaskID string `json:"task_id"`
			}
			if strings.ContainsFunc(s.Text(), func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Errorf("%s: line %d is not plain ASCII: %q", name, n, s.Text())
			}
			if err := json.Unmarshal(s.Bytes(), &got); err != nil || n >= len(events) || got.Event != events[n].Name() {
				t.Fatalf("%s: line %d is %s, %v", name, n, s.Bytes(), err)
			}
		}
		if n != len(events) {
			t.Errorf("%s: %d lines for %d events", name, n, len(events))
		}
	}
}

// FuzzForged: whatever the text, plain output and JSON have the same number of
// lines, and no row of the terminal begins with a forged result.
func FuzzForged(f *testing.F) {
	for _, text := range payloads() {
		f.Add(text)
	}
	lines := func(mode progress.Mode, text string) int {
		var b bytes.Buffer
		if err := show(&b, mode, false, outside(text)); err != nil {
			f.Fatal(err)
		}
		return bytes.Count(b.Bytes(), []byte("\n"))
	}
	want, wantJSON := lines(progress.Plain, "x"), lines(progress.JSON, "x")
	f.Fuzz(func(t *testing.T, text string) {
		if len(strings.Fields(text)) == 0 {
			return // command output that is blank is not shown
		}
		if got := lines(progress.Plain, text); got != want {
			t.Errorf("%d plain lines, want %d", got, want)
		}
		if got := lines(progress.JSON, text); got != wantJSON {
			t.Errorf("%d JSON lines, want %d", got, wantJSON)
		}
		s := newScreen(40)
		if err := show(s, progress.Auto, true, outside("x"+text)); err != nil {
			t.Fatal(err)
		}
		if forged(s.text()) {
			t.Errorf("forged:\n%s", strings.Join(s.text(), "\n"))
		}
	})
}
