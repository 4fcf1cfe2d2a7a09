package analysis

import (
	"cmp"
	"context"
	_ "embed" // the programs
	"errors"
	"fmt"
	"sync"
	"time"

	"securebench/internal/family/codecompletion/diagnosis"
	"securebench/internal/frame"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/link"
	"securebench/internal/sandbox/warm"
	"securebench/internal/value"
)

//go:embed analysis.py
var analysisSource string

//go:embed analyst.py
var analystSource string

// Role is the role of the analysis sandbox.
const Role = "analysis"

// startLimit bounds a request, the start of a sandbox included. Beyond it the engine
// is at fault.
const startLimit = 2 * time.Minute

// settle is how long to wait for the end of a sandbox whose stream has ended.
const settle = 2 * time.Second

// errSlow is the cause of a wait that took too long.
var errSlow = errors.New("the engine takes too long")

// maxKept bounds the number of analyses that are kept.
const maxKept = 4096

// Analyst analyses rows, one at a time: it takes a millisecond. It is safe for
// concurrent use.
type Analyst struct {
	engine sandbox.Engine
	run    string
	boxes  *warm.Pool[string, *box] // of one sandbox, by image

	mu   sync.Mutex
	kept map[key]Analysis
}

// New makes an analyst. It starts nothing, and never has more than one sandbox.
func New(engine sandbox.Engine, run string) *Analyst {
	return &Analyst{engine: engine, run: run, boxes: warm.New[string, *box](1), kept: make(map[key]Analysis)}
}

// Close ends the sandbox.
func (a *Analyst) Close(ctx context.Context) error { return a.boxes.Close(ctx) }

// Analyse analyses a row, by the Python of an image, within a half of limits' memory.
// The error is [ErrBroken] for tests that do not parse; any other is the engine's or
// this process's.
func (a *Analyst) Analyse(ctx context.Context, image sandbox.Image, limits sandbox.Limits, r Row) (out Analysis, err error) {
	k := keyOf(image.ID, r)
	a.mu.Lock()
	out, ok := a.kept[k]
	a.mu.Unlock()
	if ok {
		return out, nil
	}
	found, err := a.ask(ctx, image, limits, "analyse", "analysis", r, func(parts int, d *value.Decoder) (err error) {
		out, err = readAnalysis(parts, d)
		return err
	})
	if err != nil {
		return Analysis{}, fmt.Errorf("analysing the row: %w", err)
	}
	if !found {
		return Analysis{}, ErrBroken
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.kept) >= maxKept {
		clear(a.kept)
	}
	a.kept[k] = out
	return out, nil
}

// Examine looks for what cannot be right in a row's texts, likewise.
func (a *Analyst) Examine(ctx context.Context, image sandbox.Image, limits sandbox.Limits, r Row) (out []diagnosis.Finding, err error) {
	_, err = a.ask(ctx, image, limits, "examine", "examination", r, func(parts int, d *value.Decoder) (err error) {
		out, err = diagnosis.Read(parts, d)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("examining the row: %w", err)
	}
	return out, nil
}

// errEnded says that a sandbox has ended at a row, by what the row needs or by
// somebody's signal.
var errEnded = errors.New("the sandbox ended")

// ask asks a sandbox about a row and reads its answer. It returns false if there
// is none, because the texts cannot be read: they say so, or end two sandboxes.
func (a *Analyst) ask(ctx context.Context, image sandbox.Image, limits sandbox.Limits, op, answer string, r Row, read func(parts int, d *value.Decoder) error) (found bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, errSlow)
	defer cancel()
	for range 2 {
		b, err := a.boxes.Lease(ctx, image.ID, func(ctx context.Context) (*box, error) {
			return start(ctx, a.engine, a.run, image, limits)
		})
		if err != nil {
			return false, err
		}
		found, err = b.ask(ctx, op, answer, r, read)
		releaseErr := a.boxes.Release(ctx, image.ID, b)
		if releaseErr != nil || !errors.Is(err, errEnded) {
			return found, errors.Join(err, releaseErr)
		}
	}
	return false, nil
}

// box is an analysis sandbox.
type box struct {
	*link.Link
	stale bool // it may still answer an earlier request
}

// Reusable reports whether the box can serve another request.
func (b *box) Reusable() bool { return !b.stale && b.Alive() }

// halved are the limits of an analysis sandbox: those of capacity.Footprint.Halves.
func halved(l sandbox.Limits) sandbox.Limits {
	l = l.WithDefaults()
	l.Memory, l.Disk = l.Memory/2, min(l.Disk, 1<<20)
	return l
}

func start(ctx context.Context, engine sandbox.Engine, run string, image sandbox.Image, limits sandbox.Limits) (*box, error) {
	spec := link.PythonSpec(image, halved(limits), sandbox.Labels{Run: run, Role: Role})
	l, err := link.Start(ctx, context.WithoutCancel(ctx), engine, spec, link.Options{
		Program:  []byte(frame.Python + value.Python() + analysisSource + diagnosis.Source + analystSource),
		MaxFrame: value.MaxMessage, Stderr: link.MaxStderr})
	if err != nil {
		return nil, err
	}
	b := &box{Link: l}
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
	b.stale = true
	err = b.Send(ctx, value.Tuple(value.Text(op), r.encode()).Append(nil))
	var content []byte
	if err == nil {
		content, err = b.Receive(ctx)
	}
	if errors.Is(err, link.ErrEnded) {
		_, _, why := b.End(ctx, settle) // the engine's error, if any
		return false, cmp.Or(why, errEnded)
	}
	if err != nil {
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
