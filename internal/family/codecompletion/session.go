package codecompletion

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"securebench/internal/attended"
	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/codecompletion/analysis"
	"securebench/internal/family/codecompletion/forms"
	"securebench/internal/value"
	"securebench/internal/verdict"
)

// importError names what an import raised, among the restricted files.
const importError = "candidate-error.txt"

// maxSource is the largest candidate that a frame can carry, in bytes.
const maxSource = value.MaxSize

// session is the verification of one attempt.
type session struct {
	verifier *Verifier
	c        family.Case
	row      row
	refused  error        // why the row has no verifier
	prepared *preparation // nil when refused and after Close
	tests    *testBox     // nil except while Verify runs
	said     bool         // the code is a part of what an agent printed
	waited   time.Duration
	closeErr error // of what was closed before Close
}

// tally is what one try at a row has observed, for the verdict.
type tally struct {
	trips      int
	dropped    int64         // bytes that the candidate printed beyond what is kept
	ran        time.Duration // of the candidate
	phase      verdict.Phase
	restricted map[string][]byte
	taken      extraction // how is "" before it is known
}

// Verify runs the row's tests against the candidate.
//
// The row's time limit starts when the sandboxes are ready, so a slow engine
// costs no candidate its time. Where the test box itself dies, or runs out of
// time before it has an answer, the row is tried once more with fresh sandboxes
// and a fresh limit.
func (s *session) Verify(ctx context.Context, c candidate.Candidate) (family.Verdict, error) {
	code, err := c.Bytes()
	if err != nil {
		return family.Verdict{}, err
	}
	s.said = c.Said()
	if f := s.refuse(code); f != nil {
		return s.verdict(f, tally{}), nil
	}
	if s.prepared == nil {
		s.prepared = s.verifier.prepare(ctx, s.c, s.row, true)
	}
	defer s.releaseTestBox(ctx)
	t, err := s.try(ctx, code)
	var testFault *fault
	if errors.As(err, &testFault) {
		if err := s.renew(ctx); err != nil {
			return family.Verdict{}, err
		}
		t, err = s.try(ctx, code)
	}
	var f *family.Failure
	switch {
	case errors.As(err, &testFault):
		s.tests.stale = true
		f = testFault.Failure
	case err != nil && !errors.As(err, &f):
		return family.Verdict{}, err
	}
	return s.verdict(f, t), nil
}

// refuse decides what needs no sandbox.
func (s *session) refuse(code []byte) *family.Failure {
	var f *family.Failure
	switch {
	case errors.As(s.refused, &f):
		return f
	case len(bytes.TrimSpace(code)) == 0:
		return family.Fail(verdict.EmptyCandidate, "the candidate is blank")
	case len(code) > maxSource:
		return family.Fail(verdict.CandidateTooLarge, "the candidate is over 8 MiB")
	}
	return nil
}

// ready waits for the candidate box and the analysis, and leases a test box. A
// [family.Failure] is the row's end; any other error is the engine's or this
// process's, since no value of the candidate's is in play.
func (s *session) ready(ctx context.Context) (analysed, error) {
	start := time.Now()
	defer func() { s.waited += time.Since(start) }()
	err := s.prepared.wait(ctx)
	if err == nil && s.tests == nil {
		s.tests, err = s.verifier.leaseTestBox(ctx, s.c)
	}
	switch {
	case errors.Is(err, analysis.ErrBroken):
		return analysed{}, family.Fail(verdict.PackFault, "%v", err)
	case err != nil:
		return analysed{}, infrastructure(err)
	}
	return s.prepared.row, nil
}

// try runs the row once. A nil error is a pass, a [family.Failure] or a *fault is the
// row's end, any other error is the engine's or this process's.
func (s *session) try(ctx context.Context, code []byte) (tally, error) {
	t := tally{phase: "import", restricted: make(map[string][]byte)}
	a, err := s.ready(ctx)
	if err != nil {
		return t, err
	}
	ctx, cancel := attended.WithTimeoutCause(ctx, forms.Limit(s.c), errDeadline)
	defer cancel()
	box := s.prepared.box
	box.row = a
	err = s.load(ctx, box, code, &t)
	t.ran = attended.Spent(ctx)
	if err == nil {
		t.phase = "tests"
		err = s.test(ctx, box, a, &t)
	}
	if err != nil && errors.Is(context.Cause(ctx), errDeadline) {
		err = t.overrun(err, forms.Limit(s.c))
	}
	var f *family.Failure
	if errors.As(err, &f) {
		err = box.explain(ctx, f)
	}
	if box.importError != "" {
		t.restricted[importError] = []byte(box.importError)
	}
	printed, dropped := box.Stderr()
	if t.dropped = dropped; len(printed) > 0 {
		t.restricted["candidate-output.txt"] = printed
	}
	return t, err
}

// load takes the code from a candidate that is an agent's text; any other
// candidate is code. Then it imports the code.
func (s *session) load(ctx context.Context, box *candidateBox, code []byte, t *tally) error {
	taken, source := extraction{how: asIs}, code
	if s.said {
		var err error
		if taken, err = box.extract(ctx, code, s.row.prompt, box.row); err != nil {
			return err
		}
	}
	t.taken = taken
	if taken.code != nil {
		source = taken.code
	}
	if len(bytes.TrimSpace(source)) == 0 {
		return family.Fail(verdict.EmptyCandidate, "nothing but reasoning or stop tokens")
	}
	if err := box.load(ctx, source); err != nil {
		return err
	}
	return box.prepare(ctx)
}

// test runs the tests. A pass needs the explicit verdict of the tests' process
// after their last statement, at least one round trip, and no failure on the way:
// a failure here is final whatever that process reports later.
func (s *session) test(ctx context.Context, box *candidateBox, a analysed, t *tally) error {
	end, err := s.tests.run(ctx, a, s.runArguments(a), func(r request) ([]byte, error) {
		start := attended.Spent(ctx)
		answer, err := box.do(ctx, r)
		t.ran += attended.Spent(ctx) - start
		if err == nil {
			t.trips++
		}
		return answer, err
	})
	if end.detail != "" {
		t.restricted["tests-traceback.txt"] = []byte(end.detail)
	}
	if err != nil {
		return err
	}
	return judge(end.verdict, t.trips, a)
}

// overrun attributes the end of the row's time. After the first answer it counts
// against the candidate: its own time, or what the tests do with its value. Only
// tests that ran too long before that are tried again.
func (t *tally) overrun(err error, limit time.Duration) error {
	switch {
	case !ranOut(err):
		return err
	case t.ran > limit/2:
		return timeout(limit)
	case t.trips == 0:
		return &fault{family.Fail(verdict.VerificationTimeout, "the tests ran longer than the row's %v before the candidate had answered anything", limit)}
	}
	return family.Fail(verdict.VerificationTimeout, "the tests ran longer than the row's %v with what the candidate had answered", limit)
}

// ranOut reports whether a row has run out of time.
func ranOut(err error) bool {
	var f *family.Failure
	var o *fault
	return errors.As(err, &f) && f.Reason == verdict.VerificationTimeout ||
		errors.As(err, &o) && o.Reason == verdict.VerificationTimeout
}

// judge maps the verdict of the tests' process to a failure, or to nil for a pass.
func judge(word string, trips int, a analysed) error {
	if operation, ok := strings.CutPrefix(word, "unsupported "); ok {
		return unsupportedOperation(operation, a.operators)
	}
	switch {
	case word == "pass" && trips > 0:
		return nil
	case word == "pass":
		return family.Fail(verdict.TestsFailed, "the tests ended without asking the candidate anything")
	case word == "argument":
		return family.Fail(verdict.TestsFailed, "the tests pass an argument that is not plain data")
	case word == "large":
		return family.Fail(verdict.TestsFailed, "the tests pass an argument that is too large")
	case word == "interrupted":
		return family.Fail(verdict.TestsFailed, "the tests ended before the candidate had answered")
	case word == "malformed":
		return violation("a value that the tests' decoder refuses")
	case word == "fail":
		return family.Fail(verdict.TestsFailed, "the tests failed")
	}
	return family.Fail(verdict.TestsFailed, "the tests ended without a verdict")
}

// runArguments is what the tests' process gets: nothing of the reference.
func (s *session) runArguments(a analysed) []value.Value {
	prompt := value.Value{Kind: value.KindNone}
	if a.PromptRuns {
		prompt = value.Text(s.row.prompt)
	}
	return []value.Value{prompt, value.Text(s.row.tests), a.Kinds(), value.Text(a.objects()),
		value.Bool(s.row.mutates), value.Bytes(s.c.Seed[:])}
}

// renew replaces both sandboxes by fresh ones.
func (s *session) renew(ctx context.Context) error {
	start := time.Now()
	defer func() { s.waited += time.Since(start) }()
	old := s.prepared
	s.prepared = s.verifier.prepare(context.WithoutCancel(ctx), s.c, s.row, false)
	box, err := s.verifier.replaceTestBox(ctx, s.tests, s.c)
	s.tests = box
	return errors.Join(err, old.close(ctx))
}

// releaseTestBox gives the test box back for the next session.
func (s *session) releaseTestBox(ctx context.Context) {
	if s.tests != nil {
		s.closeErr = errors.Join(s.closeErr, s.verifier.releaseTestBox(ctx, s.c, s.tests))
		s.tests = nil
	}
}

// verdict describes a try in the words of records; a nil failure is a pass.
func (s *session) verdict(f *family.Failure, t tally) family.Verdict {
	v := family.VerdictOf(f)
	v.Containment, v.Waited, v.Restricted = verdict.Split, s.waited, t.restricted
	v.Extraction, v.Extracted = t.taken.how, t.taken.code
	v.Metadata = verdict.NewMetadata(map[string]any{"language": forms.Python, "image": s.c.Image.Ref, "round_trips": t.trips})
	if t.taken.completed {
		v.Metadata.Set("completed_by_prompt", true)
	}
	if t.dropped > 0 {
		v.Metadata.Set("dropped_output_bytes", t.dropped)
	}
	if f != nil {
		v.Phase = t.phase
		if f.Reason == verdict.CandidateTooLarge { // for a frame, which is no limit of the run's
			v.Outcome = verdict.Failed
		}
	}
	if s.row.mutates {
		v.Labels = append(v.Labels, "mutates")
	}
	if s.row.operators {
		v.Labels = append(v.Labels, "candidate_operators")
	}
	return v
}

// Close removes the candidate box.
func (s *session) Close(ctx context.Context) error {
	if s.prepared == nil {
		return nil
	}
	c := s.prepared
	s.prepared = nil
	return errors.Join(s.closeErr, c.close(ctx))
}
