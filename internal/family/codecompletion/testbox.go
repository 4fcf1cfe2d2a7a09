package codecompletion

import (
	"context"
	_ "embed" // the programs
	"errors"
	"fmt"
	"math"
	"time"

	"securebench/internal/attended"
	"securebench/internal/family"
	"securebench/internal/family/codecompletion/forms"
	"securebench/internal/frame"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/link"
	"securebench/internal/value"
	"securebench/internal/verdict"
)

//go:embed tests.py
var testsSource string

//go:embed server.py
var serverSource string

// grace is how long the tests may take to end once their row is decided.
const grace = time.Second

// testBox is the test sandbox: a warm box that runs the pack's own code, in a
// child process per row.
type testBox struct {
	*link.Link
	isolated bool        // its rows cannot reach its server
	stale    bool        // a row may still be in it: it serves no other
	output   childStream // of the row's child
	sent     int64       // answers to the child's requests
	memory   int64
	seconds  int64 // of processor time, for the row that it serves
}

// Reusable reports whether the box can serve another row.
func (b *testBox) Reusable() bool { return !b.stale && b.Alive() }

// boxKey says which test boxes are interchangeable.
type boxKey struct {
	image  string
	limits sandbox.Limits
}

// keyOf leaves out what is not a property of the box: each row has a time limit
// of its own, and the output of a test box is not the candidate's.
func keyOf(c family.Case) boxKey {
	limits := c.Limits.WithDefaults()
	limits.Timeout, limits.Output = 0, 0
	return boxKey{c.Image.ID, limits}
}

// startTestBox starts a box that serves row after row until it is closed.
func startTestBox(ctx context.Context, engine sandbox.Engine, run string, c family.Case) (*testBox, error) {
	ctx, cancel := attended.WithTimeoutCause(ctx, startLimit, errSlow)
	defer cancel()
	spec := link.PythonSpec(c.Image, c.Limits, sandbox.Labels{Run: run, Role: roleTest})
	spec.Command = append(spec.Command, scratch()...)
	// Tests may run what a candidate gave them, so the server is another user
	// than its rows. It needs these capabilities to become a row's user, to kill
	// its processes and to shut the way back; its children have none.
	spec.User = &sandbox.User{}
	spec.Capabilities = sandbox.Supervisor()
	l, err := link.Start(ctx, context.WithoutCancel(ctx), engine, spec, link.Options{
		Program: []byte(testProgram()), MaxFrame: value.MaxMessage, Stderr: math.MaxInt64})
	if err != nil {
		return nil, err
	}
	// Lower than the box's own limit, so that Python reports it.
	b := &testBox{Link: l, memory: c.Limits.WithDefaults().Memory / 8 * 7}
	if err := b.greet(ctx); err != nil {
		printed, _ := l.Stderr()
		err = infrastructure(fmt.Errorf("starting the tests' server (%.200q): %w", printed, err))
		return nil, errors.Join(err, l.Close(context.WithoutCancel(ctx)))
	}
	return b, nil
}

// greet waits until the server is ready. It reports whether its rows can reach
// it: if they can, it serves one row.
func (b *testBox) greet(ctx context.Context) error {
	content, err := b.Receive(ctx)
	if err != nil {
		return b.linkError(ctx, err)
	}
	if len(content) == 0 || content[0] != frameGreeting {
		return unreadable(errFrame)
	}
	d := value.NewDecoder(content[1:])
	if d.Tuple() != 2 || d.Text() != "ready" {
		d.Fail("a greeting is expected")
	}
	b.isolated = d.Bool()
	return unreadable(d.End())
}

// testProgram is what a test box runs.
func testProgram() string {
	return boxProgram() + proxiesSource + testsSource + serverSource
}

// scratch lists the folders that a row can write to. The server empties them
// after each row.
func scratch() []string { return []string{"/tmp", "/dev/shm", "/dev/mqueue"} }

// serves prepares the box for the row of a case.
func (b *testBox) serves(c family.Case) *testBox {
	b.seconds = int64(math.Ceil(forms.Limit(c).Seconds()*max(1, c.Limits.WithDefaults().CPUs))) + 5
	return b
}

// begin starts the row's child.
func (b *testBox) begin(ctx context.Context, args ...value.Value) error {
	b.stale, b.sent, b.output = true, 0, childStream{}
	if err := b.Send(ctx, []byte{frameRow}); err != nil {
		return b.linkError(ctx, err)
	}
	request := value.Tuple(value.Int(b.memory), value.Int(b.seconds), value.Tuple(args...))
	return b.linkError(ctx, b.sendToChild(ctx, request.Append(nil)))
}

// sendToChild passes one frame to the row's child.
func (b *testBox) sendToChild(ctx context.Context, payload []byte) error {
	if len(b.output.data) > 0 {
		return link.ErrEarly
	}
	return b.Send(ctx, frame.Append([]byte{frameData}, payload))
}

// next begins to read the next message: one of the row's child, or the server's
// report on its end.
func (b *testBox) next(ctx context.Context) (op string, parts int, d *value.Decoder, err error) {
	for {
		payload, ok, err := b.output.next()
		if err != nil {
			return "", 0, nil, unreadable(err)
		}
		if ok {
			return message(payload, false)
		}
		content, err := b.Receive(ctx)
		switch {
		case err != nil:
			return "", 0, nil, b.linkError(ctx, err)
		case len(content) > 0 && content[0] == frameData:
			b.output.data = append(b.output.data, content[1:]...)
		case len(content) > 0 && content[0] == frameDone:
			return message(content[1:], true)
		default:
			return "", 0, nil, unreadable(errFrame)
		}
	}
}

// message begins to read a message. Only the server reports that a row is done.
func message(payload []byte, last bool) (op string, parts int, d *value.Decoder, err error) {
	d = value.NewDecoder(payload)
	parts = d.Tuple() - 1
	op = d.Text()
	if d.Err() == nil && (op == "done") != last {
		d.Fail("a report that is not the server's")
	}
	return op, parts, d, unreadable(d.Err())
}

// unreadable turns the error of a message that cannot be read into a fault: the
// tests run in the process that writes it.
func unreadable(err error) error {
	if errors.Is(err, value.ErrMalformed) || errors.Is(err, frame.ErrInvalid) {
		return &fault{family.Fail(verdict.TestsFailed, "a message of the test sandbox cannot be read")}
	}
	return err
}

// linkError turns an error of the link into a fault of the test box.
func (b *testBox) linkError(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, errDeadline):
		if err := b.KillOverdue(ctx); err != nil {
			return fmt.Errorf("running the tests: %w", err)
		}
		return &fault{family.Fail(verdict.VerificationTimeout, "the tests ran longer than the row's time")}
	case errors.Is(err, link.ErrEarly):
		return &fault{family.Fail(verdict.TestsFailed, "the test sandbox sent a frame before its request")}
	case errors.Is(err, link.ErrEnded):
		return b.endFault(ctx)
	}
	return unreadable(err)
}

// endFault says how the box ended.
func (b *testBox) endFault(ctx context.Context) error {
	outcome, ended, err := b.End(ctx, settle)
	if err != nil {
		return fmt.Errorf("running the tests: %w", err)
	}
	if limit := family.LimitReached(outcome.Limits(), "the test sandbox"); ended && limit != nil {
		return &fault{limit}
	}
	return &fault{family.Fail(verdict.TestsFailed, "the test sandbox ended in the middle of the row")}
}

// finish reads the server's report on a row: the child's exit status, and whether
// the box is as it was before. The box stays usable if it is and if the child
// has read all answers, so that none is left for the next row.
func (b *testBox) finish(d *value.Decoder, answers int64) (int64, error) {
	status := d.Int()
	clean := d.Bool()
	if err := d.End(); err != nil {
		return 0, unreadable(err)
	}
	b.stale = !clean || answers != b.sent
	return status, nil
}

// markUsed notes that tests have run: a server that they could reach serves no
// other row.
func (b *testBox) markUsed() { b.stale = b.stale || !b.isolated }
