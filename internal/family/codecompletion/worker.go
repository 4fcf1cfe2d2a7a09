package codecompletion

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed" // the worker's program
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"securebench/internal/family"
	"securebench/internal/sandbox"
	"securebench/internal/verdict"
)

//go:embed codec.py
var codecSource string

//go:embed worker.py
var workerSource string

// promptLimit bounds the time of a prompt that runs ahead of a candidate,
// which is not the candidate's.
const promptLimit = 30 * time.Second

// boxLifetime bounds a box that nobody closes; rows have deadlines of their own.
const boxLifetime = 24 * time.Hour

// streamLimit lets a box write for as long as its row has time: each frame has
// a cap of its own, and of standard error the beginning is kept.
const streamLimit = math.MaxInt64

// settled stands in front of every program. From Python 3.11 on the working
// folder is not searched for modules because PYTHONSAFEPATH says so; programs
// that a row starts get to know nothing of that.
const settled = "import os, sys\nsys.path[:] = [p for p in sys.path if p]\nos.environ.pop('PYTHONSAFEPATH', None)\n"

// boot reads the program, which is the first frame. As an argument it would
// cost an engine about 20 ms: its length goes through every layer of one.
const boot = settled + `
def program():
    def exactly(n):
        data = b""
        while len(data) < n:
            part = os.read(0, n - len(data))
            if not part:
                os._exit(1)
            data += part
        return data
    return exactly(int.from_bytes(exactly(4), "big"))
exec(program())
`

// pythonSpec describes a box that runs one of the embedded programs, under one
// hash seed: the order of a set decides about verdicts. That is why it is not
// started with -I, which would ignore the seed.
func pythonSpec(c family.Case, run, role string) sandbox.Spec {
	limits := c.Limits.WithDefaults()
	limits.Output, limits.Timeout = streamLimit, boxLifetime
	user := sandbox.Nobody
	return sandbox.Spec{
		Labels:  sandbox.Labels{Run: run, Role: role},
		Image:   c.Image,
		Command: []string{"python3", "-s", "-B", "-c", boot},
		Env:     pythonEnv(c.Image.Env),
		User:    &user,
		Workdir: "/tmp",
		Stdin:   true,
		Limits:  limits,
	}
}

// pythonEnv sets Python up and empties what an image has set for it, which is
// as if it were not set. PYTHONTZPATH is data: empty, it hides all time zones.
func pythonEnv(image []string) []string {
	env := []string{"HOME=/tmp", "LANG=C.UTF-8", "PYTHONHASHSEED=0", "PYTHONSAFEPATH=1"}
	for _, name := range image {
		ours := slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		if strings.HasPrefix(name, "PYTHON") && name != "PYTHONTZPATH" && !ours {
			env = append(env, name+"=")
		}
	}
	return env
}

// worker is the box that holds the candidate.
type worker struct {
	*link
	plan  plan
	limit time.Duration // of the row, for messages
}

// startWorker starts a box that waits for a candidate and has run the prompt.
// A prompt that ends its process or does not end is skipped.
func startWorker(ctx context.Context, engine sandbox.Engine, run string, c family.Case, prompt string) (*worker, error) {
	w, err := greetWorker(ctx, engine, run, c)
	if err != nil {
		return nil, err
	}
	err = w.prompt(ctx, prompt)
	if err == nil {
		return w, nil
	}
	if closeErr := w.close(context.WithoutCancel(ctx)); closeErr != nil || ctx.Err() != nil || !isFailure(err) {
		return nil, errors.Join(err, closeErr)
	}
	return greetWorker(ctx, engine, run, c)
}

// prompt runs the public prompt within a time of its own.
func (w *worker) prompt(ctx context.Context, source string) error {
	limit := min(w.limit, promptLimit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errDeadline)
	defer cancel()
	r, err := w.ask(ctx, "prompt", stringValue(source))
	if err == nil {
		_, err = r.forOracle(request{op: "set"})
	}
	return err
}

// greetWorker starts a box that has shown that it works before a candidate is
// in it: what happens later is the candidate's.
func greetWorker(ctx context.Context, engine sandbox.Engine, run string, c family.Case) (*worker, error) {
	spec := pythonSpec(c, run, "worker")
	spec.Labels.Task, spec.Labels.Attempt = c.Sandbox.ID(), c.Attempt
	l, err := startLink(ctx, ctx, engine, spec, codecSource+workerSource, c.Limits.WithDefaults().Output)
	if err != nil {
		return nil, err
	}
	w := &worker{link: l, limit: rowLimit(c)}
	if _, err := w.ask(ctx, "greet"); err != nil {
		printed, _ := l.stderr.read()
		err = ours(fmt.Errorf("greeting the worker (%.200q): %w", printed, err))
		return nil, errors.Join(err, l.close(context.WithoutCancel(ctx)))
	}
	return w, nil
}

// reply is a worker's answer whose envelope has been checked.
type reply struct {
	kind  string
	parts int // that d still holds
	d     *decoder
}

// ask sends one request and reads the reply that echoes its nonce.
func (w *worker) ask(ctx context.Context, op string, operands ...value) (reply, error) {
	nonce := make([]byte, 16)
	_, _ = rand.Read(nonce) // never fails
	parts := append([]value{bytesValue(nonce), stringValue(op)}, operands...)
	if err := w.send(ctx, tupleValue(parts...).appendTo(nil)); err != nil {
		return reply{}, w.trouble(ctx, err)
	}
	payload, err := w.receive(ctx)
	if err != nil {
		return reply{}, w.trouble(ctx, err)
	}
	d := &decoder{data: payload, nodes: -envelope, handles: w.plan.handles, operators: w.plan.operators}
	n := d.tuple()
	echo := d.value(1)
	if d.err != nil || echo.kind != kindBytes || !bytes.Equal(echo.atom, nonce) {
		return reply{}, violation("an answer without its question")
	}
	return reply{kind: d.str(), parts: n - 2, d: d}, nil
}

// trouble turns what went wrong on the link into what it means for the row.
func (w *worker) trouble(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, errEarly):
		return violation("a frame before its request")
	case errors.Is(err, errMalformed):
		return violation("bytes that are no frame")
	case errors.Is(err, errGone):
		return died(ctx, w.link)
	case errors.Is(err, errDeadline):
		if err := w.overdue(ctx); err != nil {
			return fmt.Errorf("running the worker: %w", err)
		}
		return timeout(w.limit)
	}
	return err
}

// prepare tells the worker which names may be classes that the tests use:
// without a reference, nothing but the candidate knows which are. It has been
// loaded: on its import there are no such names to be found.
func (w *worker) prepare(ctx context.Context) error {
	if !w.plan.handles || len(w.plan.names) == 0 {
		return nil
	}
	r, err := w.ask(ctx, "prepare", w.plan.nameList())
	if err == nil {
		_, err = r.forOracle(request{op: "set"})
	}
	return err
}

// load hands the candidate's code over. A *failure says that it cannot be
// imported.
func (w *worker) load(ctx context.Context, source []byte) error {
	r, err := w.ask(ctx, "load", bytesValue(source), w.plan.nameList(), boolValue(w.plan.handles))
	if err != nil {
		return err
	}
	if r.kind != "raise" {
		_, err := r.forOracle(request{op: "set"})
		return err
	}
	name := r.d.str()
	if name == "SyntaxError" && !utf8.Valid(source) {
		return &failure{verdict.InvalidUTF8, "the candidate is not valid UTF-8"}
	}
	return &failure{verdict.TestsFailed, "the candidate cannot be imported"}
}

// do sends a request of the oracle's and returns the frame that answers it.
func (w *worker) do(ctx context.Context, r request) ([]byte, error) {
	operands := []value{r.on, stringValue(r.name)}
	if r.op != "get" {
		operands = append(operands, r.operand)
	}
	if r.op == "call" {
		operands = append(operands, boolValue(r.mutates))
	}
	answer, err := w.ask(ctx, r.op, operands...)
	if err != nil {
		return nil, err
	}
	v, err := answer.forOracle(r)
	if err != nil {
		return nil, err
	}
	return v.appendTo(nil), nil
}

// forOracle checks the rest of a reply and builds from it, anew, the frame for
// the oracle. A *failure ends the row.
func (r reply) forOracle(req request) (value, error) {
	if req.mutates {
		r.d.most = maxArguments // they come back
	}
	out := []value{stringValue(r.kind)}
	switch {
	case r.kind == "value" && req.mutates && r.parts == 2:
		out = []value{stringValue("changed"), r.d.value(1), r.d.value(1)}
		if out[2].kind != kindList {
			return value{}, violation("changed arguments that are no list")
		}
	case r.kind == "value" && !req.mutates && r.parts == 1:
		out = append(out, r.d.value(1))
		if !req.answeredBy(out[1].kind) {
			return value{}, violation("an answer of another type")
		}
	case r.kind == "raise" && r.parts == 3:
		name := r.d.str()
		r.d.handles = false
		args, shown := r.d.value(1), r.d.value(1)
		if args.kind != kindTuple && args.kind != kindNone || shown.kind != kindString && shown.kind != kindNone {
			return value{}, violation("an exception of no known form")
		}
		out = append(out, stringValue(nearestName(name, req)), args, shown)
	case r.kind == "callable" && r.parts == 0 && req.op == "get" && req.on.kind == kindHandle:
	case r.parts == 0:
		return value{}, refusal(r)
	default:
		return value{}, violation("an answer of no known form")
	}
	err := r.d.end()
	if errors.Is(err, errObjectHash) {
		return value{}, unsupportedOperation("hash", r.d.operators)
	}
	if err != nil {
		return value{}, violation("a value that is malformed")
	}
	return tupleValue(out...), nil
}

// refusal is what the answers without a value mean.
func refusal(r reply) error {
	if r.d.end() == nil {
		switch r.kind {
		case "large":
			return &failure{verdict.OutputLimit, "the candidate returned a value over the caps on depth, number or size"}
		case "unsupported":
			return &failure{verdict.TestsFailed, "the candidate returned a value that is no plain data"}
		case "escape":
			return &failure{verdict.WorkerExited, "the candidate tried to end its process"}
		}
	}
	return violation("an answer of no known form")
}

// nearestName returns the exception that the oracle raises. StopIteration,
// AssertionError and exits are not on the list: tests could take them for
// something of their own. The end of an iterator that was asked for its next
// member is none of these.
func nearestName(name string, req request) string {
	switch name {
	case "StopIteration":
		if req.name == "__next__" {
			return name
		}
	case "TypeError", "ValueError", "KeyError", "IndexError", "ZeroDivisionError",
		"AttributeError", "OverflowError", "ArithmeticError", "LookupError",
		"RuntimeError", "RecursionError", "NotImplementedError":
		return name
	}
	return "Exception"
}

// excuse looks for a limit that explains a failure: a candidate that may not
// fork any more raises an error, but the reason is the limit. Engines look at
// the number of processes now and then; a burst that is over before the first
// look stays a plain failure.
func (w *worker) excuse(ctx context.Context, f *failure) error {
	if f.reason != verdict.TestsFailed {
		return f
	}
	w.hangUp()
	o, ended, err := w.end(ctx, settle/2)
	if err != nil {
		return fmt.Errorf("running the worker: %w", err)
	}
	if limit := limitOf(o, "the candidate"); ended && limit != nil {
		return limit
	}
	return f
}
