package codecompletion

import (
	"context"
	_ "embed" // the oracle's program
	"errors"
	"fmt"
	"math"
	"time"

	"securebench/internal/family"
	"securebench/internal/sandbox"
	"securebench/internal/verdict"
)

//go:embed analysis.py
var analysisSource string

//go:embed oracle.py
var oracleSource string

// grace is how long an oracle may take to end a row that is decided.
const grace = time.Second

// envelope is the number of values in a frame beside the one it carries.
const envelope = 64

// oracle is a warm box that runs the pack's own code, a child per row.
type oracle struct {
	*link
	key      poolKey
	isolated bool   // its server is out of its rows' reach
	stale    bool   // a row may still be in it: it serves no other
	said     stream // of the row's child
	sent     int64  // answers to the child's requests
	memory   int64
	seconds  int64 // of processor time, for the row that it serves
}

// poolKey says which oracles are alike.
type poolKey struct {
	image  string
	limits sandbox.Limits
}

// keyOf leaves out what is no property of the box: each row has a time of its
// own, and the output of an oracle is not the candidate's.
func keyOf(c family.Case) poolKey {
	limits := c.Limits.WithDefaults()
	limits.Timeout, limits.Output = 0, 0
	return poolKey{c.Image.ID, limits}
}

// startOracle starts a box that serves row after row until it is closed.
func startOracle(ctx context.Context, engine sandbox.Engine, run string, c family.Case) (*oracle, error) {
	spec := pythonSpec(c, run, "oracle")
	spec.Command = append(spec.Command, scratch()...)
	// Tests may run what a candidate gave them, so the server is another user
	// than its rows. It needs these to become one, to end one, and to shut
	// the way back; its children have none.
	spec.User = &sandbox.User{}
	spec.Capabilities = []sandbox.Capability{sandbox.SetUID, sandbox.SetGID, sandbox.Kill, sandbox.SetPCap}
	l, err := startLink(ctx, context.WithoutCancel(ctx), engine, spec, oracleProgram(), math.MaxInt64)
	if err != nil {
		return nil, err
	}
	// So that Python sees the limit first.
	o := &oracle{link: l, key: keyOf(c), memory: c.Limits.WithDefaults().Memory / 8 * 7}
	if err := o.greet(ctx); err != nil {
		printed, _ := l.stderr.read()
		err = ours(fmt.Errorf("greeting the oracle (%.200q): %w", printed, err))
		return nil, errors.Join(err, l.close(context.WithoutCancel(ctx)))
	}
	return o, nil
}

// greet waits until the server is ready. It says whether its rows can reach
// it: one that they can serves one row.
func (o *oracle) greet(ctx context.Context) error {
	frame, err := o.receive(ctx)
	if err != nil {
		return o.trouble(ctx, err)
	}
	if len(frame) == 0 || frame[0] != frameGreeting {
		return o.sense(errFrame)
	}
	d := &decoder{data: frame[1:], nodes: -envelope}
	if d.tuple() != 2 || d.str() != "ready" {
		d.fail("no greeting")
	}
	o.isolated = d.bool()
	return o.sense(d.end())
}

// oracleProgram is what an oracle's box runs.
func oracleProgram() string { return codecSource + analysisSource + proxiesSource + oracleSource }

// scratch lists the places in a sandbox that a row can write to. The oracle
// empties them behind each row.
func scratch() []string { return []string{"/tmp", "/dev/shm", "/dev/mqueue"} }

// serves sets the oracle up for a row of a case.
func (o *oracle) serves(c family.Case) *oracle {
	o.seconds = int64(math.Ceil(rowLimit(c).Seconds()*max(1, c.Limits.WithDefaults().CPUs))) + 5
	return o
}

// begin makes a child that serves op.
func (o *oracle) begin(ctx context.Context, op string, args ...value) error {
	o.stale, o.sent, o.said = true, 0, stream{}
	if err := o.send(ctx, []byte{frameRow}); err != nil {
		return o.trouble(ctx, err)
	}
	request := tupleValue(stringValue(op), intValue(o.memory), intValue(o.seconds), tupleValue(args...))
	return o.trouble(ctx, o.tell(ctx, request.appendTo(nil)))
}

// tell passes one frame to the row's child.
func (o *oracle) tell(ctx context.Context, payload []byte) error {
	if len(o.said.data) > 0 {
		return errEarly
	}
	return o.send(ctx, appendFrame([]byte{frameData}, payload))
}

// next reads a message of the row's child, or the server's last word on it,
// and its first member.
func (o *oracle) next(ctx context.Context) (op string, parts int, d *decoder, err error) {
	for {
		payload, ok, err := o.said.frame()
		if err != nil {
			return "", 0, nil, o.sense(err)
		}
		if ok {
			return o.message(payload, false)
		}
		frame, err := o.receive(ctx)
		switch {
		case err != nil:
			return "", 0, nil, o.trouble(ctx, err)
		case len(frame) > 0 && frame[0] == frameData:
			o.said.data = append(o.said.data, frame[1:]...)
		case len(frame) > 0 && frame[0] == frameLastWord:
			return o.message(frame[1:], true)
		default:
			return "", 0, nil, o.sense(errFrame)
		}
	}
}

// message begins to read a message. Only the server says that a row is done.
func (o *oracle) message(payload []byte, last bool) (op string, parts int, d *decoder, err error) {
	d = &decoder{data: payload, nodes: -envelope}
	parts = d.tuple() - 1
	op = d.str()
	if d.err == nil && (op == "done") != last {
		d.fail("a last word that is not the server's")
	}
	return op, parts, d, o.sense(d.err)
}

// sense turns a message that makes none into a fault: the tests run in the
// oracle's own process, so they can break what it says.
func (*oracle) sense(err error) error {
	if errors.Is(err, errMalformed) {
		return &fault{failure{verdict.TestsFailed, "the oracle's message cannot be read"}}
	}
	return err
}

// trouble turns what went wrong on the link into a fault of the oracle.
func (o *oracle) trouble(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, errDeadline):
		if err := o.overdue(ctx); err != nil {
			return fmt.Errorf("running the oracle: %w", err)
		}
		return &fault{failure{verdict.VerificationTimeout, "the tests ran longer than the row's time"}}
	case errors.Is(err, errEarly):
		return &fault{failure{verdict.TestsFailed, "the oracle spoke before it was asked"}}
	case errors.Is(err, errGone):
		return o.death(ctx)
	}
	return o.sense(err)
}

// death says how the oracle's box ended.
func (o *oracle) death(ctx context.Context) error {
	outcome, ended, err := o.end(context.WithoutCancel(ctx), settle)
	if err != nil {
		return fmt.Errorf("running the oracle: %w", err)
	}
	if limit := limitOf(outcome, "the oracle"); ended && limit != nil {
		return &fault{*limit}
	}
	return &fault{failure{verdict.TestsFailed, "the oracle ended in the middle of the row"}}
}

// finish reads the server's last word on a row: the child's exit status, and
// whether the sandbox is as it was. The oracle serves on if it is, and if the
// child has read all answers, so that none waits for the next one.
func (o *oracle) finish(d *decoder, answers int64) (int64, error) {
	status := d.integer()
	clean := d.bool()
	if err := d.end(); err != nil {
		return 0, o.sense(err)
	}
	o.stale = !clean || answers != o.sent
	return status, nil
}

// spend notes that tests have run: an oracle that they could reach serves no
// other row.
func (o *oracle) spend() { o.stale = o.stale || !o.isolated }

// request is what the tests ask of the candidate.
type request struct {
	op      string // call, get or set
	on      value  // a handle, or none for the module
	name    string
	operand value // the arguments of a call, the value of a set
	mutates bool  // the arguments come back with the result
}

// readRequest checks a request. Names of the module are those of the plan;
// names of an object are public, or operators where the row has them.
func readRequest(op string, parts int, d *decoder, p plan) (request, error) {
	d.handles, d.operators, d.most = p.handles, p.operators, maxArguments
	r := request{op: op, on: d.value(1), name: d.str()}
	want := map[string]int{"call": 4, "get": 2, "set": 3}[op]
	if want != parts {
		d.fail("a request of no known form")
	}
	if op != "get" {
		r.operand = d.value(1)
	}
	if op == "call" {
		r.mutates = d.bool()
		if !isArguments(r.operand) {
			d.fail("a call without arguments")
		}
	}
	switch {
	case r.on.kind == kindHandle && r.name != "" && r.name[0] != '_':
	case p.operators && d.err == nil && r.allowsOperator():
	case r.on.kind == kindNone && op != "set" && p.has(r.name):
	default:
		d.fail("a name that is not the row's")
	}
	return r, d.end()
}

// isArguments reports whether v is a tuple and a dict with string keys.
func isArguments(v value) bool {
	if v.kind != kindTuple || len(v.items) != 2 || v.items[0].kind != kindTuple || v.items[1].kind != kindDict {
		return false
	}
	for i := 0; i < len(v.items[1].items); i += 2 {
		if v.items[1].items[i].kind != kindString {
			return false
		}
	}
	return true
}

// ending is how the tests of a row ended, in the oracle's words.
type ending struct {
	verdict string // "" when there was none
	detail  string // a traceback, restricted
	answers int64  // that the tests have read; -1 is unknown
}

func readEnding(d *decoder) (ending, error) {
	e := ending{d.str(), d.str(), d.integer()}
	return e, d.end()
}

// run runs the tests and answers their requests with serve. An error of
// serve ends the row; the oracle is told and stays usable.
//
// From the first answer on a value of the candidate's is in play: what goes
// wrong here is a failure or a fault, and an error of ours only where the
// engine or this process has failed.
func (o *oracle) run(ctx context.Context, p plan, args []value, serve func(request) ([]byte, error)) (ending, error) {
	if err := o.begin(ctx, "run", args...); err != nil {
		return ending{}, err
	}
	defer o.spend()
	end := ending{answers: -1}
	for {
		op, parts, d, err := o.next(ctx)
		if err != nil {
			return end, err
		}
		switch op {
		case "verdict":
			if end, err = readEnding(d); err != nil {
				return end, o.sense(err)
			}
		case "done":
			status, err := o.finish(d, end.answers)
			if err != nil {
				return end, err
			}
			return end, end.check(status)
		default:
			r, err := readRequest(op, parts, d, p)
			if err != nil {
				return end, o.sense(err)
			}
			if err := o.answer(ctx, r, serve); err != nil {
				return end, err
			}
		}
	}
}

// answer passes a request on and its answer back.
func (o *oracle) answer(ctx context.Context, r request, serve func(request) ([]byte, error)) error {
	payload, err := serve(r)
	if err != nil {
		o.abandon(ctx)
		return err
	}
	o.sent++
	err = o.tell(ctx, payload)
	if errors.Is(err, errEarly) {
		return &failure{verdict.TestsFailed, "the tests ended before the candidate had answered"}
	}
	return o.trouble(ctx, err)
}

// check tells a child that died from one that spoke or just left.
func (e ending) check(status int64) error {
	switch {
	case e.verdict == "memory", e.verdict == "" && status == -9:
		return &fault{failure{verdict.OutOfMemory, "the tests ran out of memory over the candidate's value"}}
	case e.verdict == "" && status < 0:
		return &fault{failure{verdict.TestsFailed, "the tests' process died"}}
	}
	return nil
}

// abandon tells the oracle that the row is over and waits a moment for the
// child to end, so that the oracle can serve the next row.
func (o *oracle) abandon(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	failed := tupleValue(stringValue("failed")).appendTo(nil)
	end := ending{answers: -1}
	for op := ""; op != "done"; {
		if op != "verdict" {
			o.sent++
			if o.tell(ctx, failed) != nil {
				return
			}
		}
		next, _, d, err := o.next(ctx)
		if err != nil {
			return
		}
		switch op = next; op {
		case "verdict":
			end, _ = readEnding(d) // an error leaves the oracle stale, here and below
		case "done":
			_, _ = o.finish(d, end.answers)
		}
	}
}
