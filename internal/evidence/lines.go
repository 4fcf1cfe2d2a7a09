package evidence

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"runtime"
	"slices"

	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/pipeline/record"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// decoded is a line with what became of its decoding.
type decoded struct {
	raw   record.RawLine
	entry record.Entry
	err   error // why it is no record
}

// decodeAll reads lines and decodes some of them at the same time; they come
// in the order of the file.
func decodeAll(r io.Reader) iter.Seq2[decoded, error] {
	type result struct {
		done chan struct{}
		decoded
		fatal error
	}
	return func(yield func(decoded, error) bool) {
		queue := make(chan *result, 4*runtime.GOMAXPROCS(0))
		work := make(chan *result)
		stop := make(chan struct{})
		for range runtime.GOMAXPROCS(0) {
			go func() {
				for t := range work {
					t.entry, t.err = record.Decode(t.raw.Bytes)
					close(t.done)
				}
			}()
		}
		go func() {
			defer close(queue)
			defer close(work)
			for raw, err := range record.Lines(r) {
				t := &result{done: make(chan struct{}), decoded: decoded{raw: raw}, fatal: err}
				select {
				case queue <- t:
				case <-stop:
					return
				}
				if err != nil {
					return
				}
				work <- t
			}
		}()
		defer func() {
			close(stop)
			for range queue { // until the reader is done with r
			}
		}()
		for t := range queue {
			if t.fatal != nil {
				yield(t.decoded, t.fatal)
				return
			}
			<-t.done
			if !yield(t.decoded, nil) {
				return
			}
		}
	}
}

// lineCheck goes through the records in order.
type lineCheck struct {
	*check
	seq  int64
	prev string // digest of the line before
}

func (r *lineCheck) add(d decoded) {
	n := d.raw.Number
	fail := func(format string, args ...any) { r.problem(record.LinesName, n, format, args...) }
	if d.err != nil {
		fail("%v", d.err)
		d.entry.Digest = digest.Bytes(d.raw.Bytes)
	} else {
		if d.entry.Seq != r.seq {
			fail("it is number %d and stands at %d: lines were dropped, added or moved", d.entry.Seq, r.seq)
		}
		if d.entry.Prev != r.prev {
			fail("it does not follow the line before: one of them was changed, dropped or moved")
		}
		r.entry(d.entry, fail)
	}
	r.seq++
	r.prev = d.entry.Digest
}

type failer func(format string, args ...any)

// entry checks one record against the run.
func (r *lineCheck) entry(e record.Entry, fail failer) {
	if r.known {
		r.ofRun(e, fail)
	}
	r.count(e, fail)
	if r.salt != nil {
		if !e.Authentic(*r.salt) {
			fail("its mac is wrong: it was not written by this run")
		}
		r.raw(e, fail)
	}
	for _, try := range e.Retries {
		if try.Candidate != "" {
			r.stored(try.Candidate, fail)
		}
	}
	r.candidate(e, fail)
	if r.opts.Each != nil {
		r.opts.Each(e)
	}
}

// ofRun checks that the record is of this run and of what it planned.
func (r *lineCheck) ofRun(e record.Entry, fail failer) {
	m := r.Manifest
	if e.RunID != m.RunID || e.Agent != m.Agent || e.BenchmarkID != m.Pack.ID {
		fail("it is of another run: %s", record.ManifestName)
	}
	if !r.boundTo(e.Digests) {
		fail("it is bound to other inputs than %s names", record.ManifestName)
	}
	r.place(e, fail)
}

// boundTo reports whether a record's digests are those of the run, now or
// before one of its resumes.
func (r *lineCheck) boundTo(d record.Digests) bool {
	m := r.Manifest
	images := d.Image == ""
	for _, id := range m.Images {
		images = images || id == d.Image
	}
	bound := func(run record.RunDigests) bool {
		return d.Pack == run.Pack && d.Assets == run.Assets && d.Config == run.Config && d.Verifier == run.Verifier
	}
	ok := bound(m.Digests)
	for _, former := range m.ResumedFrom {
		ok = ok || bound(former.Digests)
	}
	return ok && images
}

// place checks that the record is of a planned attempt that has no other.
func (r *lineCheck) place(e record.Entry, fail failer) {
	p := r.Manifest.Planned
	if e.Index < 0 || e.Index >= p.Tasks || e.Attempt < 1 || e.Attempt > p.Attempts {
		fail("row %d, attempt %d was not planned", e.Index, e.Attempt)
	}
	at := slot{e.Index, e.Attempt}
	if first, dup := r.seen[at]; dup {
		fail("row %d, attempt %d has a record in line %d already", e.Index, e.Attempt, first)
	}
	r.seen[at] = int(r.seq) + 1
	if id, ok := r.byIndex[e.Index]; ok && id != e.TaskID {
		fail("row %d is task %q here and %q before", e.Index, e.TaskID, id)
	}
	if i, ok := r.byID[e.TaskID]; ok && i != e.Index {
		fail("task %q is row %d here and %d before", e.TaskID, e.Index, i)
	}
	r.byIndex[e.Index], r.byID[e.TaskID] = e.TaskID, e.Index
}

// count keeps the totals, and checks that a record agrees with itself.
func (r *lineCheck) count(e record.Entry, fail failer) {
	switch e.Status {
	case verdict.StatusPassed:
		r.counts.Passed++
	case verdict.StatusFailed:
		r.counts.Failed++
	case verdict.StatusPending:
		r.counts.Pending++
	default:
		fail("its status is %q", e.Status)
	}
	if e.Outcome == verdict.Infrastructure {
		r.counts.Infrastructure++
	}
	if passed := e.Status == verdict.StatusPassed; passed != e.Passed || passed != (e.Outcome == verdict.Passed) {
		fail("status, outcome and verdict contradict each other")
	}
	if !slices.IsSorted(e.Labels) {
		fail("its labels are not sorted")
	}
}

// raw checks the record's raw output in the restricted folder.
func (r *lineCheck) raw(e record.Entry, fail failer) {
	for _, f := range e.Restricted {
		if r.named[f.Path] {
			fail("%s is named twice", f.Path)
			continue
		}
		r.name(f.Path)
		if r.ctx.Err() != nil {
			return
		}
		if err := f.Check(r.fsys, *r.salt, e.TaskID); err != nil {
			fail("%v", err)
		}
	}
}

// candidate checks the stored candidate and what the record shows of it.
func (r *lineCheck) candidate(e record.Entry, fail failer) {
	sum := e.Digests.Candidate
	var shown []string
	for _, s := range []*string{e.Candidate.Text, e.Candidate.Patch, e.Candidate.Workspace} {
		if s != nil {
			shown = append(shown, *s)
		}
	}
	if sum == "" {
		if len(shown) > 0 || e.Passed || e.Digests.Extracted != "" {
			fail("it has no candidate's digest")
		}
		return
	}
	have := r.stored(sum, fail)
	if taken := e.Digests.Extracted; taken != "" {
		r.stored(taken, fail)
	}
	if len(shown) > 1 || len(shown) == 1 && have.ok && sha256.Sum256([]byte(shown[0])) != have.inline {
		fail("the candidate that it shows is not the stored one")
	}
}

// Candidate returns the stored candidate of a run that c names. Its digest is
// checked when it is read.
func Candidate(fsys fs.FS, c candidate.Candidate) (candidate.Candidate, error) {
	name, err := record.CandidatePath(c.Digest)
	if err != nil {
		return c, err
	}
	info, err := fs.Lstat(fsys, name)
	switch {
	case err != nil:
		return c, fmt.Errorf("reading candidate %s: %w", c.Digest, err)
	case !info.Mode().IsRegular():
		return c, fmt.Errorf("reading candidate %s: %s is not a regular file", c.Digest, name)
	}
	c.Size = info.Size()
	return candidate.FromFS(fsys, name, c), nil
}

// KindOf is the kind of candidate that a record shows, as far as it matters
// for reading it; "" is unknown.
func KindOf(l *record.Line) task.CandidateKind {
	switch {
	case l.Candidate.Workspace != nil:
		return task.Workspace
	case l.Candidate.Patch != nil:
		return task.Patch
	}
	return ""
}

var errChanged = errors.New("it is not what its name says")

// inlined checks a stored candidate and returns what a record shows of it: a
// tree's digest, or the text in part or whole. A tree is only streamed.
func inlined(fsys fs.FS, sum string) (string, error) {
	c, err := Candidate(fsys, candidate.Candidate{Kind: task.Text, Digest: sum})
	if err != nil {
		return "", err
	}
	var data []byte
	if err = candidate.ErrDamaged; c.Size <= record.InlineLimit {
		data, err = c.Bytes()
	}
	if errors.Is(err, candidate.ErrDamaged) { // or a tree, or long
		name, _ := record.CandidatePath(sum)
		tree, err := candidate.Check(func() (io.ReadCloser, error) { return fsys.Open(name) }, sum)
		if err != nil || tree {
			return sum, candidateError(sum, err)
		}
		if data, err = c.Bytes(); err != nil {
			return "", candidateError(sum, err)
		}
		return record.Inline(data), nil
	}
	return record.Inline(data), candidateError(sum, err)
}

func candidateError(sum string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, candidate.ErrDamaged):
		return fmt.Errorf("candidate %s: %w", sum, errChanged)
	}
	return fmt.Errorf("reading candidate %s: %w", sum, err)
}

// stored checks a candidate in the store, once.
func (r *lineCheck) stored(sum string, fail failer) stored {
	if have, ok := r.candidates[sum]; ok {
		if !have.ok {
			fail("its candidate %s is missing or was changed", sum)
		}
		return have
	}
	if name, err := record.CandidatePath(sum); err == nil {
		r.name(name)
	}
	inline, err := inlined(r.fsys, sum)
	have := stored{err == nil, sha256.Sum256([]byte(inline))}
	if err != nil {
		fail("%v", err)
	}
	r.candidates[sum] = have
	return have
}
