// Package packlint looks for checkers that are easy to deceive, and for tests and
// solutions that public files and images give away. It reads text and knows no
// language well: what it finds is a warning, and what it does not find may still
// be there.
package packlint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"securebench/internal/family"
	"securebench/internal/pipeline/pack"
	"securebench/internal/redact"
	"securebench/internal/source"
	"securebench/internal/workspace"
)

// The bounds of what is read.
const (
	maxFile     = 1 << 20 // bytes of a file
	maxFiles    = 64      // of one row
	maxWarnings = pack.MaxWarnings
)

// Check returns the warnings about a pack, at most as many as a pack can have.
// A file that cannot be read has none.
func Check(ctx context.Context, p *pack.Pack, reg family.Registry) (source.Problems, error) {
	l := &linter{pack: p, seen: map[string]bool{}}
	if err := l.openEvals(); err != nil {
		return nil, err
	}
	defer l.close()
	trees := false
	for row, err := range p.Rows(ctx) {
		if err != nil {
			return nil, err
		}
		l.recipe(row)
		if f := reg[row.Family]; len(f.Checkers) > 0 {
			trees = true
			l.row(row, f)
		}
	}
	if err := l.images(trees); err != nil {
		return nil, err
	}
	return l.sorted(), nil
}

// openEvals opens the folder of evaluation files, if there is one.
func (l *linter) openEvals() (err error) {
	l.evals, err = os.OpenRoot(l.pack.EvalRoot())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("opening the pack's evaluation files: %w", err)
	}
	return nil
}

func (l *linter) close() {
	if l.evals != nil {
		_ = l.evals.Close() // nothing is written
	}
}

// sorted returns the warnings by their places.
func (l *linter) sorted() source.Problems {
	slices.SortStableFunc(l.found, func(a, b *source.Problem) int {
		return cmp.Or(cmp.Compare(a.Pos.File, b.Pos.File), cmp.Compare(a.Pos.Line, b.Pos.Line))
	})
	return l.found
}

// linter collects the warnings of a pack.
type linter struct {
	pack  *pack.Pack
	evals *os.Root // nil if the pack has no evaluation files
	known []string // the evaluation files, sorted, once they are needed
	found source.Problems
	seen  map[string]bool // places that have been reported, and files that were read
}

// warn adds a warning, unless there is the same one about that file, or about
// that row.
func (l *linter) warn(at source.Pos, fix, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	key := at.File + "\x00" + message
	if at.File == l.pack.Tasks {
		key += fmt.Sprint(at.Line)
	}
	if l.seen[key] || len(l.found) >= maxWarnings {
		return
	}
	l.seen[key] = true
	l.found.Add(at, fix, "%s", message)
}

// row reads what decides on the candidates of a row.
func (l *linter) row(row pack.Row, f family.Family) {
	dir := workspace.DefaultTarget
	if n := row.Environment.Get("workdir"); n != nil && n.Kind == source.String {
		dir = path.Clean(n.Text)
	}
	files := map[string]bool{}
	for _, key := range f.Checkers {
		n := row.Eval.Get(key)
		if n == nil {
			continue
		}
		if file := n.Get("path"); file != nil && file.Kind == source.String {
			l.collect(file.Text, files)
			continue
		}
		if command := n.Get("command"); command != nil {
			l.command(command, dir)
		}
		eachText(n, func(t *source.Node) { l.text(t.Text, dir, func(int) source.Pos { return t.Pos }) })
		if command := n.Get("command"); command != nil && command.Kind == source.List { // what its words say together
			l.text(strings.Join(wordsOf(command), " "), dir, func(int) source.Pos { return command.Pos })
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		l.file(name, dir)
	}
}

// collect adds the evaluation files at or below a path, and those beside it: a
// script starts them.
func (l *linter) collect(name string, files map[string]bool) {
	name = path.Clean(name)
	for _, at := range []string{name, path.Dir(name)} {
		for file := range l.within(at) {
			if len(files) == maxFiles {
				return
			}
			files[file] = true
		}
	}
}

// within yields the evaluation files at or below a path; none says something of all.
func (l *linter) within(name string) iter.Seq[string] {
	if l.known == nil {
		l.known = slices.Sorted(maps.Keys(l.pack.EvalFiles))
	}
	return func(yield func(string) bool) {
		if _, there := l.pack.EvalFiles[name]; there && !yield(name) || name == "." {
			return
		}
		from, _ := slices.BinarySearch(l.known, name+"/")
		for _, file := range l.known[from:] {
			if !strings.HasPrefix(file, name+"/") || !yield(file) {
				return
			}
		}
	}
}

// naming adds what a row names of the evaluation files: themselves, folders above them, and
// the folders of files beside which they are.
func (l *linter) naming(row pack.Row, names map[string]bool) {
	add := func(name string) {
		if len(name) > workspace.MaxPath {
			return
		}
		name = path.Clean(name)
		for _, at := range []string{name, path.Dir(name)} {
			for range l.within(at) {
				names[at] = true
				break
			}
		}
	}
	eachText(row.Eval, func(t *source.Node) { add(t.Text) })
	for _, name := range row.EvalTexts {
		add(name)
	}
}

// file reads one evaluation file, once for each workdir.
func (l *linter) file(name, dir string) {
	key := name + "\x00" + dir
	if l.evals == nil || l.seen[key] {
		return
	}
	l.seen[key] = true
	data, err := source.ReadFileIn(l.evals, name, maxFile)
	if err != nil {
		return // it is too large for a checker, or a run will say what is wrong
	}
	at := filepath.Join(l.pack.EvalRoot(), filepath.FromSlash(name))
	l.text(string(data), dir, func(line int) source.Pos { return source.Pos{File: at, Line: line} })
}

// text applies the rules to a text's lines. at gives a line's place.
func (l *linter) text(text, dir string, at func(line int) source.Pos) {
	line := 0
	for s := range strings.SplitSeq(text, "\n") {
		line++
		if s = strings.TrimSpace(s); strings.HasPrefix(s, "#") {
			continue
		}
		for _, r := range rules() {
			if r.finds(s, dir) {
				l.warn(at(line), r.fix, "%s", r.what(dir))
			}
		}
	}
	if pipedStatus(text) {
		l.warn(at(1), "write `set -o pipefail`, or test the program by itself", "the checker takes the exit status of a pipe, which is that of its last command")
	}
}

// command looks at how a checker starts: a program that the agent can change
// decides nothing.
func (l *linter) command(n *source.Node, dir string) {
	words := wordsOf(n)
	if file := started(words, dir); file != "" {
		l.warn(n.Pos, "keep it among the pack's evaluation files, and name it in the checker", "the checker runs %s, which the agent can change", redact.Quote(file))
	}
}

// eachText calls do for every text in n.
func eachText(n *source.Node, do func(*source.Node)) {
	if n.Kind == source.String {
		do(n)
	}
	for _, it := range n.Items {
		eachText(it, do)
	}
	for _, f := range n.Fields {
		eachText(f.Value, do)
	}
}

// wordsOf returns the words of a command.
func wordsOf(n *source.Node) (words []string) {
	if n.Kind != source.List {
		return strings.Fields(n.Text)
	}
	for _, it := range n.Items {
		words = append(words, it.Text)
	}
	return words
}
