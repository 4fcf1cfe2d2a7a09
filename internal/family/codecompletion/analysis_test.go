package codecompletion

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/verdict"
)

// analysisOfRow analyses a row.
func analysisOfRow(t *testing.T, v *Verifier, s spec) (analysis, error) {
	t.Helper()
	c := makeCase(t, s)
	r, err := readRow(c)
	if err != nil {
		t.Fatal(err)
	}
	o, err := v.leaseTestBox(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	p, err := v.analysisOf(t.Context(), o, r)
	if backErr := v.releaseTestBox(context.Background(), c, o); backErr != nil {
		t.Error(backErr)
	}
	return p, err
}

func TestNames(t *testing.T) {
	tests := map[string]struct {
		spec
		want    string // name:kind, in order
		handles bool
	}{
		"entry point alone, helpers stay the prompt's": {spec{entry: "f", tests: "assert f(helper(1)) == 1",
			prompt: "def helper(x):\n    return x\ndef f(x):\n    '''doc'''\n", reference: "def helper(x): return x\ndef f(x): return x\n"}, "f:function", false},
		"entry points": {spec{entry: []string{"g", "f"}, tests: "assert f(g(1))"}, "f:function g:function", false},
		"free names that the reference defines": {spec{tests: "import math\nassert f(math.floor(x))\ny = g(1)\n",
			reference: "import math\ndef f(a): pass\ndef g(a): pass\ndef other(): pass\n"}, "f:function g:function", false},
		"less the prompt's own functions": {spec{tests: "assert f(helper(1))", prompt: "def helper(x):\n    return x + 1\ndef f(x):\n    pass\n",
			reference: "def helper(x): return x + 1\ndef f(x): return x\n"}, "f:function", false},
		"a repair task":                        {spec{tests: "assert f(1)", prompt: "def f(x):\n    return x - 1\n", reference: "def f(x): return x\n"}, "f:function", false},
		"a builtin that the reference shadows": {spec{tests: "assert sum([1]) == len([1])", reference: "def sum(x): return 1\n"}, "sum:function", false},
		"names bound by the tests are theirs": {spec{tests: "def g(): return 1\nfor i in [1]: assert f(i) == g()\n",
			reference: "i = 3\ndef g(): pass\ndef f(x): pass\n"}, "f:function", false},
		"names inside functions of the tests": {spec{tests: "def check():\n    local = 1\n    assert f(local)\ncheck()\n",
			reference: "local = 2\ndef f(x): pass\n"}, "f:function", false},
		"a constant":           {spec{tests: "assert f(LIMIT) == LIMIT", reference: "LIMIT, OTHER = 3, 4\ndef f(x): return x\n"}, "LIMIT:value f:function", false},
		"an assigned function": {spec{tests: "assert f(1) and g(1)", reference: "import functools\nf = lambda x: x\ng = functools.partial(f)\n"}, "f:function g:function", false},
		"a class":              {spec{tests: "assert Node(1).x == 1", reference: "class Node: pass\n"}, "Node:class", true},
		"an object returned":   {spec{tests: "r = f(1)\nassert r.value == 1", reference: "def f(x): pass\n"}, "f:function", true},
		"an object through a parameter": {spec{tests: "def check(candidate):\n    r = candidate(1)\n    assert r.value == 1\ncheck(f)\n",
			reference: "def f(x): pass\n"}, "f:function", true},
		"methods of plain values are no objects": {spec{tests: "r = f(1)\nassert r.strip().upper() == f(2).lower()", reference: "def f(x): pass\n"}, "f:function", false},
		"defined in a block":                     {spec{tests: "assert f(1)", reference: "try:\n    import x\nexcept ImportError:\n    def f(x): pass\n"}, "f:function", false},
		"a reference that continues the prompt":  {spec{tests: "assert f(1)", prompt: "def f(x):\n    '''doc'''\n", reference: "    return x\n"}, "f:function", false},
		"no reference: stubs that the tests name": {spec{tests: "assert f(g(1)) and h",
			prompt: "def f(x):\n    raise NotImplementedError()\ndef g(x):\n    import os\n    ...\ndef k(x): return x\n"}, "f:function g:function", false},
		"no reference: unknown names":    {spec{tests: "import os\nassert f(len([1]), __name__)", prompt: "Write f, please."}, "f:function", false},
		"no reference: prompt functions": {spec{tests: "assert f(1)", prompt: "def f(x):\n    return x - 1\n"}, "f:function", false},
		"objects in a list":              {spec{tests: "assert [n.val for n in f()] == [1]", reference: "def f(): pass\n"}, "f:function", true},
		"objects of a held list":         {spec{tests: "r = f()\nfor i, n in enumerate(r):\n    assert n.val == i", reference: "def f(): pass\n"}, "f:function", true},
		"one of two objects":             {spec{tests: "a, b = f()\nassert b.val == 1", reference: "def f(): pass\n"}, "f:function", true},
		"objects in a dictionary":        {spec{tests: "assert [n.val for k, n in f().Items()] == [1]", reference: "def f(): pass\n"}, "f:function", true},
		"a member":                       {spec{tests: "assert f()[0].val == 1", reference: "def f(): pass\n"}, "f:function", true},
		"plain data in a list":           {spec{tests: "import math\nassert [math.floor(n.real) for n in f()] == [1]", reference: "def f(): pass\n"}, "f:function", false},
		"a stub class":                   {spec{tests: "assert S().get() == 1", prompt: "class S:\n    '''doc'''\n    def get(self):\n        pass\n"}, "S:class", true},
	}
	v := newTestVerifier(t, newLocalEngine(t))
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := analysisOfRow(t, v, tc.spec)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, n := range p.names {
				got = append(got, n.name+":"+n.kind)
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" || p.handles != tc.handles {
				t.Errorf("handles %v, names (-want +got):\n%s", p.handles, diff)
			}
		})
	}
}

func TestTestsThatDoNotParse(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	s := add()
	for _, tests := range []string{"assert (", "x = '\x00'", strings.Repeat("(", 100_000)} {
		s.tests = tests
		if got := verify(t, v, makeCase(t, s), s.reference); got.Outcome != verdict.Pending || got.Reason != verdict.PackFault {
			t.Errorf("%.20q: %s", tests, describe(got))
		}
	}
	if got := verify(t, v, makeCase(t, add()), add().reference); got.Outcome != verdict.Passed {
		t.Errorf("the next row: %s", describe(got))
	}
}

func TestPendingRows(t *testing.T) {
	v := newTestVerifier(t, deadEngine{})
	for name, s := range map[string]spec{
		"unknown source":   {source: "secret-name"},
		"another language": {tests: "x", language: "go"},
		"bad entry point":  {tests: "x", entry: 3},
	} {
		got := verify(t, v, makeCase(t, s), "x")
		if got.Outcome != verdict.Pending || got.Reason != verdict.NoVerifier || got.Score() != 0 || strings.Contains(got.Message, "secret") {
			t.Errorf("%s: %s", name, describe(got))
		}
	}
}

// TestReferenceIsCompleted: a reference that continues the prompt is put behind
// it; every candidate is a whole module as given.
func TestReferenceIsCompleted(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	s := spec{prompt: "def f(x):\n    '''Doubles x.'''\n", reference: "    return 2 * x\n", tests: "assert f(2) == 4\n", entry: "f"}
	c := makeCase(t, s)
	whole, ok, err := v.Complete(t.Context(), c)
	if err != nil || !ok || content(t, whole) != s.prompt+s.reference {
		t.Errorf("completed to %q, %v, %v", content(t, whole), ok, err)
	}
	for candidate, want := range map[string]verdict.Outcome{
		content(t, whole):       verdict.Passed,
		s.reference:             verdict.Failed, // a body alone is no module, also when it is the reference's
		"    return x + x\n":    verdict.Failed,
		s.prompt:                verdict.Failed,
		s.prompt + "    return": verdict.Failed,
	} {
		if got := verify(t, v, c, candidate); got.Outcome != want {
			t.Errorf("%q: %s", candidate, describe(got))
		}
	}
	s.reference = "def f(x): return 2 * x\n"
	if whole, ok, err := v.Complete(t.Context(), makeCase(t, s)); err != nil || !ok || content(t, whole) != s.reference {
		t.Errorf("a whole reference became %q, %v, %v", content(t, whole), ok, err)
	}
	s.reference = ""
	if _, ok, err := v.Complete(t.Context(), makeCase(t, s)); ok || err != nil {
		t.Errorf("no reference gave %v, %v", ok, err)
	}
}
