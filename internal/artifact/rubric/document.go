package rubric

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"securebench/internal/artifact"
	"securebench/internal/family/textmatch"
	"securebench/internal/source"
)

// documentRule compares paragraphs and tables in their order, and how many pages there are.
type documentRule struct {
	paragraphs, tables, pages, perPage bool
	styles                             []string
	leniency
}

func readDocument(n *source.Node) (rule, source.Problems) {
	r := &documentRule{paragraphs: true, tables: true}
	var ps source.Problems
	ps.Closed(n, "a rubric of type document", "type", "paragraphs", "tables", "pages", "per_page", "styles", "ignore_case", "tolerance", "relative_tolerance")
	source.Optional(&ps, n, "paragraphs", &r.paragraphs, (*source.Node).Boolean)
	source.Optional(&ps, n, "tables", &r.tables, (*source.Node).Boolean)
	source.Optional(&ps, n, "pages", &r.pages, (*source.Node).Boolean)
	source.Optional(&ps, n, "per_page", &r.perPage, (*source.Node).Boolean)
	source.Optional(&ps, n, "styles", &r.styles, texts)
	r.read(&ps, n, "")
	r.ignoreSpace = true
	if len(ps) == 0 && !r.paragraphs && !r.tables && !r.pages && r.styles == nil {
		ps.Add(n.Pos, "", "a rubric of type document compares neither paragraphs nor tables nor pages nor styles")
	}
	return r, ps
}

func (r *documentRule) official() string { return "" }

// suits implements [suiting]: of a PDF only the pages are known, and its words once it was
// converted.
func (r *documentRule) suits(t artifact.Type, converted bool) error {
	switch {
	case t != artifact.PDF:
	case r.tables, r.styles != nil:
		return errors.New("a PDF has neither tables nor styles to compare: set tables to false")
	case r.paragraphs && !converted:
		return errors.New("the text of a PDF is known only with eval.converter: add it, or set paragraphs to false")
	}
	return nil
}

func (r *documentRule) compare(got, want *artifact.File) (Result, error) {
	if want.Document == nil {
		return Result{}, errors.New("the reference is no document to compare with")
	}
	if got.Document == nil {
		return fail("the file is no document"), nil
	}
	var d differences
	g, w := got.Document, want.Document
	if r.paragraphs && want.Type == artifact.PDF && w.Blocks == nil {
		return Result{}, errors.New("the reference has no text to compare with")
	}
	if r.pages && g.Pages != w.Pages {
		d.add("it has %d pages, not %d", g.Pages, w.Pages)
	}
	switch {
	case !r.paragraphs:
	case want.Type == artifact.PDF:
		r.words(g, w, &d) // where a PDF's paragraphs end is a guess
	default:
		r.texts("paragraph", r.lines(g, nil), r.lines(w, nil), &d)
	}
	if r.styles != nil {
		r.texts("paragraph with a style", r.lines(g, r.styles), r.lines(w, r.styles), &d)
	}
	if r.tables {
		r.compareTables(tablesOf(g), tablesOf(w), &d)
	}
	return d.result(), nil
}

// line is a paragraph as it is compared.
type line struct{ text, where string }

// lines are the paragraphs that are not blank: all, or those with one of some styles.
func (r *documentRule) lines(doc *artifact.Document, styles []string) (out []line) {
	for _, b := range doc.Blocks {
		styled := slices.ContainsFunc(styles, func(s string) bool { return strings.EqualFold(s, b.Style) })
		text := r.folded(b.Text)
		if text == "" || styles != nil && !styled {
			continue
		}
		l := line{text: text}
		if styles != nil {
			l.where = strings.ToLower(b.Style)
		}
		if r.perPage {
			l.where += fmt.Sprintf(" on page %d", b.Page)
		}
		out = append(out, l)
	}
	return out
}

func (r *documentRule) texts(what string, got, want []line, d *differences) {
	if len(got) != len(want) {
		d.add("it has %d of %s, not %d", len(got), what, len(want))
	}
	for i := range min(len(got), len(want)) {
		switch a, b := got[i], want[i]; {
		case a.text != b.text:
			if !d.add("%s %d: %s is not %s", what, i+1, shown(a.text), shown(b.text)) {
				return
			}
		case a.where != b.where && !d.add("%s %d, %s, is%s, not%s", what, i+1, shown(a.text), quotedPlace(a.where), quotedPlace(b.where)):
			return
		}
	}
}

func quotedPlace(s string) string { return " " + shown(strings.TrimSpace(s)) }

// words compares the text of a document word by word, whatever its paragraphs.
func (r *documentRule) words(got, want *artifact.Document, d *differences) {
	next, stop := iter.Pull(r.wordsOf(got))
	defer stop()
	n := 0
	for w := range r.wordsOf(want) {
		n++
		g, ok := next()
		switch {
		case !ok:
			d.add("it ends after %d words, where %s is next", n-1, shown(w.text))
		case g != w:
			d.add("word %d: %s is not %s", n, shown(g.text+g.where), shown(w.text+w.where))
		default:
			continue
		}
		return // the next ones are shifted
	}
	if g, ok := next(); ok {
		d.add("it goes on after %d words: %s", n, shown(g.text+g.where))
	}
}

func (r *documentRule) wordsOf(doc *artifact.Document) iter.Seq[line] {
	return func(yield func(line) bool) {
		for _, b := range doc.Blocks {
			where := ""
			if r.perPage {
				where = fmt.Sprintf(" on page %d", b.Page)
			}
			for word := range strings.FieldsFuncSeq(r.folded(b.Text), textmatch.IsSpace) {
				if !yield(line{word, where}) {
					return
				}
			}
		}
	}
}

func tablesOf(doc *artifact.Document) (out [][][]string) {
	for _, b := range doc.Blocks {
		if b.Table != nil {
			out = append(out, b.Table)
		}
	}
	return out
}

func (r *documentRule) compareTables(got, want [][][]string, d *differences) {
	if len(got) != len(want) {
		d.add("it has %d tables, not %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if len(got[i]) != len(want[i]) && !d.add("table %d has %d rows, not %d", i+1, len(got[i]), len(want[i])) {
			return
		}
		for k := range min(len(got[i]), len(want[i])) {
			if !r.compareRow(fmt.Sprintf("table %d, row %d", i+1, k+1), got[i][k], want[i][k], d) {
				return
			}
		}
	}
}

func (r *documentRule) compareRow(at string, got, want []string, d *differences) bool {
	if len(got) != len(want) {
		return d.add("%s has %d fields, not %d", at, len(got), len(want))
	}
	for i := range want {
		a, b := ofText(textmatch.Collapse(got[i])), ofText(textmatch.Collapse(want[i]))
		if !r.equal(a, b) && !d.add("%s, field %d: %s is not %s", at, i+1, a, b) {
			return false
		}
	}
	return true
}

func (r *documentRule) check(want *artifact.File) (faults []string) {
	if want.Document == nil {
		return []string{"the reference is no document to compare with"}
	}
	if r.pages && want.Document.Pages == 0 {
		faults = append(faults, "pages compares how many pages there are, which the reference does not say")
	}
	for _, s := range r.styles {
		if len(r.lines(want.Document, []string{s})) == 0 {
			faults = append(faults, fmt.Sprintf("styles names %s, which no paragraph of the reference has", shown(s)))
		}
	}
	if len(faults) == 0 && r.styles == nil && !r.pages && (!r.paragraphs || len(r.lines(want.Document, nil)) == 0) && (!r.tables || len(tablesOf(want.Document)) == 0) {
		faults = append(faults, "the reference has nothing of what the rubric compares: an empty document would pass")
	}
	return faults
}
