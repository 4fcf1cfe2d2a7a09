// Package commit turns what the stages return into records. It is the only
// writer of the output directory and of the candidate store.
package commit

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"securebench/internal/candidate"
	"securebench/internal/durable"
	"securebench/internal/family"
	"securebench/internal/pipeline/capture"
	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// ErrOutput is wrapped by errors of an output directory that cannot be
// written, for example because the disk is full.
var ErrOutput = errors.New("the output directory cannot be written")

// outputError wraps err in [ErrOutput], unless the directory has lost the
// run's salt: then nothing can be resumed.
func outputError(err error) error {
	if err == nil || errors.Is(err, record.ErrIntegrity) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrOutput, err)
}

// Binder computes the digests that bind a record to its inputs.
type Binder interface {
	// Digests returns those of a task that runs in an image.
	Digests(t task.Task, image sandbox.Image) record.Digests
}

// Committer writes the records of a run. It is safe for concurrent use.
type Committer struct {
	RunID    string
	Agent    string   // its name
	Labels   []string // of every record
	Families family.Registry
	Dir      *record.Dir
	Store    *candidate.Store
	Digests  Binder
}

var _ candidate.Sink = (*Committer)(nil)

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
		if err := e.Draft.flushed(); err != nil {
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

// Draft is the record of an attempt before it is written. It keeps the results
// of finished stages when a later stage is repeated.
type Draft struct {
	Attempt
	// Timings are by phase, in milliseconds.
	Timings map[verdict.Phase]int64

	c       *Committer
	turn    time.Time     // when the attempt's turn came
	total   time.Duration // that is published; 0 is all of it
	retries []record.Retry
	raw     []record.RawFile
	line    *record.Line // nil before the production has ended
	left    *candidate.Candidate
	exit    int              // of the agent
	spent   map[string]int64 // usage of tries that failed
	flushes []*durable.Flush // of what the record refers to
}

// flushed waits until what the record refers to is on disk.
func (d *Draft) flushed() error {
	if d == nil {
		return nil
	}
	var errs []error
	for _, f := range d.flushes {
		errs = append(errs, f.Wait())
	}
	return errors.Join(errs...)
}

// Draft starts the record of an attempt.
func (c *Committer) Draft(a Attempt) *Draft {
	return &Draft{Attempt: a, c: c, Timings: map[verdict.Phase]int64{}}
}

// Begin records that the attempt's turn has come.
func (d *Draft) Begin() { d.turn = time.Now() }

// Took adds the time since start to a phase.
func (d *Draft) Took(p verdict.Phase, start time.Time) {
	d.Timings[p] += time.Since(start).Milliseconds()
}

// Retries returns how often a stage of the attempt was repeated.
func (d *Draft) Retries() int { return len(d.retries) }

// Candidate returns the stored candidate, or nil if there is none to verify.
func (d *Draft) Candidate() *candidate.Candidate { return d.left }

// Retry records that an infrastructure error ended a stage. Only its evidence
// is kept, unless the candidate is already stored, or the production stands.
func (d *Draft) Retry(err error, phase verdict.Phase, standing bool) {
	r := record.Retry{Error: Line(err), Phase: phase}
	if d.left != nil {
		r.Candidate = d.left.Digest
	} else if d.line = nil; !standing {
		d.Timings = map[verdict.Phase]int64{}
	}
	d.total = 0
	d.retries = append(d.retries, r)
}

// Tried keeps what an agent used in a try that failed.
func (d *Draft) Tried(err error) error {
	try, ok := errors.AsType[*produce.TryError](err)
	if !ok {
		return nil
	}
	d.spent = record.SumUsage(d.spent, try.Usage)
	return d.restrict(agentSide, try.Raw)
}

// Resume continues an earlier record whose verification did not finish. The
// candidate must be in the store.
func (d *Draft) Resume(former *record.Line) error {
	c, err := d.c.Store.Find(candidate.Candidate{Kind: d.Task.Extraction().Kind, Digest: former.Digests.Candidate,
		Origin: former.Origin(), Redacted: slices.Contains(former.Labels, candidateRedacted)})
	if err != nil {
		return err
	}
	blank := *d
	d.retries, d.raw, d.exit = slices.Clone(former.Retries), slices.Clone(former.Restricted), int(former.ProducerMetadata.Int("exit_code"))
	d.retries = append(d.retries, record.Retry{Candidate: c.Digest, Error: former.FailureMessage, Phase: former.FailurePhase})
	for p, ms := range former.Timings {
		if p != phaseTotal {
			d.Timings[p] = ms
		}
	}
	d.line = d.begin(produce.Result{Metadata: former.ProducerMetadata, Usage: former.Usage, Capabilities: grantedIn(former.Labels)}, ownIn(former.Labels)...)
	d.line.ProducerStdout, d.line.ProducerStderr = former.ProducerStdout, former.ProducerStderr
	err = d.candidate(c)
	if err != nil {
		*d = blank
		d.Timings = map[verdict.Phase]int64{}
	}
	return err
}

// Produced adds the results of production and capture. The draft then has a
// candidate or a verdict.
func (d *Draft) Produced(out produce.Result, left capture.Result) error {
	d.exit = out.Outcome.ExitCode
	d.line = d.begin(out)
	maps.Copy(d.line.ProducerMetadata, left.Metadata)
	delete(d.line.ProducerMetadata, capture.MissingRoots) // which the row names in a lane that is not published
	d.line.ProducerStdout, _ = redact.EscapedExcerpt(left.Stdout, record.ExcerptLimit)
	d.line.ProducerStderr, _ = redact.EscapedExcerpt(left.Stderr, record.ExcerptLimit)
	files := map[string][]byte{"stdout": left.Stdout, "stderr": left.Stderr, capture.MissingRoots + ".json": left.Metadata[capture.MissingRoots]}
	maps.Copy(files, out.Raw)
	if err := d.restrict(agentSide, files); err != nil {
		return err
	}
	switch {
	case left.Limit != "":
		d.limited(out, left.Limit)
	case left.Rejection != nil:
		d.rejected(left.Rejection, left.Stderr)
	case left.Candidate != nil:
		d.line.ProducerMetadata.Set(record.OriginKey, left.Candidate.Origin)
		if left.Candidate.Origin == candidate.File && !left.Candidate.IsTree() {
			d.line.ProducerMetadata.Set("candidate_path", out.Extract.Path)
		}
		if out.Outcome.End == sandbox.TimedOut { // what it left counts all the same
			d.timedOut(out)
			d.line.Labels = append(d.line.Labels, ScoredTimeout)
			slices.Sort(d.line.Labels)
		}
		return d.candidate(*left.Candidate)
	default:
		return errors.New("the production has neither a candidate nor a reason for its absence")
	}
	return nil
}

// errUnverified is why an attempt has no verdict yet.
var errUnverified = errors.New("the run ended before the candidate was verified")

// Captured stores what the record is without a verdict, if there is a candidate:
// a run that is killed goes on from there, and runs no agent for it. The flush to
// disk goes on while the candidate is verified.
func (d *Draft) Captured() error {
	if d.left == nil {
		return nil
	}
	was := *d.line
	former := *d.Infrastructure(errUnverified, verdict.PhaseVerify)
	*d.line = was
	flush, err := d.c.Dir.AppendCaptured(&former)
	d.flushes = append(d.flushes, flush)
	return outputError(err)
}

// phaseTotal is the whole attempt, in timings.
const phaseTotal verdict.Phase = "total"

// Line returns the finished record.
func (d *Draft) Line() *record.Line {
	total := d.total
	if total == 0 {
		total = time.Since(d.turn)
	}
	d.Timings[phaseTotal] = total.Milliseconds()
	d.line.Timings, d.line.Retries, d.line.Restricted = d.Timings, d.retries, d.raw
	return d.line
}

// The sides that raw output comes from.
const (
	agentSide    = "agent"
	verifierSide = "verifier"
)

// restrict stores raw output and adds it to the record. The length of a
// verifier's output is left out, because it depends on hidden values.
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
		if side == verifierSide {
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
