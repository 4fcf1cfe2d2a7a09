package results

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/console"
	"securebench/internal/evidence"
	"securebench/internal/fault"
	"securebench/internal/pipeline/record"
	"securebench/internal/progress"
	"securebench/internal/redact"
	"securebench/internal/transcript"
)

// pollEvery is how often a run in progress is looked at.
const pollEvery = 300 * time.Millisecond

// follower shows the attempts of a run in progress.
type follower struct {
	group
	run   *evidence.Run
	task  string
	flags showFlags
	lines tail
	trace tail
	shown map[record.AttemptKey]bool
	count int
	// idle is how often in a row no process held the run's lock.
	idle int
	// waiting says that no run has begun, which the operator was told.
	waiting bool
}

// wait tells the operator once that there is no run yet.
func (w *follower) wait(arg string) {
	if !w.waiting {
		w.waiting = true
		w.Say("waiting for a run to begin in %s", redact.Quote(arg))
	}
}

// follow shows attempts as they get their records.
func (g group) follow(ctx context.Context, arg, task string, f showFlags) (err error) {
	shell := *g.Shell
	shell.Stdout = console.NewFolder(g.Stdout, console.Columns(g.Stdout))
	w := &follower{group: group{&shell}, task: task, flags: f, shown: map[record.AttemptKey]bool{}}
	defer func() {
		if w.run != nil {
			err = errors.Join(err, w.run.Close())
		}
	}()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		done, err := w.look(arg)
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fault.Errorf(fault.Interrupted, "interrupted; %s", w.state())
		case <-tick.C:
		}
	}
}

// look opens the run once its directory is there, and then shows what is new.
func (w *follower) look(arg string) (done bool, err error) {
	if w.run == nil {
		run, err := evidence.OpenRun(arg)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			w.wait(arg)
			return false, nil
		case err != nil:
			return false, fault.As(fault.Usage, err)
		case run.Bundle():
			return false, errors.Join(subcommand.UsageError(fmt.Errorf("%s is a bundle, and only the directory of a run can be followed", redact.Quote(arg))), run.Close())
		}
		w.open(run)
	}
	done, begun, err := w.poll()
	switch {
	case begun:
		w.waiting = false
	case err == nil:
		w.wait(arg)
	}
	return done, err
}

func (w *follower) open(run *evidence.Run) {
	w.run = run
	w.lines, w.trace = tail{fsys: run, name: record.LinesName}, tail{fsys: run, name: record.TraceName}
}

// state says what goes on without this command.
func (w *follower) state() string {
	if w.waiting {
		return "no run has begun"
	}
	return "the run continues"
}

// poll shows what is new, and reports whether the run has ended, and whether there is one.
func (w *follower) poll() (done, begun bool, err error) {
	// Whether it has ended is asked first: what it wrote before is then read below.
	_, statement := fs.Stat(w.run, record.StatementName)
	busy, err := record.Busy(w.run)
	if err != nil {
		return false, false, err
	}
	m, _, manifest := record.ReadManifest(w.run)
	switch {
	case manifest == nil || busy:
	case errors.Is(manifest, fs.ErrNotExist):
		return false, false, nil
	default:
		return false, false, fault.Errorf(fault.Usage, "there is no run to follow: %s: %w", record.ManifestName, manifest)
	}
	if err := errors.Join(w.agents(), w.records()); err != nil {
		return false, true, err
	}
	planned := m.Planned.Tasks * m.Planned.Attempts
	switch {
	case statement == nil:
		_, err = fmt.Fprintf(w.Stdout, "the run has ended: %d of %d attempts have a record%s\n", w.count, planned, partOfPack(m))
		return true, true, err
	case busy:
		w.idle = 0
		return false, true, nil
	}
	if w.idle++; w.idle < 3 {
		return false, true, nil
	}
	return false, true, fault.Errorf(fault.Interrupted, "the run has stopped: %d of %d attempts have a record%s (continue it with the command that began it and --resume)", w.count, planned, partOfPack(m))
}

// agents shows what the followed task's agent prints, if the run keeps it.
func (w *follower) agents() error {
	if w.task == "" {
		return nil
	}
	return w.trace.each(func(line []byte) error {
		if !strings.HasPrefix(string(line), progress.TracePrefix(w.task)) {
			return nil
		}
		_, err := fmt.Fprintf(w.Stdout, "| %s\n", redact.Escape(string(line)))
		return err
	}, func() {})
}

// records shows the attempts that have a new record.
func (w *follower) records() error {
	return w.lines.each(func(line []byte) error {
		w.count++
		e, err := record.Decode(line)
		if err != nil {
			w.Say("%s:%d: %s", record.LinesName, w.count, err)
			return nil
		}
		if w.shown[e.Key()] || !w.flags.wants(w.task, e.Line) {
			return nil
		}
		w.shown[e.Key()] = true
		return w.attempt(e.Line)
	}, func() { w.count = 0 })
}

func (w *follower) attempt(l *record.Line) error {
	if w.task == "" {
		text := fmt.Sprintf("%s %s attempt %d, %.1f s", redact.Quote(string(l.Outcome)), redact.Quote(l.TaskID), l.Attempt, float64(l.Timings["total"])/1000)
		if l.FailureReason != "" {
			text += ": " + redact.EscapeShort(string(l.FailureReason)+": "+l.FailureMessage, maxMessage)
		}
		_, err := fmt.Fprintln(w.Stdout, text)
		return err
	}
	from := transcript.Source{FS: w.run, Limit: shownLimit}
	if m, _, err := record.ReadManifest(w.run); err == nil {
		from = sourceOf(w.run, m)
	}
	a := transcript.Read(from, l)
	return a.WriteText(w.Stdout)
}

// maxMessage bounds the message of a failure in a line, in characters.
const maxMessage = 160

// tail reads the lines that are added to a file, which may be replaced by another
// one: a resume writes the records that it keeps to a new file.
type tail struct {
	fsys   fs.FS
	name   string
	last   fs.FileInfo
	offset int64
}

// each calls f for each whole line that is new, and again before the lines of a
// file that replaced the former one.
func (t *tail) each(f func(line []byte) error, again func()) error {
	file, err := t.fsys.Open(t.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening %s: %w", t.name, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("opening %s: %w", t.name, err)
	}
	if t.last != nil && (!os.SameFile(t.last, info) || info.Size() < t.offset) {
		t.offset = 0
		again()
	}
	t.last = info
	seeker, ok := file.(io.Seeker)
	if !ok || info.Size() == t.offset {
		return nil
	}
	if _, err := seeker.Seek(t.offset, io.SeekStart); err != nil {
		return fmt.Errorf("reading %s: %w", t.name, err)
	}
	for line, err := range record.Lines(io.LimitReader(file, info.Size()-t.offset)) {
		if err != nil {
			return fmt.Errorf("reading %s: %w", t.name, err)
		}
		if line.Torn { // its rest is not written yet
			return nil
		}
		t.offset += int64(len(line.Bytes)) + 1
		if err := f(line.Bytes); err != nil {
			return err
		}
	}
	return nil
}
