package codecompletion

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"time"

	"securebench/internal/family"
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
	phase      string
	restricted map[string][]byte
}

// Verify runs the row's tests against the candidate.
//
// The time limit of the row starts when the sandboxes are ready, so that a
// slow engine costs no candidate its time. Where the oracle itself dies or
// overruns, the row is tried once more with fresh sandboxes and a fresh limit.
func (s *session) Verify(ctx context.Context, candidate family.Candidate) (family.Verdict, error) {
	if f := s.refuse(candidate); f != nil {
		return s.verdict(f, tally{}), nil
	}
	if s.bench == nil {
		s.bench = s.verifier.prepare(ctx, s.c, &s.row)
	}
	defer s.giveBack(ctx)
	t, err := s.try(ctx, candidate.Data)
	var oracleFault *fault
	if errors.As(err, &oracleFault) {
		if err := s.renew(ctx); err != nil {
			return family.Verdict{}, err
		}
		t, err = s.try(ctx, candidate.Data)
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

// refuse decides what needs no sandbox.
func (s *session) refuse(c family.Candidate) *failure {
	var f *failure
	switch {
	case errors.As(s.refused, &f):
		return f
	case len(bytes.TrimSpace(c.Data)) == 0:
		return &failure{family.EmptyCandidate, "the candidate is blank"}
	case len(c.Data) > maxSource:
		return &failure{family.CandidateTooLarge, "the candidate is over 8 MiB"}
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
		return plan{}, &failure{family.PackFault, "the row's tests do not parse"}
	}
	return p, ours(err)
}

// try has one go at the row. nil is a pass, a *failure or a *fault is the
// row's end, any other error is ours.
func (s *session) try(ctx context.Context, source []byte) (tally, error) {
	t := tally{phase: "import", restricted: make(map[string][]byte)}
	p, err := s.ready(ctx)
	if err != nil {
		return t, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, rowLimit(s.c), errDeadline)
	defer cancel()
	w := s.bench.worker
	w.handles = p.handles
	if err = w.load(ctx, source); err == nil {
		t.phase = "tests"
		err = s.test(ctx, w, s.oracle, p, &t)
	}
	var f *failure
	if errors.As(err, &f) {
		err = w.excuse(ctx, f)
	}
	if noise := w.stderr.bytes(); len(noise) > 0 {
		t.restricted["worker-output.txt"] = noise
	}
	return t, err
}

// test runs the tests. A pass is the oracle's explicit word after the last
// statement, at least one round trip, and no failure on the way: a failure
// here is final whatever the oracle says later.
func (s *session) test(ctx context.Context, w *worker, o *oracle, p plan, t *tally) error {
	end, err := o.run(ctx, p, s.runArguments(p), func(r request) ([]byte, error) {
		answer, err := w.do(ctx, r)
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
	return judge(end.verdict, t.trips)
}

// judge maps the oracle's last word to a failure, or to nil for a pass.
func judge(verdict string, trips int) error {
	switch {
	case verdict == "pass" && trips > 0:
		return nil
	case verdict == "pass":
		return &failure{family.TestsFailed, "the tests ended without asking the candidate anything"}
	case verdict == "argument":
		return &failure{family.TestsFailed, "the tests pass an argument that is no plain data"}
	case verdict == "large":
		return &failure{family.TestsFailed, "the tests pass an argument that is too large"}
	case verdict == "interrupted":
		return &failure{family.TestsFailed, "the tests ended before the candidate had answered"}
	case verdict == "malformed":
		return violation("a value that the oracle refuses")
	case verdict == "fail":
		return &failure{family.TestsFailed, "the tests failed"}
	}
	return &failure{family.TestsFailed, "the tests ended without a verdict"}
}

// runArguments is what the oracle's child gets: nothing of the reference.
func (s *session) runArguments(p plan) []value {
	prompt := value{kind: kindNone}
	if p.promptRuns {
		prompt = stringValue(s.row.prompt)
	}
	label := "oracle-seed\x00" + s.c.Sandbox.ID() + "\x00" + strconv.Itoa(s.c.Attempt)
	seed := s.verifier.resources.Seed(label)
	return []value{prompt, stringValue(s.row.tests), p.values(), boolValue(p.handles),
		boolValue(s.row.mutates), bytesValue(seed[:])}
}

// renew replaces both sandboxes by fresh ones.
func (s *session) renew(ctx context.Context) error {
	start := time.Now()
	defer func() { s.waited += time.Since(start) }()
	old := s.bench
	s.bench = s.verifier.prepare(context.WithoutCancel(ctx), s.c, nil)
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
		Outcome:     family.Passed,
		Containment: family.Split,
		Metadata:    map[string]any{"language": "python", "image": s.c.Image.Ref, "round_trips": t.trips},
		Restricted:  t.restricted,
		Waited:      s.waited,
	}
	if f != nil {
		v.Outcome, v.Reason, v.Message, v.Phase = outcomeOf(f.reason), f.reason, f.message, t.phase
	}
	if s.row.mutates {
		v.Labels = []string{"mutates"}
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
