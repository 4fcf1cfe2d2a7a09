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

	"securebench/internal/sandbox"
	"securebench/internal/verdict"
)

// wire is the box's end of a link.
type wire struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// hear waits for a frame; its end ends the script.
func (w wire) hear() *decoder {
	payload, err := readFrame(w.in)
	if err != nil {
		panic(err)
	}
	return &decoder{data: payload}
}

func (w wire) say(parts ...value) {
	w.raw(string(appendFrame(nil, tupleValue(parts...).appendTo(nil))))
}

func (w wire) raw(text string) {
	if _, err := io.WriteString(w.out, text); err != nil {
		panic(err)
	}
}

// scriptedEngine runs scripts of this process in the place of oracles or
// workers. As with a real engine, an error of a stream is one of Run.
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
	if _, err := readFrame(s.Stdin); err != nil { // the program
		return sandbox.Outcome{End: sandbox.Exited}, nil
	}
	b.play(wire{s.Stdin, s.Stdout, s.Stderr})
	return sandbox.Outcome{End: sandbox.Exited}, nil
}

// oracleWire is the end of a link on which an oracle speaks.
type oracleWire struct{ wire }

// hear waits for a frame to the child.
func (w oracleWire) hear() *decoder {
	for {
		if d := w.wire.hear(); d.data[0] == frameData {
			return &decoder{data: d.data[5:]}
		}
	}
}

// say speaks as the child does.
func (w oracleWire) say(parts ...value) {
	w.stream(string(appendFrame(nil, tupleValue(parts...).appendTo(nil))))
}

// stream hands on what the child wrote, in two pieces.
func (w oracleWire) stream(text string) {
	for _, part := range []string{text[:len(text)/2], text[len(text)/2:]} {
		w.raw(string(appendFrame(nil, append([]byte{frameData}, part...))))
	}
}

// server says a word of the server's own.
func (w oracleWire) server(kind byte, parts ...value) {
	w.raw(string(appendFrame(nil, tupleValue(parts...).appendTo([]byte{kind}))))
}

// asOracle plays the server: it analyses rows like add's and plays test for
// those that run.
func asOracle(raw wire, test func(w oracleWire, run int)) {
	w := oracleWire{raw}
	w.server(frameGreeting, stringValue("ready"), boolValue(true))
	for run := 0; ; {
		d := w.hear()
		if d.tuple(); d.str() == "analyse" {
			names := value{kind: kindList, items: []value{tupleValue(stringValue("add"), stringValue("function"))}}
			w.say(stringValue("plan"), names, boolValue(false), boolValue(false), stringValue("whole"))
			w.done()
			continue
		}
		run++
		test(w, run)
	}
}

func (w oracleWire) done() {
	w.server(frameLastWord, stringValue("done"), intValue(0), boolValue(true))
}

func (w oracleWire) verdict(answers int64) {
	w.say(stringValue("verdict"), stringValue("pass"), stringValue(""), intValue(answers))
}

// call asks for add() or for another name.
func (w oracleWire) call(name string) {
	w.say(stringValue("call"), value{kind: kindNone}, stringValue(name),
		tupleValue(tupleValue(), value{kind: kindDict}), boolValue(false))
}

// TestOracleThatTalksNonsense: the pack's tests run in the oracle's process,
// so what that says can be anything, and a candidate's value may be the cause.
// It is tried again and then a failure, never an error of ours.
func TestOracleThatTalksNonsense(t *testing.T) {
	for name, say := range map[string]func(w oracleWire){
		"no frame":                 func(w oracleWire) { w.raw("\xff\xff\xff\xff") },
		"a frame that is too long": func(w oracleWire) { w.raw("\x00\x90\x00\x00") },
		"a frame of no kind":       func(w oracleWire) { w.raw("\x00\x00\x00\x01?") },
		"an empty frame":           func(w oracleWire) { w.raw("\x00\x00\x00\x00") },
		"a second greeting":        func(w oracleWire) { w.server(frameGreeting, stringValue("ready"), boolValue(true)) },
		"a child's frame too long": func(w oracleWire) { w.stream("\x00\x90\x00\x00") },
		"no value":                 func(w oracleWire) { w.stream("\x00\x00\x00\x01X") },
		"an empty message":         func(w oracleWire) { w.stream("\x00\x00\x00\x00") },
		"an unknown request":       func(w oracleWire) { w.say(stringValue("eval")) },
		"a name of no row":         func(w oracleWire) { w.call("other") },
		"a short verdict":          func(w oracleWire) { w.say(stringValue("verdict"), stringValue("pass")) },
		"a verdict without count": func(w oracleWire) {
			w.say(stringValue("verdict"), stringValue("pass"), stringValue(""), stringValue(""))
		},
		"the server's word forged": func(w oracleWire) { w.verdict(1); w.say(stringValue("done"), intValue(0), boolValue(true)) },
		"a last word of no kind":   func(w oracleWire) { w.server(frameLastWord, stringValue("verdict")) },
		"a last word without code": func(w oracleWire) { w.server(frameLastWord, stringValue("done")) },
		"a code that is too large": func(w oracleWire) { w.raw("\x00\x00\x00\x21XU3:S4:doneI20:" + strings.Repeat("f", 20) + "T") },
		"its end":                  func(w oracleWire) { panic(io.EOF) },
	} {
		t.Run(name, func(t *testing.T) {
			e := &scriptedEngine{localEngine: newLocalEngine(t), role: "oracle"}
			e.script = func(_ int64, w wire) {
				asOracle(w, func(w oracleWire, _ int) {
					w.call("add")
					w.hear()
					say(w)
					w.hear() // nothing comes any more
				})
			}
			v := newTestVerifier(t, e)
			if got := verify(t, v, makeCase(t, add()), "def add(): return 4\n"); got.Outcome != verdict.Failed || got.Reason != verdict.TestsFailed {
				t.Errorf("got %s", describe(got))
			}
			if o, w := e.count("oracle"), e.count("worker"); o != 2 || w != 2 {
				t.Errorf("%d oracles and %d workers, want a second try with fresh ones", o, w)
			}
		})
	}
}

// TestOracleThatGoesAhead: an oracle whose word is not in step with its
// requests serves no other row.
func TestOracleThatGoesAhead(t *testing.T) {
	tests := map[string]struct {
		test func(w oracleWire, run int)
		want verdict.Outcome
		next verdict.Outcome // of the next row
		used int             // oracles for both
	}{
		"in step": {func(w oracleWire, _ int) { w.call("add"); w.hear(); w.verdict(1); w.done() },
			verdict.Passed, verdict.Passed, 1},
		"the verdict before the answer": {func(w oracleWire, _ int) { w.call("add"); w.verdict(0); w.done() },
			verdict.Failed, verdict.Failed, 2},
		"an answer that nobody reads": {func(w oracleWire, _ int) { w.call("add"); w.hear(); w.verdict(0); w.done() },
			verdict.Passed, verdict.Passed, 2},
		"an end without a verdict": {func(w oracleWire, _ int) { w.call("add"); w.hear(); w.done() },
			verdict.Failed, verdict.Failed, 2},
		"a word behind the last": {func(w oracleWire, run int) { w.call("add"); w.hear(); w.verdict(1); w.done(); w.done() },
			verdict.Passed, verdict.Passed, 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := &scriptedEngine{localEngine: newLocalEngine(t), role: "oracle"}
			e.script = func(_ int64, w wire) { asOracle(w, tc.test) }
			v := newTestVerifier(t, e)
			for i, want := range []verdict.Outcome{tc.want, tc.next} {
				got := verify(t, v, makeCase(t, add()), "import time\ndef add(): time.sleep(0.2)\n")
				if got.Outcome != want {
					t.Errorf("row %d: %s", i+1, describe(got))
				}
				time.Sleep(20 * time.Millisecond) // a word too many arrives
			}
			if o := e.count("oracle"); o != tc.used {
				t.Errorf("%d oracles for two rows, want %d", o, tc.used)
			}
		})
	}
}

// asWorker plays a worker: it answers everything with 4 and plays answered
// after the first call.
func asWorker(w wire, answered func()) {
	for {
		d := w.hear()
		d.tuple()
		nonce := d.value(1)
		op := d.str()
		reply := value{kind: kindNone}
		if op == "call" {
			reply = intValue(4)
		}
		w.say(nonce, stringValue("value"), reply)
		if op == "call" {
			answered()
		}
	}
}

// TestWorkerThatBreaksOffLater: the engine reports that a stream of the box
// has been closed, which was done here for what came out of it. That is the
// candidate's doing, whatever failed before it was noticed.
func TestWorkerThatBreaksOffLater(t *testing.T) {
	tests := map[string]struct {
		answered func(w wire)
		want     verdict.Reason
	}{
		"no frame behind the answer": {func(w wire) { w.raw("\xff\xff\xff\xff"); w.raw("more") }, verdict.TestsFailed},
		"a flood on standard error": {func(w wire) {
			_, _ = io.WriteString(w.err, strings.Repeat("x", 9<<20))
			w.hear()
		}, verdict.TestsFailed},
		"silence": {func(w wire) { w.hear() }, verdict.TestsFailed},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := &scriptedEngine{localEngine: newLocalEngine(t), role: "worker"}
			e.script = func(_ int64, w wire) { asWorker(w, func() { tc.answered(w) }) }
			s := add()
			s.tests = "assert add(2, 3) == 5 or __import__('time').sleep(0.3)\nassert 0\n"
			if got := verify(t, newTestVerifier(t, e), makeCase(t, s), "def add(a, b): return 4\n"); got.Reason != tc.want {
				t.Errorf("got %s, want %s", describe(got), tc.want)
			}
		})
	}
}
