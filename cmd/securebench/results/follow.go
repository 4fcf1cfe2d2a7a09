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
}

// follow shows attempts as they get their records.
func (g group) follow(ctx context.Context, arg, task string, f showFlags) (err error) {
	run, err := evidence.OpenRun(arg)
	if err != nil {
		return fault.As(fault.Usage, err)
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if run.Bundle() {
		return subcommand.UsageError(fmt.Errorf("%s is a bundle, and only the directory of a run can be followed", redact.Quote(arg)))
	}
	shell, out := *g.Shell, console.NewFolder(g.Stdout, console.Columns(g.Stdout))
	shell.Stdout = out
	w := &follower{group: group{&shell}, run: run, task: task, flags: f, shown: map[record.AttemptKey]bool{},
		lines: tail{fsys: run, name: record.LinesName}, trace: tail{fsys: run, name: record.TraceName}}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		done, err := w.poll()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fault.Errorf(fault.Interrupted, "interrupted; the run continues")
		case <-tick.C:
		}
	}
}

// poll shows what is new, and reports whether the run has ended.
func (w *follower) poll() (done bool, err error) {
	// Whether it has ended is asked first: what it wrote before is then read below.
	_, statement := fs.Stat(w.run, record.StatementName)
	busy, err := record.Busy(w.run)
	if err != nil {
		return false, err
	}
	m, _, manifest := record.ReadManifest(w.run)
	if manifest != nil && !busy {
		return false, fault.Errorf(fault.Usage, "there is no run to follow: %s: %w", record.ManifestName, manifest)
	}
	if err := errors.Join(w.agents(), w.records()); err != nil {
		return false, err
	}
	planned := m.Planned.Tasks * m.Planned.Attempts
	switch {
	case statement == nil:
		_, err = fmt.Fprintf(w.Stdout, "the run has ended: %d of %d attempts have a record%s\n", w.count, planned, partOfPack(m))
		return true, err
	case busy || manifest != nil:
		w.idle = 0
		return false, nil
	}
	if w.idle++; w.idle < 3 {
		return false, nil
	}
	return false, fault.Errorf(fault.Interrupted, "the run has stopped: %d of %d attempts have a record%s (continue it with the command that began it and --resume)", w.count, planned, partOfPack(m))
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
