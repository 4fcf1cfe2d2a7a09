// Package pack loads benchmark packs: a manifest, rows in JSON lines, and two
// trees of files.
//
// Rows are streamed and never kept in memory together. [Load] reads and checks
// each row once and keeps its hash; [Pack.Rows] reads the rows again for the
// run and compares. A pack of any size therefore needs at most 32 bytes of
// memory per row, and a row that changes during a run is noticed before it is
// used.
package pack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"securebench/internal/redact"
	"securebench/internal/source"
)

// The file names in a pack's folder.
const (
	manifestName = "manifest.yaml"
	tasksName    = "tasks.jsonl" // or else a folder, [tasksFolder]
)

// ErrNoTask is returned by [Pack.Find] if no row has the id.
var ErrNoTask = errors.New("the pack has no such task")

// Location gives the paths of a pack's manifest and of its rows: a file of JSON lines, or a
// folder of tasks. The asset roots are relative
// to the manifest's folder.
type Location struct{ Manifest, Tasks string }

// Locate turns a PACK argument into a location: a folder that holds
// manifest.yaml and tasks.jsonl or a folder of tasks, or a manifest with one of these beside
// it. It does not check that the files can be read; [Load] does.
func Locate(arg string) (Location, error) {
	info, err := os.Stat(arg)
	if err != nil {
		return Location{}, fmt.Errorf("looking for pack %s: %w", arg, withoutPath(err))
	}
	loc := Location{Manifest: arg, Tasks: filepath.Join(filepath.Dir(arg), tasksName)}
	if info.IsDir() {
		loc = Location{Manifest: filepath.Join(arg, manifestName), Tasks: filepath.Join(arg, tasksName)}
	}
	if folder := filepath.Join(filepath.Dir(loc.Tasks), tasksFolder); missing(loc.Tasks) && !missing(folder) {
		loc.Tasks = folder
	}
	for _, file := range []string{loc.Manifest, loc.Tasks} {
		if _, err := os.Lstat(file); err != nil {
			return Location{}, fmt.Errorf("pack %s needs %s: %w", arg, file, withoutPath(err))
		}
	}
	return loc, nil
}

func missing(name string) bool {
	_, err := os.Lstat(name)
	return errors.Is(err, fs.ErrNotExist)
}

// withoutPath drops the path from err, for a message that names it already.
func withoutPath(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// Digests are plain SHA-256 digests, "sha256:" and hex. Manifest and
// PublicAssets may be published. The others cover hidden values, which anybody
// could guess from a plain digest: publish them keyed.
type Digests struct {
	Manifest     string // of the file's bytes
	Tasks        string // of the file's bytes; of a folder of tasks, of their lines
	PublicAssets string // of the tree below the public asset root
	EvalAssets   string // of the tree below the evaluation asset root
	Pack         string // of the four above
}

// Pack is a loaded pack: all its rows were read and checked. It is immutable
// and safe for concurrent use.
type Pack struct {
	Location
	Manifest Manifest
	Count    int // rows
	// Warnings are for the pack's author: at most [MaxWarnings], and one more
	// that counts the rest.
	Warnings source.Problems
	Digests  Digests
	// PublicFiles and EvalFiles are the digests of the public assets and of
	// the evaluation files by path below their roots. They reveal a file that
	// changes during a run.
	PublicFiles, EvalFiles map[string]string

	hashes rowHashes
	texts  Texts
	names  []string // of a folder of tasks, in the order of the rows
}

// PublicRoot returns the folder of the public assets. It may not exist.
func (p *Pack) PublicRoot() string { return p.root(p.Manifest.PublicRoot) }

// EvalRoot returns the folder of the evaluation files. It may not exist.
func (p *Pack) EvalRoot() string { return p.root(p.Manifest.EvalRoot) }

// root joins a root that parseRoot has checked to the manifest's folder.
func (p *Pack) root(dir string) string {
	if p.names != nil {
		return p.Tasks
	}
	return filepath.Join(filepath.Dir(p.Location.Manifest), filepath.FromSlash(dir))
}

// At names the place of a row by its line, as a user reads it.
func (p *Pack) At(line int) string {
	if line >= 1 && line <= len(p.names) {
		return redact.Quote(p.task(p.names[line-1]))
	}
	return fmt.Sprintf("%s:%d", redact.Quote(p.Tasks), line)
}

// IsFolder reports whether the pack is a folder of tasks.
func (p *Pack) IsFolder() bool { return p.names != nil }

// ChangedError reports that the pack's files have changed since they were
// loaded.
type ChangedError struct {
	Pos  source.Pos
	What string // "row 7 changed", "the file has more rows"
}

// Error gives the position and what changed there.
func (e *ChangedError) Error() string {
	return e.Pos.String() + ": " + e.What + " since the pack was loaded"
}

// says is what to say of a folder of tasks, or else of a file of rows.
func (p *Pack) says(ofTasks, ofRows string, args ...any) string {
	if p.names != nil {
		return ofTasks
	}
	return fmt.Sprintf(ofRows, args...)
}

// Rows streams the rows in file order. A changed, missing or additional row
// ends the stream with a [*ChangedError].
func (p *Pack) Rows(ctx context.Context) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		texts, err := p.openTexts()
		if err != nil {
			yield(Row{}, err)
			return
		}
		defer texts.close()
		rows, err := openRows(p.Location, texts)
		if err != nil {
			yield(Row{}, err)
			return
		}
		defer rows.close()
		for index := 0; ; index++ {
			row, more, err := p.next(ctx, rows, index)
			if err != nil {
				yield(Row{}, err)
				return
			}
			if !more || !yield(row, nil) {
				return
			}
		}
	}
}

// next reads row index and compares it with what was loaded.
func (p *Pack) next(ctx context.Context, rows rowStream, index int) (row Row, more bool, err error) {
	if ctx.Err() != nil {
		return Row{}, false, context.Cause(ctx)
	}
	r, more, err := rows.next()
	switch {
	case err != nil:
		return Row{}, false, err
	case !more && index < p.Count:
		return Row{}, false, &ChangedError{rows.pos(), p.says("a task is missing", "row %d is missing", index+1)}
	case !more:
		return Row{}, false, nil
	case index >= p.Count:
		return Row{}, false, &ChangedError{rows.pos(), p.says("the folder has more tasks", "the file has more rows")}
	case p.hashes.at(index) != hashRow(r.Raw):
		return Row{}, false, &ChangedError{rows.pos(), p.says("the task changed", "row %d changed", index+1)}
	}
	if err = r.errs.Err(); err != nil {
		return Row{}, false, err
	}
	return r.Row, true, nil
}

// openTexts opens the folders of texts, whose files must be those that were loaded.
func (p *Pack) openTexts() (*textReader, error) {
	t, err := openTexts(p.Location, &p.Manifest, p.texts)
	if err == nil && p.names == nil { // else the lines say it
		t.expect(p.PublicFiles, p.EvalFiles)
	}
	return t, err
}

// Find returns the row with the given id, or [ErrNoTask].
func (p *Pack) Find(ctx context.Context, id string) (Row, error) {
	for row, err := range p.Rows(ctx) {
		if err != nil {
			return Row{}, err
		}
		if row.ID == id {
			return row, nil
		}
	}
	return Row{}, fmt.Errorf("looking for task %q in %s: %w", id, p.Tasks, ErrNoTask)
}
