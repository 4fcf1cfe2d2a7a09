package record

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"securebench/internal/digest"
	"securebench/internal/durable"
	"securebench/internal/judge"
	"securebench/internal/source"
	"securebench/internal/verdict"
)

// ErrOutput is wrapped by errors of an output directory that cannot be written, for
// example because the disk is full.
var ErrOutput = errors.New("the output directory cannot be written")

// ErrIntegrity is returned if an earlier part of a run has changed or cannot
// be checked.
var ErrIntegrity = errors.New("integrity check failed")

// Former is the existing part of a run in an output directory.
type Former struct {
	Manifest Manifest
	Sealed   bool   // there is a statement
	Records  string // the digest of candidates.jsonl
	// Final keeps records that ended in an infrastructure error.
	Final bool
	// Only, unless nil, reports whether a record is of interest: the files of others are
	// not looked at.
	Only  func(Entry) bool
	dir   *Dir
	sound map[string]bool // candidates in the store that were read whole
}

// Former reads the existing part of a run; nil means that there is nothing to
// resume. From then on the directory uses that run's salt.
func (d *Dir) Former() (*Former, error) {
	f, err := d.former(func(m Manifest) (digest.Salt, error) {
		salt, err := ReadSalt(d.FS(), m.SaltDigest)
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrIntegrity, err)
		}
		return salt, err
	})
	if f == nil || err != nil {
		return nil, err
	}
	return f, d.makeFolders()
}

// former reads the existing part and writes nothing. salt returns the salt that a
// manifest names.
func (d *Dir) former(salt func(Manifest) (digest.Salt, error)) (*Former, error) {
	m, _, err := ReadManifest(d.FS())
	if err != nil {
		if n, sizeErr := d.linesSize(); sizeErr != nil || n > 0 {
			return nil, fmt.Errorf("%w: %s is missing or damaged, so it is unknown what the records are of: %w", ErrIntegrity, ManifestName, errors.Join(err, sizeErr))
		}
		return nil, nil
	}
	if d.salt, err = salt(m); err != nil {
		return nil, err
	}
	if !m.Authentic(d.salt) {
		return nil, fmt.Errorf("%w: %s was not written by this run: its MAC is wrong", ErrIntegrity, ManifestName)
	}
	if err := d.ownFolders(); err != nil {
		return nil, err
	}
	f := &Former{Manifest: m, dir: d}
	sealed, err := d.present(StatementName)
	if err != nil {
		return nil, err
	}
	f.Sealed = len(sealed) > 0
	f.Records, err = d.fileDigest(LinesName)
	return f, err
}

// ownFolders checks that the run's folders are folders and its records a
// regular file: a link could point elsewhere.
func (d *Dir) ownFolders() error {
	for _, name := range []string{CandidatesName, RestrictedName, LinesName} {
		info, err := d.root.Lstat(name)
		if err == nil && info.IsDir() == (name == LinesName) || err == nil && name == LinesName && !info.Mode().IsRegular() {
			return fmt.Errorf("%w: %s is not of the right type", ErrIntegrity, name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("reading the output directory: %w", err)
		}
	}
	return nil
}

// linesSize returns the size of the records, 0 if there are none.
func (d *Dir) linesSize() (int64, error) {
	info, err := d.root.Lstat(LinesName)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// fileDigest returns the digest of a file; a missing one counts as empty.
func (d *Dir) fileDigest(name string) (string, error) {
	sum, err := digest.File(d.FS(), name)
	if errors.Is(err, fs.ErrNotExist) {
		return digest.Bytes(nil), nil
	}
	return sum, err
}

// ReadSalt reads the run's salt and compares it with the digest that run.json
// holds. The error is [fs.ErrNotExist] if the run has none.
func ReadSalt(fsys fs.FS, want string) (s digest.Salt, err error) {
	raw, err := ReadFile(fsys, SaltName, maxSmall)
	if err != nil {
		return s, fmt.Errorf("reading the run's salt: %w", err)
	}
	s, ok := ParseSalt(raw, want)
	if !ok {
		return s, fmt.Errorf("%s does not match the salt digest in %s", SaltName, ManifestName)
	}
	return s, nil
}

// ParseSalt reports whether raw is the salt with this plain digest.
func ParseSalt(raw []byte, want string) (s digest.Salt, ok bool) {
	if digest.Bytes(raw) != want || len(raw) != len(s) {
		return s, false
	}
	return digest.Salt(raw), true
}

// The reasons why an existing line is dropped and its attempt is run again.
const (
	Torn          = "torn"           // its write was cut short
	Damaged       = "damaged"        // this run did not write it in this form
	Missing       = "missing"        // the numbering has a gap: it was removed
	OutOfChain    = "out_of_chain"   // the hash chain is broken before it
	Duplicate     = "duplicate"      // its attempt has another line
	Unfinished    = "infrastructure" // it ended in an infrastructure error
	Unpaid        = "budget"         // its judge's budget was spent
	LostCapture   = "captured"       // likewise, and its stored candidate is not in CapturedName
	LostCandidate = "candidate"      // its candidate is not in the store
	LostOutput    = "output"         // its raw output is not in the restricted folder
	InputsChanged = "inputs_changed" // an input of the attempt changed
	AgentsFailed  = "agents_failed"  // it is of a run that stopped because its agents failed
	NotPlanned    = "not_planned"    // its attempt is no longer part of the run
	BrokenSeal    = "statement"      // the records are not those that were sealed
)

// Dropped is a line that is not kept.
type Dropped struct {
	Line   int    // in the file, from 1
	TaskID string // "" where it is unknown
	Reason string
}

// Review is the decision on which existing lines are kept.
type Review struct {
	Kept    int
	Dropped []Dropped
	Rerun   map[string]int // how many by reason
	// Unverified are dropped lines whose verification alone is repeated: it ended in an
	// infrastructure error or with a spent budget, and everything before it is good.
	// The files that they name stay in place, so the new record must name
	// them, too.
	Unverified map[AttemptKey]*Line
	// Lost says why a part of [CapturedName] could not be used; nil is none.
	Lost error
	// Used is what agents used of their provider by all lines that this run wrote,
	// whether they are kept or not.
	Used map[string]int64

	former *Former
	keep   []bool          // by line
	files  map[string]bool // that kept lines name, below the directory
}

// Review reads every existing line. A line is kept if [Judge] finds no fault
// in it and inputs, which compares it with the current run, returns no reason
// to drop it. stored checks a candidate in the store.
func (f *Former) Review(stored func(sum string) error, inputs func(Entry) (reason string)) (*Review, error) {
	p := &Review{former: f, Rerun: map[string]int{}, Unverified: map[AttemptKey]*Line{}, files: map[string]bool{SaltName: true, PackName: true, ConfigName: true, AnswersName: true, SpentName: true, GrantsName: true}}
	file, err := source.OpenIn(f.dir.root, LinesName, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", LinesName, err)
	}
	defer file.Close()
	r := reviewer{Review: p, final: f.Final, recorded: map[AttemptKey]bool{}, dropped: map[AttemptKey]int{}, judge: Judge{FS: f.dir.FS(), Salt: &f.dir.salt, Stored: stored, Only: f.Only}, inputs: inputs}
	for raw, err := range Lines(file) {
		if errors.Is(err, ErrLineTooLong) {
			// No run wrote it. The lines after it are also run again.
			r.drop(raw.Number, "", Damaged)
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", LinesName, err)
		}
		r.add(raw)
	}
	for _, ok := range p.keep {
		if ok {
			p.Kept++
		}
	}
	r.captured()
	return p, nil
}

type reviewer struct {
	*Review
	judge    Judge
	final    bool
	inputs   func(Entry) string
	recorded map[AttemptKey]bool // attempts whose line is kept
	dropped  map[AttemptKey]int  // places in Dropped, of those in Unverified
}

func (r *reviewer) add(raw RawLine) {
	e, err := Decode(raw.Bytes)
	e.Number, e.Offset, e.Size = raw.Number, raw.Offset, len(raw.Bytes)
	found := map[string]Fault{}
	for _, f := range r.judge.Next(raw, e, err) {
		found[f.Reason] = f
	}
	r.Rerun[Missing] += found[Missing].Gap
	if r.Rerun[Missing] == 0 {
		delete(r.Rerun, Missing)
	}
	if f, ok := found[Duplicate]; ok && !raw.Torn {
		// Keeping one of the two would allow choosing the better one: both are
		// dropped.
		if r.keep[f.First-1] {
			r.keep[f.First-1] = false
			r.drop(f.First, e.TaskID, Duplicate)
			delete(r.recorded, e.Key())
		}
		delete(r.Unverified, e.Key())
		delete(r.dropped, e.Key())
	}
	reason := r.reason(e, found)
	if reason != Torn && reason != Damaged {
		r.Used = SumUsage(r.Used, provided(e.Usage))
	}
	r.keep = append(r.keep, reason == "")
	if reason == "" {
		r.recorded[e.Key()] = true
	}
	unverified := (reason == Unfinished || reason == Unpaid || reason == "") && e.waits() && len(found) == 0 && r.inputs(e) == ""
	if unverified {
		r.Unverified[e.Key()] = e.Line
	}
	if reason == "" {
		r.name(e)
		return
	}
	id := ""
	if _, damaged := found[Damaged]; !damaged && !raw.Torn {
		id = e.TaskID
	}
	r.drop(raw.Number, id, reason)
	if unverified {
		r.dropped[e.Key()] = len(r.Dropped) - 1
	}
}

// provided returns what a usage says of the providers, the agent's and the judge's.
func provided(usage map[string]int64) map[string]int64 {
	out := map[string]int64{}
	for _, name := range []string{"requests", "input_tokens", "output_tokens", "cost_microusd"} {
		for _, of := range []string{name, judge.UsagePrefix + name} {
			if n := usage[of]; n > 0 {
				out[of] = n
			}
		}
	}
	return out
}

// reason returns the most important reason to drop a line, or "".
func (r *reviewer) reason(e Entry, found map[string]Fault) string {
	for _, reason := range []string{Torn, Damaged, OutOfChain, Duplicate} {
		if _, ok := found[reason]; ok {
			return reason
		}
	}
	_, output := found[LostOutput]
	_, lost := found[LostCandidate]
	switch {
	case e.waits() && (output || lost): // so its agent runs again, which must show
	case e.Outcome == verdict.Infrastructure && !r.final:
		return Unfinished
	case e.Unpaid() && !r.final:
		return Unpaid
	}
	if output {
		return LostOutput
	}
	if reason := r.inputs(e); reason != "" {
		return reason
	}
	if lost {
		return LostCandidate
	}
	return ""
}

// waits reports whether the attempt lacks only its verification.
func (l *Line) waits() bool {
	return (l.Outcome == verdict.Infrastructure || l.Unpaid()) && l.FailurePhase == verdict.PhaseVerify && l.Digests.Candidate != ""
}

// Unpaid reports whether the attempt has no verdict because its judge's budget was spent.
func (l *Line) Unpaid() bool {
	return l.Outcome == verdict.Pending && l.FailureReason == verdict.Budget
}

// JudgeRead reports whether the candidate states no answer by its row's rule, and a judge
// was to read one.
func (l *Line) JudgeRead() bool { return slices.Contains(l.Labels, verdict.JudgeRead) }

// Result returns what came of the attempt.
func (l *Line) Result() verdict.Result {
	return verdict.Result{Basis: l.Basis, Status: l.Status, Outcome: l.Outcome, Reason: l.FailureReason}
}

// ByRule returns what the attempt is in sums of its row.
func (l *Line) ByRule() verdict.Result { return l.Result().ByRule(l.JudgeRead()) }

// name records the files that a line names.
func (r *reviewer) name(e Entry) {
	for _, name := range e.Files() {
		r.files[name] = true
	}
}

func (p *Review) drop(line int, id, reason string) {
	p.Dropped = append(p.Dropped, Dropped{line, id, reason})
	p.Rerun[reason]++
}

// again gives another reason to drop a line.
func (p *Review) again(at int, reason string) {
	d := &p.Dropped[at]
	if p.Rerun[d.Reason]--; p.Rerun[d.Reason] == 0 {
		delete(p.Rerun, d.Reason)
	}
	d.Reason = reason
	p.Rerun[reason]++
}

// Keeps reports whether the line with a number is kept.
func (p *Review) Keeps(line int) bool { return p.keep[line-1] }

// Files returns the names of the files that the line names, below the directory.
func (l *Line) Files() (out []string) {
	for _, f := range l.Restricted {
		out = append(out, f.Path)
	}
	for _, sum := range l.Candidates() {
		if name, err := CandidatePath(sum); err == nil {
			out = append(out, name)
		}
	}
	return out
}

// Candidates returns the digests of the line's candidates in the store.
func (l *Line) Candidates() []string {
	var out []string
	if l.Digests.Candidate != "" {
		out = append(out, l.Digests.Candidate)
	}
	if l.Digests.Extracted != "" {
		out = append(out, l.Digests.Extracted)
	}
	for _, r := range l.Retries {
		if r.Candidate != "" {
			out = append(out, r.Candidate)
		}
	}
	return out
}

// SealBroken records that the records do not match the statement.
func (p *Review) SealBroken() { p.Rerun[BrokenSeal]++ }

// Resumption returns the entry for this resume in the new run manifest.
func (p *Review) Resumption(at string) Resumption {
	return Resumption{At: at, Records: p.former.Records, Kept: p.Kept, Rerun: p.Rerun, Digests: p.former.Manifest.Digests}
}

// Continue prepares the directory for the resumed run: a new file of records
// starts with the kept lines, the old one and all files that are no longer
// named are moved to history/, and m becomes the run manifest. If Continue is
// interrupted, the directory can be resumed again.
func (d *Dir) Continue(p *Review, m *Manifest) error {
	if err := d.Tidy(); err != nil {
		return err
	}
	to, err := d.newHistory()
	if err != nil {
		return err
	}
	if err := d.setAside(to); err != nil {
		return err
	}
	lines, err := d.rewrite(func(yield func(*Line) error) error {
		return p.each(func(e Entry) error { return yield(e.Line) })
	})
	if err != nil {
		return err
	}
	return d.replace(lines, p.files, p.Unverified, to, m)
}

// replace makes lines, which were written beside the records, the records, with the
// files that they and the attempts that wait to be verified name. All other files go to
// a folder of history/.
func (d *Dir) replace(lines *durable.File, named map[string]bool, waiting map[AttemptKey]*Line, to string, m *Manifest) error {
	discard := func(err error) error { return errors.Join(err, lines.Discard()) }
	orphans, err := d.orphans(named)
	if err == nil {
		err = d.moveAll(orphans, to)
	}
	if err == nil {
		err = d.rewriteCaptured(waiting)
	}
	if err != nil {
		return discard(err)
	}
	// Records are about to refer to what was not flushed yet.
	if err := durable.SyncAll(d.root); err != nil {
		return discard(fmt.Errorf("flushing the output directory: %w", err))
	}
	if m.Shards != nil {
		if m.Shards.Records, err = d.fileDigest(durable.TempName(LinesName)); err != nil {
			return discard(fmt.Errorf("rewriting %s: %w", LinesName, err))
		}
	}
	// If the process is killed here, the new manifest lies beside the old
	// records, whose state is among those that it resumed from.
	if err := d.WriteManifest(m); err != nil {
		return discard(err)
	}
	if err := lines.Commit(LinesName); err != nil {
		return fmt.Errorf("replacing %s: %w", LinesName, err)
	}
	return d.openLines()
}

// setAside copies the files that are about to be replaced to a folder of history/.
func (d *Dir) setAside(to string) error {
	for _, name := range []string{LinesName, ManifestName, CapturedName} {
		if err := d.keepCopy(name, path.Join(to, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("keeping %s in %s: %w", name, to, err)
		}
	}
	// The run is open again, so the statement no longer applies.
	old, err := d.present(StatementName)
	if err != nil {
		return err
	}
	return d.moveAll(old, to)
}

// keepCopy copies a file that is about to be replaced.
func (d *Dir) keepCopy(name, to string) error {
	in, err := source.OpenIn(d.root, name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := d.root.MkdirAll(path.Dir(to), 0o700); err != nil {
		return err
	}
	out, err := d.root.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Sync(), out.Close())
}

// orphans lists the files of the store and of the restricted folder that no
// kept line names, such as those of an attempt without a record.
func (d *Dir) orphans(named map[string]bool) (out []string, err error) {
	for _, top := range []string{CandidatesName, RestrictedName} {
		err := source.WalkDir(d.FS(), top, func(name string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil || e.IsDir() || named[name] {
				return err
			}
			out = append(out, name)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("looking for orphaned files: %w", err)
		}
	}
	return out, nil
}

// rewrite writes lines to a new file beside the records, chained again.
func (d *Dir) rewrite(each func(yield func(*Line) error) error) (*durable.File, error) {
	out, err := durable.Create(d.root, durable.TempName(LinesName), 0o644)
	if err != nil {
		return nil, fmt.Errorf("rewriting %s: %w", LinesName, err)
	}
	d.link = link{prev: Genesis}
	buffered := bufio.NewWriterSize(out, 1<<20)
	err = each(func(l *Line) error {
		text, next, err := d.chain([]*Line{l})
		if err != nil {
			return err
		}
		d.link = next
		_, err = buffered.Write(text)
		return err
	})
	err = errors.Join(err, buffered.Flush())
	if err = errors.Join(err, out.Sync()); err != nil {
		return nil, fmt.Errorf("rewriting %s: %w", LinesName, errors.Join(err, out.Discard()))
	}
	return out, nil
}

// each calls f for every line that is kept.
func (p *Review) each(f func(Entry) error) error {
	if p.Kept == 0 {
		return nil
	}
	in, err := source.OpenIn(p.former.dir.root, LinesName, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	for raw, err := range Lines(in) {
		if raw.Number > len(p.keep) {
			return nil
		}
		if err != nil {
			return err
		}
		if !p.keep[raw.Number-1] {
			continue
		}
		e, err := Decode(raw.Bytes)
		if err != nil {
			return fmt.Errorf("line %d changed while it was read: %w", raw.Number, err)
		}
		if err := f(e); err != nil {
			return err
		}
	}
	return nil
}

// EachKept calls f for every line that is kept, in order.
func (p *Review) EachKept(f func(Entry)) error {
	err := p.each(func(e Entry) error { f(e); return nil })
	if err != nil {
		return fmt.Errorf("reading %s: %w", LinesName, err)
	}
	return nil
}
