package codecompletion

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/codecompletion/diagnosis"
	"securebench/internal/sandbox/warm"
	"securebench/internal/task"
	"securebench/internal/value"
)

// Verifier scores Python candidates. The candidate runs in the candidate sandbox,
// the tests in the test sandbox, and this process carries plain data between
// them: it never loads either.
//
// Test sandboxes run no candidate code, so they are kept warm and serve one row
// after the other. A session has one only while it verifies.
type Verifier struct {
	resources family.Resources
	testBoxes *warm.Pool[boxKey, *testBox]

	mu       sync.Mutex
	analyses map[analysisKey]analysis
	programs map[string][]byte // of candidate boxes, compiled, by image
}

var _ family.Completer = (*Verifier)(nil)

// NewVerifier makes the family's verifier. It starts nothing.
func NewVerifier(r family.Resources) family.Verifier {
	return &Verifier{
		resources: r,
		testBoxes: warm.New[boxKey, *testBox](r.Workers),
		analyses:  make(map[analysisKey]analysis),
		programs:  make(map[string][]byte),
	}
}

// starter starts test boxes for a case.
func (v *Verifier) starter(c family.Case) warm.Start[*testBox] {
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

// Close closes the test boxes.
func (v *Verifier) Close(ctx context.Context) error { return v.testBoxes.Close(ctx) }

// Complete returns the row's reference as a whole module: behind the prompt
// where it does not parse alone, which a test box finds out. It is false for a
// row without a reference.
func (v *Verifier) Complete(ctx context.Context, c family.Case) (candidate.Candidate, bool, error) {
	r, err := readRow(c)
	if err != nil || r.reference == nil {
		return candidate.Candidate{}, false, nil // there is nothing to complete
	}
	a, err := v.analyse(ctx, c, r)
	if err != nil {
		return candidate.Candidate{}, false, fmt.Errorf("completing the reference: %w", err)
	}
	return candidate.New(task.Code, candidate.Given, r.completed(a)), true, nil
}

// analyse analyses a row that is not about to be verified. Tests that do not
// parse have an empty analysis: that is a pack fault, which the verdict on the
// reference reports.
func (v *Verifier) analyse(ctx context.Context, c family.Case, r row) (analysis, error) {
	b, err := v.leaseTestBox(ctx, c)
	if err != nil {
		return analysis{}, err
	}
	a, err := v.analysisOf(ctx, b, r)
	if errors.Is(err, errBroken) {
		err = nil
	}
	return a, errors.Join(err, v.releaseTestBox(ctx, c, b))
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
func (v *Verifier) Explain(ctx context.Context, c family.Case, got family.Verdict) (lines []string, err error) {
	r, err := readRow(c)
	if err != nil || r.reference == nil {
		return nil, nil // there is nothing to explain
	}
	b, err := v.leaseTestBox(ctx, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, v.releaseTestBox(ctx, c, b)) }()
	var found []diagnosis.Finding
	_, err = b.ask(ctx, "examine", "examination", r, func(parts int, d *value.Decoder) (err error) {
		found, err = diagnosis.Read(parts, d)
		return err
	})
	of := diagnosis.Row{Tests: r.tests, Reference: *r.reference, Solution: "eval." + referenceField(c)}
	return of.Lines(found, string(got.Restricted["tests-traceback.txt"]), string(got.Restricted[importError])), err
}

// Twins returns candidates that do no work and, for each class that a row with
// operators uses, the reference with that class always equal.
func (v *Verifier) Twins(ctx context.Context, c family.Case) ([]family.Twin, error) {
	r, err := readRow(c)
	if err != nil || r.reference == nil {
		return nil, nil
	}
	a, err := v.analyse(ctx, c, r)
	if err != nil {
		return nil, fmt.Errorf("looking for the names under test: %w", err)
	}
	var out []family.Twin
	add := func(what, advice, source string) {
		out = append(out, family.Twin{What: what, Advice: advice, Candidate: candidate.New(task.Code, candidate.Given, []byte(source))})
	}
	var functions, classes []string
	for _, n := range a.names {
		if n.kind != "class" {
			functions = append(functions, n.name)
			continue
		}
		classes = append(classes, n.name)
		if r.operators { // otherwise the candidate never decides whether objects are equal
			add("every "+n.name+" equals every other", "make one of them distinguish two", string(r.completed(a))+fmt.Sprintf(alwaysEqual, n.name))
		}
	}
	for _, idle := range diagnosis.IdleModules(functions, classes) {
		add(idle.What, "add a test that only a right result passes", idle.Source)
	}
	return out, nil
}

// completed returns the reference as a module of its own.
func (r row) completed(a analysis) []byte {
	if a.continues {
		return []byte(r.prompt + *r.reference)
	}
	return []byte(*r.reference)
}

// maxAnalyses bounds the number of analyses that are kept.
const maxAnalyses = 4096

// analysisOf analyses a row once.
func (v *Verifier) analysisOf(ctx context.Context, b *testBox, r row) (analysis, error) {
	key := r.key()
	v.mu.Lock()
	a, ok := v.analyses[key]
	v.mu.Unlock()
	if ok {
		return a.with(r), nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, errSlow)
	defer cancel()
	a, err := b.analyse(ctx, r)
	if err != nil {
		return analysis{}, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.analyses) >= maxAnalyses {
		clear(v.analyses) // an analysis takes milliseconds
	}
	v.analyses[key] = a
	return a.with(r), nil
}

// preparation is a candidate box that is made in the background.
type preparation struct {
	cancel context.CancelFunc
	ready  sync.WaitGroup

	box      *candidateBox
	boxErr   error
	spareErr error // of releasing a spare test box
}

// prepare begins to make a candidate box and, if it is to warm the pool, a spare
// test box. The caller closes the preparation, even if it never becomes ready.
func (v *Verifier) prepare(ctx context.Context, c family.Case, r row, warmPool bool) *preparation {
	b := &preparation{}
	ctx, b.cancel = context.WithCancel(ctx)
	b.ready.Go(func() {
		b.box, b.boxErr = v.startCandidateBox(ctx, c, r.prompt)
	})
	if warmPool {
		b.ready.Go(func() { b.spareErr = v.warm(ctx, c, r) })
	}
	return b
}

// warm starts a spare test box, if there is room, and analyses the row in it. A
// lasting error of either shows again when the row is verified.
func (v *Verifier) warm(ctx context.Context, c family.Case, r row) error {
	b, ok, _ := v.testBoxes.Spare(ctx, keyOf(c), v.starter(c))
	if !ok {
		return nil
	}
	_, _ = v.analysisOf(ctx, b.serves(c), r)
	return v.releaseTestBox(ctx, c, b)
}

// wait blocks until the candidate box is ready.
func (b *preparation) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, errSlow)
	defer cancel()
	done := make(chan struct{})
	go func() {
		b.ready.Wait()
		close(done)
	}()
	select {
	case <-done:
		return b.boxErr
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
