// Package earlier reads runs that ended, for commands that build on them: which
// tasks a run had, and how each ended. A run is checked first as a reviewer
// would; one that does not verify is refused.
package earlier

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"securebench/internal/evidence"
	"securebench/internal/fault"
	"securebench/internal/pipeline/pack"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/verdict"
)

// Run is a complete run that verified.
type Run struct {
	Name     string // as the operator named it
	Manifest record.Manifest
	Signer   string
	Root     string // the Merkle root of the records
	// Hidden are the plain digests of the pack's parts; nil in a published copy,
	// which does not hold them.
	Hidden *record.PackDigests
	Tasks  []Task // in row order
}

// Task is what became of a task of the run.
type Task struct {
	ID          string
	Index       int // position of the row in the pack
	Family      string
	Containment verdict.Containment // of the first attempt
	Basis       verdict.Basis       // of the row
	Attempts    int                 // recorded, which are those that were planned
	Passed      int                 // by the row's rule or rubric
	Unscored    int                 // attempts without a verdict: pending, or infrastructure errors
}

// Share is the share of the attempts that passed.
func (t Task) Share() float64 { return float64(t.Passed) / float64(t.Attempts) }

// Of reports whether a pack is that of the run, as far as the run's digests of it
// are there.
func (r *Run) Of(m pack.Manifest, d pack.Digests, public string) bool {
	was := r.Manifest
	return was.Pack == record.PackInfo{ID: m.ID, Version: m.Version} && was.Digests.Manifest == d.Manifest &&
		was.Digests.Public == public && (r.Hidden == nil || r.Hidden.Pack == d.Pack)
}

// Open reads the run at name. Anything that is wrong with it is an error: what it
// says of its tasks could not be believed.
func Open(ctx context.Context, name string, trust evidence.Trust) (_ *Run, err error) {
	tasks := map[int]*Task{}
	dir, res, signer, err := evidence.OpenVerified(ctx, name, trust, evidence.Options{Each: func(e record.Entry) { add(tasks, e) }})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if err := signer.Judge(res); err != nil {
		return nil, refused(name, res, err)
	}
	r := &Run{Name: name, Manifest: res.Manifest, Signer: signer.Public(), Root: res.Statement.Predicate.MerkleRoot}
	hidden, err := record.ReadPack(dir)
	switch {
	case err == nil:
		r.Hidden = &hidden
	case !errors.Is(err, fs.ErrNotExist):
		return nil, fault.As(fault.Integrity, fmt.Errorf("%s: reading %s: %w", redact.Quote(name), record.PackName, err))
	}
	for _, t := range tasks {
		r.Tasks = append(r.Tasks, *t)
	}
	slices.SortFunc(r.Tasks, func(a, b Task) int { return a.Index - b.Index })
	return r, nil
}

// add counts a record.
func add(tasks map[int]*Task, e record.Entry) {
	t, is := tasks[e.Index], e.ByRule()
	if t == nil {
		t = &Task{ID: e.TaskID, Index: e.Index, Family: e.TaskType, Containment: e.Containment, Basis: is.Basis}
		tasks[e.Index] = t
	}
	t.Attempts++
	switch is.Status {
	case verdict.StatusPassed:
		t.Passed++
	case verdict.StatusPending:
		t.Unscored++
	}
}

// refused says which run cannot be used, and why.
func refused(name string, res *evidence.Result, err error) error {
	if len(res.Problems) > 0 {
		return fault.Errorf(fault.Integrity, "%s: %w; the first: %s", redact.Quote(name), err, res.Problems[0])
	}
	return fault.Errorf(fault.Integrity, "%s: %w", redact.Quote(name), err)
}
