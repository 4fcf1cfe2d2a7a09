package compile

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"securebench/internal/family"
	"securebench/internal/source"
	"securebench/internal/task"
)

// minLeak is the minimum length in bytes of a hidden text that causes a
// warning if it also occurs in a public one; shorter texts often do by chance.
const minLeak = 16

// maxLeaks bounds the hidden texts of a row that are searched for: the cost is
// their number times the size of the public lane.
const maxLeaks = 256

// leaks warns about hidden texts that also occur in the public lane, where the
// agent can read them. Choices are not searched: the answer is one of them. Nor is what
// the family says its hidden values quote.
func (k *checker) leaks(f family.Family) {
	looked := 0
	for _, e := range k.row.Eval.Fields {
		if f.Lanes[e.Name] != task.Hidden || slices.Contains(f.Quotes, e.Name) {
			continue
		}
		for hidden := range texts(e.Value) {
			want := strings.TrimSpace(hidden.Text)
			if len(want) < minLeak {
				continue
			}
			if looked++; looked > maxLeaks {
				return
			}
			if where := k.publicPlace(want); where != "" {
				k.warnings.Add(hidden.Pos, "remove it from the public values, or ignore this warning if it gives nothing away",
					"%s.eval.%s contains a text that also occurs in %s", k.context, e.Name, where)
			}
		}
	}
}

// publicPlace names the first public value that contains s, or "". Ids and
// asset names are included: they appear in folder names.
func (k *checker) publicPlace(s string) string {
	for _, f := range k.row.Input.Fields {
		if f.Name == "choices" {
			continue
		}
		for n := range texts(f.Value) {
			if strings.Contains(n.Text, s) {
				return "input." + f.Name
			}
		}
	}
	if env := k.row.Environment.Get("env"); env != nil {
		for n := range texts(env) {
			if strings.Contains(n.Text, s) {
				return "environment.env"
			}
		}
	}
	for i, a := range k.row.Assets {
		if strings.Contains(a.Path, s) || strings.Contains(a.Mount, s) {
			return fmt.Sprintf("assets[%d]", i)
		}
	}
	if strings.Contains(k.row.ID, s) {
		return "the id"
	}
	return ""
}

// texts yields every string value inside n.
func texts(n *source.Node) iter.Seq[*source.Node] {
	return func(yield func(*source.Node) bool) { eachText(n, yield) }
}

func eachText(n *source.Node, yield func(*source.Node) bool) bool {
	if n.Kind == source.String {
		return yield(n)
	}
	for _, it := range n.Items {
		if !eachText(it, yield) {
			return false
		}
	}
	for _, f := range n.Fields {
		if !eachText(f.Value, yield) {
			return false
		}
	}
	return true
}
