package importer

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"securebench/internal/lazyregexp"
	"securebench/internal/source"
)

//go:embed licences/dacode.txt
var daCodeLicence string

func daCode() dataset {
	return dataset{
		format:  DACode,
		family:  deliverableFamily,
		convert: convertDACode,
		rows:    daCodeRows,
		folder:  func(input string) string { return beside(input, "gold", "da_code") },
		image:   dataImage,
		notes:   daCodeNotes,
		checked: true,
		licence: daCodeLicence,
		about: `# DA-Code

Rows of DA-Code, from the repository yiyihum/da-code (da_code/configs, source and gold).
Yiming Huang and others, "DA-Code: Agent Data Science Code Generation Benchmark for Large
Language Models" (2024), https://arxiv.org/abs/2410.07331

Licence: MIT (LICENSE). The files that agents work on come from public data sets with
terms of their own.
`,
		changes: "- A row is the instruction, the files of `source`, and what is expected of `gold`.\n" +
			"- `compare_csv` became a table, whose columns may be any of the answer's under the official rule. Under our own (`--rule own`) they are compared by name, and `ignore_order` is about whole rows, not about each column by itself.\n" +
			"- The option `conditon_cols`, which the data set's scorer does not read, is not read either.\n" +
			"- `compare_text` became a JSON file, `result.json`, in the place of words at an agent's end. Keys are spelled as in the instruction.\n" +
			"- A metric passes at the better of the two bounds between which the data set scales its score, of a loss at the other if the better one is 0. Losses count down, which the data set's scorer leaves out, and logarithms are natural. Rows are joined by their id.\n" +
			"- Rows of clusters, plots and databases are left out, each with its reason.\n",
	}
}

// daCodeNotes says what the operator should know about the rows.
func daCodeNotes(counts map[string]int) (notes []string) {
	if n := counts["any column"]; n > 0 {
		notes = append(notes, fmt.Sprintf("%d rows are scored by the official rule, which a table with every guess as a column passes: "+
			"import with --rule own to compare columns by name", n))
	}
	if n := counts["unasked"]; n > 0 {
		notes = append(notes, fmt.Sprintf("%d rows expect a key that their instruction does not name, which no honest answer has", n))
	}
	return notes
}

var daCodeID = lazyregexp.New(`^[a-z0-9]+(?:-[a-z0-9]+)*$`)

// daCodeRow is what a row says.
type daCodeRow struct {
	id, instruction        string
	config, eval, options  *source.Node
	function, output, gold string // gold is the path of the file that is expected
}

func convertDACode(o *object, c converter) row {
	o.only("id", "type", "instruction", "hardness", "post_process", "eval")
	s := daCodeRow{id: o.text("id"), instruction: o.text("instruction"), eval: o.node.Get("eval")}
	r := row{ID: "dacode/" + s.id, Metadata: map[string]any{"dataset": "DA-Code", "type": o.text("type"), "hardness": o.text("hardness")}}
	if len(o.problems) == 0 && !daCodeID.MatchString(s.id) {
		o.fail(o.node.Get("id"), "id must consist of lower-case letters, digits and hyphens")
	}
	if len(o.problems) > 0 {
		return r
	}
	if s.eval == nil {
		c.leave("the data set does not say how it is scored")
		return r
	}
	s.function, s.options, s.config = only(s.eval.Get("func")).str(), only(s.eval.Get("options")).n, s.eval.Get("config")
	in, ev, why := s.convert(o, c)
	assets, lacking := c.files.folder(path.Join("source", s.id), s.id, in.Output.Path)
	c.leave(cmp.Or(why, lacking))
	in.Brief = s.instruction
	r.Input, r.Eval = in, ev
	if len(assets) > 0 {
		r.Assets = assets
	}
	return r
}

// single is the only element of a list, or what is no list; n is nil for anything else.
type single struct{ n *source.Node }

func only(n *source.Node) single {
	switch {
	case n == nil || n.Kind == source.List && len(n.Items) != 1:
		return single{}
	case n.Kind == source.List:
		return only(n.Items[0])
	}
	return single{n}
}

// str is the string, or "".
func (s single) str() string {
	if s.n == nil || s.n.Kind != source.String {
		return ""
	}
	return s.n.Text
}

// yes reports whether it is true.
func (s single) yes() bool { return s.n != nil && s.n.Kind == source.Bool && s.n.Text == "true" }

// convert returns what is asked for and how it is scored, or why the row is left out.
func (s *daCodeRow) convert(o *object, c converter) (in deliverableInput, ev deliverableEval, why string) {
	if s.function == "" {
		return in, ev, "it is scored by several functions"
	}
	if s.function == "compare_text" {
		return s.text(c)
	}
	switch s.function {
	case "compare_image":
		return in, ev, "a picture that is not the same is scored by numbers that the agent's own program states"
	case "compare_csv", "compare_ml", "compare_competition_ml":
	default:
		return in, ev, "it is scored by " + s.function
	}
	if s.output = only(only(s.eval.Get("result")).n.Get("file")).str(); s.output == "" {
		return in, ev, "several files are asked for"
	}
	s.gold = path.Join("gold", s.id, path.Base(s.output))
	in.Output = outputSpec{Type: "csv", Path: s.output}
	ev.Reference = evalPath{s.gold}
	if why = c.files.file(s.gold, evalFile(s.gold)); why != "" {
		return in, ev, why
	}
	header, err := c.files.header(s.gold)
	if err != nil {
		return in, ev, s.gold + " is no table"
	}
	if s.function == "compare_csv" {
		ev.Rubric = s.table(o, c, header)
		return in, ev, ""
	}
	ev.Rubric, why = s.metric(header)
	return in, ev, why
}

// table is the rubric of compare_csv.
func (s *daCodeRow) table(o *object, c converter, header []string) map[string]any {
	var counted []string
	if cols := s.options.Get("condition_cols"); cols != nil {
		for _, n := range cols.Items {
			i, p := n.Int("condition_cols", 0, int64(len(header)-1))
			o.problems.Note(p)
			if p != nil {
				return nil
			}
			counted = append(counted, header[i])
		}
	}
	rubric := map[string]any{"type": "table"}
	s.order(rubric)
	within := map[string]any{"tolerance": daCodeTolerance, "ignore_case": true}
	switch {
	case c.rule == OfficialRule:
		c.count("any column")
		rubric["match"] = "dacode"
		if counted != nil {
			rubric["columns"] = counted
		}
	case counted == nil || len(counted) == len(header):
		rubric["columns"] = map[string]any{"*": within}
	default:
		columns := map[string]any{"*": map[string]any{"ignore": true}}
		for _, name := range counted {
			columns[name] = within
		}
		rubric["columns"], rubric["extra_columns"] = columns, "allow"
	}
	return rubric
}

// order says in a rubric whether order counts.
func (s *daCodeRow) order(rubric map[string]any) {
	if only(s.options.Get("ignore_order")).yes() {
		rubric["order"] = "any"
	}
}

// daCodeTolerance is how far numbers may be apart.
const daCodeTolerance = 0.01

// text is the row of compare_text.
func (s *daCodeRow) text(c converter) (in deliverableInput, ev deliverableEval, why string) {
	gold := only(only(s.eval.Get("result")).n.Get("number")).n
	if gold == nil || gold.Kind != source.Map {
		return in, ev, "several answers are right"
	}
	want := &source.Node{Kind: source.Map}
	missing := false
	for _, f := range gold.Fields {
		name := strings.TrimSpace(f.Name)
		at := strings.Index(strings.ToLower(s.instruction), strings.ToLower(name))
		if missing = missing || at < 0; at >= 0 && len(strings.ToLower(s.instruction)) == len(s.instruction) && len(strings.ToLower(name)) == len(name) {
			name = s.instruction[at : at+len(name)] // as it is asked for
		}
		want.Fields = append(want.Fields, source.Field{Name: name, Value: f.Value})
	}
	if missing {
		c.count("unasked")
	}
	in.Output = outputSpec{Type: "json", Path: "result.json"}
	at := path.Join("gold", s.id, in.Output.Path)
	c.file(at, string(want.JSON())+"\n")
	ev.Reference = evalPath{at}
	ev.Rubric = map[string]any{"type": "json"}
	s.order(ev.Rubric)
	if c.rule == OfficialRule {
		ev.Rubric["match"] = "dacode"
	} else {
		ev.Rubric["tolerance"], ev.Rubric["ignore_case"] = daCodeTolerance, true
	}
	return in, ev, ""
}

// daCodeMetrics returns the metrics of the data set that ours equal; those with a minus sign
// are losses.
func daCodeMetrics() map[string]string {
	return map[string]string{
		"accuracy": "accuracy", "f1_weighted": "f1_weighted", "f1_micro": "f1_micro", "f1_macro": "f1_macro",
		"roc_auc_score": "auc", "r2": "r2", "quadratic_weighted_kappa": "quadratic_kappa",
		"logloss_total": "-log_loss", "rmse": "-rmse", "mae": "-mae", "rmsle": "-rmsle",
	}
}

// metric is the rubric of compare_ml and compare_competition_ml, or why there is none.
func (s *daCodeRow) metric(header []string) (map[string]any, string) {
	name := only(s.config.Get("metric")).str()
	if name == "silhouette" {
		return nil, "clusters are scored by coordinates that the agent states, without anything that is right"
	}
	if name == "f1" {
		if name = "f1_weighted"; only(s.options.Get("average")).str() != "" {
			name = "f1_" + only(s.options.Get("average")).str()
		}
	}
	metric, loss := strings.CutPrefix(daCodeMetrics()[name], "-")
	if metric == "" {
		return nil, "it is scored by the metric " + name
	}
	at := slices.IndexFunc(header, func(name string) bool { return strings.Contains(strings.ToLower(name), "id") })
	if at < 0 || len(header) < 2 {
		return nil, "its rows have no id by which they could be joined"
	}
	targets := slices.Delete(slices.Clone(header), at, at+1)
	upper, errUpper := bound(s.config, "upper_bound")
	lower, errLower := bound(s.config, "lower_bound")
	if errUpper != nil || errLower != nil {
		return nil, "it has no bounds for its score"
	}
	rubric := map[string]any{"type": "metric", "metric": metric, "id": header[at]}
	if len(targets) == 1 {
		rubric["target"] = targets[0]
	} else {
		rubric["target"] = targets
	}
	if !loss {
		rubric["at_least"] = max(upper, lower)
		return rubric, ""
	}
	best := min(upper, lower)
	if best <= 0 {
		best = max(upper, lower)
	}
	rubric["at_most"] = best
	return rubric, ""
}

// bound reads a number of an object.
func bound(n *source.Node, name string) (float64, error) {
	v := n.Get(name)
	if v == nil || v.Kind != source.Number {
		return 0, errors.New("missing")
	}
	var f float64
	return f, v.Decode(&f)
}

// daCodeRows reads a folder: rows.jsonl, or the repository's, which has instructions and
// scoring in two files.
func daCodeRows(dir string, sum io.Writer) (func() (*object, error), error) {
	base := beside(dir, "gold", "da_code")
	rows, scoring := filepath.Join(base, "rows.jsonl"), map[string]*source.Node{}
	_, err := os.Stat(rows)
	if errors.Is(err, fs.ErrNotExist) {
		rows = filepath.Join(base, "configs", "task", "all.jsonl")
		if scoring, err = byID(filepath.Join(base, "configs", "eval", "eval_all.jsonl"), sum); err != nil {
			return nil, err
		}
	}
	next, err := oneFile(rows, sum)
	if err != nil {
		return nil, err
	}
	return func() (*object, error) {
		o, err := next()
		if err != nil {
			return nil, err
		}
		if id := o.node.Get("id"); id != nil && o.node.Get("eval") == nil && scoring[id.Text] != nil {
			o.node.Fields = append(o.node.Fields, source.Field{Name: "eval", Pos: o.node.Pos, Value: scoring[id.Text]})
		}
		return o, nil
	}, nil
}

// byID reads the rows of a file by their ids.
func byID(name string, sum io.Writer) (map[string]*source.Node, error) {
	out := map[string]*source.Node{}
	f, err := source.Open(name)
	if err != nil {
		return nil, fmt.Errorf("opening the data set: %w", err)
	}
	defer f.Close()
	rows := newLines(io.TeeReader(f, sum), name)
	for {
		o, err := rows.next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if id := o.node.Get("id"); id != nil {
			out[id.Text] = o.node
		}
	}
}
