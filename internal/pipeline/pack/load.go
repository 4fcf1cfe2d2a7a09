package pack

import (
	"context"
	"errors"
	"fmt"

	"securebench/internal/digest"
	"securebench/internal/source"
)

const (
	// maxProblems is the number of errors after which loading stops.
	maxProblems = 20
	// MaxWarnings is the maximum number of distinct warnings that are kept.
	MaxWarnings = 100
)

// Load reads the whole pack once. It calls check, in file order, for each row
// that is valid on its own. If anything is wrong, the error joins up to 20
// problems, each a [*source.Problem] with its position, followed by the
// warnings for the same lines.
func Load(ctx context.Context, loc Location, places Texts, check func(Row) (errs, warnings source.Problems)) (*Pack, error) {
	m, sum, warnings, err := ReadManifest(loc)
	if err != nil {
		return nil, err
	}
	trees, err := scanTrees(ctx, loc, &m)
	if err != nil {
		return nil, err
	}
	defer trees.files.Close()
	texts, err := openTexts(loc, &m, places)
	if err != nil {
		return nil, err
	}
	defer texts.close()
	l := &loader{check: check, named: map[bool][]string{}, trees: trees, texts: texts, ids: newIDIndex(), seen: make(map[string]bool),
		pack: &Pack{Location: loc, Manifest: m, PublicFiles: trees.public.files(), EvalFiles: trees.eval.files(), texts: places}}
	texts.expect(l.pack.PublicFiles, l.pack.EvalFiles)
	texts.public.tree, texts.eval.tree = trees.public, trees.eval
	if loc.folders() {
		l.fail(unread(loc, &m))
	}
	l.warn(warnings)
	if err := l.rows(ctx); err != nil {
		return nil, err
	}
	if err := l.finish(ctx); err != nil {
		return nil, err
	}
	d := &l.pack.Digests
	d.Manifest, d.PublicAssets, d.EvalAssets = sum, trees.public.digest, trees.eval.digest
	if l.pack.names != nil {
		l.pack.PublicFiles, d.PublicAssets = trees.public.share(l.named[true])
		l.pack.EvalFiles, d.EvalAssets = trees.eval.share(l.named[false])
	}
	d.Pack = d.Sum()
	return l.pack, nil
}

// Sum combines the digests of the four parts of a pack into one.
func (d Digests) Sum() string {
	return digest.Bytes(fmt.Appendf(nil, "securebench pack\nmanifest %s\ntasks %s\npublic %s\neval %s\n",
		d.Manifest, d.Tasks, d.PublicAssets, d.EvalAssets))
}

// loader is the state of one Load.
type loader struct {
	check func(Row) (errs, warnings source.Problems)
	pack  *Pack
	trees *trees
	texts *textReader
	named map[bool][]string // files that tasks of a folder name, by whether they are public
	ids   *idIndex

	errs    source.Problems
	seen    map[string]bool // errors and warnings already reported; bounded
	dropped int             // warnings beyond MaxWarnings
}

func (l *loader) rows(ctx context.Context) error {
	rows, err := openRows(l.pack.Location, l.texts)
	if err != nil {
		return err
	}
	defer rows.close()
	if tasks, ok := rows.(*taskStream); ok {
		l.pack.names = tasks.names
	}
	for index := 0; ; index++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r, more, err := rows.next()
		if err != nil {
			return errors.Join(l.errs.Err(), err)
		}
		if !more {
			l.pack.Count, l.pack.Digests.Tasks = index, rows.digest()
			return nil
		}
		l.row(r)
		if len(l.errs) >= maxProblems {
			return l.tooMany()
		}
	}
}

func (l *loader) tooMany() error {
	l.errs.Add(source.Pos{File: l.pack.Tasks}, "", "reading stopped after %d problems", maxProblems)
	return l.err()
}

// err joins the problems and the warnings for the same lines: a misspelt key
// is only a warning, but often explains the error that follows from it.
func (l *loader) err() error {
	lines := map[source.Pos]bool{}
	for _, e := range l.errs {
		lines[source.Pos{File: e.Pos.File, Line: e.Pos.Line}] = true
	}
	all := l.errs
	for _, w := range l.pack.Warnings {
		if lines[source.Pos{File: w.Pos.File, Line: w.Pos.Line}] {
			hint := *w
			hint.Message = "warning: " + hint.Message
			all = append(all, &hint)
		}
	}
	return all.Err()
}

func (l *loader) row(r read) {
	row := r.Row
	l.warn(r.warnings)
	l.fail(r.errs)
	l.pack.hashes.add(hashRow(row.Raw))
	if row.ID != "" {
		l.ids.add(row.ID)
	}
	if len(r.errs) > 0 {
		return
	}
	for _, u := range row.uses {
		if u.stays {
			l.named[u.public] = append(l.named[u.public], u.path)
		}
	}
	row.trees = l.trees
	l.fail(row.checkAssets(&l.pack.Manifest))
	if l.check != nil {
		errs, warnings := l.check(row)
		l.warn(warnings)
		l.fail(errs)
	}
}

// finish runs the checks that need the whole pack.
func (l *loader) finish(ctx context.Context) error {
	m := &l.pack.Manifest
	l.fail(l.trees.public.unreported(l.pack.Location, m.publicPos))
	l.fail(l.trees.eval.unreported(l.pack.Location, m.evalPos))
	if suspects := l.ids.repeated(maxProblems); len(suspects) > 0 {
		if err := l.duplicates(ctx, suspects); err != nil {
			return err
		}
	}
	switch {
	case l.pack.Count > 0:
	case l.pack.names != nil:
		l.warn(source.Problems{{Pos: source.Pos{File: l.pack.Tasks}, Message: "the pack has no tasks", Fix: "give each task a folder with " + taskFile + "; securebench pack add makes one"}})
	default:
		l.warn(source.Problems{{Pos: source.Pos{File: l.pack.Tasks, Line: 1}, Message: "the pack has no rows", Fix: "write one task a line; securebench pack add appends one"}})
	}
	if l.dropped > 0 {
		l.pack.Warnings.Add(source.Pos{File: l.pack.Tasks}, "", "%d more warnings are not shown", l.dropped)
	}
	return l.err()
}

// duplicates reads the rows again to report where ids with a suspect hash
// repeat. Keeping every id in memory would cost more than a second reading,
// which happens only when the pack has an error.
func (l *loader) duplicates(ctx context.Context, suspects map[uint64]bool) error {
	rows, err := openRows(l.pack.Location, l.texts)
	if err != nil {
		return err
	}
	defer rows.close()
	first := make(map[string]string, len(suspects))
	for len(l.errs) < maxProblems {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r, more, err := rows.next()
		if err != nil || !more {
			return err
		}
		if r.ID == "" || !suspects[l.ids.hash(r.ID)] {
			continue
		}
		if place, ok := first[r.ID]; ok {
			l.errs.Add(r.idPos, "give every task a unique id", "duplicate task id %q, first %s", r.ID, place)
			continue
		}
		first[r.ID] = fmt.Sprintf("on line %d", r.Line)
		if l.pack.names != nil {
			first[r.ID] = "in " + r.Pos.File
		}
	}
	return nil
}

// fail adds each error once: every row would report a bad default in the
// manifest again.
func (l *loader) fail(errs source.Problems) {
	for _, e := range errs {
		if s := e.Error(); len(l.errs) < maxProblems && !l.seen[s] {
			l.seen[s] = true
			l.errs = append(l.errs, e)
		}
	}
}

// warn adds warnings; the same text is added once, whichever row it concerns.
func (l *loader) warn(warnings source.Problems) {
	for _, w := range warnings {
		switch {
		case l.seen[w.Message]:
		case len(l.pack.Warnings) >= MaxWarnings:
			l.dropped++
		default:
			l.seen[w.Message] = true
			l.pack.Warnings = append(l.pack.Warnings, w)
		}
	}
}

// asProblems turns a parser's error into problems; at is the position of an
// error that has none.
func asProblems(at source.Pos, err error) source.Problems {
	var p *source.Problem
	if errors.As(err, &p) {
		return source.Problems{p}
	}
	return source.Problems{source.Problemf(at, "%v", err)}
}
