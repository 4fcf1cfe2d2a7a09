// Package commit turns what the stages return into records. It is the only
// writer of the output directory and of the candidate store.
package commit

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/candidate"
	"securebench/internal/durable"
	"securebench/internal/family"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// ErrOutput is wrapped by errors of an output directory that cannot be
// written, for example because the disk is full.
var ErrOutput = record.ErrOutput

// outputError wraps err in [ErrOutput], unless the directory has lost the
// run's salt: then nothing can be resumed.
func outputError(err error) error {
	if err == nil || errors.Is(err, record.ErrIntegrity) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrOutput, err)
}

// Committer writes the records of a run. It is safe for concurrent use.
type Committer struct {
	RunID    string
	Agent    string   // its name
	Labels   []string // of every record
	Families family.Registry
	Dir      *record.Dir
	Store    *candidate.Store
	Digests  Binding
}

var _ attempt.Store = (*Committer)(nil)

// Find returns a stored candidate.
func (c *Committer) Find(what candidate.Candidate) (candidate.Candidate, error) {
	return c.Store.Find(what)
}

// Put stores the content of a candidate.
func (c *Committer) Put(kind task.CandidateKind, origin candidate.Origin, content io.Reader) (candidate.Candidate, error) {
	out, err := c.Store.Put(kind, origin, content)
	if errors.Is(err, candidate.ErrStore) {
		err = outputError(err)
	}
	return out, err
}

// Entry is a record that is about to be written.
type Entry struct {
	Line  *record.Line
	Draft *Draft // nil for a record whose candidate and raw output are on disk
}

// Append writes finished records, after what they refer to, or none of them after an
// error. They are on disk when Append returns.
func (c *Committer) Append(entries ...Entry) error {
	lines := make([]*record.Line, len(entries))
	for i, e := range entries {
		if err := e.Draft.settle(e.Line); err != nil {
			return outputError(err)
		}
		lines[i] = e.Line
	}
	return outputError(c.Dir.Append(lines...))
}

// Attempt names one attempt of one task.
type Attempt struct {
	Task   task.Task
	Number int    // from 1
	Dir    string // the task's folder name
	Image  sandbox.Image
}

// Draft is what is known of an attempt before its record is written. It keeps
// the results of a call when a later one is repeated.
type Draft struct {
	Attempt

	c       *Committer
	turn    time.Time       // when the attempt's turn came
	total   time.Duration   // that is published; 0 is all of it
	took    attempt.Timings // by phase
	spent   map[string]int64
	stands  *attempt.Error // of the last try, if the next reports the same run of the agent
	retries []record.Retry
	raw     []record.RawFile
	by      record.By
	flushes []*durable.Flush // of what the record refers to

	produced  *attempt.Produced // nil before the agent has come to an end
	durable   jsontext.Value    // of that, what a resume reads
	settled   bool              // that is written
	shown     record.Candidate
	verdict   *family.Verdict
	extracted string // the digest of what the verifier extracted
}

// settle writes what a resume needs of an attempt that waits to be verified, and waits
// until all that the record refers to is on disk.
func (d *Draft) settle(l *record.Line) error {
	if d == nil {
		return nil
	}
	var errs []error
	if l.Produced != nil && !d.settled {
		errs = append(errs, d.write(l))
	}
	for _, f := range d.flushes {
		errs = append(errs, f.Wait())
	}
	return errors.Join(errs...)
}

// Draft starts the record of an attempt.
func (c *Committer) Draft(a Attempt) *Draft {
	return &Draft{Attempt: a, c: c, took: attempt.Timings{}}
}

// Begin records that the attempt's turn has come.
func (d *Draft) Begin() { d.turn = time.Now() }

// Took adds the time since start to a phase.
func (d *Draft) Took(p verdict.Phase, start time.Time) { d.took.Add(p, start) }

// Retries returns how often a call of the attempt was repeated.
func (d *Draft) Retries() int { return len(d.retries) }

// MadeBy records which workers on other machines made calls of the attempt.
func (d *Draft) MadeBy(by record.By) {
	d.by.Produce, d.by.Verify = cmp.Or(by.Produce, d.by.Produce), cmp.Or(by.Verify, d.by.Verify)
}

// Candidate returns the stored candidate, or nil if there is none to verify.
func (d *Draft) Candidate() *candidate.Candidate {
	if d.produced == nil {
		return nil
	}
	return d.produced.Candidate
}

// Retry records that an infrastructure error ended a call. Only its evidence
// is kept, unless the candidate is already stored, or what the agent left stands.
func (d *Draft) Retry(err error, phase verdict.Phase, stands bool) {
	r := record.Retry{Error: Line(err), Phase: phase}
	if c := d.Candidate(); c != nil {
		r.Candidate = c.Digest
	} else if d.produced = nil; !stands {
		d.took = attempt.Timings{}
	}
	d.total = 0
	d.retries = append(d.retries, r)
}

// Failed keeps what a try to produce that failed has used and wrote. Of an agent that
// stands, only the first of its tries counts.
func (d *Draft) Failed(e *attempt.Error) error {
	d.spend(e.Took)
	counted := d.stands
	if d.stands = nil; e.Stands {
		d.stands = e
	}
	if counted != nil {
		return nil
	}
	d.spent = record.SumUsage(d.spent, e.Usage)
	return d.restrict(agentSide, e.Raw)
}

// spend adds times.
func (d *Draft) spend(took attempt.Timings) {
	for p, ms := range took {
		d.took[p] += ms
	}
}

// Produced adds the outcome of the first call. The draft then has a candidate, or
// its record has none.
func (d *Draft) Produced(p attempt.Produced) error {
	d.spend(p.Took)
	if d.stands != nil { // this was counted
		p.Usage = nil
		maps.DeleteFunc(p.Raw, func(name string, _ []byte) bool { return d.stands.Raw[name] != nil })
		d.stands = nil
	}
	if err := d.restrict(agentSide, p.Raw); err != nil {
		return err
	}
	if p.Candidate != nil {
		p.Raw = nil // it is stored, and a verification may take long
		kept := p
		kept.Took, kept.Usage = nil, record.SumUsage(d.spent, p.Usage)
		var err error
		if d.durable, err = attempt.Encode(kept); err != nil {
			return err
		}
		if d.shown, err = shown(*p.Candidate); err != nil {
			return outputError(err)
		}
		d.flushes = append(d.flushes, p.Candidate.Flush())
	}
	d.produced = &p
	return nil
}

// shown returns what is published of a stored candidate: a text whole when it is
// short, else an excerpt that names its digest; of a tree its digest.
func shown(c candidate.Candidate) (record.Candidate, error) {
	if c.IsTree() {
		return record.Candidate{Kind: c.Kind, Shown: c.Digest}, nil
	}
	data, err := c.Bytes()
	return record.Candidate{Kind: c.Kind, Shown: record.Inline(data)}, err
}

// Resume continues an earlier record whose verification did not finish. The
// candidate must be in the store.
func (d *Draft) Resume(former *record.Line) error {
	var p attempt.Produced
	if err := attempt.Decode(former.Produced, &p); err != nil {
		return err
	}
	if p.Candidate == nil || p.Candidate.Digest != former.Digests.Candidate {
		return errors.New("what an earlier part of the run kept of it names no candidate, or another one")
	}
	c, err := d.c.Store.Find(*p.Candidate)
	if err != nil {
		return err
	}
	if d.shown, err = shown(c); err != nil {
		return outputError(err)
	}
	p.Candidate = &c
	d.produced, d.durable = &p, former.Produced
	d.settled, d.raw, d.by.Produce = true, slices.Clone(former.Restricted), former.Workers.Produce
	d.retries = append(slices.Clone(former.Retries), record.Retry{Candidate: c.Digest, Error: former.FailureMessage, Phase: former.FailurePhase})
	d.spend(former.Timings)
	delete(d.took, phaseTotal)
	return nil
}

// errUnverified is why an attempt has no verdict yet.
var errUnverified = errors.New("the run ended before the candidate was verified")

// Captured stores what the record is without a verdict, if there is a candidate:
// a run that is killed resumes there, and runs no agent for it. The flush to
// disk continues while the candidate is verified.
func (d *Draft) Captured() error {
	if d.Candidate() == nil {
		return nil
	}
	return outputError(d.write(d.Infrastructure(errUnverified, verdict.PhaseVerify)))
}

// write writes what a resume reads.
func (d *Draft) write(l *record.Line) error {
	flush, err := d.c.Dir.AppendCaptured(l)
	d.flushes, d.settled = append(d.flushes, flush), err == nil
	return err
}

// The sides that raw output comes from.
const (
	agentSide    = "agent"
	verifierSide = "verifier"
	judgeSide    = "judge"
)

// restrict stores raw output and adds it to the record. The length of a
// verifier's or judge's output is left out, because it depends on hidden values.
func (d *Draft) restrict(side string, files map[string][]byte) error {
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if len(files[name]) == 0 {
			continue
		}
		path := fmt.Sprintf("%s/%d/%s-%s", d.Dir, d.Number, side, name)
		if n := len(d.retries); n > 0 { // the evidence of earlier tries is kept
			path = fmt.Sprintf("%s/%d/retry%d-%s-%s", d.Dir, d.Number, n, side, name)
		}
		raw, flush, err := d.c.Dir.Restrict(d.Task.ID(), path, files[name])
		if err != nil {
			return outputError(err)
		}
		d.flushes = append(d.flushes, flush)
		if side != agentSide {
			raw.Bytes = 0
		}
		d.raw = append(d.raw, raw)
	}
	return nil
}

// Line formats an error for a record: one line of bounded length, because an
// engine's message has no bound.
func Line(err error) string {
	s, _, _ := strings.Cut(err.Error(), "\n")
	s, _ = redact.EscapedExcerpt([]byte(s), 1<<10)
	return s
}
