package pipeline

import (
	"cmp"

	"securebench/internal/pipeline/commit"
	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
)

// finished is an attempt whose record waits to be written.
type finished struct {
	commit.Entry
	broken error // ends the run when it is recorded
	done   chan<- struct{}
}

// record passes the record of an attempt on to [run.commitAll]: the worker need not
// wait for the disk. It waits if the record is the last of the run.
func (r *run) record(d *commit.Draft, line *record.Line) {
	r.mu.Lock()
	broken := r.broken(line)
	r.mu.Unlock()
	done := make(chan struct{})
	r.finished <- finished{commit.Entry{Line: line, Draft: d}, broken, done}
	if broken != nil {
		<-done
	}
}

// commitAll writes records in the order in which attempts finish, as many at once as
// wait, until no more come.
func (r *run) commitAll() {
	for f := range r.finished {
		batch := []finished{f}
		for range len(r.finished) {
			batch = append(batch, <-r.finished)
		}
		r.commit(batch)
	}
}

// commit writes records and, when they are on disk, reports them. One that cannot be
// written ends the run, and takes none of the others with it.
func (r *run) commit(batch []finished) {
	entries := make([]commit.Entry, len(batch))
	for i, f := range batch {
		entries[i] = f.Entry
	}
	err := r.committer.Append(entries...)
	if err != nil && len(batch) > 1 {
		for i := range batch {
			r.commit(batch[i : i+1])
		}
		return
	}
	for _, f := range batch {
		switch {
		case err != nil:
			r.cancel(err)
		default:
			r.recorded(f.Line)
			if f.broken != nil {
				r.cancel(f.broken)
			}
		}
		close(f.done)
	}
}

// recorded reports an attempt whose record is on disk.
func (r *run) recorded(line *record.Line) {
	r.mu.Lock()
	r.summary.Add(FinalOf(line))
	delete(r.unverified, line.Key())
	r.mu.Unlock()
	r.Progress.Event(progress.TaskDone{TaskID: line.TaskID, Attempt: line.Attempt, Status: line.Status, Score: line.Score(),
		Outcome: line.Outcome, Reason: line.FailureReason, Basis: line.Basis, Read: line.JudgeRead(), Worker: cmp.Or(line.Workers.Verify, line.Workers.Produce)})
}
