package rubric

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"securebench/internal/artifact"
	"securebench/internal/family/textmatch"
	"securebench/internal/source"
)

// textRule compares texts.
type textRule struct {
	compareAs string // normal, exact or lines
	order     string // of lines
	contains  []string
	lacks     []string
	leniency
}

func readText(n *source.Node) (rule, source.Problems) {
	r := &textRule{compareAs: "normal", order: asIs}
	var ps source.Problems
	ps.Closed(n, "a rubric of type text", "type", "compare", "order", "contains", "lacks", "ignore_case", "ignore_space")
	source.Optional(&ps, n, "compare", &r.compareAs, one("normal", "exact", "lines"))
	source.Optional(&ps, n, "order", &r.order, one(asIs, anyOrder))
	source.Optional(&ps, n, "contains", &r.contains, phrases)
	source.Optional(&ps, n, "lacks", &r.lacks, phrases)
	source.Optional(&ps, n, "ignore_case", &r.ignoreCase, (*source.Node).Boolean)
	source.Optional(&ps, n, "ignore_space", &r.ignoreSpace, (*source.Node).Boolean)
	if n.Get("order") != nil && r.compareAs != "lines" {
		ps.Add(n.Pos, "add compare: lines", "a rubric of type text has order, which is that of lines")
	}
	if r.contains == nil && r.lacks == nil {
		return r, ps
	}
	if n.Get("compare") != nil {
		ps.Add(n.Pos, "combine two rubrics with all", "a rubric of type text has compare beside contains or lacks")
	}
	if r.contains == nil {
		ps.Add(n.Pos, "", "a rubric of type text has lacks without contains: an empty text would pass")
	}
	return r, ps
}

// phrases reads a list of phrases, each of which has a letter or a digit.
func phrases(n *source.Node, what string) ([]string, *source.Problem) {
	out, p := texts(n, what)
	for i, s := range out {
		if !strings.ContainsFunc(s, textmatch.IsLetterOrNumber) {
			return nil, source.Problemf(n.Items[i].Pos, "%s has a phrase without a letter or a digit", what)
		}
	}
	return out, p
}

func (r *textRule) official() string { return "" }

func (r *textRule) compare(got, want *artifact.File) (Result, error) {
	if got.Text == nil {
		return fail("the file is no text"), nil
	}
	if r.contains != nil {
		return r.search(*got.Text), nil
	}
	if want.Text == nil {
		return Result{}, errors.New("the reference is no text to compare with")
	}
	switch r.compareAs {
	case "lines":
		return r.byLine(*got.Text, *want.Text), nil
	case "exact":
		if r.folded(*got.Text) == r.folded(*want.Text) {
			return Result{Pass: true}, nil
		}
	default:
		if r.normal(*got.Text) == r.normal(*want.Text) {
			return Result{Pass: true}, nil
		}
	}
	return fail("%s is not %s", shown(*got.Text), shown(*want.Text)), nil
}

// normal is a text in normal form: NFC, each run of white space one space, none at the
// ends. Case counts unless the rubric says otherwise.
func (r *textRule) normal(s string) string { return r.folded(textmatch.Collapse(s)) }

// search looks for phrases as whole words.
func (r *textRule) search(got string) Result {
	var d differences
	got = r.normal(got)
	for _, s := range r.contains {
		if !textmatch.HasPhrase(got, r.normal(s)) {
			d.add("it does not contain %s", shown(s))
		}
	}
	for _, s := range r.lacks {
		if textmatch.HasPhrase(got, r.normal(s)) {
			d.add("it contains %s", shown(s))
		}
	}
	return d.result()
}

// byLine compares lines. How they end, and blank ones at the end, make no difference.
func (r *textRule) byLine(got, want string) Result {
	var d differences
	if a, b := 1+strings.Count(trimmed(got), "\n"), 1+strings.Count(trimmed(want), "\n"); a > b {
		return fail("it has %d lines, not %d", a, b) // however many: none is kept
	}
	a, b := linesOf(got), linesOf(want)
	if len(a) != len(b) {
		d.add("it has %d lines, not %d", len(a), len(b))
	}
	if r.order == anyOrder {
		u := unordered{got: r.items(a), want: r.items(b), what: "line", near: func(int) []leniency { return nil }}
		u.compare(&d)
		return d.result()
	}
	for i := range min(len(a), len(b)) {
		if r.folded(a[i]) != r.folded(b[i]) && !d.add("line %d: %s is not %s", i+1, shown(a[i]), shown(b[i])) {
			break
		}
	}
	return d.result()
}

// trimmed is a text without blanks at its end.
func trimmed(s string) string { return strings.TrimRight(s, " \t\r\n") }

func linesOf(s string) []string {
	lines := strings.Split(strings.ReplaceAll(trimmed(s), "\r\n", "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " \t\r")
	}
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

func (r *textRule) items(lines []string) []item {
	out := make([]item, len(lines))
	for i, line := range lines {
		out[i] = item{key: keyOf([]byte(r.folded(line))), index: i}
	}
	return out
}

func (r *textRule) check(want *artifact.File) []string {
	if r.contains == nil {
		switch {
		case want.Text == nil:
			return []string{"the reference is no text to compare with"}
		case textmatch.Strip(*want.Text) == "":
			return []string{"the reference is blank: an empty text would pass"}
		}
		return nil
	}
	if want.Text == nil {
		return nil
	}
	var faults []string
	for _, s := range r.contains {
		if !textmatch.HasPhrase(r.normal(*want.Text), r.normal(s)) {
			faults = append(faults, fmt.Sprintf("contains has %s, which the reference lacks", shown(s)))
		}
	}
	for _, s := range r.lacks {
		if textmatch.HasPhrase(r.normal(*want.Text), r.normal(s)) {
			faults = append(faults, fmt.Sprintf("lacks has %s, which the reference has", shown(s)))
		}
		if slices.Contains(r.contains, s) {
			faults = append(faults, fmt.Sprintf("contains and lacks both have %s", shown(s)))
		}
	}
	return faults
}
