package evidence

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// decoded is a line with what became of its decoding.
type decoded struct {
	raw   record.RawLine
	entry record.Entry
	err   error // why it is not a record
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
	judge    record.Judge
	oneJudge record.OneJudge
	seq      int64
	prev     string // digest of the line before
	// before is the line before, and searched counts the lines whose former content
	// was looked for.
	before   record.Entry
	searched int
}

func newLineCheck(c *check) *lineCheck {
	r := &lineCheck{check: c, prev: record.Genesis}
	r.judge = record.Judge{FS: c.fsys, Salt: c.salt, Stored: r.inStore}
	return r
}

func (r *lineCheck) add(d decoded) {
	n := d.raw.Number
	fail := func(format string, args ...any) { r.suspect(n, format, args...) }
	if again, ok := respelt(d); ok {
		fail("%s", spelling(d.raw.Bytes))
		d = again
	}
	for _, f := range r.judge.Next(d.raw, d.entry, d.err) {
		r.fault(d, f)
	}
	d.entry.Number, d.entry.Offset, d.entry.Size = n, d.raw.Offset, len(d.raw.Bytes)
	if d.err != nil {
		d.entry.Digest = digest.Bytes(d.raw.Bytes)
	} else {
		r.entry(d.entry, fail)
	}
	r.seq++
	r.prev, r.before = d.entry.Digest, d.entry
}

// respelt returns a line that is a record in another spelling as securebench would
// have written it: what else is wrong with it, and with others, shows only there.
func respelt(d decoded) (decoded, bool) {
	if d.err == nil || d.raw.Torn {
		return d, false
	}
	v := jsontext.Value(bytes.TrimPrefix(slices.Clone(d.raw.Bytes), []byte(bom)))
	if v.Format(jsontext.ReorderRawObjects(true), jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true)) != nil {
		return d, false
	}
	d.raw.Bytes = redact.ASCII(v)
	d.entry, d.err = record.Decode(d.raw.Bytes)
	return d, d.err == nil
}

// bom is a byte order mark, which some editors write.
const bom = "\xef\xbb\xbf"

// spelling says how a line is not spelt as securebench spells it.
func spelling(line []byte) string {
	what := "spaces, the order of keys or escapes differ"
	switch {
	case bytes.HasPrefix(line, []byte(bom)):
		what = "it begins with a byte order mark"
	case bytes.HasSuffix(line, []byte("\r")):
		what = "it ends with a carriage return, as after a conversion of line ends"
	}
	return "not a record in canonical form: " + what + " (get the file again as it was written, without an editor or a conversion of text)"
}

// fault reports what the judge found.
func (r *lineCheck) fault(d decoded, f record.Fault) {
	raw := d.raw
	switch {
	case f.Forged:
		r.forged(d.entry, raw.Number, f)
	case f.Reason == record.Torn && r.Unfinished:
		r.Notes = append(r.Notes, fmt.Sprintf("%s:%d: the last line was cut short when the run was interrupted", record.LinesName, raw.Number))
		r.Suspect[raw.Number] = true
	case f.Reason == record.Missing: // not this line's fault
		r.problem(record.LinesName, raw.Number, "%v", f.Err)
	case f.Reason == record.Duplicate:
		r.Suspect[f.First] = true
		r.suspect(raw.Number, "%v", f.Err)
	default:
		r.suspect(cmp.Or(f.Line, raw.Number), "%v", f.Err)
	}
}

// forged reports a line whose bytes are not those of the run, and if it can what it
// said before.
func (r *lineCheck) forged(e record.Entry, number int, f record.Fault) {
	was := func(e record.Entry) bool { return r.salt != nil && e.Authentic(*r.salt) }
	if f.Line > 0 { // the line after it says so
		e, number = r.before, f.Line
		was = func(e record.Entry) bool { return e.Digest == f.Digest }
	}
	if r.opts.Explain && e.Line != nil && r.searched < maxSearched {
		r.searched++
		if what := r.original(e, was); what != "" {
			r.suspect(number, "%v; %s", f.Err, what)
			return
		}
	}
	r.suspect(number, "%v", f.Err)
}

// maxSearched bounds the lines whose former content is looked for.
const maxSearched = 100

// suspect reports what is wrong with a line, which then cannot be believed.
func (r *lineCheck) suspect(line int, format string, args ...any) {
	r.Suspect[line] = true
	r.problem(record.LinesName, line, format, args...)
}

type failer func(format string, args ...any)

// entry checks one record against the run.
func (r *lineCheck) entry(e record.Entry, fail failer) {
	if r.known {
		r.ofRun(e, fail)
		r.labels(e, fail)
	}
	r.count(e)
	r.files(e, fail)
	r.candidate(e, fail)
	if r.opts.Each != nil {
		r.opts.Each(e)
	}
}

// ofRun checks that the record is of this run and of what it planned.
func (r *lineCheck) ofRun(e record.Entry, fail failer) {
	m := r.Manifest
	for _, f := range []struct{ name, here, there string }{{"run_id", e.RunID, m.RunID}, {"agent", e.Agent, m.Agent}, {"benchmark_id", e.BenchmarkID, m.Pack.ID}} {
		if f.here != f.there {
			fail("it is of another run than %s: its %s is %q, there it is %q", record.ManifestName, f.name, f.here, f.there)
		}
	}
	if what := r.unbound(e.Digests); what != "" {
		fail("it is bound to other inputs than %s: %s", record.ManifestName, what)
	}
	if err := m.Made(e.Workers); err != nil {
		fail("%v (%s)", err, record.ManifestName)
	}
	if r.seq == 0 && m.Judge != nil {
		r.oneJudge.Answered = m.Judge.Answered
	}
	if err := r.oneJudge.Next(e.Line); err != nil {
		fail("%v", err)
	}
	r.place(e, fail)
}

// unbound says which of a record's digests is not that of the run, now or before
// one of its resumes, or is "".
func (r *lineCheck) unbound(d record.Digests) string {
	m := r.Manifest
	differ := func(run record.RunDigests) string {
		for _, f := range []struct{ name, here, there string }{{"pack", d.Pack, run.Pack}, {"assets", d.Assets, run.Assets},
			{"config", d.Config, run.Config}, {"verifier", d.Verifier, run.Verifier}} {
			if f.here != f.there {
				return fmt.Sprintf("its %s is %q, there it is %q", f.name, f.here, f.there)
			}
		}
		return ""
	}
	what := differ(m.Digests)
	for _, former := range m.ResumedFrom {
		if what != "" && differ(former.Digests) == "" {
			what = ""
		}
	}
	if what == "" && d.Image != "" && !slices.Contains(slices.Collect(maps.Values(m.Images)), d.Image) {
		what = fmt.Sprintf("its image %q is not one of the run's", d.Image)
	}
	return what
}

// place checks that the record is of a planned attempt that has no other.
func (r *lineCheck) place(e record.Entry, fail failer) {
	p := r.Manifest.Planned
	if !r.rows.Has(e.Index) || e.Attempt < 1 || e.Attempt > p.Attempts {
		fail("row %d, attempt %d was not planned", e.Index, e.Attempt)
	}
	at := Slot{e.Index, e.Attempt}
	r.seen[at] = int(r.seq) + 1
	if id, ok := r.byIndex[e.Index]; ok && id != e.TaskID {
		fail("row %d is task %q here and %q in an earlier line", e.Index, e.TaskID, id)
	}
	if i, ok := r.byID[e.TaskID]; ok && i != e.Index {
		fail("task %q is row %d here and %d in an earlier line", e.TaskID, e.Index, i)
	}
	r.byIndex[e.Index], r.byID[e.TaskID] = e.TaskID, e.Index
	basis := e.ByRule().Basis
	if was, ok := r.judged[e.Index]; ok && was != (basis == verdict.Judged) {
		fail("row %d is %s here, and not in an earlier line", e.Index, basis)
	}
	r.judged[e.Index] = basis == verdict.Judged
}

// count keeps the totals.
func (r *lineCheck) count(e record.Entry) {
	is := e.ByRule()
	counts := r.counts.Of(is.Basis)
	switch is.Status {
	case verdict.StatusPassed:
		counts.Passed++
	case verdict.StatusFailed:
		counts.Failed++
	case verdict.StatusPending:
		counts.Pending++
	}
	if e.Outcome == verdict.Infrastructure {
		counts.Infrastructure++
	}
}

// files notes the files that belong to the record.
func (r *lineCheck) files(e record.Entry, fail failer) {
	for _, f := range e.Restricted {
		if r.named[f.Path] && r.salt != nil {
			fail("%s is named twice", f.Path)
		}
		r.name(f.Path)
	}
	for _, sum := range e.Candidates() {
		if name, err := record.CandidatePath(sum); err == nil {
			r.name(name)
		}
	}
}

// inStore checks a candidate for the judge.
func (r *lineCheck) inStore(sum string) (err error) {
	r.stored(sum, func(format string, args ...any) { err = fmt.Errorf(format, args...) })
	return err
}

// candidate compares the stored candidate with what the record shows of it.
func (r *lineCheck) candidate(e record.Entry, fail failer) {
	sum := e.Digests.Candidate
	if sum == "" {
		return
	}
	have := r.stored(sum, func(string, ...any) {}) // the judge has reported what is missing
	if shown := e.Candidate; shown.Kind != "" && have.ok && sha256.Sum256([]byte(shown.Shown)) != have.inline {
		fail("the candidate that it shows differs from the stored one: %s", r.differing(shown.Shown, sum))
	}
}

// differing shows the first line in which what a record shows of a candidate is
// not what is stored.
func (r *lineCheck) differing(shown, sum string) string {
	stored, err := inlined(r.fsys, sum)
	if err != nil {
		return err.Error()
	}
	here, there := strings.Split(shown, "\n"), strings.Split(stored, "\n")
	n := 0
	for n < min(len(here), len(there)) && here[n] == there[n] {
		n++
	}
	line := func(of []string) string {
		if n >= len(of) {
			return "missing"
		}
		return redact.QuoteShort(of[n], maxShown)
	}
	return fmt.Sprintf("its line %d is %s, stored is %s", n+1, line(here), line(there))
}

// maxShown bounds a value of a record in a problem, in characters.
const maxShown = 100

// Candidate returns the stored candidate of a run that c names. Its digest is
// checked when it is read.
func Candidate(fsys fs.FS, c candidate.Candidate) (candidate.Candidate, error) {
	name, err := record.CandidatePath(c.Digest)
	if err != nil {
		return c, err
	}
	info, err := fs.Lstat(fsys, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c, fmt.Errorf("candidate %s is missing: there is no %s", c.Digest, name)
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
	if k := l.Candidate.Kind; k != task.Text { // or code
		return k
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
	name, _ := record.CandidatePath(sum)
	var text bytes.Buffer
	var to io.Writer = &text
	short := c.Size <= record.InlineLimit
	if !short { // only what is known to be the candidate is kept
		to = io.Discard
	}
	tree, err := candidate.Check(func() (io.ReadCloser, error) { return fsys.Open(name) }, sum, to)
	if err != nil || tree {
		return sum, candidateError(sum, err)
	}
	data := text.Bytes()
	if !short {
		data, err = c.Bytes()
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
