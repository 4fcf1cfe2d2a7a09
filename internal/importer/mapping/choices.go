package mapping

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"securebench/internal/lazyregexp"
	"securebench/internal/source"
)

// maxChoices is what labels A to Z can name.
const maxChoices = 26

// choicesOf reads the choices of a row from one column for each, from a list, or from one
// text that has all of them.
func (r *reading) choicesOf(nodes []*source.Node) []*source.Node {
	if len(nodes) == 1 {
		switch n := nodes[0]; n.Kind {
		case source.List:
			nodes = n.Items
		case source.String:
			nodes = r.splitText(n)
		case source.Null:
			nodes = nil
		default:
			r.fail(n, "name a list, several columns joined by +, or a text", "choices are %s", n.Kind)
			return nil
		}
	}
	for len(nodes) > 0 && blank(nodes[len(nodes)-1]) { // fewer choices than columns
		nodes = nodes[:len(nodes)-1]
	}
	out := make([]*source.Node, 0, len(nodes))
	for i, n := range nodes {
		if blank(n) {
			r.fail(at(n, r.row), leaveOut, "choice %d of %d is empty", i+1, len(nodes))
			return nil
		}
		text, p := textOf(n, fmt.Sprintf("choice %d", i+1))
		if r.note(p) {
			return nil
		}
		out = append(out, &source.Node{Pos: n.Pos, Kind: source.String, Text: strings.TrimSpace(text)})
	}
	withoutLabels(out)
	switch n := len(out); {
	case n < 2:
		r.fail(r.row, leaveOut, "the row has %d choices: there must be at least 2", n)
	case n > maxChoices:
		r.fail(r.row, leaveOut, "the row has %d choices: there can be at most %d", n, maxChoices)
	}
	return out
}

// at is a node that has a place.
func at(n, other *source.Node) *source.Node {
	if n == nil || n.Pos.Line == 0 {
		return other
	}
	return n
}

// withoutLabels takes the labels away that choices bring: A) and B) of all of them.
func withoutLabels(choices []*source.Node) {
	rest := make([]string, len(choices))
	for i, c := range choices {
		m := leading.FindStringSubmatch(c.Text)
		if m == nil || !strings.EqualFold(m[1], label(i)) || strings.TrimSpace(m[2]) == "" {
			return
		}
		rest[i] = strings.TrimSpace(m[2])
	}
	for i := range rest {
		choices[i].Text = rest[i]
	}
}

var (
	leading  = lazyregexp.New(`(?s)^\(?([A-Za-z])\s?[).:]\s*(.*)$`)
	labelled = lazyregexp.New(`(?:^|[\s,;])\(?([A-Za-z])\s?[).:]`)
)

// splitText finds the choices that a text has: a list of JSON or Python, texts with a
// separator, texts with labels, or lines.
func (r *reading) splitText(n *source.Node) []*source.Node {
	text := strings.TrimSpace(n.Text)
	made := func(texts []string) []*source.Node {
		out := make([]*source.Node, len(texts))
		for i, t := range texts {
			out[i] = &source.Node{Pos: n.Pos, Kind: source.String, Text: strings.TrimSpace(t)}
		}
		return out
	}
	if sep := r.options.Separator; sep != "" {
		return made(strings.Split(text, sep))
	}
	if strings.HasPrefix(text, "[") {
		if texts, ok := listText(text); ok {
			return made(texts)
		}
	}
	if texts := splitLabels(text); texts != nil {
		return made(texts)
	}
	if lines := strings.Split(text, "\n"); len(lines) > 1 {
		return made(lines)
	}
	r.fail(n, "give --separator with what is between them, such as --separator '|'", "choices are one text without labels such as A) or lines")
	return nil
}

// splitLabels splits a text before A), B), C) and so on.
func splitLabels(text string) []string {
	var starts, ends []int
	for _, m := range labelled.FindAllStringSubmatchIndex(text, -1) {
		if strings.EqualFold(text[m[2]:m[3]], label(len(starts))) {
			starts, ends = append(starts, m[0]), append(ends, m[1])
		}
	}
	if len(starts) < 2 || strings.TrimSpace(text[:starts[0]]) != "" {
		return nil
	}
	out := make([]string, len(starts))
	for i, from := range ends {
		to := len(text)
		if i+1 < len(starts) {
			to = starts[i+1]
		}
		out[i] = strings.TrimRight(strings.TrimSpace(text[from:to]), ",;")
	}
	return out
}

// listText reads a list of texts and numbers as JSON or Python write it.
func listText(text string) ([]string, bool) {
	var mixed []any
	if json.Unmarshal([]byte(text), &mixed) == nil {
		out := make([]string, len(mixed))
		for i, v := range mixed {
			switch v := v.(type) {
			case string:
				out[i] = v
			case float64:
				out[i] = strconv.FormatFloat(v, 'f', -1, 64)
			default:
				return nil, false
			}
		}
		return out, true
	}
	return pythonList(text)
}

// pythonList reads a list of texts as Python's repr writes it. What numpy writes has no
// commas.
func pythonList(text string) (out []string, ok bool) {
	rest, closed := strings.CutSuffix(strings.TrimPrefix(text, "["), "]")
	if !closed {
		return nil, false
	}
	for {
		rest = strings.TrimLeft(rest, " \t\r\n,")
		if rest == "" {
			return out, len(out) > 0
		}
		quote := rest[0]
		if quote != '\'' && quote != '"' {
			return nil, false
		}
		var b strings.Builder
		i := 1
		for ; i < len(rest) && rest[i] != quote; i++ {
			if rest[i] == '\\' && i+1 < len(rest) {
				i++
				if rest[i] == 'n' {
					b.WriteByte('\n')
					continue
				}
			}
			b.WriteByte(rest[i])
		}
		if i >= len(rest) {
			return nil, false
		}
		out, rest = append(out, b.String()), rest[i+1:]
	}
}

func label(i int) string { return string(rune('A' + i)) }

// How answers name choices.
const (
	ByAny   = "auto"
	ByLabel = "label"
	ByIndex = "index"
	// ByCount is a position that counts from 1.
	ByCount = "index-from-1"
	ByText  = "text"
	// ByMarks is a list that says of each choice whether it is right: true or 1.
	ByMarks = "marks"
)

// Ways lists how answers name choices.
func Ways() []string { return []string{ByAny, ByLabel, ByIndex, ByCount, ByText, ByMarks} }

// answersOf returns the positions of the choices that are right.
func (r *reading) answersOf(answers, choices []*source.Node, labels []string) (right []int, ok bool) {
	if marked, sure := r.marked(answers, len(choices)); marked && sure {
		return r.marks(answers), len(r.problems) == 0
	} else if marked {
		r.fail(answers[0], "say which it is with --answers marks or index", "the answer is a list of 0 and 1, which can be positions or say of each choice whether it is right")
		return nil, false
	}
	for _, a := range answers {
		i, ok := r.answerOf(a, choices, labels)
		if !ok {
			return nil, false
		}
		if !slices.Contains(right, i) {
			right = append(right, i)
		}
	}
	return right, true
}

// marked reports whether answers are marks of choices, and whether they can be nothing else:
// positions are there once.
func (r *reading) marked(answers []*source.Node, choices int) (marked, sure bool) {
	if r.options.Answers == ByMarks {
		return true, true
	}
	if r.options.Answers != ByAny || len(answers) != choices {
		return false, false
	}
	seen := map[string]bool{}
	for _, a := range answers {
		sure = sure || seen[a.Text] || a.Kind == source.Bool
		if seen[a.Text] = true; a.Kind != source.Bool && (a.Kind != source.Number || a.Text != "0" && a.Text != "1") {
			return false, false
		}
	}
	return true, sure
}

// marks returns the positions that are marked.
func (r *reading) marks(answers []*source.Node) (right []int) {
	for i, a := range answers {
		switch strings.ToLower(strings.TrimSpace(a.Text)) {
		case "1", "true":
			right = append(right, i)
		case "0", "false":
		default:
			r.fail(a, leaveOut, "the mark %d of the answer is neither true, false, 1 nor 0", i+1)
		}
	}
	if len(right) == 0 || len(answers) > maxChoices {
		r.fail(answers[0], leaveOut, "the answer marks no choice as right")
	}
	return right
}

var oneLabel = lazyregexp.New(`^\(?([A-Za-z])[).:]?$`)

// answerOf returns the position of the choice that an answer names. labels are those that
// the row has for its choices, nil without any.
func (r *reading) answerOf(n *source.Node, choices []*source.Node, labels []string) (int, bool) {
	text, p := textOf(n, "the answer")
	if r.note(p) {
		return 0, false
	}
	text = strings.TrimSpace(text)
	way := r.options.Answers
	if i := slices.Index(labels, text); i >= 0 && (way == ByAny || way == ByLabel) {
		return i, true
	}
	if labels != nil && way == ByLabel {
		r.fail(n, leaveOut, "the answer %q is none of the row's labels %s", text, someOf(labels))
		return 0, false
	}
	switch way {
	case ByLabel:
		return r.found(n, text, byLabel(text, len(choices)), "no label of "+strconv.Itoa(len(choices))+" choices")
	case ByIndex:
		return r.found(n, text, byIndex(text, 0, len(choices)), "no position from 0 to "+strconv.Itoa(len(choices)-1))
	case ByCount:
		return r.found(n, text, byIndex(text, 1, len(choices)), "no position from 1 to "+strconv.Itoa(len(choices)))
	case ByText:
		return r.found(n, text, byText(text, choices), "the text of no choice")
	}
	return r.anyAnswer(n, text, choices)
}

// anyAnswer takes an answer for whatever it can be, unless it can be several things.
func (r *reading) anyAnswer(n *source.Node, text string, choices []*source.Node) (int, bool) {
	same, named := byText(text, choices), byLabel(text, len(choices))
	if len(named) == 0 {
		if named = byIndex(text, 0, len(choices)); len(named) > 0 {
			if r.classes == nil { // classes count from 0
				r.indexed = append(r.indexed, named[0])
			}
		} else if i, err := strconv.Atoi(text); err == nil && len(same) == 0 {
			fix := leaveOut
			switch i {
			case len(choices):
				fix = "if positions count from 1, give --answers " + ByCount
			case -1:
				fix = "the split may come without its answers: take another with --split"
			}
			r.fail(n, fix, "the answer is %d, and the choices have the positions 0 to %d", i, len(choices)-1)
			return 0, false
		}
	}
	if len(same) > 0 && len(named) > 0 && !slices.Contains(same, named[0]) {
		r.fail(n, "say which it is with --answers text, label or index", "the answer %q names choice %s, and is the text of choice %s", text, label(named[0]), label(same[0]))
		return 0, false
	}
	if len(named) > 0 {
		return named[0], true
	}
	return r.found(n, text, same, "neither a label, a position nor the text of a choice")
}

// found returns the one position that an answer names.
func (r *reading) found(n *source.Node, text string, positions []int, otherwise string) (int, bool) {
	switch len(positions) {
	case 1:
		return positions[0], true
	case 0:
		r.fail(n, leaveOut, "the answer %q is %s", text, otherwise)
	default:
		r.fail(n, leaveOut, "the answer %q is the text of %d choices", text, len(positions))
	}
	return 0, false
}

func byLabel(text string, n int) []int {
	m := oneLabel.FindStringSubmatch(text)
	if m == nil {
		return nil
	}
	if i := int(strings.ToUpper(m[1])[0] - 'A'); i < n {
		return []int{i}
	}
	return nil
}

// byIndex reads a position that counts from first. A whole number with a point is one too:
// a column of integers with holes has those.
func byIndex(text string, first, n int) []int {
	i, err := strconv.Atoi(strings.TrimSuffix(text, ".0"))
	if err != nil || i < first || i >= first+n {
		return nil
	}
	return []int{i - first}
}

func byText(text string, choices []*source.Node) (out []int) {
	want := strings.Join(strings.Fields(text), " ")
	for i, c := range choices {
		if strings.Join(strings.Fields(c.Text), " ") == want {
			out = append(out, i)
		}
	}
	return out
}
