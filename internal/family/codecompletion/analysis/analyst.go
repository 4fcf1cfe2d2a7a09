package analysis

import (
	"cmp"
	"context"
	_ "embed" // the programs
	"errors"
	"fmt"
	"sync"
	"time"

	"securebench/internal/attended"
	"securebench/internal/capacity"
	"securebench/internal/frame"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/link"
	"securebench/internal/value"
)

//go:embed analysis.py
var analysisSource string

//go:embed analyst.py
var analystSource string

// Role is the role of the analysis sandbox.
const Role = "analysis"

// startLimit bounds the start of a sandbox. Beyond it the engine is at fault.
const startLimit = 2 * time.Minute

// limit bounds a request. Beyond it the row is at fault: texts take milliseconds.
const limit = time.Minute

// settle is how long to wait for the end of a sandbox whose stream has ended.
const settle = 2 * time.Second

// The causes of waits that took too long.
var (
	errSlow = errors.New("the engine takes too long")
	errLong = fmt.Errorf("%w: to parse them takes longer than %v", ErrBroken, limit)
)

// maxKept bounds the number of analyses that are kept.
const maxKept = 4096

// Analyst analyses rows, one at a time: it takes a millisecond. It is safe for
// concurrent use.
type Analyst struct {
	engine sandbox.Engine
	run    string
	boxes  *link.Pool[string, *box] // of one sandbox, by image
	turn   chan struct{}            // has room for who asks

	mu   sync.Mutex
	kept map[key]result
}

// result is what is kept of a row.
type result struct {
	analysis Analysis
	err      error // [ErrBroken]
}

// New makes an analyst. It starts nothing, and never has more than one sandbox.
func New(engine sandbox.Engine, run string) *Analyst {
	return &Analyst{engine: engine, run: run, boxes: link.NewPool[string, *box](1), turn: make(chan struct{}, 1), kept: make(map[key]result)}
}

// Close ends the sandbox.
func (a *Analyst) Close(ctx context.Context) error { return a.boxes.Close(ctx) }

// Analyse analyses a row once, by the Python of an image, within [capacity.Half] of
// limits. An error that wraps [ErrBroken] is about tests that cannot be parsed; any other
// is the engine's or this process's.
func (a *Analyst) Analyse(ctx context.Context, image sandbox.Image, limits sandbox.Limits, r Row) (Analysis, error) {
	k := keyOf(image.ID, r)
	if known, ok := a.known(k); ok {
		return known.analysis, known.err
	}
	done, err := a.take(ctx)
	if err != nil {
		return Analysis{}, err
	}
	defer done()
	if known, ok := a.known(k); ok { // from whoever had the turn before
		return known.analysis, known.err
	}
	var out result
	found, err := a.ask(ctx, image, limits, "analyse", "analysis", r, func(parts int, d *value.Decoder) (err error) {
		out.analysis, err = readAnalysis(parts, d)
		return err
	})
	switch {
	case errors.Is(err, ErrBroken):
		return Analysis{}, err
	case err != nil:
		return Analysis{}, fmt.Errorf("analysing the row: %w", err)
	case !found:
		out.err = ErrBroken
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.kept) >= maxKept {
		clear(a.kept)
	}
	a.kept[k] = out
	return out.analysis, out.err
}

func (a *Analyst) known(k key) (result, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, ok := a.kept[k]
	return known, ok
}

// take waits for the caller's turn.
func (a *Analyst) take(ctx context.Context) (done func(), err error) {
	select {
	case a.turn <- struct{}{}:
		return func() { <-a.turn }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the analysis of other rows: %w", context.Cause(ctx))
	}
}

// Examine looks for what cannot be right in a row's texts, likewise.
func (a *Analyst) Examine(ctx context.Context, image sandbox.Image, limits sandbox.Limits, r Row) (out []Finding, err error) {
	done, err := a.take(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	_, err = a.ask(ctx, image, limits, "examine", "examination", r, func(parts int, d *value.Decoder) (err error) {
		out, err = readFindings(parts, d)
		return err
	})
	if err != nil && !errors.Is(err, ErrBroken) {
		return nil, fmt.Errorf("examining the row: %w", err)
	}
	return out, nil
}

// ask asks a sandbox about a row and reads its answer. It returns false if the sandbox
// cannot read the texts. Texts that end two sandboxes are as broken.
func (a *Analyst) ask(ctx context.Context, image sandbox.Image, limits sandbox.Limits, op, answer string, r Row, read func(parts int, d *value.Decoder) error) (found bool, err error) {
	for range 2 {
		var b *box
		b, err = a.boxes.Lease(ctx, image.ID, func(ctx context.Context) (*box, error) {
			return start(ctx, a.engine, a.run, image, capacity.Half(limits))
		})
		if err != nil {
			return false, err
		}
		found, err = b.ask(ctx, op, answer, r, read)
		if releaseErr := a.boxes.Release(ctx, image.ID, b); releaseErr != nil {
			return false, errors.Join(err, releaseErr)
		}
		var e *endedError
		if !errors.As(err, &e) {
			return found, err
		}
	}
	return false, fmt.Errorf("%w: %w", ErrBroken, err)
}

// endedError says that a sandbox has ended at a row, by what the row needs or by
// a signal from outside.
type endedError struct {
	out    sandbox.Outcome
	memory int64
}

func (e *endedError) Error() string {
	if e.out.End == sandbox.OutOfMemory {
		return fmt.Sprintf("to parse them takes more than %d MiB of memory, half of limits.memory", e.memory>>20)
	}
	return "the sandbox that parses them has ended"
}

// box is an analysis sandbox.
type box struct {
	*link.Link
	memory int64
	stale  bool // it may still answer an earlier request
}

// Reusable reports whether the box can serve another request.
func (b *box) Reusable() bool { return !b.stale && b.Alive() }

func start(ctx context.Context, engine sandbox.Engine, run string, image sandbox.Image, limits sandbox.Limits) (*box, error) {
	ctx, cancel := attended.WithTimeoutCause(ctx, startLimit, errSlow)
	defer cancel()
	spec := link.PythonSpec(image, limits, sandbox.Labels{Run: run, Role: Role})
	l, err := link.Start(ctx, context.WithoutCancel(ctx), engine, spec, link.Options{
		Program:  []byte(frame.Python + value.Python() + analysisSource + examineSource + analystSource),
		MaxFrame: value.MaxMessage, Stderr: link.MaxStderr})
	if err != nil {
		return nil, err
	}
	b := &box{Link: l, memory: limits.Memory}
	content, err := b.Receive(ctx)
	if err == nil && string(content) != string(value.Text("ready").Append(nil)) {
		err = errors.New("an unknown greeting")
	}
	if errors.Is(err, link.ErrEnded) {
		_, _, why := b.End(ctx, settle)
		err = cmp.Or(why, err)
	}
	if err != nil {
		printed, _ := b.Stderr()
		err = fmt.Errorf("starting the analysis's Python (%.200q): %w", printed, err)
		return nil, errors.Join(err, b.Close(context.WithoutCancel(ctx)))
	}
	return b, nil
}

// ask sends one request and reads the answer. It is false for a row that the box
// cannot read.
func (b *box) ask(ctx context.Context, op, answer string, r Row, read func(parts int, d *value.Decoder) error) (found bool, err error) {
	ctx, cancel := attended.WithTimeoutCause(ctx, limit, errLong)
	defer cancel()
	b.stale = true
	err = b.Send(ctx, value.Tuple(value.Text(op), r.encode()).Append(nil))
	var content []byte
	if err == nil {
		content, err = b.Receive(ctx)
	}
	switch {
	case errors.Is(err, link.ErrEnded):
		out, _, why := b.End(ctx, settle) // the engine's error, if any
		return false, cmp.Or[error](why, &endedError{out, b.memory})
	case err != nil && errors.Is(context.Cause(ctx), errLong):
		return false, errLong
	case err != nil:
		return false, err
	}
	d := value.NewDecoder(content)
	parts := d.Tuple() - 1
	switch d.Text() {
	case answer:
		found, err = true, read(parts, d)
	case "broken":
		err = d.End()
	default:
		d.Fail("an answer to something else")
		err = d.End()
	}
	if err != nil {
		return false, fmt.Errorf("reading the answer: %w", err)
	}
	b.stale = false
	return found, nil
}
