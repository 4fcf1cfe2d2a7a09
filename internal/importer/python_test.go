package importer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHeaders(t *testing.T) {
	tests := []struct {
		name, code, tests string
		want              []string
	}{
		{"function", "def f(a, b):\n    return a", "assert f(1, 2)", []string{"def f(a, b)"}},
		{"space before the colon", "def f (a) :  \n  pass", "f(1)", []string{"def f (a)"}},
		{"helper is not named", "def g():\n  pass\ndef f():\n  return g()", "assert f()", []string{"def f()"}},
		{
			"annotations and defaults", "def f(a: int = {1: 2}[1], b=':') -> dict[str, int]:\n  pass", "f()",
			[]string{"def f(a: int = {1: 2}[1], b=':') -> dict[str, int]"},
		},
		{"over two lines", "def f(a,\n      b):\n  pass", "f(1,2)", []string{"def f(a, b)"}},
		{"inner functions don't count", "def f():\n  def g():\n    pass\n", "g(f())", []string{"def f()"}},
		{
			"class", "class N:\n\tdef __init__(self, data):\n\t\tself.data = data\ndef f(n): pass", "f(N(1))",
			[]string{"class N: def __init__(self, data)", "def f(n)"},
		},
		{"class without constructor", "class N(object):\n  x = 1\nclass M:\n  def __init__(self): pass", "N()", []string{"class N(object)"}},
		{"assignment", "f = lambda x: x\n", "f(1)", []string{"f"}},
		{"comparison is not an assignment", "f == 1\n", "f(1)", []string{}},
		{"async", "async def f(): pass", "f()", []string{"async def f()"}},
		{"last definition counts", "def f(a): pass\ndef f(a, b): pass", "f()", []string{"def f(a, b)"}},
		{"names in strings and comments", "def f(): pass\ndef g(): pass", `assert g() == "f" # f` + "\n'''\nf '''", []string{"def g()"}},
		{"code in a docstring", "def g():\n  '''\ndef f(): pass\n'''\n", "f(g())", []string{"def g()"}},
		{"prefixed strings", "def f(): pass\ndef rb(): pass", `rb(), r"f", Rb'f'`, []string{"def rb()"}},
		{"escapes in strings", "def f(): pass\ndef g(): pass", `g('\'f')`, []string{"def g()"}},
		{"open string ends with its line", "def f(): pass", "'f\nf()", []string{"def f()"}},
		{"name is cut off", "def", "def", []string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, headersOf(tt.code, tt.tests)); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzHeaders(f *testing.F) {
	f.Add("def f(a, b):\n  return 1", "assert f(1, 2) == 1")
	f.Add("class C:\n  def __init__(self, x='\\''):\n    pass", "C()")
	f.Fuzz(func(t *testing.T, code, tests string) {
		for _, h := range headersOf(code, tests) {
			if h == "" || strings.ContainsAny(h, "\n") {
				t.Errorf("header %q of %q", h, code)
			}
		}
	})
}

func TestNeedsOperators(t *testing.T) {
	const node = "class Node:\n    def __init__(self, x):\n        self.x = x\n"
	tests := map[string]struct {
		code, tests string
		want        bool
	}{
		"a class that only makes objects":      {node, "assert Node(1).x == 1", false},
		"a class that compares":                {node + "    def __eq__(self, o):\n        return self.x == o.x\n", "assert Node(1) == Node(1)", true},
		"a class that the tests don't use":     {node + "    def __lt__(self, o):\n        return 1\ndef f(): pass\n", "assert f()", false},
		"a special method of another class":    {node + "class Other:\n    def __len__(self): return 1\n", "assert Node(1).x == 1", false},
		"a special name in a string":           {"class A:\n    '''def __len__'''\n", "A()", false},
		"a public name that looks like one":    {"class A:\n    def __len(self): pass\n", "A()", false},
		"a function that is called like a way": {"def __len__(x): pass\n", "__len__(1)", false},
		"nothing":                              {"", "", false},
	}
	for name, tc := range tests {
		if got := needsOperators(tc.code, tc.tests); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
