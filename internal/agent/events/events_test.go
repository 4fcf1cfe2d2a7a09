package events_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/agent/events"
	"securebench/internal/redact"
)

var (
	codex      = &events.Format{Name: "codex", Reader: "codex"}
	claudeCode = &events.Format{Name: "claude", Reader: "claude_code"}
)

// lines returns what is shown of an output that arrives in pieces of a size, and
// the summary.
func lines(f *events.Format, output []byte, size int) (string, events.Summary) {
	var b strings.Builder
	r := events.NewReader(f, func(l events.Line) {
		if l.TraceOnly {
			b.WriteString("[trace] ")
		}
		b.WriteString(l.Text + "\n")
	})
	for len(output) > 0 {
		n := min(size, len(output))
		_, _ = r.Write(output[:n]) // it never fails
		output = output[n:]
	}
	_ = r.Close()
	return b.String(), r.Summary()
}

// TestPrograms reads what the programs print in an ordinary run.
func TestPrograms(t *testing.T) {
	for _, tt := range []struct {
		format *events.Format
		name   string
		want   events.Summary
	}{
		{codex, "codex", events.Summary{Message: "The answer:\n\n\x1b[31m42\x1b[0m\n", Steps: 5}},
		{claudeCode, "claude", events.Summary{Message: "42", Steps: 6}},
	} {
		output, shown := file(t, tt.name+".jsonl"), file(t, tt.name+".txt")
		for _, size := range []int{1, 7, len(output)} {
			got, sum := lines(tt.format, output, size)
			if d := cmp.Diff(string(shown), got); d != "" {
				t.Errorf("%s in pieces of %d: -want +got\n%s", tt.name, size, d)
			}
			if d := cmp.Diff(tt.want, sum); d != "" {
				t.Errorf("%s in pieces of %d: -want +got\n%s", tt.name, size, d)
			}
		}
		if got := events.Read(tt.format, output); got != tt.want {
			t.Errorf("%s: Read returns %+v", tt.name, got)
		}
	}
}

func file(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestFailures: an error that the program reports is no message of the agent,
// so it can never be an answer.
func TestFailures(t *testing.T) {
	const said = `{"type":"assistant","message":{"model":"m","content":[{"type":"text","text":"so far"}]},"parent_tool_use_id":null}` + "\n"
	const synthetic = `{"type":"assistant","message":{"model":"<synthetic>","content":[{"type":"text","text":"API Error: 400"}]},"parent_tool_use_id":null}` + "\n"
	const completed = `{"type":"turn.completed","usage":{}}`
	for name, tt := range map[string]struct {
		format               *events.Format
		output, want, seeing string
	}{
		"claude, at once": {claudeCode, synthetic + `{"type":"result","subtype":"success","is_error":true,"result":"API Error: 400"}`, "",
			"claude error: API Error: 400\nclaude error: ended with success\n"},
		"claude, later": {claudeCode, said + synthetic + `{"type":"result","subtype":"success","is_error":true,"result":"API Error: 400"}`, "so far",
			"claude: so far\nclaude error: API Error: 400\nclaude error: ended with success\n"},
		"claude, turns": {claudeCode, said + `{"type":"result","subtype":"error_max_turns","is_error":false}`, "so far",
			"claude: so far\nclaude error: ended with error_max_turns\n"},
		"claude, killed": {claudeCode, said, "so far", "claude: so far\n"},
		"codex":          {codex, `{"type":"turn.failed","error":{"message":"no"}}`, "", "codex error: no\n"},
		"codex, again":   {codex, `{"type":"turn.failed","error":{"message":"no"}}` + "\n" + completed, "", "codex error: no\ncodex: turn complete\n"},
		"codex, half": {codex, `{"type":"item.completed","item":{"type":"agent_message","text":"a"}}` + "\n" + `{"type":"item.comp`, "a",
			"codex: a\ncodex: {\"type\":\"item.comp\n"},
		"nothing": {codex, "", "", ""},
	} {
		shown, got := lines(tt.format, []byte(tt.output), max(1, len(tt.output)))
		if got.Message != tt.want || shown != tt.seeing {
			t.Errorf("%s: %+v, shown %q", name, got, shown)
		}
	}
}

// TestStrict: a line that two readers could understand in two ways is no event. It
// is shown, so that nobody wonders where it went.
func TestStrict(t *testing.T) {
	for _, line := range []string{
		`{"type":"item.completed","item":{"type":"agent_message","text":"a","text":"b"}}`,
		`{"type":"turn.started","type":"item.completed","item":{"type":"agent_message","text":"a"}}`,
		`{"Type":"item.completed","item":{"type":"agent_message","text":"a"}}`,
		"{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"\xff\"}}",
		`{"type":"item.completed","item":{"type":"agent_message","text":5}}`,
		`{"type":"item.completed","item":{"type":"agent_message","text":"a"}} {}`,
		`["type"]`, `{}`, `null`, "Reading additional input", strings.Repeat("[", 100_000),
	} {
		shown, sum := lines(codex, []byte(line), len(line))
		if sum.Message != "" || sum.Steps != 0 || shown != "codex: "+redact.Escape(line)+"\n" {
			t.Errorf("%.80s: %+v, %.80s", line, sum, shown)
		}
	}
}

// TestLongEvents: an event that is too long costs no memory and hides no other.
func TestLongEvents(t *testing.T) {
	const message = `{"type":"item.completed","item":{"type":"agent_message","text":"a"}}` + "\n"
	long := `{"type":"item.completed","item":{"type":"agent_message","text":"` + strings.Repeat("x", events.MaxLine) + "\"}}\n"
	shown, sum := lines(codex, []byte(message+long+message), 8<<10)
	if sum.Message != "a" || sum.Steps != 2 || len(shown) > 200 || !strings.Contains(shown, "left out") {
		t.Errorf("%+v, %.200s", sum, shown)
	}
	fits := strings.Replace(long, strings.Repeat("x", 200), "", 1)
	if sum := events.Read(codex, []byte(fits)); len(sum.Message) != events.MaxLine-200 {
		t.Errorf("a message of %d bytes", len(sum.Message))
	}
	r := events.NewReader(codex, nil)
	endless := bytes.Repeat([]byte("x"), 1<<20)
	if n := testing.AllocsPerRun(50, func() { _, _ = r.Write(endless) }); n > 1 {
		t.Errorf("a line without an end costs %v allocations a MiB", n)
	}
}

// TestShortCommands: what is shown of a command is one bounded line.
func TestShortCommands(t *testing.T) {
	shown, _ := lines(codex, []byte(`{"type":"item.started","item":{"type":"command_execution","command":"a\n\tb `+strings.Repeat("c", 1000)+`"}}`), 1<<20)
	if !strings.HasPrefix(shown, "codex run: a b c") || len(shown) != len("codex run: \n")+300 || strings.Count(shown, "\n") != 1 {
		t.Errorf("%q", shown)
	}
}

// TestOtherStreams: standard error and plain output are text, whatever they say.
func TestOtherStreams(t *testing.T) {
	const event = `{"type":"item.completed","item":{"type":"agent_message","text":"a"}}`
	var got []string
	show := func(l events.Line) { got = append(got, l.Text) }
	for _, r := range []*events.Reader{events.Stderr(codex, show), events.Stderr(claudeCode, show), events.NewReader(nil, show)} {
		_, _ = r.Write([]byte(event + "\r\n\x1b[2J"))
		_ = r.Close()
		if r.Summary() != (events.Summary{}) {
			t.Errorf("%+v", r.Summary())
		}
	}
	want := []string{"codex stderr: " + event, `codex stderr: \x1b[2J`, "claude stderr: " + event, `claude stderr: \x1b[2J`, event, `\x1b[2J`}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

// FuzzReader: whatever an agent prints, in whatever pieces, is read in the same
// way, and no line of it can pass for another one.
func FuzzReader(f *testing.F) {
	for _, name := range []string{"codex.jsonl", "claude.jsonl"} {
		b, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, 5)
		for line := range bytes.Lines(b) {
			f.Add(line, 3)
		}
	}
	f.Add([]byte("{\"type\":\"error\",\"message\":\"a\\nb\"}\r\n\n{"), 2)
	f.Fuzz(func(t *testing.T, output []byte, size int) {
		for _, format := range []*events.Format{codex, claudeCode, nil} {
			whole, sum := lines(format, output, len(output))
			pieces, again := lines(format, output, max(1, size&63))
			if whole != pieces || sum != again {
				t.Fatalf("%+v: %+v and %+v, %q and %q", format, sum, again, whole, pieces)
			}
			for line := range strings.Lines(whole) {
				line = strings.TrimSuffix(line, "\n")
				head := map[*events.Format]string{codex: "codex", claudeCode: "claude"}[format]
				if redact.Escape(line) != line || !strings.HasPrefix(strings.TrimPrefix(line, "[trace] "), head) {
					t.Fatalf("%q is shown as %q", output, line)
				}
			}
		}
	})
}
