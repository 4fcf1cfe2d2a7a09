package codecompletion

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/verdict"
)

// maxSource is the largest candidate that a frame can carry, in bytes.
const maxSource = maxValue

// session is the verification of one attempt.
type session struct {
	verifier *Verifier
	c        family.Case
	row      row
	refused  error   // why the row has no verifier
	bench    *bench  // nil when refused and after Close
	oracle   *oracle // nil but while Verify runs
	waited   time.Duration
	closeErr error // of what was closed before Close
}

// tally is what a try has seen, for the verdict.
type tally struct {
	trips      int
	dropped    int64         // bytes that the candidate printed and nobody keeps
	ran        time.Duration // of the candidate
	phase      verdict.Phase
	restricted map[string][]byte
	taken      extraction // how is "" before it is known
}

// Verify runs the row's tests against the candidate.
//
// The time limit of the row starts when the sandboxes are ready, so that a
// slow engine costs no candidate its time. Where the oracle itself dies, or
// overruns before it has an answer, the row is tried once more with fresh
// sandboxes and a fresh limit.
func (s *session) Verify(ctx context.Context, c candidate.Candidate) (family.Verdict, error) {
	data, err := c.Bytes()
	if err != nil {
		return family.Verdict{}, err
	}
	code := submission{data, c.Said()}
	if f := s.refuse(code); f != nil {
		return s.verdict(f, tally{}), nil
	}
	if s.bench == nil {
		s.bench = s.verifier.prepare(ctx, s.c, s.row, true)
	}
	defer s.giveBack(ctx)
	t, err := s.try(ctx, code)
	var oracleFault *fault
	if errors.As(err, &oracleFault) {
		if err := s.renew(ctx); err != nil {
			return family.Verdict{}, err
		}
		t, err = s.try(ctx, code)
	}
	var f *failure
	switch {
	case errors.As(err, &oracleFault):
		s.oracle.stale = true
		f = &oracleFault.failure
	case err != nil && !errors.As(err, &f):
		return family.Verdict{}, err
	}
	return s.verdict(f, t), nil
}

// submission is the content of a candidate.
type submission struct {
	data []byte
	said bool // the code stands in what an agent said
}

// refuse decides what needs no sandbox.
func (s *session) refuse(c submission) *failure {
	var f *failure
	switch {
	case errors.As(s.refused, &f):
		return f
	case len(bytes.TrimSpace(c.data)) == 0:
		return &failure{verdict.EmptyCandidate, "the candidate is blank"}
	case len(c.data) > maxSource:
		return &failure{verdict.CandidateTooLarge, "the candidate is over 8 MiB"}
	}
	return nil
}

// ready waits for the worker and leases an oracle. A *failure is the row's
// end, any other error is ours: no value of the candidate's is in play.
func (s *session) ready(ctx context.Context) (plan, error) {
	start := time.Now()
	defer func() { s.waited += time.Since(start) }()
	err := s.bench.wait(ctx)
	if err == nil && s.oracle == nil {
		s.oracle, err = s.verifier.oracles.lease(ctx, s.c)
	}
	var p plan
	if err == nil {
		p, err = s.verifier.planFor(ctx, s.oracle, s.row)
	}
	if err == nil && s.oracle.stale { // it cannot clean up: one child each
		s.oracle, err = s.verifier.oracles.replace(ctx, s.oracle, s.c)
	}
	if errors.Is(err, errBroken) {
		return plan{}, &failure{verdict.PackFault, "the row's tests do not parse"}
	}
	return p, ours(err)
}

// try has one go at the row. nil is a pass, a *failure or a *fault is the
// row's end, any other error is ours.
func (s *session) try(ctx context.Context, code submission) (tally, error) {
	t := tally{phase: "import", restricted: make(map[string][]byte)}
	p, err := s.ready(ctx)
	if err != nil {
		return t, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, rowLimit(s.c), errDeadline)
	defer cancel()
	w, start := s.bench.worker, time.Now()
	w.plan = p
	err = s.load(ctx, w, code, &t)
	t.ran = time.Since(start)
	if err == nil {
		t.phase = "tests"
		err = s.test(ctx, w, s.oracle, p, &t)
	}
	if err != nil && errors.Is(context.Cause(ctx), errDeadline) {
		err = t.overrun(err, rowLimit(s.c))
	}
	var f *failure
	if errors.As(err, &f) {
		err = w.excuse(ctx, f)
	}
	printed, dropped := w.stderr.read()
	if t.dropped = dropped; len(printed) > 0 {
		t.restricted["worker-output.txt"] = printed
	}
	return t, err
}

// load takes the code from a candidate that was said; any other is code. Then
// it is imported.
func (s *session) load(ctx context.Context, w *worker, code submission, t *tally) error {
	taken, source := extraction{how: asIs}, code.data
	if code.said {
		var err error
		if taken, err = w.extract(ctx, code.data, s.row.prompt, w.plan); err != nil {
			return err
		}
	}
	t.taken = taken
	if taken.code != nil {
		source = taken.code
	}
	if len(bytes.TrimSpace(source)) == 0 {
		return &failure{verdict.EmptyCandidate, "nothing but reasoning or stop tokens"}
	}
	if err := w.load(ctx, source); err != nil {
		return err
	}
	return w.prepare(ctx)
}

// test runs the tests. A pass is the oracle's explicit word after the last
// statement, at least one round trip, and no failure on the way: a failure
// here is final whatever the oracle says later.
func (s *session) test(ctx context.Context, w *worker, o *oracle, p plan, t *tally) error {
	end, err := o.run(ctx, p, s.runArguments(p), func(r request) ([]byte, error) {
		start := time.Now()
		answer, err := w.do(ctx, r)
		t.ran += time.Since(start)
		if err == nil {
			t.trips++
		}
		return answer, err
	})
	if end.detail != "" {
		t.restricted["oracle-traceback.txt"] = []byte(end.detail)
	}
	if err != nil {
		return err
	}
	return judge(end.verdict, t.trips, p)
}

// overrun says who made a row run out of time. From the first answer on it is
// the candidate's doing, its own time or what the tests make of its value; only
// tests that ran long before that are tried again.
func (t *tally) overrun(err error, limit time.Duration) error {
	switch {
	case !ranOut(err):
		return err
	case t.ran > limit/2:
		return timeout(limit)
	case t.trips == 0:
		return &fault{failure{verdict.VerificationTimeout, fmt.Sprintf("the tests ran longer than the row's %v before the candidate had answered anything", limit)}}
	}
	return &failure{verdict.VerificationTimeout, fmt.Sprintf("the tests ran longer than the row's %v with what the candidate had answered", limit)}
}

// ranOut reports whether a row has ended for its time.
func ranOut(err error) bool {
	var f *failure
	var o *fault
	return errors.As(err, &f) && f.reason == verdict.VerificationTimeout ||
		errors.As(err, &o) && o.reason == verdict.VerificationTimeout
}

// judge maps the oracle's last word to a failure, or to nil for a pass.
func judge(word string, trips int, p plan) error {
	if operation, ok := strings.CutPrefix(word, "unsupported "); ok {
		return unsupportedOperation(operation, p.operators)
	}
	switch {
	case word == "pass" && trips > 0:
		return nil
	case word == "pass":
		return &failure{verdict.TestsFailed, "the tests ended without asking the candidate anything"}
	case word == "argument":
		return &failure{verdict.TestsFailed, "the tests pass an argument that is no plain data"}
	case word == "large":
		return &failure{verdict.TestsFailed, "the tests pass an argument that is too large"}
	case word == "interrupted":
		return &failure{verdict.TestsFailed, "the tests ended before the candidate had answered"}
	case word == "malformed":
		return violation("a value that the oracle refuses")
	case word == "fail":
		return &failure{verdict.TestsFailed, "the tests failed"}
	}
	return &failure{verdict.TestsFailed, "the tests ended without a verdict"}
}

// runArguments is what the oracle's child gets: nothing of the reference.
func (s *session) runArguments(p plan) []value {
	prompt := value{kind: kindNone}
	if p.promptRuns {
		prompt = stringValue(s.row.prompt)
	}
	return []value{prompt, stringValue(s.row.tests), p.values(), stringValue(p.objects()),
		boolValue(s.row.mutates), bytesValue(s.c.Seed[:])}
}

// renew replaces both sandboxes by fresh ones.
func (s *session) renew(ctx context.Context) error {
	start := time.Now()
	defer func() { s.waited += time.Since(start) }()
	old := s.bench
	s.bench = s.verifier.prepare(context.WithoutCancel(ctx), s.c, s.row, false)
	o, err := s.verifier.oracles.replace(ctx, s.oracle, s.c)
	s.oracle = o
	return errors.Join(err, old.close(ctx))
}

// giveBack hands the oracle to the next session.
func (s *session) giveBack(ctx context.Context) {
	if s.oracle != nil {
		s.closeErr = errors.Join(s.closeErr, s.verifier.oracles.release(ctx, s.oracle))
		s.oracle = nil
	}
}

// verdict puts a try into the record's words; a nil failure is a pass.
func (s *session) verdict(f *failure, t tally) family.Verdict {
	v := family.Verdict{
		Outcome:     verdict.Passed,
		Containment: verdict.Split,
		Metadata:    verdict.NewMetadata(map[string]any{"language": "python", "image": s.c.Image.Ref, "round_trips": t.trips}),
		Restricted:  t.restricted,
		Waited:      s.waited,
		Extraction:  t.taken.how,
		Extracted:   t.taken.code,
	}
	if t.taken.completed {
		v.Metadata.Set("completed_by_prompt", true)
	}
	if t.dropped > 0 {
		v.Metadata.Set("dropped_output_bytes", t.dropped)
	}
	if f != nil {
		v.Outcome, v.Reason, v.Message, v.Phase = outcomeOf(f.reason), f.reason, f.message, t.phase
	}
	if s.row.mutates {
		v.Labels = append(v.Labels, "mutates")
	}
	if s.row.operators {
		v.Labels = append(v.Labels, "candidate_operators")
	}
	return v
}

// Close removes the worker.
func (s *session) Close(ctx context.Context) error {
	if s.bench == nil {
		return nil
	}
	b := s.bench
	s.bench = nil
	return errors.Join(s.closeErr, b.close(ctx))
}
