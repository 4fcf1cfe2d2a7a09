package codecompletion

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family"
	"securebench/internal/family/codecompletion/forms"
	"securebench/internal/family/codecompletion/programs"
	"securebench/internal/value"
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

// readRow takes a row from the lanes that this zone may see. A [family.Failure] says
// that no verifier exists for such a row.
func readRow(c family.Case) (row, error) {
	prompt, _ := c.Sandbox.Get("prompt")
	tests, ok := c.Sandbox.Get("tests")
	var t testsObject
	if !ok || json.Unmarshal(tests.Value, &t) != nil {
		return row{}, family.Fail(verdict.NoVerifier, "the row's tests are not of a known form")
	}
	if t.Source != forms.Inline {
		return row{}, family.Fail(verdict.NoVerifier, "tests.source of this kind has no verifier")
	}
	if language, ok := c.Sandbox.Get("language"); ok {
		if name, _ := language.Text(); name != programs.Python {
			return row{}, family.Fail(verdict.NoVerifier, "inline tests of languages other than python have no verifier")
		}
	}
	out := row{tests: t.Code, mutates: t.Mutates, operators: t.Operators, reference: readReference(c)}
	out.prompt, _ = prompt.Text()
	var err error
	out.entry, err = readEntry(t.EntryPoint)
	return out, err
}

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
	return nil, family.Fail(verdict.NoVerifier, "tests.entry_point is not a name or a list of names")
}

// readReference returns the row's own solution. It goes to the test box for
// analysis, which executes nothing, and never to a process that runs tests.
func readReference(c family.Case) *string {
	if r, ok := c.Evaluator.Get(referenceField(c)); ok {
		s, _ := r.Text()
		return &s
	}
	return nil
}

// referenceField is the field that holds the row's own solution, or "".
func referenceField(c family.Case) string {
	for _, name := range []string{"reference_solution", "canonical_solution"} {
		if r, ok := c.Evaluator.Get(name); ok {
			if s, ok := r.Text(); ok && strings.TrimSpace(s) != "" {
				return name
			}
		}
	}
	return ""
}

// analysis is what the analysis of a row has found: row data, the same for
// every candidate.
type analysis struct {
	names      []proxied
	handles    bool // the tests use objects of the candidate's types
	operators  bool // and what special methods answer
	promptRuns bool // the prompt is a module
	continues  bool // the reference continues the prompt
}

// proxied is a name that the tests take from the candidate.
type proxied struct{ name, kind string }

func (a analysis) has(name string) bool {
	for _, n := range a.names {
		if n.name == name {
			return true
		}
	}
	return false
}

// objects says what the tests may do with objects of the candidate's.
func (a analysis) objects() string {
	switch {
	case a.operators:
		return "operators"
	case a.handles:
		return "handles"
	}
	return ""
}

// with adds what the row itself declares.
func (a analysis) with(r row) analysis {
	a.operators = r.operators
	a.handles = a.handles || r.operators
	return a
}

// values encodes the names and kinds for the tests.
func (a analysis) values() value.Value {
	out := value.Value{Kind: value.KindList}
	for _, n := range a.names {
		out.Items = append(out.Items, value.Tuple(value.Text(n.name), value.Text(n.kind)))
	}
	return out
}

// errBroken says that the row's tests cannot be used.
var errBroken = errors.New("the row's tests do not parse")

// analysisKey names what an analysis depends on.
type analysisKey [sha256.Size]byte

func (r row) key() analysisKey {
	return sha256.Sum256(value.Tuple(r.material()...).Append(nil))
}

// material is what is analysed.
func (r row) material() []value.Value {
	entry := value.Value{Kind: value.KindList}
	for _, n := range r.entry {
		entry.Items = append(entry.Items, value.Text(n))
	}
	reference := value.Value{Kind: value.KindNone}
	if r.reference != nil {
		reference = value.Text(*r.reference)
	}
	return []value.Value{value.Text(r.prompt), value.Text(r.tests), reference, entry}
}

// analyse asks a child of the test box which names are proxied, and how.
func (b *testBox) analyse(ctx context.Context, r row) (out analysis, err error) {
	found, err := b.ask(ctx, "analyse", "analysis", r, func(parts int, d *value.Decoder) (err error) {
		out, err = readAnalysis(parts, d)
		return err
	})
	if err == nil && !found {
		err = errBroken
	}
	return out, err
}

// ask has a child of the test box look at a row, which executes nothing, and
// reports whether it gave the answer.
func (b *testBox) ask(ctx context.Context, request, answer string, r row, read func(parts int, d *value.Decoder) error) (found bool, err error) {
	if err := b.begin(ctx, request, r.material()...); err != nil {
		return false, err
	}
	for {
		op, parts, d, err := b.next(ctx)
		if err != nil {
			return false, fmt.Errorf("looking at the row: %w", err)
		}
		switch op {
		case answer:
			if err := read(parts, d); err != nil {
				return false, fmt.Errorf("reading what is in the row: %w", err)
			}
			found = true
		case "done":
			_, err := b.finish(d, 0)
			return found, err
		}
	}
}

func readAnalysis(parts int, d *value.Decoder) (analysis, error) {
	if parts != 4 {
		d.Fail("an analysis has four parts")
	}
	names := d.Value()
	a := analysis{handles: d.Bool(), promptRuns: d.Bool()}
	a.continues = d.Text() == "continues"
	for _, n := range names.Items {
		if n.Kind != value.KindTuple || len(n.Items) != 2 {
			d.Fail("a name and its kind are expected")
			break
		}
		a.names = append(a.names, proxied{string(n.Items[0].Atom), string(n.Items[1].Atom)})
	}
	return a, d.End()
}
