package codecompletion

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed" // the program
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"securebench/internal/attended"
	"securebench/internal/family"
	"securebench/internal/family/codecompletion/forms"
	"securebench/internal/frame"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/link"
	"securebench/internal/value"
	"securebench/internal/verdict"
)

//go:embed candidate.py
var candidateSource string

// The roles of a row's sandboxes.
const (
	roleTest      = "test"
	roleCandidate = "candidate"
)

// boxProgram is what the programs of both boxes begin with.
func boxProgram() string { return frame.Python + value.Python() }

// promptLimit bounds the time of the prompt, which runs before the candidate and
// outside of its time.
const promptLimit = 30 * time.Second

// candidateBox is the sandbox that holds the candidate.
type candidateBox struct {
	*link.Link
	row   analysed
	limit time.Duration // of the row, for messages
	// importError is what the import of the code raised, in the candidate's words.
	importError string
}

// startCandidateBox starts a box that has run the prompt and waits for a candidate.
// A prompt that ends its process or does not end is skipped.
func (v *Verifier) startCandidateBox(ctx context.Context, c family.Case, prompt string) (*candidateBox, error) {
	b, err := v.greetCandidateBox(ctx, c)
	if err != nil {
		return nil, err
	}
	err = b.prompt(ctx, prompt)
	if err == nil {
		return b, nil
	}
	if closeErr := b.Close(context.WithoutCancel(ctx)); closeErr != nil || ctx.Err() != nil || !isFailure(err) {
		return nil, errors.Join(err, closeErr)
	}
	return v.greetCandidateBox(ctx, c)
}

// prompt runs the public prompt within its own time limit.
func (b *candidateBox) prompt(ctx context.Context, source string) error {
	limit := min(b.limit, promptLimit)
	ctx, cancel := attended.WithTimeoutCause(ctx, limit, errDeadline)
	defer cancel()
	r, err := b.ask(ctx, "prompt", value.Text(source))
	if err == nil {
		_, err = r.forTests(request{op: "set"})
	}
	return err
}

// greetCandidateBox starts a box and checks that it works: what goes wrong later
// is the candidate's doing.
func (v *Verifier) greetCandidateBox(ctx context.Context, c family.Case) (*candidateBox, error) {
	spec := link.PythonSpec(c.Image, c.Limits, sandbox.Labels{Run: v.resources.RunID, Role: roleCandidate})
	spec.Labels.Task, spec.Labels.Attempt = c.Sandbox.ID(), c.Attempt
	program, compiled := v.program(c.Image.ID)
	l, err := link.Start(ctx, ctx, v.resources.Engine, spec, link.Options{Program: program,
		MaxFrame: value.MaxMessage, Stderr: c.Limits.WithDefaults().Output})
	if err != nil {
		return nil, err
	}
	b := &candidateBox{Link: l, limit: forms.Limit(c)}
	_, err = b.ask(ctx, "greet")
	if err == nil && !compiled {
		err = v.keepProgram(ctx, c.Image.ID, b)
	}
	if err != nil {
		printed, _ := l.Stderr()
		err = infrastructure(fmt.Errorf("starting the candidate's Python (%.200q): %w", printed, err))
		return nil, errors.Join(err, l.Close(context.WithoutCancel(ctx)))
	}
	return b, nil
}

// maxPrograms bounds the number of compiled programs that are kept.
const maxPrograms = 64

// program returns what a candidate box of an image runs, compiled if another box of
// the image has done so.
func (v *Verifier) program(image string) (program []byte, compiled bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if p, ok := v.programs[image]; ok {
		return p, true
	}
	return []byte(boxProgram() + candidateSource), false
}

// keepProgram keeps the program of a box as the box has compiled it, which takes
// Python longer than anything else in its start. The box has run nothing else yet: no
// candidate is to blame for its answer. The image has the same Python in every box.
func (v *Verifier) keepProgram(ctx context.Context, image string, b *candidateBox) error {
	r, err := b.ask(ctx, "program")
	if err != nil {
		return err
	}
	p := r.d.Value()
	if err := r.d.End(); err != nil || r.kind != "value" || p.Kind != value.KindBytes {
		return errors.New("the sandbox does not compile securebench's program")
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.programs) >= maxPrograms {
		clear(v.programs)
	}
	v.programs[image] = append([]byte(link.Compiled), p.Atom...)
	return nil
}

// reply is an answer of the candidate box whose envelope has been checked.
type reply struct {
	kind  string
	parts int // that d still holds
	d     *value.Decoder
}

// ask sends one request and reads the reply that echoes its nonce.
func (b *candidateBox) ask(ctx context.Context, op string, operands ...value.Value) (reply, error) {
	nonce := make([]byte, 16)
	_, _ = rand.Read(nonce) // never fails
	parts := append([]value.Value{value.Bytes(nonce), value.Text(op)}, operands...)
	if err := b.Send(ctx, value.Tuple(parts...).Append(nil)); err != nil {
		return reply{}, b.linkError(ctx, err)
	}
	payload, err := b.Receive(ctx)
	if err != nil {
		return reply{}, b.linkError(ctx, err)
	}
	d := value.NewDecoder(payload)
	d.Handles, d.HashHandles = b.row.Handles, b.row.operators
	n := d.Tuple()
	echo := d.Value()
	if d.Err() != nil || echo.Kind != value.KindBytes || !bytes.Equal(echo.Atom, nonce) {
		return reply{}, violation("an answer without its request")
	}
	return reply{kind: d.Text(), parts: n - 2, d: d}, nil
}

// linkError turns an error of the link into what it means for the row.
func (b *candidateBox) linkError(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, link.ErrEarly):
		return violation("a frame before its request")
	case errors.Is(err, frame.ErrInvalid):
		return violation("bytes that are not a frame")
	case errors.Is(err, link.ErrEnded):
		return candidateEnded(ctx, b.Link)
	case errors.Is(err, errDeadline):
		if err := b.KillOverdue(ctx); err != nil {
			return fmt.Errorf("running the candidate: %w", err)
		}
		return timeout(b.limit)
	}
	return err
}

// prepare sends the names that may be classes that the tests use: without a
// reference, only the candidate shows which are. It has been loaded, so its
// import could not find these names.
func (b *candidateBox) prepare(ctx context.Context) error {
	if !b.row.Handles || len(b.row.Names) == 0 {
		return nil
	}
	r, err := b.ask(ctx, "prepare", b.row.List())
	if err == nil {
		_, err = r.forTests(request{op: "set"})
	}
	return err
}

// load sends the candidate's code. A [family.Failure] says that it cannot be imported.
func (b *candidateBox) load(ctx context.Context, source []byte) error {
	r, err := b.ask(ctx, "load", value.Bytes(source), b.row.List(), value.Bool(b.row.Handles))
	if err != nil {
		return err
	}
	if r.kind != "raise" {
		_, err := r.forTests(request{op: "set"})
		return err
	}
	name := r.d.Text()
	if name == "SyntaxError" && !utf8.Valid(source) {
		return family.Fail(verdict.InvalidUTF8, "the candidate is not valid UTF-8")
	}
	r.d.Value() // its arguments
	b.importError = name + ": " + r.d.Text()
	return family.Fail(verdict.TestsFailed, "the candidate cannot be imported")
}

// do sends a request of the tests and returns the message that answers it.
func (b *candidateBox) do(ctx context.Context, r request) ([]byte, error) {
	operands := []value.Value{r.on, value.Text(r.name)}
	if r.op != "get" {
		operands = append(operands, r.operand)
	}
	if r.op == "call" {
		operands = append(operands, value.Bool(r.mutates))
	}
	answer, err := b.ask(ctx, r.op, operands...)
	if err != nil {
		return nil, err
	}
	v, err := answer.forTests(r)
	if err != nil {
		return nil, err
	}
	return v.Append(nil), nil
}

// forTests checks the rest of a reply and encodes it again, as the message for the
// tests. A [family.Failure] ends the row.
func (r reply) forTests(req request) (value.Value, error) {
	if req.mutates {
		r.d.Limit = value.MaxArguments // they come back
	}
	out := []value.Value{value.Text(r.kind)}
	switch {
	case r.kind == "value" && req.mutates && r.parts == 2:
		out = []value.Value{value.Text("changed"), r.d.Value(), r.d.Value()}
		if out[2].Kind != value.KindList {
			return value.Value{}, violation("changed arguments that are not a list")
		}
	case r.kind == "value" && !req.mutates && r.parts == 1:
		out = append(out, r.d.Value())
		if !req.answeredBy(out[1].Kind) {
			return value.Value{}, violation("an answer of another type")
		}
	case r.kind == "raise" && r.parts == 3:
		name := r.d.Text()
		r.d.Handles = false
		args, shown := r.d.Value(), r.d.Value()
		if args.Kind != value.KindTuple && args.Kind != value.KindNone || shown.Kind != value.KindString && shown.Kind != value.KindNone {
			return value.Value{}, violation("an exception of an unknown form")
		}
		out = append(out, value.Text(nearestName(name, req)), args, shown)
	case r.kind == "callable" && r.parts == 0 && req.op == "get" && req.on.Kind == value.KindHandle:
	case r.parts == 0:
		return value.Value{}, refusal(r)
	default:
		return value.Value{}, violation("an answer of an unknown form")
	}
	err := r.d.End()
	if errors.Is(err, value.ErrHandleHash) {
		return value.Value{}, unsupportedOperation("hash", r.d.HashHandles)
	}
	if err != nil {
		return value.Value{}, violation("a malformed value")
	}
	return value.Tuple(out...), nil
}

// refusal says what an answer without a value means.
func refusal(r reply) error {
	if r.d.End() == nil {
		switch r.kind {
		case "large":
			return family.Fail(verdict.OutputLimit, "the candidate returned a value over the caps on depth, number or size")
		case "unsupported":
			return family.Fail(verdict.TestsFailed, "the candidate returned a value that is not plain data")
		case "escape":
			return family.Fail(verdict.WorkerExited, "the candidate tried to end its process")
		}
	}
	return violation("an answer of an unknown form")
}

// nearestName returns the name of the exception that the tests see. StopIteration,
// AssertionError and exits are not on the list: tests could take them for their
// own. Only __next__ may raise StopIteration.
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

// explain looks for a limit that explains a failure: a candidate that cannot fork
// raises an error, but the reason is the limit. Engines poll the number of
// processes; a burst between two polls stays a plain failure.
func (b *candidateBox) explain(ctx context.Context, f *family.Failure) error {
	if f.Reason != verdict.TestsFailed {
		return f
	}
	b.CloseInput()
	o, ended, err := b.Outcome(ctx, settle/2)
	if err != nil {
		return fmt.Errorf("running the candidate: %w", err)
	}
	if limit := family.LimitReached(o.Limits(), "the candidate"); ended && limit != nil {
		return limit
	}
	return f
}
