package analysis

import (
	"slices"
	"testing"

	"securebench/internal/value"
)

// TestLines: lines of the row's texts are named and shown, and securebench's own
// frames are not.
func TestLines(t *testing.T) {
	row := Texts{Tests: "assert f(1) == 2\n\nassert f(2) == 5\n", Reference: "def f(x):\n    return 2 *\n", Solution: "eval.canonical_solution"}
	for _, c := range []struct {
		found       []Finding
		trace, fail string
		want        []string
	}{
		{trace: "Traceback (most recent call last):\n  File \"<string>\", line 9, in run\n  File \"tests.py\", line 3, in <module>\n    assert\nAssertionError: no\nmore\n",
			want: []string{"eval.tests.code line 3: assert f(2) == 5", "AssertionError: no", "more"}},
		{trace: "  File \"tests.py\", line 99, in <module>\nCandidateError\n",
			want: []string{"eval.tests.code", "the reference does not define what is called here, or raised an exception of its own"}},
		{found: []Finding{{"reference", 2, "SyntaxError: invalid syntax"}}, fail: "SyntaxError: x",
			want: []string{"eval.canonical_solution line 2: return 2 *", "SyntaxError: invalid syntax"}},
		{found: []Finding{{"entry", 0, "no g"}, {"tests", 1, "nothing defines g"}},
			want: []string{"eval.tests.entry_point: no g", "eval.tests.code line 1: assert f(1) == 2", "nothing defines g"}},
		{fail: "NameError: g", want: []string{"eval.canonical_solution: NameError: g"}},
	} {
		if got := row.Lines(c.found, c.trace, c.fail); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c, got, c.want)
		}
	}
}

// TestFindings: an answer of another form is an error.
func TestFindings(t *testing.T) {
	list := func(items ...value.Value) value.Value { return value.Value{Kind: value.KindList, Items: items} }
	good := value.Tuple(value.Text("tests"), value.Int(12), value.Text("x"))
	for _, c := range []struct {
		answer value.Value
		parts  int
		ok     bool
	}{
		{list(good), 1, true},
		{list(good), 2, false},
		{list(value.Text("x")), 1, false},
		{list(value.Tuple(value.Text("tests"), value.Text("x"), value.Text("x"))), 1, false},
		{list(value.Tuple(value.Text("tests"), value.Int(1))), 1, false},
	} {
		got, err := readFindings(c.parts, value.NewDecoder(c.answer.Append(nil)))
		if (err == nil) != c.ok || c.ok && (len(got) != 1 || got[0] != Finding{"tests", 12, "x"}) {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
}
