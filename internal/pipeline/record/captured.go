package record

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"securebench/internal/digest"
	"securebench/internal/durable"
	"securebench/internal/source"
)

// CapturedName is the file that holds, while a run is under way, a record for
// each attempt whose candidate is stored and waits to be verified, as it would be
// if the verification had failed, with what a resume reads of it. A run that is
// killed resumes from it. When every attempt has its record, it holds those whose
// verification failed, and is gone if there are none.
const CapturedName = RestrictedName + "/captured.jsonl"

// AnswersName is the file that holds, while a run is under way, what a model has
// answered, so that a resumed run does not ask it again.
const AnswersName = RestrictedName + "/answers.jsonl"

// GrantsName is the file that holds, while a run is under way that other machines work
// for, which of them has which part of it.
const GrantsName = RestrictedName + "/grants.jsonl"

// The MACs of records and of lines in [CapturedName] have names of their own, so
// that neither can stand for the other.
const (
	recordField   = "record"
	capturedField = "captured"
)

// AppendCaptured adds a record to [CapturedName]. A kill leaves it there as soon as
// AppendCaptured has returned, and a power cut when the flush has ended. A line is not
// believed without what it refers to: that may come to the disk later.
func (d *Dir) AppendCaptured(l *Line) (*durable.Flush, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.Whole(); err != nil {
		return nil, err
	}
	b, next, err := l.captured(d.captured.link, d.salt)
	if err != nil {
		return nil, err
	}
	fresh := d.captured.file == nil
	if fresh {
		d.captured.file, err = source.OpenIn(d.root, CapturedName, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	}
	if err == nil {
		_, err = d.captured.file.Write(b)
	}
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", CapturedName, err)
	}
	d.captured.link = next
	file := d.captured.file
	return d.flusher.Go(func() error {
		err := file.Sync()
		if err == nil && fresh {
			err = d.sync(RestrictedName)
		}
		if err != nil {
			return fmt.Errorf("writing %s: %w", CapturedName, err)
		}
		return nil
	}), nil
}

// captured renders a line of [CapturedName], and returns the place of the next.
func (l *Line) captured(at link, salt digest.Salt) ([]byte, link, error) {
	b, err := l.marshal(at, salt, capturedField)
	if err == nil && len(b) > MaxLine {
		err = fmt.Errorf("the record of %q has %d bytes; the limit is %d", l.TaskID, len(b), MaxLine)
	}
	return append(b, '\n'), link{at.seq + 1, digest.Bytes(b)}, err
}

// Settled removes [AnswersName], [SpentName] and [GrantsName], and [CapturedName] unless
// attempts still wait to be verified: every attempt has its record. [AnswersName] and
// [SpentName] stay where one waits in a run with a judge, which may have answered about
// it. A shard keeps [SpentName]: the run may have attempts without a record.
func (d *Dir) Settled(judge bool) error {
	d.flusher.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	err := errors.Join(d.captured.close(), d.accounts.close(), d.rewriteCaptured(d.waiting))
	done := []string{CapturedName, AnswersName, GrantsName, SpentName}
	switch { // a vote that was answered is not asked for again
	case len(d.waiting) > 0 && judge:
		done = done[2:3]
	case len(d.waiting) > 0:
		done = done[1:]
	}
	if d.shard {
		done = slices.DeleteFunc(done, func(name string) bool { return name == SpentName })
	}
	for _, name := range done {
		if rerr := d.root.Remove(name); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("removing %s: %w", name, rerr))
		}
	}
	return err
}

// journal is [CapturedName] as it is written.
type journal struct {
	file *os.File // nil before the first line
	link link     // of the next one
}

func (j *journal) close() error {
	f := j.file
	*j = journal{link: link{prev: Genesis}}
	if f == nil {
		return nil
	}
	return f.Close()
}

// rewriteCaptured makes [CapturedName] hold only the attempts
// whose verification is repeated: the file of records is about to lose them.
func (d *Dir) rewriteCaptured(waiting map[AttemptKey]*Line) error {
	if len(waiting) == 0 {
		return nil
	}
	var all bytes.Buffer
	at := link{prev: Genesis}
	for _, l := range slices.SortedFunc(maps.Values(waiting), InOrder) {
		b, next, err := l.captured(at, d.salt)
		if err != nil {
			return err
		}
		at = next
		all.Write(b)
	}
	d.captured.link = at
	return d.replaceFile(CapturedName, all.Bytes(), 0o600)
}

// EachCaptured calls f for each line of [CapturedName], up to the first that is
// not as this run wrote it. The error names that one; [ErrTorn] is the end that a
// killed run leaves.
func EachCaptured(fsys fs.FS, salt digest.Salt, f func(Entry)) error {
	info, err := fs.Lstat(fsys, CapturedName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("it is %s", source.FileType(info.Mode()))
	}
	var in fs.File
	if err == nil {
		in, err = fsys.Open(CapturedName)
	}
	if err != nil {
		return fmt.Errorf("opening %s: %w", CapturedName, err)
	}
	defer in.Close()
	at := link{prev: Genesis}
	for raw, err := range Lines(in) {
		if err != nil {
			return fmt.Errorf("%s: %w", CapturedName, err)
		}
		if raw.Torn {
			return ErrTorn
		}
		var w capturedWire
		e, err := w.decode(raw.Bytes, capturedField, &w)
		if err == nil && !e.Authentic(salt) {
			err = errors.New("its MAC is wrong: this run did not write it")
		}
		if err == nil && (e.Seq != at.seq || e.Prev != at.prev) {
			err = errors.New("a line before it was changed, removed or moved")
		}
		if err != nil {
			return fmt.Errorf("%s: line %d: %w", CapturedName, raw.Number, err)
		}
		at = link{at.seq + 1, e.Digest}
		f(e)
	}
	return nil
}

// ErrTorn is returned by [EachCaptured] for a last line whose write was cut
// short.
var ErrTorn = fmt.Errorf("%s: its last line was cut short", CapturedName)

// Standing returns what is wrong with a record of [CapturedName], whose candidate
// and raw output have to be there.
func (e Entry) Standing(fsys fs.FS, salt digest.Salt, stored func(sum string) error) error {
	errs := e.contradictions()
	for _, f := range e.Restricted {
		errs = append(errs, f.Check(fsys, salt, e.TaskID))
	}
	if e.Digests.Candidate == "" {
		errs = append(errs, errors.New("it has no candidate"))
	}
	for _, sum := range e.Candidates() {
		errs = append(errs, stored(sum))
	}
	return errors.Join(errs...)
}

// captured completes the attempts with only a verification to repeat from
// [CapturedName]: those without a record are added, and those that it does not have
// are run again.
func (r *reviewer) captured() {
	found := map[AttemptKey]Entry{}
	err := EachCaptured(r.judge.FS, *r.judge.Salt, func(e Entry) {
		if !r.recorded[e.Key()] || r.Unverified[e.Key()] != nil {
			found[e.Key()] = e // a later one replaces it
		}
	})
	if !errors.Is(err, ErrTorn) {
		r.Lost = err
	}
	recorded := r.Unverified
	r.Unverified = map[AttemptKey]*Line{}
	for key, e := range found {
		if l := recorded[key]; l != nil {
			if l.Digests.Candidate != e.Digests.Candidate { // of two, the one of the record counts
				continue
			}
			l.Produced = e.Produced
			e.Line = l
		} else if r.inputs(e) != "" || e.Standing(r.judge.FS, *r.judge.Salt, r.judge.Stored) != nil {
			continue
		}
		r.Unverified[key] = e.Line
		r.name(e)
	}
	for key, at := range r.dropped {
		if r.Unverified[key] == nil {
			r.again(at, LostCapture)
		}
	}
	if len(r.Unverified) > 0 {
		r.files[CapturedName] = true
	}
}
