package codecompletion

import (
	"context"
	"errors"

	"securebench/internal/attended"
	"securebench/internal/family"
	"securebench/internal/sandbox/link"
	"securebench/internal/value"
	"securebench/internal/verdict"
)

// request is what the tests ask of the candidate.
type request struct {
	op      string      // call, get or set
	on      value.Value // a handle, or none for the module
	name    string
	operand value.Value // the arguments of a call, the value of a set
	mutates bool        // the arguments come back with the result
}

// readRequest checks a request. Names of the module are those of the analysis;
// names of an object are public, or operators where the row has them.
func readRequest(op string, parts int, d *value.Decoder, a analysed) (request, error) {
	d.Handles, d.HashHandles, d.Limit = a.Handles, a.operators, value.MaxArguments
	r := request{op: op, on: d.Value(), name: d.Text()}
	want := map[string]int{"call": 4, "get": 2, "set": 3}[op]
	if want != parts {
		d.Fail("a request of an unknown form")
	}
	if op != "get" {
		r.operand = d.Value()
	}
	if op == "call" {
		r.mutates = d.Bool()
		if !isArguments(r.operand) {
			d.Fail("a call without arguments")
		}
	}
	switch {
	case r.on.Kind == value.KindHandle && r.name != "" && r.name[0] != '_':
	case a.operators && d.Err() == nil && r.allowsOperator():
	case r.on.Kind == value.KindNone && op != "set" && a.Has(r.name):
	default:
		d.Fail("a name that is not the row's")
	}
	return r, d.End()
}

// isArguments reports whether v is a tuple and a dict with string keys.
func isArguments(v value.Value) bool {
	if v.Kind != value.KindTuple || len(v.Items) != 2 || v.Items[0].Kind != value.KindTuple || v.Items[1].Kind != value.KindDict {
		return false
	}
	for i := 0; i < len(v.Items[1].Items); i += 2 {
		if v.Items[1].Items[i].Kind != value.KindString {
			return false
		}
	}
	return true
}

// ending is how the tests of a row ended, as their process reports it.
type ending struct {
	verdict string // "" when none was reported
	detail  string // a traceback, restricted
	answers int64  // that the tests have read; -1 is unknown
}

func readEnding(d *value.Decoder) (ending, error) {
	e := ending{d.Text(), d.Text(), d.Int()}
	return e, d.End()
}

// run runs the tests and answers their requests with serve. An error of serve
// ends the row, but leaves the box usable.
//
// After the first answer, a value of the candidate's is in play: what goes wrong
// is a failure or a fault. Any other error is the engine's or this process's.
func (b *testBox) run(ctx context.Context, a analysed, args []value.Value, serve func(request) ([]byte, error)) (ending, error) {
	if err := b.begin(ctx, args...); err != nil {
		return ending{}, err
	}
	defer b.markUsed()
	end := ending{answers: -1}
	for {
		op, parts, d, err := b.next(ctx)
		if err != nil {
			return end, err
		}
		switch op {
		case "verdict":
			if end, err = readEnding(d); err != nil {
				return end, unreadable(err)
			}
		case "done":
			status, err := b.finish(d, end.answers)
			if err != nil {
				return end, err
			}
			return end, end.check(status)
		default:
			r, err := readRequest(op, parts, d, a)
			if err != nil {
				return end, unreadable(err)
			}
			if err := b.answer(ctx, r, serve); err != nil {
				return end, err
			}
		}
	}
}

// answer passes a request on and its answer back.
func (b *testBox) answer(ctx context.Context, r request, serve func(request) ([]byte, error)) error {
	payload, err := serve(r)
	if err != nil {
		b.abandon(ctx)
		return err
	}
	b.sent++
	err = b.sendToChild(ctx, payload)
	if errors.Is(err, link.ErrEarly) {
		return family.Fail(verdict.TestsFailed, "the tests ended before the candidate had answered")
	}
	return b.linkError(ctx, err)
}

// check distinguishes a child that died from one that reported or just ended.
func (e ending) check(status int64) error {
	switch {
	case e.verdict == "memory", e.verdict == "" && status == -9:
		return &fault{family.Fail(verdict.OutOfMemory, "the tests ran out of memory over the candidate's value")}
	case e.verdict == "" && status < 0:
		return &fault{family.Fail(verdict.TestsFailed, "the tests' process died")}
	}
	return nil
}

// abandon informs the child that the row has failed and waits a moment for it
// to end, so that the box can serve the next row.
func (b *testBox) abandon(ctx context.Context) {
	ctx, cancel := attended.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	failed := value.Tuple(value.Text("failed")).Append(nil)
	end := ending{answers: -1}
	for op := ""; op != "done"; {
		if op != "verdict" {
			b.sent++
			if b.sendToChild(ctx, failed) != nil {
				return
			}
		}
		next, _, d, err := b.next(ctx)
		if err != nil {
			return
		}
		switch op = next; op {
		case "verdict":
			end, _ = readEnding(d) // an error leaves the box stale, here and below
		case "done":
			_, _ = b.finish(d, end.answers)
		}
	}
}
