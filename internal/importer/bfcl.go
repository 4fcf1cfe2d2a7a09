package importer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/lazyregexp"
	"securebench/internal/source"
)

// The kinds of rows of BFCL that are read: of single turns whose calls are Python's.
const (
	bfclCalls   = iota + 1 // calls are expected
	bfclDecline            // none may be stated
)

// bfclKind is the kind of a category by its name in any edition; 0 is not read.
func bfclKind(category string) int {
	switch category {
	case "simple", "simple_python", "multiple", "parallel", "parallel_multiple",
		"live_simple", "live_multiple", "live_parallel", "live_parallel_multiple":
		return bfclCalls
	case "irrelevance", "live_irrelevance":
		return bfclDecline
	}
	return 0
}

// bfclCounted reports whether the rows of a category are counted although they are not
// read. Other files of the data set's folder are no rows, or those of agents.
func bfclCounted(category string) bool {
	return strings.HasPrefix(category, "multi_turn_") || slices.Contains(
		[]string{"java", "simple_java", "javascript", "simple_javascript", "live_relevance"}, category)
}

// bfclSkipped says why the rows of a category are not read.
func bfclSkipped(category string) string {
	switch category {
	case "java", "simple_java", "javascript", "simple_javascript":
		return "with literals of another language than Python"
	case "live_relevance":
		return "passed by any call of a tool"
	}
	return "not of a single turn, or with tools that must be called"
}

func bfcl() dataset {
	return dataset{
		format:  BFCL,
		family:  "tool_call",
		convert: convertBFCL,
		licence: apacheLicence,
		rows:    bfclRows,
		notes:   bfclNotes,
		checked: true,
		about: `# Berkeley Function-Calling Leaderboard

Rows of the Berkeley Function-Calling Leaderboard (BFCL), from the repository
ShishirPatil/gorilla, folder berkeley-function-call-leaderboard/bfcl_eval/data.
Shishir G. Patil and others, "The Berkeley Function Calling Leaderboard (BFCL): From Tool
Use to Agentic Evaluation of Large Language Models" (2025),
https://gorilla.cs.berkeley.edu/leaderboard.html

Licence: Apache-2.0 (LICENSE).
`,
		changes: "- The question and the accepted values of a row are one row. They are compared by the rule `bfcl`, as the data set's own scorer does.\n" +
			"- An empty text among the accepted values, which means that a parameter may be left out, became an entry of `optional`.\n" +
			"- Of tools, only name, description and parameters are kept.\n",
	}
}

// bfclNotes says what the operator should know about the rows.
func bfclNotes(counts map[string]int) []string {
	if n := counts["decline"]; n > 0 {
		return []string{fmt.Sprintf("%d rows of irrelevance are passed by whoever states no call: "+
			"report them apart from the rows that need a call", n)}
	}
	return nil
}

// bfclCall is an expected call of a tool_call row.
type bfclCall struct {
	Name     string         `json:"name"`
	Accepted jsontext.Value `json:"accepted"`
	Optional []string       `json:"optional,omitzero"`
}

// bfclTool is a tool of such a row.
type bfclTool struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitzero"`
	Parameters  jsontext.Value `json:"parameters"`
}

func convertBFCL(o *object, c converter) row {
	category := o.text("category")
	id := o.text("id")
	kind := bfclKind(category)
	if kind == 0 {
		c.skip(fmt.Sprintf("of %s: %s", category, bfclSkipped(category)))
		return row{ID: id}
	}
	o.only("id", "question", "function", "category", "ground_truth", "execution_result_type", "missed_function")
	tools, schemas := o.bfclTools()
	eval := map[string]any{"expected_calls": []bfclCall{}, "match": map[string]string{"rule": "bfcl"}}
	if kind == bfclDecline {
		c.count("decline")
	} else {
		var list []bfclCall
		truth := o.get("ground_truth")
		if truth != nil && (truth.Kind != source.List || len(truth.Items) == 0) {
			o.fail(truth, "ground_truth must be a non-empty list of calls")
		} else if truth != nil {
			for _, call := range truth.Items {
				list = append(list, o.bfclExpected(call, schemas, c))
			}
		}
		eval["expected_calls"] = list
	}
	input := o.bfclQuestion()
	input["tools"] = tools
	return row{ID: id, Input: input, Eval: eval, Metadata: map[string]any{"dataset": "BFCL", "category": category}}
}

// bfclQuestion reads the messages of the only turn.
func (o *object) bfclQuestion() map[string]any {
	n := o.get("question")
	if n == nil {
		return map[string]any{}
	}
	if n.Kind != source.List || len(n.Items) != 1 || n.Items[0].Kind != source.List || len(n.Items[0].Items) == 0 {
		o.fail(n, "question must be a list of one turn, which is a list of messages")
		return map[string]any{}
	}
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var out []message
	for _, m := range n.Items[0].Items {
		role, content := m.Get("role"), m.Get("content")
		if role == nil || content == nil || role.Kind != source.String || content.Kind != source.String || !slices.Contains([]string{"system", "user", "assistant"}, role.Text) {
			o.fail(m, "a message must have role and content, which are strings")
			return map[string]any{}
		}
		out = append(out, message{role.Text, content.Text})
	}
	if len(out) == 1 && out[0].Role == "user" && strings.TrimSpace(out[0].Content) != "" {
		return map[string]any{"prompt": out[0].Content}
	}
	return map[string]any{"messages": out}
}

// bfclTools reads the tools; their schemas are by name.
func (o *object) bfclTools() (tools []bfclTool, schemas map[string]*source.Node) {
	schemas = map[string]*source.Node{}
	n := o.get("function")
	if n == nil {
		return nil, schemas
	}
	if n.Kind != source.List || len(n.Items) == 0 {
		o.fail(n, "function must be a non-empty list of tools")
	}
	for _, f := range n.Items {
		name, parameters := f.Get("name"), f.Get("parameters")
		if name == nil || parameters == nil || name.Kind != source.String || parameters.Kind != source.Map {
			o.fail(f, "a tool must have a name, which is a string, and parameters, which are an object")
			continue
		}
		t := bfclTool{Name: name.Text, Parameters: parameters.JSON()}
		if d := f.Get("description"); d != nil {
			t.Description = d.Text
		}
		tools = append(tools, t)
		schemas[t.Name] = parameters
	}
	return tools, schemas
}

// bfclExpected reads {NAME: {PARAMETER: [VALUES]}}. A row that no call can pass is left
// out.
func (o *object) bfclExpected(n *source.Node, schemas map[string]*source.Node, c converter) (out bfclCall) {
	if n.Kind != source.Map || len(n.Fields) != 1 || n.Fields[0].Value.Kind != source.Map {
		o.fail(n, "an expected call must be an object of one name and its parameters")
		return out
	}
	out.Name = n.Fields[0].Name
	schema := schemas[out.Name]
	if schema == nil {
		o.fail(n, "the expected call of %q is of no tool of the row", out.Name)
		return out
	}
	accepted := &source.Node{Kind: source.Map}
	for _, p := range n.Fields[0].Value.Fields {
		if p.Value.Kind != source.List {
			o.fail(p.Value, "the accepted values of %s must be a list", p.Name)
			return out
		}
		values := &source.Node{Kind: source.List, Items: slices.DeleteFunc(slices.Clone(p.Value.Items), isEmptyText)}
		optional := len(values.Items) < len(p.Value.Items)
		if optional {
			out.Optional = append(out.Optional, p.Name)
		}
		if len(values.Items) == 0 {
			if !optional || requires(schema, p.Name) {
				c.leave(fmt.Sprintf("no value is accepted for the parameter %q, which cannot be left out", p.Name))
			}
			values = p.Value // an empty text: the parameter can only be left out, or empty
		}
		accepted.Fields = append(accepted.Fields, source.Field{Name: p.Name, Value: values})
	}
	out.Accepted = accepted.JSON()
	return out
}

func isEmptyText(n *source.Node) bool { return n.Kind == source.String && n.Text == "" }

// requires reports whether a schema requires a property.
func requires(schema *source.Node, name string) bool {
	list := schema.Get("required")
	return list != nil && slices.ContainsFunc(list.Items, func(n *source.Node) bool { return n.Text == name })
}

// bfclFile matches the files of the data set's repository, and those of one category.
var bfclFile = lazyregexp.New(`^(?:BFCL_v[0-9]+_([a-z_]+)\.json|([a-z_]+)\.jsonl)$`)

// bfclAnswers is the folder of the accepted values in the data set's repository.
const bfclAnswers = "possible_answer"

// bfclRows reads a folder: the data set's repository has questions and accepted values in
// different files, and the name of the category only in theirs. Everything that is read is
// also written to sum.
func bfclRows(dir string, sum io.Writer) (func() (*object, error), error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the data set: %w", err)
	}
	r := &bfclFolder{dir: dir, sum: sum}
	for _, e := range entries {
		if m := bfclFile.FindStringSubmatch(e.Name()); m != nil && (bfclKind(m[1]+m[2]) > 0 || bfclCounted(m[1]+m[2])) {
			r.files = append(r.files, bfclPart{e.Name(), m[1] + m[2]})
		}
	}
	if len(r.files) == 0 {
		return nil, fmt.Errorf("%s has no file of BFCL, such as BFCL_v4_multiple.json or multiple.jsonl", dir)
	}
	return r.next, nil
}

type bfclPart struct{ name, category string }

// bfclFolder reads file after file.
type bfclFolder struct {
	dir     string
	sum     io.Writer
	files   []bfclPart
	file    io.Closer
	rows    *lines
	answers map[string]*source.Node
	part    bfclPart
}

func (r *bfclFolder) next() (*object, error) {
	for {
		if r.rows == nil {
			if len(r.files) == 0 {
				return nil, io.EOF
			}
			if err := r.open(); err != nil {
				return nil, err
			}
		}
		o, err := r.rows.next()
		if err == nil {
			r.complete(o.node)
			return o, nil
		}
		closing := r.file.Close()
		r.rows = nil
		switch {
		case !errors.Is(err, io.EOF):
			return nil, err
		case closing != nil:
			return nil, closing
		}
	}
}

// complete adds what the repository has in other places.
func (r *bfclFolder) complete(row *source.Node) {
	add := func(name string, n *source.Node) {
		if row.Get(name) == nil && n != nil {
			row.Fields = append(row.Fields, source.Field{Name: name, Pos: row.Pos, Value: n})
		}
	}
	add("category", &source.Node{Kind: source.String, Pos: row.Pos, Text: r.part.category})
	if id := row.Get("id"); id != nil {
		add("ground_truth", r.answers[id.Text])
	}
}

// open opens the next file, and reads its accepted values, if there are any.
func (r *bfclFolder) open() error {
	r.part, r.files = r.files[0], r.files[1:]
	r.answers = map[string]*source.Node{}
	if bfclKind(r.part.category) == bfclCalls {
		if err := r.readAnswers(filepath.Join(r.dir, bfclAnswers, r.part.name)); err != nil {
			return err
		}
	}
	name := filepath.Join(r.dir, r.part.name)
	f, err := source.Open(name)
	if err != nil {
		return fmt.Errorf("opening the data set: %w", err)
	}
	r.file, r.rows = f, newLines(io.TeeReader(f, r.sum), name)
	return nil
}

func (r *bfclFolder) readAnswers(name string) error {
	rows, err := byID(name, r.sum)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // else the rows have them
		return fmt.Errorf("reading the accepted values: %w", err)
	}
	for id, row := range rows {
		r.answers[id] = row.Get("ground_truth")
	}
	return nil
}
