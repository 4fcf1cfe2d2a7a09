package codecompletion

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// row is what a verification needs of a task.
type row struct {
	prompt, tests string
	reference     *string // nil where the row has none
	entry         []string
	mutates       bool
	operators     bool
}

// testsObject is the row's tests. The family's schema has checked its shape;
// what does not fit here has no verifier.
type testsObject struct {
	Source     string         `json:"source"`
	Code       string         `json:"code"`
	EntryPoint jsontext.Value `json:"entry_point"`
	Mutates    bool           `json:"mutates"`
	Operators  bool           `json:"operators"`
}

// readRow takes a row from the lanes that this zone may see. A *failure says
// that there is no verifier for such a row.
func readRow(c family.Case) (row, error) {
	prompt, _ := c.Sandbox.Get("prompt")
	tests, ok := c.Sandbox.Get("tests")
	var t testsObject
	if !ok || json.Unmarshal(tests.Value, &t) != nil {
		return row{}, unsupported("the row's tests are not of a known form")
	}
	if t.Source != "inline" {
		return row{}, unsupported("tests.source " + known(t.Source) + " has no verifier yet")
	}
	if language, ok := c.Sandbox.Get("language"); ok {
		if name, _ := language.Text(); name != "python" {
			return row{}, unsupported("inline tests of languages other than python have no verifier")
		}
	}
	out := row{tests: t.Code, mutates: t.Mutates, operators: t.Operators, reference: readReference(c)}
	out.prompt, _ = prompt.Text()
	var err error
	out.entry, err = readEntry(t.EntryPoint)
	return out, err
}

// known names a source in a message; tests are not public, so no other byte
// of them is shown.
func known(source string) string {
	if source == "cases" {
		return source
	}
	return "of this kind"
}

// pending says why a row's tests cannot be run here.
func pending(s task.SandboxView, e task.EvaluatorView) (verdict.Reason, string) {
	_, err := readRow(family.Case{Sandbox: s, Evaluator: e})
	var f *failure
	if errors.As(err, &f) {
		return f.reason, f.message
	}
	return "", ""
}

func unsupported(message string) *failure { return &failure{verdict.NoVerifier, message} }

// readEntry reads a name or a list of names.
func readEntry(v jsontext.Value) ([]string, error) {
	var one string
	var many []string
	switch {
	case len(v) == 0:
		return nil, nil
	case v.Kind() == '"' && json.Unmarshal(v, &one) == nil:
		return []string{one}, nil
	case v.Kind() == '[' && json.Unmarshal(v, &many) == nil:
		return many, nil
	}
	return nil, unsupported("tests.entry_point is not a name or a list of names")
}

// readReference returns the row's own solution. It goes to the oracle for
// analysis, which executes nothing, and to no process that runs tests.
func readReference(c family.Case) *string {
	for _, name := range []string{"reference_solution", "canonical_solution"} {
		if r, ok := c.Evaluator.Get(name); ok {
			if s, ok := r.Text(); ok && strings.TrimSpace(s) != "" {
				return &s
			}
		}
	}
	return nil
}

// rowLimit is the time that a row's verification may take.
func rowLimit(c family.Case) time.Duration {
	if c.Limits.Timeout > 0 {
		return c.Limits.Timeout
	}
	return 30 * time.Second
}

// plan is what the analysis of a row found out: row data, the same for every
// candidate.
type plan struct {
	names      []proxied
	handles    bool // the tests use objects of the candidate's types
	operators  bool // and what special methods answer
	promptRuns bool // the prompt is a module
	continues  bool // the reference continues the prompt
}

// proxied is a name that the tests take from the candidate.
type proxied struct{ name, kind string }

func (p plan) has(name string) bool {
	for _, n := range p.names {
		if n.name == name {
			return true
		}
	}
	return false
}

// objects says what the tests may do with objects of the candidate's.
func (p plan) objects() string {
	switch {
	case p.operators:
		return "operators"
	case p.handles:
		return "handles"
	}
	return ""
}

// with adds to a plan what the row says itself.
func (p plan) with(r row) plan {
	p.operators = r.operators
	p.handles = p.handles || r.operators
	return p
}

// values encodes the names for the oracle.
func (p plan) values() value {
	out := value{kind: kindList}
	for _, n := range p.names {
		out.items = append(out.items, tupleValue(stringValue(n.name), stringValue(n.kind)))
	}
	return out
}

// errBroken says that the row's tests cannot be used.
var errBroken = errors.New("the row's tests do not parse")

// planKey names what an analysis depends on.
type planKey [sha256.Size]byte

func (r row) key() planKey {
	return sha256.Sum256(tupleValue(r.material()...).appendTo(nil))
}

// material is what the oracle analyses.
func (r row) material() []value {
	entry := value{kind: kindList}
	for _, n := range r.entry {
		entry.items = append(entry.items, stringValue(n))
	}
	reference := value{kind: kindNone}
	if r.reference != nil {
		reference = stringValue(*r.reference)
	}
	return []value{stringValue(r.prompt), stringValue(r.tests), reference, entry}
}

// analyse asks a child of the oracle which names are proxied, and how.
func (o *oracle) analyse(ctx context.Context, r row) (plan, error) {
	if err := o.begin(ctx, "analyse", r.material()...); err != nil {
		return plan{}, err
	}
	out, found := plan{}, errBroken
	for {
		op, parts, d, err := o.next(ctx)
		if err != nil {
			return plan{}, fmt.Errorf("analysing the row: %w", err)
		}
		switch op {
		case "plan":
			if out, err = readPlan(parts, d); err != nil {
				return plan{}, fmt.Errorf("reading the row's analysis: %w", err)
			}
			found = nil
		case "done":
			if _, err := o.finish(d, 0); err != nil {
				return plan{}, err
			}
			return out, found
		}
	}
}

func readPlan(parts int, d *decoder) (plan, error) {
	if parts != 4 {
		d.fail("a plan has four parts")
	}
	names := d.value(1)
	p := plan{handles: d.bool(), promptRuns: d.bool()}
	p.continues = d.str() == "continues"
	for _, n := range names.items {
		if n.kind != kindTuple || len(n.items) != 2 {
			d.fail("a name and its kind are expected")
			break
		}
		p.names = append(p.names, proxied{string(n.items[0].atom), string(n.items[1].atom)})
	}
	return p, d.end()
}
