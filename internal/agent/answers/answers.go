// Package answers reads answers in the files of other programs: samples of
// lm-evaluation-harness, logs of Inspect, results of simple-evals, rows with named
// columns, and lines of an id, a tab and a text. It keeps their forms apart from
// the replay agent's own.
package answers

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"securebench/internal/source"
)

// Answer is one answer in a file.
type Answer struct {
	Pos     source.Pos
	Task    string
	Attempt int // 0 serves every attempt
	Text    string
	Stop    string // why the model stopped, in its provider's word; "" is not known
	None    string // why there is no answer, or ""
}

// Reader turns the values of one file into answers. All of a file's values have the same
// form.
type Reader struct {
	Map  Map
	form *form
	next int                 // the position of the next sample
	seen map[string][32]byte // what is known of each sample that other lines repeat
}

// form is how a program writes answers.
type form struct {
	name string
	// is reports whether a value is in the form.
	is func(n *source.Node) bool
	// samples returns the samples of a value; nil means that it is one.
	samples func(n *source.Node) ([]sample, error)
	// columns are the names of columns, unless the map has others: any one of a list
	// that is there.
	columns map[string][]string
	// none says why a sample has no answer, or "".
	none func(n *source.Node) string
	// repeated says that lines may repeat an answer.
	repeated bool
	// free says that its columns have any name: which of several is the text is then
	// for the map to say.
	free bool
}

// sample is what an answer is read from.
type sample struct {
	node  *source.Node
	index int // the position among all samples, from 0
	cut   []string
}

// forms are the known forms; the last takes any object.
func forms() []*form {
	return []*form{
		{name: "a sample of lm-evaluation-harness", is: has("doc_id", "resps", "filtered_resps"), repeated: true,
			columns: map[string][]string{ID: {"doc_id"}, Text: {"resps", "filtered_resps"}}},
		{name: "a log of Inspect", is: has("eval", "samples"), samples: inspectSamples, none: inspectError,
			columns: map[string][]string{ID: {"id"}, Attempt: {"epoch"}, Text: {"output.completion", "output.choices.0.message.content"}, StopReason: {"output.choices.0.stop_reason"}}},
		{name: "results of simple-evals", is: has("convos"), samples: conversations,
			columns: map[string][]string{ID: {"index"}, Text: {"conversation"}}},
		{name: "rows of a data set", is: has("rows", "features"), samples: datasetRows, columns: rowColumns(), free: true},
		{name: "a row", is: func(n *source.Node) bool { return n.Kind == source.Map }, columns: rowColumns(), free: true},
	}
}

// rowColumns are the usual names of the columns of rows. A row's "answer" is its
// expected answer as often as a model's, and is left out.
func rowColumns() map[string][]string {
	return map[string][]string{ID: {"task_id", "id", "question_id"}, Text: {"text", "response", "completion", "output", "prediction", "generation"},
		Attempt: {"attempt"}, StopReason: {"stop_reason", "finish_reason"}}
}

// has returns whether a value is an object with a key and one of others.
func has(key string, others ...string) func(*source.Node) bool {
	return func(n *source.Node) bool {
		one := func(k string) bool { return n.Get(k) != nil }
		return n.Kind == source.Map && one(key) && (len(others) == 0 || slices.ContainsFunc(others, one))
	}
}

// Knows reports whether a value is in a form of another program, apart from rows, which
// any object could be.
func Knows(n *source.Node) bool {
	all := forms()
	return slices.ContainsFunc(all[:len(all)-1], func(f *form) bool { return f.is(n) })
}

// Read returns the answers in a value.
func (r *Reader) Read(n *source.Node) ([]Answer, error) {
	all := forms()
	i := slices.IndexFunc(all, func(f *form) bool { return f.is(n) })
	switch {
	case i < 0:
		return nil, source.Problemf(n.Pos, "an answer must be an object, not %s", n.Kind)
	case r.form == nil:
		r.form, r.seen = all[i], map[string][32]byte{}
	case r.form.name != all[i].name:
		return nil, source.Problemf(n.Pos, "the file has both %s and %s: use two files", r.form.name, all[i].name)
	}
	samples := []sample{{node: n, index: r.next}}
	if r.form.samples != nil {
		var err error
		if samples, err = r.form.samples(n); err != nil {
			return nil, err
		}
	}
	r.next += len(samples)
	var out []Answer
	for _, s := range samples {
		got, err := r.answers(s)
		if err != nil {
			return nil, err
		}
		out = append(out, got...)
	}
	return out, nil
}

// answers returns the answers of a sample: several where its text is a list.
func (r *Reader) answers(s sample) ([]Answer, error) {
	a := Answer{Pos: s.node.Pos}
	var err error
	if a.Task, err = r.text(s, ID); err != nil {
		return nil, err
	}
	if a.Task == "" {
		return nil, source.Problemf(s.node.Pos, "the id is empty")
	}
	if a.Attempt, err = r.attempt(s); err != nil {
		return nil, err
	}
	if at, _ := r.column(s, StopReason); at != nil && at.Kind == source.String {
		a.Stop = at.Text
	}
	if r.form.none != nil {
		if a.None = r.form.none(s.node); a.None != "" {
			return []Answer{a}, nil
		}
	}
	texts, err := r.texts(s)
	if err != nil || r.form.repeated && r.again(a.Task, texts) {
		return nil, err
	}
	if len(texts) == 1 {
		a.Text = texts[0]
		return []Answer{a}, nil
	}
	if a.Attempt > 0 {
		return nil, source.Problemf(s.node.Pos, "the text of one attempt is a list of %d", len(texts))
	}
	var out []Answer
	for i, text := range texts {
		one := a
		one.Attempt, one.Text = i+1, text
		out = append(out, one)
	}
	return out, nil
}

// again reports whether another line had the same texts for a task: a sample is
// written once for each filter.
func (r *Reader) again(task string, texts []string) bool {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\x00")))
	was, known := r.seen[task]
	r.seen[task] = sum
	return known && was == sum
}

// attempt returns the number of the attempt.
func (r *Reader) attempt(s sample) (int, error) {
	at, _ := r.column(s, Attempt)
	if at == nil || at.Kind == source.Null {
		return 0, nil
	}
	n, p := at.Int(Attempt, 1, 1<<20)
	if p != nil {
		return 0, p
	}
	return int(n), nil
}

// texts returns what a model said: a text, or one for each attempt.
func (r *Reader) texts(s sample) ([]string, error) {
	col, mapped := r.Map.columns[Text]
	if mapped && col.template() {
		text, err := r.text(s, Text)
		return []string{text}, err
	}
	at, name := r.column(s, Text)
	if at == nil {
		return nil, r.missing(s, Text)
	}
	if found := r.present(s, Text); r.form.free && !mapped && len(found) > 1 {
		return nil, &source.Problem{Pos: s.node.Pos, Message: fmt.Sprintf("each of the columns %s could be the text", strings.Join(found, ", ")),
			Fix: "choose one with --replay-map text=COLUMN"}
	}
	if slices.Contains(s.cut, strings.Split(name, ".")[0]) {
		return nil, source.Problemf(at.Pos, "the cell %q is cut off: take the rows from the data set's file", name)
	}
	out, ok := said(at)
	if !ok || len(out) == 0 {
		return nil, source.Problemf(at.Pos, "%q holds %s, and no text of a model (likelihoods of choices cannot be scored: have the model write its answer)", name, what(at))
	}
	for i, text := range out {
		hash, attached := strings.CutPrefix(text, "attachment://")
		if content := s.node.Get("attachments").Get(hash); attached && content != nil && content.Kind == source.String {
			out[i] = content.Text
		}
	}
	return out, nil
}

func what(n *source.Node) string {
	if n.Kind == source.List && len(n.Items) == 0 {
		return "an empty list"
	}
	return n.Kind.String()
}

// said reads a text, a list of texts, or messages, whose last one of the assistant
// counts. No text at all is an empty one.
func said(n *source.Node) ([]string, bool) {
	switch {
	case n.Kind == source.String:
		return []string{n.Text}, true
	case n.Kind == source.Null:
		return []string{""}, true
	case n.Kind != source.List:
		return nil, false
	case len(n.Items) == 1 && n.Items[0].Kind == source.List:
		return said(n.Items[0]) // the answers to the only request
	}
	if text, ok := lastMessage(n); ok {
		return []string{text}, true
	}
	if text, ok := parts(n); ok {
		return []string{text}, true
	}
	var out []string
	for _, item := range n.Items {
		if item.Kind != source.String {
			return nil, false
		}
		out = append(out, item.Text)
	}
	return out, true
}

// lastMessage returns the content of the last message of the assistant.
func lastMessage(n *source.Node) (text string, ok bool) {
	for _, m := range slices.Backward(n.Items) {
		if role := m.Get("role"); role == nil || role.Text != "assistant" && role.Text != "model" {
			continue
		}
		content := m.Get("content")
		if content == nil {
			return "", true // a call of a tool only
		}
		if content.Kind == source.List {
			return parts(content)
		}
		return content.Text, content.Kind == source.String || content.Kind == source.Null
	}
	return "", false
}

// parts joins the texts among the parts of a message.
func parts(n *source.Node) (string, bool) {
	var out []string
	for _, part := range n.Items {
		kind := part.Get("type")
		if kind == nil {
			return "", false
		}
		if text := part.Get("text"); kind.Text == "text" && text != nil {
			out = append(out, text.Text)
		}
	}
	return strings.Join(out, "\n"), len(n.Items) > 0
}

// text returns a column as text.
func (r *Reader) text(s sample, field string) (string, error) {
	if col, mapped := r.Map.columns[field]; mapped && col.template() {
		return col.fill(s, func(name string) error { return r.lacks(s, name, field) })
	}
	at, name := r.column(s, field)
	if at == nil {
		return "", r.missing(s, field)
	}
	text, ok := scalar(at)
	if !ok {
		return "", source.Problemf(at.Pos, "%q must be a string or a number, not %s", name, at.Kind)
	}
	return text, nil
}

// scalar returns a string, or a number as it is written.
func scalar(n *source.Node) (string, bool) {
	return n.Text, n.Kind == source.String || n.Kind == source.Number
}

// column returns the value of a column and its name, nil if there is none.
func (r *Reader) column(s sample, field string) (*source.Node, string) {
	names := r.form.columns[field]
	if col, mapped := r.Map.columns[field]; mapped {
		names = []string{col.written}
	}
	for _, name := range names {
		if n := s.get(name); n != nil {
			return n, name
		}
	}
	return nil, ""
}

// present lists the columns of a form that a sample has for a field.
func (r *Reader) present(s sample, field string) (out []string) {
	for _, name := range r.form.columns[field] {
		if s.get(name) != nil {
			out = append(out, name)
		}
	}
	return out
}

// missing says which column a sample lacks.
func (r *Reader) missing(s sample, field string) error {
	name := strings.Join(r.form.columns[field], ", ")
	if col, mapped := r.Map.columns[field]; mapped {
		name = col.written
	}
	return r.lacks(s, name, field)
}

func (r *Reader) lacks(s sample, name, field string) error {
	var keys []string
	for _, f := range s.node.Fields {
		keys = append(keys, f.Name)
	}
	slices.Sort(keys)
	return &source.Problem{Pos: s.node.Pos, Message: fmt.Sprintf("%s has no %s for the %s; it has %s", r.form.name, name, field, strings.Join(keys, ", ")),
		Fix: "name the column with --replay-map " + field + "=COLUMN"}
}

// get returns the value of a column: a key, keys and positions joined by dots, or the
// position of the sample under the name "index".
func (s sample) get(name string) *source.Node {
	if n := s.node.Get(name); n != nil {
		return n
	}
	n := s.node
	for token := range strings.SplitSeq(name, ".") {
		next := n.Get(token)
		if i, err := strconv.Atoi(token); next == nil && err == nil && n != nil && n.Kind == source.List && i >= 0 && i < len(n.Items) {
			next = n.Items[i]
		}
		n = next
	}
	if n == nil && name == "index" {
		return &source.Node{Pos: s.node.Pos, Kind: source.Number, Text: strconv.Itoa(s.index)}
	}
	return n
}

// inspectSamples returns the samples of a log of Inspect.
func inspectSamples(n *source.Node) ([]sample, error) {
	list := n.Get("samples")
	if list.Kind != source.List {
		return nil, source.Problemf(list.Pos, "the log's samples must be a list, not %s", list.Kind)
	}
	return each(list), nil
}

// inspectError says why a sample has no answer.
func inspectError(n *source.Node) string {
	choices := n.Get("output").Get("choices")
	if failed := n.Get("error"); failed != nil && failed.Kind != source.Null && (choices == nil || len(choices.Items) == 0) {
		return "the sample ended with an error"
	}
	return ""
}

// conversations returns the conversations of results of simple-evals, which have no ids.
func conversations(n *source.Node) ([]sample, error) {
	list := n.Get("convos")
	if list.Kind != source.List {
		return nil, source.Problemf(list.Pos, "convos must be a list, not %s", list.Kind)
	}
	about := n.Get("metadata").Get("example_level_metadata")
	out := each(list)
	for i, s := range out {
		fields := []source.Field{{Name: "conversation", Pos: s.node.Pos, Value: s.node}}
		if about != nil && i < len(about.Items) {
			fields = append(fields, about.Items[i].Fields...)
		}
		out[i].node = &source.Node{Pos: s.node.Pos, Kind: source.Map, Fields: fields}
	}
	return out, nil
}

// datasetRows returns the rows in an answer of a server of data sets.
func datasetRows(n *source.Node) ([]sample, error) {
	var out []sample
	for i, item := range n.Get("rows").Items {
		row := item.Get("row")
		if row == nil || row.Kind != source.Map {
			return nil, source.Problemf(item.Pos, "a row must have an object under the key row")
		}
		s := sample{node: row, index: i}
		if at := item.Get("row_idx"); at != nil {
			if k, p := at.Int("row_idx", 0, 1<<40); p == nil {
				s.index = int(k)
			}
		}
		if cut := item.Get("truncated_cells"); cut != nil {
			for _, c := range cut.Items {
				s.cut = append(s.cut, c.Text)
			}
		}
		out = append(out, s)
	}
	return out, nil
}

func each(list *source.Node) []sample {
	out := make([]sample, len(list.Items))
	for i, item := range list.Items {
		out[i] = sample{node: item, index: i}
	}
	return out
}

// Tabbed reports whether a file's first line begins lines of an id, a tab and a text.
func Tabbed(line []byte) bool {
	text := bytes.TrimSpace(line)
	return len(text) > 0 && text[0] != '{' && text[0] != '[' && bytes.ContainsRune(line, '\t')
}

// Line reads an id, a tab and a text.
func Line(at source.Pos, line []byte) (Answer, error) {
	id, text, found := strings.Cut(strings.TrimSuffix(string(line), "\r"), "\t")
	switch {
	case !found:
		return Answer{}, source.Problemf(at, "the line has no tab between an id and a text")
	case strings.TrimSpace(id) == "":
		return Answer{}, source.Problemf(at, "the id in front of the tab is empty")
	}
	return Answer{Pos: at, Task: strings.TrimPrefix(id, "\ufeff"), Text: text}, nil
}

// Finite replaces the words for numbers that are not finite, which Python writes into
// JSON and JSON does not have, by zeros of the same length. No answer is made of them.
func Finite(data []byte) []byte {
	if !bytes.Contains(data, []byte("NaN")) && !bytes.Contains(data, []byte("Infinity")) {
		return data
	}
	out := bytes.Clone(data)
	quoted := false
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		default:
			for _, word := range []string{"NaN", "Infinity"} {
				if bytes.HasPrefix(out[i:], []byte(word)) {
					copy(out[i:], "0"+strings.Repeat(" ", len(word)-1))
				}
			}
		}
	}
	return out
}
