package mapping

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/source"
)

// field is what a row of a family takes from a table.
type field struct {
	name string
	also string   // another name, "" for none
	says string   // for help
	at   []string // where the value goes, nil if the family puts it there
	need bool
	// classed says that it is needed unless the answer's column has names of classes.
	classed bool
	take    func(r *reading, f string, nodes []*source.Node) *source.Node
}

// shape is how rows of a family are made of a table.
type shape struct {
	fields []field
	// finish puts in place what is made of several fields, or of the whole row.
	finish func(*reading)
	// either are fields of which a row needs one at least.
	either []string
	boxed  bool // rows run in the pack's image
}

// shapes are the families whose fields have names of their own here. Rows of all others
// name input.KEY and eval.KEY.
func shapes() map[string]shape {
	question := field{name: "question", says: "text, several columns under one another", at: []string{"input", "question"}, need: true, take: takeText}
	format := field{name: "answer_format", says: "text", at: []string{"input", "answer_format"}, take: takeText}
	context := field{name: "context", says: "text or object", at: []string{"input", "context"}, take: takeContext}
	match := field{name: "match", says: "object", at: []string{"eval", "match"}, take: takeValue}
	prompt := field{name: "prompt", also: "question", says: question.says, at: []string{"input", "prompt"}, need: true, take: takeText}
	choices := field{name: "choices", says: "a list, columns joined by +, or one text with all"}
	needed := choices
	needed.classed = true
	labels := field{name: "labels", says: "a list: what answers call the choices, if not A, B, C"}
	return map[string]shape{
		"short_answer": {fields: []field{question, context, format,
			{name: "answer", also: "accepted_answers", says: "text, number or list: each is right", at: []string{"eval", "accepted_answers"}, need: true, take: takeAnswers},
			{name: "tolerance", says: "number", at: []string{"eval", "tolerance"}, take: takeNumber}, match}},
		"multiple_choice": {fields: []field{question, needed, labels, {name: "answer", says: "a label, position or text; a list if several are right", need: true}, match}, finish: finishChoices},
		"multimodal_qa": {fields: []field{question, format, choices, labels,
			{name: "answer", says: "with choices label, position, text; else text, number, list", need: true},
			{name: "image", also: "images", says: "bytes, base64 or file name; several as a list or joined by +", need: true}, match}, finish: finishSeen},
		"code_completion": {boxed: true, fields: []field{prompt,
			{name: "starter_code", says: "text", at: []string{"input", "starter_code"}, take: takeText},
			{name: "language", says: "text", at: []string{"input", "language"}, take: takeText},
			{name: "tests", says: "code, or a list of lines of it", need: true}, {name: "entry_point", says: "the name that tests call"},
			{name: "solution", also: "reference_solution", says: "code", at: []string{"eval", "reference_solution"}, take: takeText}}, finish: finishCode},
		"free_response": {fields: []field{prompt, context,
			{name: "answer", says: "text or list, of which a reply must contain one"},
			{name: "rubric", says: "text or object", at: []string{"eval", "rubric"}, take: takeContext},
			{name: "reference_answer", says: "text", at: []string{"eval", "reference_answer"}, take: takeText}}, finish: finishFree, either: []string{"answer", "rubric"}},
		"preference_pair": {fields: []field{prompt,
			{name: "candidate_a", says: "text", at: []string{"input", "candidate_a"}, take: takeText},
			{name: "candidate_b", says: "text", at: []string{"input", "candidate_b"}, take: takeText},
			{name: "preference", says: "A, B or tie, a position, or the text of one"},
			{name: "chosen", says: "text: the better one; its place follows from the seed"}, {name: "rejected", says: "text: the worse one"},
			{name: "criteria", says: "text", at: []string{"input", "criteria"}, take: takeText}}, finish: finishPair, either: []string{"chosen", "candidate_a"}},
	}
}

// named returns a field by one of its names.
func (s shape) named(name string) (field, bool) {
	for _, f := range s.fields {
		if f.name == name || f.also == name && name != "" {
			return f, true
		}
	}
	return field{}, false
}

// known lists the fields in words.
func (s shape) known() string {
	names := make([]string, len(s.fields))
	for i, f := range s.fields {
		names[i] = f.name
	}
	return strings.Join(append(names, "id", "tags", "metadata.NAME", "input.NAME", "eval.NAME"), ", ")
}

// generic is a field that any family has: id, tags, or a key of a section of the row.
func generic(name string) (field, bool) {
	section, key, ok := strings.Cut(name, ".")
	switch {
	case name == "id":
		return field{name: name, at: []string{"id"}, take: takeText}, true
	case name == "tags":
		return field{name: name, at: []string{"metadata", "tags"}, take: takeList}, true
	case ok && key != "" && slices.Contains([]string{"input", "eval", "metadata", "environment"}, section):
		return field{name: name, at: []string{section, key}, take: takeValue}, true
	}
	return field{}, false
}

// takeText writes values as one text, under one another.
func takeText(r *reading, f string, nodes []*source.Node) *source.Node {
	var texts []string
	var first *source.Node
	for _, n := range nodes {
		text, p := textOf(n, "the field "+f)
		if r.note(p) || blank(n) {
			continue
		}
		if first == nil {
			first = n
		}
		texts = append(texts, text)
	}
	if first == nil {
		return nil
	}
	return &source.Node{Pos: first.Pos, Kind: source.String, Text: strings.Join(texts, "\n\n")}
}

// takeList lists all values.
func takeList(_ *reading, _ string, nodes []*source.Node) *source.Node {
	out := &source.Node{Kind: source.List}
	for _, n := range nodes {
		switch {
		case blank(n):
			continue
		case n.Kind == source.List:
			out.Items = append(out.Items, n.Items...)
		default:
			out.Items = append(out.Items, n)
		}
	}
	if len(out.Items) == 0 {
		return nil
	}
	out.Pos = out.Items[0].Pos
	return out
}

// takeAnswers lists answers: texts and numbers, each once.
func takeAnswers(r *reading, f string, nodes []*source.Node) *source.Node {
	all := takeList(r, f, nodes)
	if all == nil {
		return nil
	}
	out := &source.Node{Pos: all.Pos, Kind: source.List}
	seen := map[string]bool{}
	for _, n := range all.Items {
		text, p := textOf(n, "the field "+f)
		if r.note(p) || blank(n) {
			continue
		}
		parts := []string{text}
		if sep := r.options.Separator; sep != "" && n.Kind == source.String {
			parts = strings.Split(text, sep)
		}
		for _, part := range parts {
			part = strings.TrimSpace(part)
			if part == "" || seen[part] {
				continue
			}
			seen[part] = true
			kind := source.String
			if n.Kind == source.Number {
				kind = source.Number
			}
			out.Items = append(out.Items, &source.Node{Pos: n.Pos, Kind: kind, Text: part})
		}
	}
	if len(out.Items) == 0 {
		return nil
	}
	return out
}

// takeContext is a text or an object.
func takeContext(r *reading, f string, nodes []*source.Node) *source.Node {
	if len(nodes) == 1 && nodes[0].Kind == source.Map {
		return nodes[0]
	}
	return takeText(r, f, nodes)
}

// takeNumber is a number, also one that CSV has as text.
func takeNumber(r *reading, f string, nodes []*source.Node) *source.Node {
	n := takeText(r, f, nodes)
	if n == nil {
		return nil
	}
	text := strings.TrimSpace(n.Text)
	if v := jsontext.Value(text); !v.IsValid() || v.Kind() != '0' {
		r.fail(n, "write it in plain digits", "the field %s is %q, which is no number", f, text)
		return nil
	}
	return &source.Node{Pos: n.Pos, Kind: source.Number, Text: text}
}

// takeValue is a value as it is; a text that is a JSON object or list is read as one.
func takeValue(r *reading, f string, nodes []*source.Node) *source.Node {
	if len(nodes) != 1 {
		return takeText(r, f, nodes)
	}
	n := nodes[0]
	if n.Kind == source.Null {
		return nil
	}
	if text := strings.TrimSpace(n.Text); n.Kind == source.String && (strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")) && jsontext.Value(text).IsValid() {
		made, err := source.ParseJSON(n.Pos.File, n.Pos.Line, []byte(text))
		if err == nil {
			return made
		}
	}
	return n
}

// finishChoices puts choices and their answer in place.
func finishChoices(r *reading) {
	var choices []*source.Node
	switch nodes := r.take("choices"); {
	case nodes != nil:
		choices = r.choicesOf(nodes)
	case r.classes != nil:
		for _, name := range r.classes {
			choices = append(choices, &source.Node{Pos: r.row.Pos, Kind: source.String, Text: name})
		}
	}
	if len(r.problems) > 0 {
		return
	}
	answers := takeList(r, "answer", r.take("answer"))
	if answers == nil {
		r.missing("answer")
		return
	}
	labels, ok := r.labels(len(choices))
	if !ok {
		return
	}
	right, ok := r.answersOf(answers.Items, choices, labels)
	if !ok {
		return
	}
	if r.options.Answers == ByMarks && len(answers.Items) != len(choices) {
		r.fail(answers, leaveOut, "the answer has %d marks for %d choices", len(answers.Items), len(choices))
		return
	}
	r.order(choices, right)
	out := &source.Node{Pos: answers.Pos, Kind: source.List}
	for _, i := range right {
		out.Items = append(out.Items, &source.Node{Pos: answers.Pos, Kind: source.String, Text: label(i)})
	}
	if len(right) == 1 {
		out = out.Items[0]
		r.position, r.choices = right[0], len(choices)
	}
	r.put([]string{"input", "choices"}, &source.Node{Pos: r.row.Pos, Kind: source.List, Items: choices})
	r.put([]string{"eval", "answer"}, out)
}

// labels are what a row calls its choices.
func (r *reading) labels(choices int) ([]string, bool) {
	nodes := r.take("labels")
	if nodes == nil {
		return nil, true
	}
	list := takeList(r, "labels", nodes)
	if list == nil || len(list.Items) != choices {
		r.fail(r.row, leaveOut, "the row has %d choices, and other labels than that", choices)
		return nil, false
	}
	var out []string
	for _, n := range list.Items {
		text, p := textOf(n, "a label")
		if r.note(p) {
			return nil, false
		}
		out = append(out, strings.TrimSpace(text))
	}
	return out, true
}

// finishSeen is for questions about pictures, with choices or without.
func finishSeen(r *reading) {
	if given := r.take("choices"); r.classes != nil || slices.ContainsFunc(given, func(n *source.Node) bool { return !blank(n) }) {
		finishChoices(r)
	} else if answers := takeAnswers(r, "answer", r.take("answer")); answers != nil {
		r.put([]string{"eval", "answer"}, answers)
	} else {
		r.missing("answer")
	}
	r.pictures(r.take("image"))
}

// finishCode makes the tests of code.
func finishCode(r *reading) {
	lines := takeList(r, "tests", r.take("tests"))
	if lines == nil {
		r.missing("tests")
		return
	}
	var texts []string
	for _, n := range lines.Items {
		text, p := textOf(n, "the field tests")
		if r.note(p) {
			return
		}
		texts = append(texts, text)
	}
	tests := &source.Node{Pos: lines.Pos, Kind: source.Map}
	set(tests, "source", &source.Node{Pos: lines.Pos, Kind: source.String, Text: "inline"})
	set(tests, "code", &source.Node{Pos: lines.Pos, Kind: source.String, Text: strings.Join(texts, "\n")})
	if n := takeText(r, "entry_point", r.take("entry_point")); n != nil {
		set(tests, "entry_point", n)
	}
	r.put([]string{"eval", "tests"}, tests)
}

// finishFree makes a rubric of answers.
func finishFree(r *reading) {
	answers := takeAnswers(r, "answer", r.take("answer"))
	switch {
	case answers == nil && r.eval.Get("rubric") == nil:
		r.missing("answer")
	case answers != nil && r.has("rubric"):
		r.fail(r.row, "map one of the two", "the row has both an answer and a rubric")
	case answers != nil:
		for i, n := range answers.Items {
			answers.Items[i] = &source.Node{Pos: n.Pos, Kind: source.String, Text: n.Text}
		}
		rubric := &source.Node{Pos: answers.Pos, Kind: source.Map}
		set(rubric, "type", &source.Node{Pos: answers.Pos, Kind: source.String, Text: "contains_any"})
		set(rubric, "accepted_answers", answers)
		r.put([]string{"eval", "rubric"}, rubric)
	}
}

// finishPair puts the chosen and the rejected one into an order that says nothing, or reads
// which of two candidates is preferred.
func finishPair(r *reading) {
	if !r.has("chosen") && !r.has("rejected") {
		r.preferred()
		return
	}
	chosen, rejected := takeText(r, "chosen", r.take("chosen")), takeText(r, "rejected", r.take("rejected"))
	switch {
	case chosen == nil || rejected == nil:
		r.fail(r.row, leaveOut, "the chosen or the rejected candidate is empty")
		return
	case chosen.Text == rejected.Text:
		r.fail(chosen, leaveOut, "the chosen and the rejected candidate are the same")
		return
	}
	pair := []*source.Node{chosen, rejected}
	right := []int{0}
	r.shuffle(pair, right)
	r.put([]string{"input", "candidate_a"}, pair[0])
	r.put([]string{"input", "candidate_b"}, pair[1])
	r.put([]string{"eval", "preference"}, &source.Node{Pos: chosen.Pos, Kind: source.String, Text: label(right[0])})
}

// preferred reads which of two candidates is the better one.
func (r *reading) preferred() {
	said := takeText(r, "preference", r.take("preference"))
	a, b := r.input.Get("candidate_a"), r.input.Get("candidate_b")
	switch {
	case len(r.problems) > 0 || a == nil || b == nil: // which the family's rules say
		return
	case said == nil && r.has("preference"):
		r.missing("preference")
		return
	case said == nil: // a judge decides
		return
	}
	if strings.EqualFold(strings.TrimSpace(said.Text), "tie") {
		r.put([]string{"eval", "preference"}, &source.Node{Pos: said.Pos, Kind: source.String, Text: "tie"})
		return
	}
	if i, ok := r.answerOf(said, []*source.Node{a, b}, nil); ok {
		r.put([]string{"eval", "preference"}, &source.Node{Pos: said.Pos, Kind: source.String, Text: label(i)})
	}
}

// set adds a field to an object.
func set(n *source.Node, name string, value *source.Node) {
	n.Fields = append(n.Fields, source.Field{Name: name, Pos: value.Pos, Value: value})
}

// Fields says which fields rows of a family take from a table, one a line.
func Fields(family string) []string {
	s, ok := shapes()[family]
	if !ok {
		return []string{"input.NAME, eval.NAME: the keys of " + family + " as its rows have them"}
	}
	var out []string
	for _, f := range s.fields {
		text := f.name + ": " + f.says
		if f.need || f.classed {
			text += " (needed)"
		}
		out = append(out, text)
	}
	if len(s.either) > 0 {
		out = append(out, fmt.Sprintf("one of %s is needed", strings.Join(s.either, " and ")))
	}
	return out
}
