package codecompletion

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"securebench/internal/frame"
	"securebench/internal/sandbox"
	"securebench/internal/value"
	"securebench/internal/verdict"
)

// wire is the box's end of a link.
type wire struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// receive waits for a frame; the end of the stream ends the script.
func (w wire) receive() []byte {
	content, err := frame.Read(w.in, nil, value.MaxMessage)
	if err != nil {
		panic(err)
	}
	return content
}

// hear waits for a message.
func (w wire) hear() *value.Decoder { return value.NewDecoder(w.receive()) }

func (w wire) say(parts ...value.Value) {
	w.raw(string(frame.Append(nil, value.Tuple(parts...).Append(nil))))
}

func (w wire) raw(text string) {
	if _, err := io.WriteString(w.out, text); err != nil {
		panic(err)
	}
}

// scriptedEngine runs scripts of this process in place of the boxes of a role. As
// with a real engine, an error of a stream is one of Run.
type scriptedEngine struct {
	*localEngine
	role   string
	script func(n int64, w wire) // n counts the boxes of the role from 1
	boxes  atomic.Int64
}

type scriptedBox struct {
	sandbox.Box
	play func(wire)
}

func (e *scriptedEngine) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	box, err := e.localEngine.Open(ctx, spec)
	if err != nil || spec.Labels.Role != e.role {
		return box, err
	}
	n := e.boxes.Add(1)
	return scriptedBox{box, func(w wire) { e.script(n, w) }}, nil
}

func (b scriptedBox) Run(_ context.Context, s sandbox.Streams) (out sandbox.Outcome, err error) {
	defer func() {
		if broken, ok := recover().(error); ok && !errors.Is(broken, io.EOF) {
			err = fmt.Errorf("running a box: %w", broken)
		}
	}()
	if _, err := frame.Read(s.Stdin, nil, value.MaxMessage); err != nil { // the program
		return sandbox.Outcome{End: sandbox.Exited}, nil
	}
	b.play(wire{s.Stdin, s.Stdout, s.Stderr})
	return sandbox.Outcome{End: sandbox.Exited}, nil
}

// testWire is a test box's end of a link.
type testWire struct{ wire }

// hear waits for a message to the child.
func (w testWire) hear() *value.Decoder {
	for {
		if content := w.receive(); content[0] == frameData {
			return value.NewDecoder(content[1+frame.HeaderSize:])
		}
	}
}

// say speaks as the child does.
func (w testWire) say(parts ...value.Value) {
	w.stream(string(frame.Append(nil, value.Tuple(parts...).Append(nil))))
}

// stream passes on what the child wrote, in two pieces.
func (w testWire) stream(text string) {
	for _, part := range []string{text[:len(text)/2], text[len(text)/2:]} {
		w.raw(string(frame.Append(nil, append([]byte{frameData}, part...))))
	}
}

// server sends a message of the server's own.
func (w testWire) server(kind byte, parts ...value.Value) {
	w.raw(string(frame.Append(nil, value.Tuple(parts...).Append([]byte{kind}))))
}

// asTestBox plays the server, and test the children of its rows.
func asTestBox(raw wire, test func(w testWire, run int)) {
	w := testWire{raw}
	w.server(frameGreeting, value.Text("ready"), value.Bool(true))
	for run := 0; ; {
		w.hear()
		run++
		test(w, run)
	}
}

func (w testWire) done() {
	w.server(frameDone, value.Text("done"), value.Int(0), value.Bool(true))
}

func (w testWire) verdict(answers int64) {
	w.say(value.Text("verdict"), value.Text("pass"), value.Text(""), value.Int(answers))
}

// call asks for add() or for another name.
func (w testWire) call(name string) {
	w.say(value.Text("call"), value.Value{Kind: value.KindNone}, value.Text(name),
		value.Tuple(value.Tuple(), value.Value{Kind: value.KindDict}), value.Bool(false))
}

// TestMalformedMessagesOfTests: the pack's tests can send anything in place of a
// message, and a candidate's value may be the cause. The row is tried again and
// then fails; it is never an infrastructure error.
func TestMalformedMessagesOfTests(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]func(w testWire){
		"no frame":                 func(w testWire) { w.raw("\xff\xff\xff\xff") },
		"a frame that is too long": func(w testWire) { w.raw("\x00\x90\x00\x00") },
		"an unknown kind of frame": func(w testWire) { w.raw("\x00\x00\x00\x01?") },
		"an empty frame":           func(w testWire) { w.raw("\x00\x00\x00\x00") },
		"a second greeting":        func(w testWire) { w.server(frameGreeting, value.Text("ready"), value.Bool(true)) },
		"a child's frame too long": func(w testWire) { w.stream("\x00\x90\x00\x00") },
		"no value":                 func(w testWire) { w.stream("\x00\x00\x00\x01X") },
		"an empty message":         func(w testWire) { w.stream("\x00\x00\x00\x00") },
		"an unknown request":       func(w testWire) { w.say(value.Text("eval")) },
		"a name of no row":         func(w testWire) { w.call("other") },
		"a short verdict":          func(w testWire) { w.say(value.Text("verdict"), value.Text("pass")) },
		"a verdict without count": func(w testWire) {
			w.say(value.Text("verdict"), value.Text("pass"), value.Text(""), value.Text(""))
		},
		"a forged report":             func(w testWire) { w.verdict(1); w.say(value.Text("done"), value.Int(0), value.Bool(true)) },
		"a report of an unknown form": func(w testWire) { w.server(frameDone, value.Text("verdict")) },
		"a report without a status":   func(w testWire) { w.server(frameDone, value.Text("done")) },
		"a status that is too large":  func(w testWire) { w.raw("\x00\x00\x00\x21XU3:S4:doneI20:" + strings.Repeat("f", 20) + "T") },
		"its end":                     func(w testWire) { panic(io.EOF) },
	} {
		t.Run(name, func(t *testing.T) {
			e := &scriptedEngine{localEngine: newLocalEngine(t), role: roleTest}
			e.script = func(_ int64, w wire) {
				asTestBox(w, func(w testWire, _ int) {
					w.call("add")
					w.hear()
					say(w)
					w.hear() // nothing follows
				})
			}
			v := newTestVerifier(t, e)
			if got := verify(t, v, makeCase(t, add()), "def add(): return 4\n"); got.Outcome != verdict.Failed || got.Reason != verdict.TestsFailed {
				t.Errorf("got %s", describe(got))
			}
			if o, w := e.count(roleTest), e.count(roleCandidate); o != 2 || w != 2 {
				t.Errorf("%d test boxes and %d candidate boxes, want a second try with fresh ones", o, w)
			}
		})
	}
}

// TestMessagesOutOfStep: a test box whose messages do not match its requests
// serves no other row.
func TestMessagesOutOfStep(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		test func(w testWire, run int)
		want verdict.Outcome
		next verdict.Outcome // of the next row
		used int             // test boxes for both
	}{
		"in step": {func(w testWire, _ int) { w.call("add"); w.hear(); w.verdict(1); w.done() },
			verdict.Passed, verdict.Passed, 1},
		"the verdict before the answer": {func(w testWire, _ int) { w.call("add"); w.verdict(0); w.done() },
			verdict.Failed, verdict.Failed, 2},
		"an answer that nobody reads": {func(w testWire, _ int) { w.call("add"); w.hear(); w.verdict(0); w.done() },
			verdict.Passed, verdict.Passed, 2},
		"an end without a verdict": {func(w testWire, _ int) { w.call("add"); w.hear(); w.done() },
			verdict.Failed, verdict.Failed, 2},
		"a second report": {func(w testWire, run int) { w.call("add"); w.hear(); w.verdict(1); w.done(); w.done() },
			verdict.Passed, verdict.Passed, 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := &scriptedEngine{localEngine: newLocalEngine(t), role: roleTest}
			e.script = func(_ int64, w wire) { asTestBox(w, tc.test) }
			v := newTestVerifier(t, e)
			for i, want := range []verdict.Outcome{tc.want, tc.next} {
				got := verify(t, v, makeCase(t, add()), "import time\ndef add(): time.sleep(0.2)\n")
				if got.Outcome != want {
					t.Errorf("row %d: %s", i+1, describe(got))
				}
				time.Sleep(20 * time.Millisecond) // a message too many arrives
			}
			if o := e.count(roleTest); o != tc.used {
				t.Errorf("%d test boxes for two rows, want %d", o, tc.used)
			}
		})
	}
}

// asCandidateBox answers every call with 4 and calls answered after it. program is its
// answer to the request for the compiled program.
func asCandidateBox(w wire, program value.Value, answered func()) {
	for {
		d := w.hear()
		d.Tuple()
		nonce := d.Value()
		op := d.Text()
		reply := value.Value{Kind: value.KindNone}
		switch op {
		case "program":
			reply = program
		case "call":
			reply = value.Int(4)
		}
		w.say(nonce, value.Text("value"), reply)
		if op == "call" {
			answered()
		}
	}
}

// anyProgram is a compiled program, which no scripted box runs.
var anyProgram = value.Bytes([]byte("a program"))

// TestCandidateBreaksProtocolLater: the engine reports that a stream of the box was
// closed, which this process did because of what the box sent. That counts against
// the candidate, whatever failed before it was noticed.
func TestCandidateBreaksProtocolLater(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answered func(w wire)
		want     verdict.Reason
	}{
		"not a frame after the answer": {func(w wire) { w.raw("\xff\xff\xff\xff"); w.raw("more") }, verdict.TestsFailed},
		"a flood on standard error": {func(w wire) {
			_, _ = io.WriteString(w.err, strings.Repeat("x", 9<<20))
			w.hear()
		}, verdict.TestsFailed},
		"silence": {func(w wire) { w.hear() }, verdict.TestsFailed},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := &scriptedEngine{localEngine: newLocalEngine(t), role: roleCandidate}
			e.script = func(_ int64, w wire) { asCandidateBox(w, anyProgram, func() { tc.answered(w) }) }
			s := add()
			s.tests = "assert add(2, 3) == 5 or __import__('time').sleep(0.3)\nassert 0\n"
			if got := verify(t, newTestVerifier(t, e), makeCase(t, s), "def add(a, b): return 4\n"); got.Reason != tc.want {
				t.Errorf("got %s, want %s", describe(got), tc.want)
			}
		})
	}
}
