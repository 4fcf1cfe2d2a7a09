package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/pipeline/verify"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// garbage is a candidate that no task accepts: a word without meaning, which
// is no number, no label and an unknown name in any program.
const garbage = "qwzxvbnk"

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
}

// Validation is what was found out about one task.
type Validation struct {
	TaskID string  `json:"task_id"`
	Family string  `json:"family"`
	Line   int     `json:"line"`
	Checks []Check `json:"checks"`
	// Weak says what is wrong with variants of the reference that pass as well.
	Weak []string `json:"weak,omitzero"`
	// Skipped says why nothing was checked, e.g. no verifier.
	Skipped string        `json:"skipped,omitzero"`
	Took    time.Duration `json:"-"`

	blind *blind // what the family's baselines made of it; nil is nothing
}

// OK reports whether every check came out as wanted. A task without a
// reference solution is not OK: nobody has shown that it can be solved.
func (v Validation) OK() bool {
	for _, c := range v.Checks {
		if !c.OK {
			return false
		}
	}
	return true
}

// ValidateConfig is what [Validate] needs.
type ValidateConfig struct {
	Families      family.Registry
	Tasks         iter.Seq2[task.Task, error]
	Verifiers     map[string]family.Verifier
	Images        map[string]sandbox.Image
	Verify        sandbox.Limits
	VerifyTimeout time.Duration
	// Derive makes a secret of a salt, for the tests' random numbers.
	Derive  func(label string) [32]byte
	Workers int
	Retries int
	// Done is told of every task as soon as it is known, one at a time.
	Done func(Validation)
}

// Validate shows for every task that its reference solution passes and that
// the empty, the garbage and the starter candidate fail, through the same
// verifiers as a run.
func Validate(ctx context.Context, cfg ValidateConfig) error {
	var mu sync.Mutex
	return atOnce(ctx, cfg.Workers, readPack(cfg.Tasks), func(ctx context.Context, t task.Task) error {
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

// atOnce calls do for every item, as many at a time as there are workers. The
// first error, of do or of items, ends it and is returned.
func atOnce[T any](ctx context.Context, workers int, items iter.Seq2[T, error], do func(context.Context, T) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	jobs := make(chan T)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for item := range jobs {
				if err := do(ctx, item); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	feed(ctx, items, jobs, cancel)
	close(jobs)
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return interruption(err)
	}
	return nil
}

// readPack says of an error of tasks where it comes from.
func readPack(tasks iter.Seq2[task.Task, error]) iter.Seq2[task.Task, error] {
	return func(yield func(task.Task, error) bool) {
		for t, err := range tasks {
			if err != nil {
				err = fmt.Errorf("reading the pack: %w", err)
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

func feed[T any](ctx context.Context, items iter.Seq2[T, error], jobs chan<- T, cancel context.CancelCauseFunc) {
	for item, err := range items {
		if err != nil {
			cancel(err)
			return
		}
		select {
		case jobs <- item:
		case <-ctx.Done():
			return
		}
	}
}

func (cfg ValidateConfig) validate(ctx context.Context, t task.Task) (Validation, error) {
	v := Validation{TaskID: t.ID(), Family: t.Family(), Line: t.Line()}
	verifier, fam, start := cfg.Verifiers[t.Family()], cfg.Families[t.Family()], time.Now()
	if reason, _ := verify.Unscored(t, fam, verifier); reason != "" {
		v.Skipped = string(reason)
		return v, nil
	}
	cases := verify.Cases{Limits: cfg.Verify, Timeout: cfg.VerifyTimeout, Derive: cfg.Derive}
	c := cases.Case(t, fam, 1, cfg.Images[t.Environment().Image])
	ref, hasReference, err := verify.Reference(ctx, verifier, fam, c)
	if err != nil {
		return v, err
	}
	if v.Checks, err = cfg.checks(ctx, verifier, c, probes(t, fam, ref, hasReference)); err != nil {
		return v, err
	}
	if v.Weak, err = cfg.weak(ctx, verifier, c); err != nil {
		return v, err
	}
	if v.blind, err = cfg.blindly(ctx, t, verifier, fam, c); err != nil {
		return v, err
	}
	v.Took = time.Since(start)
	return v, nil
}

// weak tries the wrong twins of the reference. That one passes is no error of
// the pack, but its author should know.
func (cfg ValidateConfig) weak(ctx context.Context, v family.Verifier, at family.Case) (out []string, err error) {
	twinner, ok := v.(family.Twinner)
	if !ok {
		return nil, nil
	}
	twins, err := twinner.Twins(ctx, at)
	if err != nil {
		return nil, err
	}
	for _, twin := range twins {
		p := probe{cand: &twin.Candidate}
		got, err := p.score(ctx, v, at, p.open(ctx, v, at), cfg.Retries)
		if err != nil {
			return nil, err
		}
		if got.Outcome == verdict.Passed {
			out = append(out, twin.What)
		}
	}
	return out, nil
}

// probe is one candidate to try and what must come of it.
type probe struct {
	name string
	pass bool
	cand *candidate.Candidate // nil where the row has none
	why  string               // there is none
}

func probes(t task.Task, fam family.Family, ref family.Solution, hasReference bool) []probe {
	kind := t.Extraction().Kind
	solution := probe{name: CheckReference, pass: true, why: "the row has no reference solution"}
	switch {
	case hasReference && ref.Command != nil:
		solution.why = "the reference solution is a program: check it with run --agent oracle"
	case hasReference:
		solution.cand = &ref.Candidate
	}
	empty, nonsense := candidate.New(kind, candidate.Given, nil), candidate.New(kind, candidate.Given, []byte(garbage))
	out := []probe{solution,
		{name: CheckEmpty, cand: &empty},
		{name: CheckGarbage, cand: &nonsense}}
	if fam.Starter != nil {
		if c, ok := fam.Starter(t.Agent()); ok {
			out = append(out, probe{name: CheckStarter, cand: &c})
		}
	}
	return out
}

// open begins the verification of a probe.
func (p probe) open(ctx context.Context, v family.Verifier, at family.Case) family.Session {
	at.Lazy = p.cand == nil || p.cand.Size == 0
	return v.Open(ctx, at)
}

// checks scores the probes one after the other; the sandboxes of the next are
// made while one is scored.
func (cfg ValidateConfig) checks(ctx context.Context, v family.Verifier, at family.Case, ps []probe) (out []Check, err error) {
	next := ps[0].open(ctx, v, at)
	for i, p := range ps {
		session := next
		if i+1 < len(ps) {
			next = ps[i+1].open(ctx, v, at)
		}
		c, err := cfg.check(ctx, v, at, p, session)
		if err != nil {
			if i+1 < len(ps) {
				err = errors.Join(err, verify.Close(ctx, next))
			}
			return out, err
		}
		out = append(out, c)
	}
	return out, nil
}

// check scores one candidate, again after an error that is ours.
func (cfg ValidateConfig) check(ctx context.Context, v family.Verifier, at family.Case, p probe, s family.Session) (Check, error) {
	c := Check{Candidate: p.name, Want: "fail"}
	if p.pass {
		c.Want = "pass"
	}
	if p.cand == nil {
		c.Outcome, c.Reason, c.Message = verdict.NoCandidate, verdict.CandidateMissing, p.why
		return c, verify.Close(ctx, s)
	}
	got, err := p.score(ctx, v, at, s, cfg.Retries)
	if err != nil {
		return c, err
	}
	c.Outcome, c.Reason, c.Message = got.Outcome, got.Reason, got.Message
	c.OK = (got.Outcome == verdict.Passed) == p.pass
	return c, nil
}

// score scores the candidate in an open session, and in fresh ones after
// errors that are ours.
func (p probe) score(ctx context.Context, v family.Verifier, at family.Case, s family.Session, retries int) (family.Verdict, error) {
	got, err := verify.Score(ctx, s, *p.cand)
	for try := 1; err != nil && try <= retries && ctx.Err() == nil; try++ {
		got, err = verify.Score(ctx, p.open(ctx, v, at), *p.cand)
	}
	return got, err
}
