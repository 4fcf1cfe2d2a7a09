// Package validate checks that a pack scores correct and wrong work as such:
// references pass, empty and garbage candidates fail, and baselines, which
// ignore the question, do no better than chance.
package validate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"securebench/internal/agent"
	"securebench/internal/candidate"
	"securebench/internal/config"
	"securebench/internal/family"
	"securebench/internal/fault"
	"securebench/internal/judge"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/pipeline/commit"
	"securebench/internal/progress"
	"securebench/internal/sandbox"
	"securebench/internal/scoring"
	"securebench/internal/task"
	"securebench/internal/verdict"
	"securebench/internal/workload"
)

// garbage is a candidate that no task accepts: a meaningless word, which is not
// a number or a label, and an unknown name in any program.
const garbage = "qwzxvbnk"

// runName goes into the labels of a validation's sandboxes.
const runName = "validate"

// The candidates that validation tries.
const (
	CheckReference = "reference"
	CheckEmpty     = "empty"
	CheckGarbage   = "garbage"
	CheckStarter   = "starter"
)

// Check is the outcome of one candidate in a validation.
type Check struct {
	Candidate string          `json:"candidate"` // reference, empty, garbage or starter
	Want      string          `json:"want"`      // "pass" or "fail"
	Outcome   verdict.Outcome `json:"outcome"`
	Reason    verdict.Reason  `json:"reason,omitzero"`
	Message   string          `json:"message,omitzero"`
	OK        bool            `json:"ok"`
	// Tried is how often a reference was tried, if more than once, and Passed how often it
	// passed.
	Tried  int `json:"tried,omitzero"`
	Passed int `json:"passed,omitzero"`
	// Why says more about a reference that does not pass: where its tests failed,
	// and what else is known.
	Why []string `json:"why,omitzero"`
}

// Result is the result of validating one task.
type Result struct {
	TaskID string  `json:"task_id"`
	Family string  `json:"family"`
	Line   int     `json:"line"`
	Checks []Check `json:"checks"`
	// Weak says which wrong candidates pass as well, and what to do.
	Weak []string `json:"weak,omitzero"`
	// Proposal says how the row could be scored instead; "" is no other way.
	Proposal string `json:"proposal,omitzero"`
	// Skipped says why nothing was checked, e.g. no verifier.
	Skipped verdict.Reason `json:"skipped,omitzero"`
	Took    time.Duration  `json:"-"`

	baselines *rowBaselines // nil where the family has none
}

// OK reports whether every check had the expected outcome. A task without a
// reference solution is not OK: nothing shows that it can be solved.
func (v Result) OK() bool {
	for _, c := range v.Checks {
		if !c.OK {
			return false
		}
	}
	return true
}

// infrastructure reports whether the task could not be checked.
func (v Result) infrastructure() bool {
	return slices.ContainsFunc(v.Checks, func(c Check) bool { return c.Outcome == verdict.Infrastructure })
}

// Config is what [Run] needs.
type Config struct {
	Families      family.Registry
	Tasks         iter.Seq2[task.Task, error]
	Verifiers     map[string]family.Verifier
	Images        map[string]sandbox.Image
	Verify        sandbox.Limits
	VerifyTimeout time.Duration
	// Fault returns an error that wraps [sandbox.ErrUnusable] for a task that cannot be
	// run in its images; nil finds none.
	Fault func(context.Context, task.Task) error
	// Answers returns an error if the engine does not answer; nil asks nothing.
	Answers func(context.Context) error
	// Derive derives a secret from the salt, for the tests' random numbers.
	Derive  func(label string) [32]byte
	Workers int
	Retries int
	// Repeat is how often each reference is tried, from the solution on, in new sandboxes and
	// with another seed each time; 0 is once.
	Repeat int
	// Runner runs solutions that are programs; nil runs none. Store keeps what
	// they leave, and trees.
	Runner *agent.Runner
	// Users resolves whose the files of trees are.
	Users agent.Users
	Store attempt.Store
	// Begin is called with every task before it is checked; nil is not.
	Begin func(task.Task)
	// Done is called with every result, one at a time.
	Done func(Result)
}

// Event is a result as progress shows it: passed if nothing is wrong.
func (v Result) Event() progress.TaskDone {
	e := progress.TaskDone{TaskID: v.TaskID, Attempt: 1, Status: verdict.StatusFailed, Outcome: verdict.Failed}
	switch {
	case v.Skipped != "":
		e.Status, e.Outcome, e.Reason = verdict.StatusPending, verdict.Pending, v.Skipped
	case v.OK():
		e.Status, e.Outcome, e.Score = verdict.StatusPassed, verdict.Passed, 1
	}
	return e
}

// Run shows for every task that its reference solution passes and that
// the empty, the garbage and the starter candidate fail, through the same
// verifiers as a run.
func Run(ctx context.Context, cfg Config) error {
	var mu sync.Mutex
	return scoring.Each(ctx, cfg.Workers, cfg.Tasks, func(ctx context.Context, t task.Task) error {
		if cfg.Begin != nil {
			cfg.Begin(t)
		}
		v, err := cfg.validate(ctx, t)
		if err != nil {
			return fmt.Errorf("validating %s: %w", t.ID(), err)
		}
		mu.Lock()
		defer mu.Unlock()
		cfg.Done(v)
		return nil
	})
}

// validate checks one task. What is wrong with the row, and what goes wrong with it
// while the engine answers, is in the result: the other tasks are checked.
func (cfg Config) validate(ctx context.Context, t task.Task) (Result, error) {
	v := Result{TaskID: t.ID(), Family: t.Family(), Line: t.Line()}
	start := time.Now()
	err := cfg.try(ctx, t, &v)
	v.Took = time.Since(start)
	switch {
	case err == nil:
		return v, nil
	case ctx.Err() != nil, errors.Is(err, judge.ErrSpent):
		return v, err
	case agent.Unusable(err):
		v.unchecked(verdict.Pending, verdict.PackFault, err)
		return v, nil
	}
	if cfg.Answers != nil {
		if dead := cfg.Answers(ctx); dead != nil {
			return v, fault.As(fault.Engine, fmt.Errorf("%w; and the engine does not answer: %w", err, dead))
		}
	}
	v.unchecked(verdict.Infrastructure, verdict.InfrastructureError, err)
	return v, nil
}

// unchecked adds a check that came to no verdict.
func (v *Result) unchecked(o verdict.Outcome, why verdict.Reason, err error) {
	v.Checks = append(v.Checks, Check{Candidate: CheckReference, Want: "pass", Outcome: o, Reason: why, Message: commit.Line(err)})
}

// try tries the candidates of a task.
func (cfg Config) try(ctx context.Context, t task.Task, v *Result) error {
	verifier, fam := cfg.Verifiers[t.Family()], cfg.Families[t.Family()]
	switch reason, _ := fam.Unscored(t, verifier); reason {
	case "":
	case verdict.Budget:
		return errSpent
	default:
		v.Skipped = reason
		return nil
	}
	if cfg.Fault != nil {
		if err := cfg.Fault(ctx, t); err != nil {
			return err
		}
	}
	cases := family.Cases{Limits: cfg.Verify, Timeout: cfg.VerifyTimeout, Derive: cfg.Derive}
	c := cases.Case(t, fam, 1, cfg.Images[t.Environment().Image])
	ref, hasReference, err := fam.Solution(ctx, verifier, c)
	if err != nil {
		return err
	}
	if !hasReference && fam.Basis(c.Evaluator) == verdict.Judged { // its canaries may do
		v.Skipped = verdict.CandidateMissing
		return nil
	}
	tried, err := cfg.probes(ctx, t, fam, ref, hasReference)
	if err != nil {
		return err
	}
	if v.Checks, err = cfg.checks(ctx, verifier, c, tried); err != nil {
		return err
	}
	if cfg.Repeat > 1 && hasReference {
		nth := func(n int) family.Case { return cases.Case(t, fam, n, cfg.Images[t.Environment().Image]) }
		if v.Checks[0], err = cfg.again(ctx, t, fam, verifier, nth, v.Checks[0]); err != nil {
			return err
		}
	}
	if v.Checks[0].OK { // otherwise there is something to mend first
		if v.Weak, err = cfg.weak(ctx, verifier, c); err != nil {
			return err
		}
	}
	if v.Proposal, err = cfg.propose(ctx, verifier, c, tried[0], v.Checks[0]); err != nil {
		return err
	}
	v.baselines, err = cfg.tryBaselines(ctx, t, verifier, fam, c)
	return err
}

// again tries a row's own solution some times more. It returns the check of the first that
// did not pass, with how many did: a reference that passes now and then is flaky, and its
// row fails honest work as often.
func (cfg Config) again(ctx context.Context, t task.Task, fam family.Family, v family.Verifier, nth func(int) family.Case, first Check) (Check, error) {
	passed := 0
	if first.OK {
		passed++
	}
	for n := 2; n <= cfg.Repeat; n++ {
		c := nth(n)
		sol, has, err := fam.Solution(ctx, v, c)
		if err != nil {
			return first, err
		}
		p, err := cfg.reference(ctx, t, sol, has)
		if err != nil {
			return first, err
		}
		now, err := cfg.check(ctx, v, c, p, scoring.OpenSession(ctx, v, c, p.cand))
		if err != nil {
			return first, err
		}
		if now.OK {
			passed++
		} else if first.OK {
			first = now
		}
	}
	first.Tried, first.Passed = cfg.Repeat, passed
	if !first.OK && passed > 0 {
		first.Message = fmt.Sprintf("flaky: it passes %d of %d times; else: %s", passed, cfg.Repeat, first.Message)
	}
	return first, nil
}

// weak tries wrong candidates that weak tests accept. If one passes, that is not
// an error of the pack, but its author should know.
func (cfg Config) weak(ctx context.Context, v family.Verifier, at family.Case) (out []string, err error) {
	if critic, ok := v.(family.Critic); ok {
		if out, err = critic.Weaknesses(ctx, at); err != nil {
			return nil, err
		}
	}
	twinner, ok := v.(family.Twinner)
	if !ok {
		return out, nil
	}
	twins, err := twinner.Twins(ctx, at)
	if err != nil {
		return nil, err
	}
	for _, twin := range twins {
		got, err := scoring.Score(ctx, v, at, twin.Candidate, nil, cfg.Retries)
		if err != nil {
			return nil, err
		}
		if got.Outcome == verdict.Passed {
			out = append(out, "the tests pass where "+twin.What+": "+twin.Advice)
		}
	}
	return out, nil
}

// propose tries the other ways to score a row on its own solution, and returns the
// advice of the first by which it passes.
func (cfg Config) propose(ctx context.Context, v family.Verifier, at family.Case, reference probe, check Check) (string, error) {
	alternator, ok := v.(family.Alternator)
	if !ok || reference.cand == nil {
		return "", nil
	}
	for _, other := range alternator.Alternatives(at, check.Outcome == verdict.Passed) {
		got, err := scoring.Score(ctx, other.Verifier, at, *reference.cand, nil, cfg.Retries)
		if err != nil {
			return "", err
		}
		if got.Outcome == verdict.Passed {
			return other.Advice, nil
		}
	}
	return "", nil
}

// probe is one candidate to try and its expected outcome.
type probe struct {
	name string
	pass bool
	cand *candidate.Candidate // nil where there is none
	none Check                // says why
	said []string             // what the program that made it said, if it failed
}

func (cfg Config) probes(ctx context.Context, t task.Task, fam family.Family, ref family.Solution, hasReference bool) ([]probe, error) {
	solution, err := cfg.reference(ctx, t, ref, hasReference)
	if err != nil {
		return nil, err
	}
	out := []probe{solution}
	word := garbage
	if fam.Garbage != nil {
		if own, ok := fam.Garbage(t.Evaluator()); ok {
			word = own
		}
	}
	for _, wrong := range []struct{ name, word string }{{CheckEmpty, ""}, {CheckGarbage, word}} {
		c, err := cfg.trial(t, wrong.word)
		if err != nil {
			return nil, fmt.Errorf("making the %s candidate: %w", wrong.name, err)
		}
		out = append(out, probe{name: wrong.name, cand: c})
	}
	if fam.Starter != nil {
		if c, ok := fam.Starter(t.Agent()); ok {
			out = append(out, probe{name: CheckStarter, cand: &c})
		}
	}
	return out, nil
}

// checks scores the probes one after the other; the sandboxes of the next are
// made while one is scored.
func (cfg Config) checks(ctx context.Context, v family.Verifier, at family.Case, ps []probe) (out []Check, err error) {
	next := scoring.OpenSession(ctx, v, at, ps[0].cand)
	for i, p := range ps {
		session := next
		if i+1 < len(ps) {
			next = scoring.OpenSession(ctx, v, at, ps[i+1].cand)
		}
		c, err := cfg.check(ctx, v, at, p, session)
		if err != nil {
			if i+1 < len(ps) {
				err = errors.Join(err, scoring.Close(ctx, next))
			}
			return out, err
		}
		out = append(out, c)
	}
	return out, nil
}

// check scores one candidate, again after an infrastructure error.
func (cfg Config) check(ctx context.Context, v family.Verifier, at family.Case, p probe, s family.Session) (Check, error) {
	c := p.none
	c.Candidate, c.Want = p.name, "fail"
	if p.pass {
		c.Want = "pass"
	}
	c.Why = p.said
	if p.cand == nil {
		return c, scoring.Close(ctx, s)
	}
	got, err := scoring.Score(ctx, v, at, *p.cand, s, cfg.Retries)
	if err != nil {
		return c, err
	}
	c.Outcome, c.Reason, c.Message = got.Outcome, got.Reason, got.Message
	c.OK = (got.Outcome == verdict.Passed) == p.pass
	if c.OK || !p.pass {
		c.Why = nil
		return c, nil
	}
	why, err := explain(ctx, v, at, got)
	c.Why = append(c.Why, why...)
	return c, err
}

// rubrics is a judge that decides rubrics. It reads no answers: the rule of a row reads its
// own solution, or that is what is wrong with it.
type rubrics struct{ judge.Judge }

// Decide decides by a rubric.
func (r rubrics) Decide(ctx context.Context, q judge.Question) (judge.Decision, error) {
	if q.Right != nil {
		return judge.Decision{Outcome: verdict.Failed}, nil
	}
	d, err := r.Judge.Decide(ctx, q)
	if err == nil && d.Reason == verdict.Budget {
		err = errSpent
	}
	return d, err
}

// errSpent ends a validation: what no judge was asked about is not checked.
var errSpent = fault.Errorf(fault.Refused, "%w before every row was checked (raise judge.budget, or give --limit)", judge.ErrSpent)

// Pack validates the used rows of a pack with the limits of cfg, and with a judge unless it
// is nil; each reference is tried repeat times. begin is called before each row, and done
// after it, one at a time.
func Pack(ctx context.Context, w *workload.Workload, j judge.Judge, repeat int, open scoring.EngineOpener, cfg *config.Tester, notice func(string), begin func(task.Task), done func(Result)) (err error) {
	s, err := scoring.OpenForReview(ctx, runName, w, open, cfg, true, notice)
	if err != nil {
		return err
	}
	if j != nil {
		s.Judge = rubrics{j}
		s.MakeVerifiers(w.Families, runName, cfg, s.Workers)
	}
	var temp scratch
	defer func() { err = errors.Join(err, s.Close(), temp.Close()) }()
	var runner *agent.Runner
	if s.Engine != nil {
		runner = s.Runner(w, cfg, runName)
	}
	return Run(ctx, Config{
		Fault: func(ctx context.Context, t task.Task) error {
			return s.Fault(ctx, w, t, scoring.Place{})
		},
		Answers:  s.Answers,
		Families: w.Families, Tasks: w.Tasks(ctx, nil), Verifiers: s.Verifiers, Images: s.Images,
		Verify: scoring.Limits(cfg.Limits), VerifyTimeout: cfg.Limits.Verify, Workers: s.Workers, Retries: cfg.Retries, Repeat: repeat, Derive: s.Derive, Runner: runner, Users: s.User, Store: &temp, Begin: begin, Done: done,
	})
}
