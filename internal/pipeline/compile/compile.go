// Package compile turns the rows of a pack into tasks: it applies the rules
// of the row's family and puts every value into its lane.
//
// Every rule that a row breaks is reported with file, line and column. A value
// without a lane is hidden.
package compile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family"
	"securebench/internal/lazyregexp"
	"securebench/internal/pipeline/pack"
	"securebench/internal/source"
	"securebench/internal/task"
	"securebench/internal/workspace"
)

// Compiler compiles the rows of one pack. It is immutable and safe for
// concurrent use.
type Compiler struct {
	pack     task.Pack
	families family.Registry
	schemas  map[string]func() rowSchemas // compiled for the first row that needs them
}

// New returns a compiler for the rows of m. To compile a row panics if its family's
// schema is not a valid JSON Schema: schemas are part of the program.
func New(m pack.Manifest, reg family.Registry) *Compiler {
	c := &Compiler{pack: task.Pack{ID: m.ID, Version: m.Version}, families: reg,
		schemas: make(map[string]func() rowSchemas, len(reg))}
	for name, f := range reg {
		c.schemas[name] = sync.OnceValue(func() rowSchemas {
			return rowSchemas{
				input: mustSchema(name+"/input", f.InputSchema),
				eval:  mustSchema(name+"/eval", f.EvalSchema),
			}
		})
	}
	return c
}

// Family returns the family with the given name, if it is known.
func (c *Compiler) Family(name string) (family.Family, bool) {
	f, ok := c.families[name]
	return f, ok
}

// Check applies every rule to a row. A row without errors can be compiled.
// Messages never quote a hidden value.
func (c *Compiler) Check(row pack.Row) (errs, warnings source.Problems) {
	k := &checker{row: row, context: fmt.Sprintf("task '%s' (%s)", row.ID, row.Family)}
	f, known := c.Family(row.Family)
	if known {
		schemas := c.schemas[row.Family]()
		k.schema(schemas.input, row.Input, "input")
		k.schema(schemas.eval, row.Eval, "eval")
	} else {
		k.warnings.Add(k.row.Pos, c.unknownFamily(row.Family), "family %q is not known; its tasks stay pending and all of eval is hidden", row.Family)
	}
	k.names()
	k.environment(f)
	k.evalFiles(f)
	if len(k.errs) == 0 && f.Check != nil {
		k.family(f)
	}
	if len(k.errs) == 0 {
		k.checkout(f)
	}
	if len(k.errs) == 0 && f.Doubts != nil {
		k.report(&k.warnings, f.Doubts(familyRow(k.row)))
	}
	k.leaks(f)
	slices.SortStableFunc(k.errs, byPlace)
	slices.SortStableFunc(k.warnings, byPlace)
	return k.errs, k.warnings
}

// byPlace orders problems by their position in the file; the schema validator
// returns violations in no particular order.
func byPlace(a, b *source.Problem) int {
	return cmp.Or(cmp.Compare(a.Pos.File, b.Pos.File), cmp.Compare(a.Pos.Line, b.Pos.Line),
		cmp.Compare(a.Pos.Col, b.Pos.Col), cmp.Compare(a.Message, b.Message))
}

// checker collects the problems of one row.
type checker struct {
	row            pack.Row
	context        string // the start of a message: task and family
	errs, warnings source.Problems
}

// unknownFamily says what to write instead of a family that is not known, or "".
func (c *Compiler) unknownFamily(name string) string {
	if _, known := c.Family(name); known || name == "" {
		return ""
	}
	if near := source.Nearest(name, c.families.Names()); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "known: " + strings.Join(c.families.Names(), ", ")
}

// maxValues is the number of values of a row. A record lists all of them by
// name and must stay well below the longest line allowed.
const maxValues = 4096

// names checks the names of the row's values, which become file names in
// sandboxes and must be unique over input, assets and eval.
func (k *checker) names() {
	if n := len(k.row.Input.Fields) + len(k.row.Eval.Fields); n > maxValues {
		k.errs.Add(k.row.Pos, "combine them into one list or object", "%s has %d values in input and eval, more than %d: each is listed in the task's record",
			k.context, n, maxValues)
		return
	}
	seen := map[string]bool{"assets": len(k.row.Assets) > 0}
	for _, section := range []*source.Node{k.row.Input, k.row.Eval} {
		for _, f := range section.Fields {
			if seen[f.Name] {
				k.errs.Add(f.Pos, "rename one of them", "%s has a duplicate compiled resource name: %s", k.context, f.Name)
			}
			seen[f.Name] = true
			if fault := nameFault(f.Name); fault != "" {
				k.errs.Add(f.Pos, "names become file names: write letters, digits, _ and -", "%s has a field %q whose name %s", k.context, f.Name, fault)
			}
		}
	}
}

// maxFieldName is the maximum length of a value's name in bytes.
const maxFieldName = 128

// nameFault says why a value's name cannot be a file name, or "".
func nameFault(name string) string {
	switch {
	case name == "":
		return "is empty"
	case len(name) > maxFieldName:
		return fmt.Sprintf("is longer than %d bytes", maxFieldName)
	case strings.ContainsAny(name, `/\`) || strings.Contains(name, ".."):
		return "is not a plain file name"
	case strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "contains an invisible character"
	}
	return ""
}

// family applies the family's own rules. They may rely on the schemas.
func (k *checker) family(f family.Family) {
	k.report(&k.errs, f.Check(familyRow(k.row)))
}

// report adds what a family found, with its place.
func (k *checker) report(to *source.Problems, found []family.Problem) {
	for _, p := range found {
		to.Add(k.at(p.Path).Pos, p.Fix, "%s%s %s", k.context, k.path(p.Path), p.Message)
	}
}

// at returns the node of the row at a problem's path.
func (k *checker) at(path []string) *source.Node {
	if len(path) > 0 {
		switch path[0] {
		case "input":
			return k.row.Input.At(path[1:])
		case "eval":
			return k.row.Eval.At(path[1:])
		case "environment":
			return k.row.Environment.At(path[1:])
		case "assets":
			if k.row.AssetList != nil {
				return k.row.AssetList.At(path[1:])
			}
		}
	}
	return &source.Node{Pos: k.row.Pos}
}

// plainName matches field names that can follow a dot in a message.
var plainName = lazyregexp.New(`^[A-Za-z0-9_-]+$`)

// path formats a path into the row: .eval.choices[2].
func (k *checker) path(path []string) string {
	var b strings.Builder
	for i, token := range path {
		switch {
		case i > 0 && k.at(path[:i]).Kind == source.List:
			b.WriteString("[" + token + "]")
		case plainName.MatchString(token):
			b.WriteString("." + token)
		default:
			fmt.Fprintf(&b, "[%q]", token)
		}
	}
	return b.String()
}

func values(n *source.Node) map[string]jsontext.Value {
	out := make(map[string]jsontext.Value, len(n.Fields))
	for _, f := range n.Fields {
		out[f.Name] = f.Value.JSON()
	}
	return out
}

// Task compiles a row. Its error joins the problems that [Compiler.Check]
// reports.
func (c *Compiler) Task(row pack.Row) (task.Task, error) {
	errs, _ := c.Check(row)
	if err := errs.Err(); err != nil {
		return task.Task{}, err
	}
	return c.build(row)
}

// build compiles a row that has been checked.
func (c *Compiler) build(row pack.Row) (task.Task, error) {
	f := c.families[row.Family] // an unknown family is empty: all of eval is hidden
	env, _ := environment(row.Environment, f)
	env.Checkout = checkoutOf(row, f)
	env.OldLayout = oldLayout(row, f)
	captured := capturedOf(row, f)
	env.WritableRoot = captured.Root(workspace.TargetOf(env))
	extraction, instruction := f.Extraction, f.Instruction
	if f.Submission != nil {
		extraction, instruction = f.Submission(familyRow(row))
	}
	t, err := task.New(task.Config{
		ID: row.ID, Family: row.Family, Pack: c.pack, Index: row.Index, Line: row.Line,
		Resources: resources(row, f), Assets: row.Assets, Environment: env,
		Extraction: extraction, Captured: captured, Adapted: adapted(row), Instruction: instruction, Row: row.Whole,
	})
	if err != nil {
		return task.Task{}, source.Problemf(row.Pos, "task '%s' (%s): %v", row.ID, row.Family, err)
	}
	return t, nil
}

// capturedOf returns which files the family takes from the agent's sandbox.
func capturedOf(row pack.Row, f family.Family) task.Captured {
	if f.Captured == nil {
		return task.Captured{}
	}
	return f.Captured(familyRow(row))
}

// adapted reports whether the row says that it differs from what its data set
// has.
func adapted(row pack.Row) bool {
	n := row.Metadata.Get("adapted")
	return n != nil && n.Kind == source.Bool && n.Text == "true"
}

// resources lists the row's values in row order: input, assets, eval.
func resources(row pack.Row, f family.Family) []task.Resource {
	out := public(row)
	for _, e := range row.Eval.Fields {
		out = append(out, task.Resource{Name: e.Name, Lane: f.Lanes[e.Name], Value: e.Value.JSON()})
	}
	return out
}

// public lists the row's public values in row order.
func public(row pack.Row) []task.Resource {
	var out []task.Resource
	for _, f := range row.Input.Fields {
		out = append(out, task.Resource{Name: f.Name, Lane: task.Public, Value: f.Value.JSON()})
	}
	if row.AssetList != nil {
		out = append(out, task.Resource{Name: task.AssetList, Lane: task.Public, Value: row.AssetList.JSON()})
	}
	return out
}
