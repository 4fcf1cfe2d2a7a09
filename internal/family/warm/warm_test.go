package warm_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"securebench/internal/family/warm"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/value"
)

// counter answers with how often it was asked, and does what the question says.
const counter = `
channel = private_channel()
channel.send(text("ready"))
first = Decoder(channel.receive()).value()
channel.send(text("ready"))
asked = 0
while True:
    question = Decoder(channel.receive()).value()
    asked += 1
    if question == "wait":
        import time
        time.sleep(3600)
    if question == "end":
        print("at its end", flush=True)
        os._exit(3)
    if question == "break":
        os.write(channel.sink, b"\xff\xff\xff\xff")
    channel.send(text(first + " " + str(asked)))
`

// asker asks a pool on a real engine.
type asker struct {
	t      *testing.T
	pool   *warm.Pool
	image  sandbox.Image
	source string
}

func newAsker(t *testing.T, source string) asker {
	t.Helper()
	e := enginetest.Open(t)
	p := warm.New(e, enginetest.Run("warm"), 1)
	t.Cleanup(func() {
		if err := p.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return asker{t, p, enginetest.Image(t, e), source}
}

// ask asks a question of a program with some data.
func (a asker) ask(data, question string, limit time.Duration) (string, error) {
	a.t.Helper()
	answer, err := a.pool.Ask(a.t.Context(), warm.Program{Role: "warm", Source: a.source, Data: value.Text(data).Append(nil)},
		warm.Request{Image: a.image, Time: limit, Question: value.Text(question).Append(nil)})
	if err != nil {
		return "", err
	}
	d := value.NewDecoder(answer)
	said := d.Text()
	if err := d.End(); err != nil {
		a.t.Fatal(err)
	}
	return said, nil
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestAsk: one process answers question after question; programs of other data have
// processes of their own.
func TestAsk(t *testing.T) {
	a := newAsker(t, counter)
	for _, tt := range []struct{ data, want string }{{"a", "a 1"}, {"a", "a 2"}, {"b", "b 1"}, {"a", "a 1"}} {
		if got, err := a.ask(tt.data, "?", time.Minute); err != nil || got != tt.want {
			t.Errorf("%s: got %q, %v; want %q", tt.data, got, err, tt.want)
		}
		if n := a.pool.Count(); n != 1 {
			t.Errorf("%d sandboxes", n)
		}
	}
}

// TestFaults: a program that does not answer is told apart from the engine, and another
// takes its place.
func TestFaults(t *testing.T) {
	a := newAsker(t, counter)
	for question, want := range map[string]error{"wait": warm.ErrOverrun, "break": warm.ErrUnreadable} {
		limit := time.Minute
		if question == "wait" {
			limit = 200 * time.Millisecond
		}
		if _, err := a.ask("a", question, limit); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", question, err, want)
		}
		if got, err := a.ask("a", "?", time.Minute); err != nil || got != "a 1" {
			t.Errorf("after %s: %q, %v", question, got, err)
		}
	}
	_, err := a.ask("a", "end", time.Minute)
	ended, ok := errors.AsType[*warm.EndedError](err)
	if !ok || !ended.Started || ended.Outcome.ExitCode != 3 || !strings.Contains(string(ended.Stderr), "at its end") {
		t.Errorf("after its end: %v", err)
	}
}

// TestNoStart: a program that is never ready has not started.
func TestNoStart(t *testing.T) {
	for source, started := range map[string]bool{"raise SystemExit(4)": false, "private_channel().send(text('busy'))": false} {
		_, err := newAsker(t, source).ask("a", "?", time.Minute)
		ended, ok := errors.AsType[*warm.EndedError](err)
		if !errors.Is(err, warm.ErrUnreadable) && !ok || ok && ended.Started != started {
			t.Errorf("%s: %v", source, err)
		}
	}
}
