package codecompletion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"securebench/internal/attended"
	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/codecompletion/analysis"
	"securebench/internal/sandbox/link"
	"securebench/internal/task"
)

// Verifier scores Python candidates. The candidate runs in the candidate sandbox,
// the tests in the test sandbox, and this process carries plain data between
// them: it never loads either.
//
// Test sandboxes run no candidate code, so they are kept warm and serve one row
// after the other. A session has one only while it verifies.
type Verifier struct {
	resources family.Resources
	testBoxes *link.Pool[boxKey, *testBox]

	analyst *analysis.Analyst

	mu       sync.Mutex
	programs map[string][]byte // of candidate boxes, compiled, by image
}

var _ family.Completer = (*Verifier)(nil)

// newVerifier makes the family's verifier. It starts nothing.
func newVerifier(r family.Resources) family.Verifier {
	return &Verifier{
		resources: r,
		testBoxes: link.NewPool[boxKey, *testBox](r.Workers),
		analyst:   analysis.New(r.Engine, r.RunID),
		programs:  make(map[string][]byte),
	}
}

// starter starts test boxes for a case.
func (v *Verifier) starter(c family.Case) link.Starter[*testBox] {
	return func(ctx context.Context) (*testBox, error) {
		return startTestBox(ctx, v.resources.Engine, v.resources.RunID, c)
	}
}

// leaseTestBox leases a test box and prepares it for a case.
func (v *Verifier) leaseTestBox(ctx context.Context, c family.Case) (*testBox, error) {
	b, err := v.testBoxes.Lease(ctx, keyOf(c), v.starter(c))
	if err != nil {
		return nil, err
	}
	return b.serves(c), nil
}

// replaceTestBox puts a fresh test box into the place of another.
func (v *Verifier) replaceTestBox(ctx context.Context, old *testBox, c family.Case) (*testBox, error) {
	b, err := v.testBoxes.Replace(ctx, old, v.starter(c))
	if err != nil {
		return nil, err
	}
	return b.serves(c), nil
}

func (v *Verifier) releaseTestBox(ctx context.Context, c family.Case, b *testBox) error {
	return v.testBoxes.Release(ctx, keyOf(c), b)
}

// Open starts the candidate box of a verification in the background, and a test
// box if there is none for it and room for one.
func (v *Verifier) Open(ctx context.Context, c family.Case) family.Session {
	s := &session{verifier: v, c: c}
	s.row, s.refused = readRow(c)
	if s.refused == nil && !c.Lazy {
		s.prepared = v.prepare(ctx, c, s.row, true)
	}
	return s
}

// Close closes the boxes that were kept.
func (v *Verifier) Close(ctx context.Context) error {
	return errors.Join(v.testBoxes.Close(ctx), v.analyst.Close(ctx))
}

// Complete returns the row's reference as a whole module: behind the prompt
// where it does not parse by itself, which the analysis finds out. It is false for a
// row without a reference.
func (v *Verifier) Complete(ctx context.Context, c family.Case) (candidate.Candidate, bool, error) {
	r, err := readRow(c)
	if err != nil || r.reference == nil {
		return candidate.Candidate{}, false, nil // there is nothing to complete
	}
	a, err := v.known(ctx, c, r)
	if err != nil {
		return candidate.Candidate{}, false, fmt.Errorf("completing the reference: %w", err)
	}
	return candidate.New(task.Code, candidate.Given, r.completed(a)), true, nil
}

// known analyses a row that is not about to be verified. Tests that do not parse
// have an empty analysis: that is a pack fault, which the verdict on the reference
// reports.
func (v *Verifier) known(ctx context.Context, c family.Case, r row) (analysed, error) {
	a, err := v.analyse(ctx, c, r)
	if errors.Is(err, analysis.ErrBroken) {
		err = nil
	}
	return a, err
}

// alwaysEqual makes all objects of a class equal, which the tests of a row with
// operators must detect.
const alwaysEqual = `

def _always_equal(cls):
    cls.__eq__ = lambda self, other: True
    cls.__ne__ = lambda self, other: False
    cls.__hash__ = lambda self: 0

_always_equal(%s)
`

var _ family.Twinner = (*Verifier)(nil)

var _ family.Explainer = (*Verifier)(nil)

// Explain says where the tests failed, and what in the row's texts cannot be right.
func (v *Verifier) Explain(ctx context.Context, c family.Case, got family.Verdict) ([]string, error) {
	r, err := readRow(c)
	if err != nil || r.reference == nil {
		return nil, nil // there is nothing to explain
	}
	found, err := v.analyst.Examine(ctx, c.Image, c.Limits, r.texts())
	of := analysis.Texts{Tests: r.tests, Reference: *r.reference, Solution: "eval." + referenceField(c)}
	return of.Lines(found, string(got.Restricted["tests-traceback.txt"]), string(got.Restricted[importError])), err
}

// Twins returns candidates that do no work and, for each class that a row with
// operators uses, the reference with that class always equal.
func (v *Verifier) Twins(ctx context.Context, c family.Case) ([]family.Twin, error) {
	r, err := readRow(c)
	if err != nil || r.reference == nil {
		return nil, nil
	}
	a, err := v.known(ctx, c, r)
	if err != nil {
		return nil, fmt.Errorf("looking for the names under test: %w", err)
	}
	var out []family.Twin
	add := func(what, advice, source string) {
		out = append(out, family.Twin{What: what, Advice: advice, Candidate: candidate.New(task.Code, candidate.Given, []byte(source))})
	}
	var functions, classes []string
	for _, n := range a.Names {
		if n.Kind != "class" {
			functions = append(functions, n.Name)
			continue
		}
		classes = append(classes, n.Name)
		if r.operators { // otherwise the candidate never decides whether objects are equal
			add("every "+n.Name+" equals every other", "make one of them distinguish two", string(r.completed(a))+fmt.Sprintf(alwaysEqual, n.Name))
		}
	}
	for _, idle := range analysis.IdleModules(functions, classes) {
		add(idle.What, "add a test that only a right result passes", idle.Source)
	}
	return out, nil
}

// completed returns the reference as a module of its own.
func (r row) completed(a analysed) []byte {
	if a.Continues {
		return []byte(r.prompt + *r.reference)
	}
	return []byte(*r.reference)
}

// preparation is what a verification needs besides a test box, in the making.
type preparation struct {
	cancel context.CancelFunc
	ready  sync.WaitGroup

	box      *candidateBox
	boxErr   error
	row      analysed
	rowErr   error
	spareErr error // of releasing a spare test box
}

// prepare begins to make a candidate box, analyses the row and, if it is to warm the
// pool, makes a spare test box. The caller closes the preparation, even if it never
// becomes ready.
func (v *Verifier) prepare(ctx context.Context, c family.Case, r row, warmPool bool) *preparation {
	b := &preparation{}
	ctx, b.cancel = context.WithCancel(ctx)
	b.ready.Go(func() {
		b.box, b.boxErr = v.startCandidateBox(ctx, c, r.prompt)
	})
	b.ready.Go(func() { b.row, b.rowErr = v.analyse(ctx, c, r) })
	if warmPool {
		b.ready.Go(func() { b.spareErr = v.warm(ctx, c) })
	}
	return b
}

// warm starts a spare test box, if there is room. A lasting error shows again when
// the row is verified.
func (v *Verifier) warm(ctx context.Context, c family.Case) error {
	b, ok, _ := v.testBoxes.Spare(ctx, keyOf(c), v.starter(c))
	if !ok {
		return nil
	}
	return v.releaseTestBox(ctx, c, b)
}

// wait blocks until all is ready.
func (b *preparation) wait(ctx context.Context) error {
	ctx, cancel := attended.WithTimeoutCause(ctx, startLimit, errSlow)
	defer cancel()
	done := make(chan struct{})
	go func() {
		b.ready.Wait()
		close(done)
	}()
	select {
	case <-done:
		if errors.Is(b.rowErr, analysis.ErrBroken) {
			return cmp.Or(b.boxErr, b.rowErr) // the row's fault shows again
		}
		return errors.Join(b.boxErr, b.rowErr)
	case <-ctx.Done():
		return fmt.Errorf("waiting for the sandboxes: %w", context.Cause(ctx))
	}
}

// close removes the candidate box.
func (b *preparation) close(ctx context.Context) error {
	b.cancel()
	b.ready.Wait()
	if b.box == nil {
		return b.spareErr
	}
	return errors.Join(b.spareErr, b.box.Close(ctx))
}
