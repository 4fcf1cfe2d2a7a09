// Package analysis finds out which names of a row's tests are the candidate's, and
// how the tests use them. It also tells the author of a row why its own solution does
// not pass.
//
// That takes the row's reference, so it happens in a sandbox of its own, which
// parses texts and runs nothing of them: no sandbox in which a candidate or tests
// run ever holds a reference.
package analysis

import (
	"crypto/sha256"
	"errors"

	"securebench/internal/value"
)

// ErrBroken says that the row's tests do not parse.
var ErrBroken = errors.New("the row's tests do not parse")

// Row is what is analysed.
type Row struct {
	Prompt, Tests string
	Reference     *string  // nil where the row has none
	Entry         []string // the names that the row says are the candidate's
}

// Analysis is what the analysis of a row has found: row data, the same for every
// candidate.
type Analysis struct {
	Names      []Name
	Handles    bool // the tests use objects of the candidate's types
	PromptRuns bool // the prompt is a module
	Continues  bool // the reference continues the prompt
}

// Name is a name that the tests take from the candidate.
type Name struct {
	Name string
	Kind string // function, class or value
}

// Has reports whether a name is the candidate's.
func (a Analysis) Has(name string) bool {
	for _, n := range a.Names {
		if n.Name == name {
			return true
		}
	}
	return false
}

// List encodes only the names.
func (a Analysis) List() value.Value {
	out := value.Value{Kind: value.KindList}
	for _, n := range a.Names {
		out.Items = append(out.Items, value.Text(n.Name))
	}
	return out
}

// Kinds encodes the names with their kinds.
func (a Analysis) Kinds() value.Value {
	out := value.Value{Kind: value.KindList}
	for _, n := range a.Names {
		out.Items = append(out.Items, value.Tuple(value.Text(n.Name), value.Text(n.Kind)))
	}
	return out
}

// encode encodes the row as the sandbox reads it.
func (r Row) encode() value.Value {
	entry := value.Value{Kind: value.KindList}
	for _, n := range r.Entry {
		entry.Items = append(entry.Items, value.Text(n))
	}
	reference := value.Value{Kind: value.KindNone}
	if r.Reference != nil {
		reference = value.Text(*r.Reference)
	}
	return value.Tuple(value.Text(r.Prompt), value.Text(r.Tests), reference, entry)
}

// key names what the analysis of a row depends on.
type key [sha256.Size]byte

// keyOf is the key of a row in an image, whose Python decides what parses.
func keyOf(image string, r Row) key {
	return sha256.Sum256(value.Tuple(value.Text(image), r.encode()).Append(nil))
}

// readAnalysis reads what analyse answers.
func readAnalysis(parts int, d *value.Decoder) (Analysis, error) {
	if parts != 4 {
		d.Fail("an analysis has four parts")
	}
	names := d.Value()
	a := Analysis{Handles: d.Bool(), PromptRuns: d.Bool()}
	a.Continues = d.Text() == "continues"
	for _, n := range names.Items {
		if n.Kind != value.KindTuple || len(n.Items) != 2 {
			d.Fail("a name and its kind are expected")
			break
		}
		a.Names = append(a.Names, Name{string(n.Items[0].Atom), string(n.Items[1].Atom)})
	}
	return a, d.End()
}
