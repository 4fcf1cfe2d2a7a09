package codecompletion

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"securebench/internal/family"
	"securebench/internal/sandbox"
)

// weakEngine runs the oracle with proxies that answer for the candidate.
type weakEngine struct {
	*localEngine
	proxies string
}

func newWeakEngine(t *testing.T) *weakEngine {
	t.Helper()
	proxies, err := os.ReadFile("testdata/weak_proxies.py")
	if err != nil {
		t.Fatal(err)
	}
	return &weakEngine{newLocalEngine(t), string(proxies)}
}

func (e *weakEngine) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	spec.Command = slices.Clone(spec.Command)
	for i, arg := range spec.Command {
		spec.Command[i] = strings.Replace(arg, proxiesSource, e.proxies, 1)
	}
	return e.localEngine.Open(ctx, spec)
}

// vacuous is a test that a wrong class passes where the oracle answers for the
// candidate's objects.
type vacuous struct {
	name, tests string
	wrong       string // a class that passes before
	right       string // a class that passes in one process
	operation   string // that the message names
	askable     bool   // right passes and wrong fails with tests.operators
}

// point is a class that does what the tests want; flat one that does not.
const (
	point = `
class P:
    def __init__(self, x=0, y=0): self.x, self.y = x, y
    def __eq__(self, o): return isinstance(o, P) and (self.x, self.y) == (o.x, o.y)
    def __hash__(self): return hash((self.x, self.y))
    def __add__(self, o): return P(self.x + o.x, self.y + o.y)
    def __lt__(self, o): return self.x < o.x
    def __len__(self): return 2
    def __bool__(self): return bool(self.x or self.y)
    def __iter__(self): return iter((self.x, self.y))
    def __repr__(self): return 'P(%r, %r)' % (self.x, self.y)
    def me(self): return self
def make(x, y=0): return P(x, y)
`
	flat = `
class P:
    def __init__(self, x=0, y=0): self.x, self.y = x, y
    def __eq__(self, o): return True
    def __hash__(self): return 0
    def me(self): return self
def make(x, y=0): return P(x, y)
`
)

func vacuousTests() []vacuous {
	return []vacuous{
		{"unequal objects", "assert P(1).x == 1\nassert P(1) != P(2)\n", flat, point, "!=", true},
		{"not equal objects", "assert P(1).x == 1\nassert not P(1) == P(2)\n", flat, point, "==", true},
		{"unequal to a number", "assert P(3).x == 3\nassert P(3) != 3\n", "class P:\n    def __init__(self, x):\n        self.x = x\n    def __ne__(self, o): return self.x != o\n", point, "!=", false},
		{"unequal results", "assert make(1) != make(2)\nassert P(1).x == 1\n", flat, point, "!=", true},
		{"not in a list", "assert P(1).x == 1\nassert P(1) not in [P(2), P(3)]\n", flat, point, "==", true},
		{"unhashable", "assert P(1).x == 1\ntry:\n    hash(P(1))\nexcept TypeError:\n    pass\nelse:\n    raise AssertionError\n", flat, "class P:\n    __hash__ = None\n    def __init__(self, x): self.x = x\n", "hash", true},
		{"no addition of numbers", "assert P(1).x == 1\ntry:\n    P(1) + 3\nexcept TypeError:\n    pass\nelse:\n    raise AssertionError\n",
			"class P:\n    def __init__(self, x): self.x = x\n    def __add__(self, o): return 0\n", "class P:\n    def __init__(self, x): self.x = x\n", "+", true},
		{"no reflected addition", "assert P(1).x == 1\ntry:\n    3 + P(1)\nexcept TypeError:\n    pass\nelse:\n    raise AssertionError\n",
			"class P:\n    def __init__(self, x): self.x = x\n    def __radd__(self, o): return 0\n", "class P:\n    def __init__(self, x): self.x = x\n", "+", true},
		{"not iterable", "assert P(1).x == 1\ntry:\n    for i in P(1): pass\n    raise AssertionError\nexcept TypeError:\n    pass\n",
			point, "class P:\n    def __init__(self, x): self.x = x\n", "iter", true},
		{"not called", "assert P(1).x == 1\ntry:\n    P(1)()\n    raise AssertionError\nexcept TypeError:\n    pass\n",
			"class P:\n    def __init__(self, x): self.x = x\n    def __call__(self): pass\n", "class P:\n    def __init__(self, x): self.x = x\n", "()", true},
		{"no order", "assert P(1).x == 1\ntry:\n    sorted([P(2), P(1)])\n    raise AssertionError\nexcept TypeError:\n    pass\n",
			point, "class P:\n    def __init__(self, x): self.x = x\n", "<", true},
		{"no private name", "assert P(1).x == 1\nassert not hasattr(P(1), '_x')\n", "class P:\n    def __init__(self, x): self.x = self._x = x\n", point, "a private name", false},
		{"no __dict__", "assert P(1).x == 1\nassert not hasattr(P(1), '__dict__')\n", point, "class P:\n    __slots__ = 'x'\n    def __init__(self, x): self.x = x\n", "vars", false},
		{"no attribute is deleted", "p = P(1)\ntry:\n    del p.x\n    raise SystemExit\nexcept AttributeError:\n    pass\nassert p.x == 1\n", point,
			"class P:\n    def __init__(self, x): self._x = x\n    x = property(lambda self: self._x)\n", "del attribute", false},
		{"not an instance of a builtin", "assert P(1).x == 1\nassert not isinstance(P(1), int)\n", "class P(int):\n    def __init__(self, x): self.x = x\n", point, "isinstance", false},
		{"not copied", "import copy\np = P(1)\ntry:\n    copy.copy(p)\n    raise SystemExit\nexcept Exception:\n    pass\nassert p.x == 1\n", flat,
			"class P:\n    def __init__(self, x): self.x = x\n    def __copy__(self): raise TypeError\n", "type", false},
		{"text of its own", "assert P(1).x == 1\nassert 'P object at' not in str(P(1)) and repr(P(1)) != '' and f'{P(1)}' != ''\n", flat, point, "str", true},
		{"a method is unlike another", "p, q = P(1), P(2)\nassert p.me != q.me and p.x == 1\n", flat, point, "!= of a method", false},
		{"a docstring", "assert P.__doc__ and P(1).x == 1\n", flat, "class P:\n    'A point.'\n    def __init__(self, x): self.x = x\n", "a private name", false},
		{"a class that is there", "assert P\nassert make(1) is not None\n", "def make(x): return 1\n", point, "bool of a class", false},
		{"of one type", "assert type(make(1)) is type(P(1))\nassert P(1).x == 1\n", flat + "class Q(P): pass\ndef make(x): return Q(x)\n", point, "type", false},
		{"of one type, by map", "assert len(set(map(type, [make(1), P(1)]))) == 1\nassert P(1).x == 1\n", flat + "class Q(P): pass\ndef make(x): return Q(x)\n", point, "type", false},
		{"not callable", "assert P(1).x == 1\nassert not callable(P(1))\n", "class P:\n    def __init__(self, x): self.x = x\n    def __call__(self): pass\n", point, "callable", false},
		{"no sequence pattern", "assert P(1).x == 1\nmatch P(1):\n    case [a, b]: raise AssertionError\n", "class P(list):\n    def __init__(self, x):\n        super().__init__((1, 2))\n        self.x = x\n", point, "match", false},
		{"no attributes of functions", "assert make(1).x == 1\nassert not hasattr(make, 'cache')\n", flat + "make.cache = {}\n", point, "attribute of a function", false},
		{"no sorting in the code", "assert make(1).x == 1\nassert 'sorted' not in make.__code__.co_names\n", flat + "def make(x): return sorted([P(x)], key=id)[0]\n", point, "attribute of a function", false},
	}
}

// TestVacuousAssertions: what the oracle cannot ask fails the row by name, for
// the reference too, so that the author learns of it; it is no error that a
// test may expect and no answer of Python's about the proxy.
func TestVacuousAssertions(t *testing.T) {
	weak := newTestVerifier(t, newWeakEngine(t))
	v := newTestVerifier(t, newLocalEngine(t))
	for _, tc := range vacuousTests() {
		t.Run(tc.name, func(t *testing.T) {
			s := spec{prompt: "Write it.", tests: tc.tests, reference: tc.right + "\n"}
			if strings.Contains(tc.tests, "make(") {
				s.entry = []string{"P", "make"}
				s.reference = point
			}
			if got := verify(t, weak, makeCase(t, s), tc.wrong); got.Outcome != family.Passed {
				t.Errorf("the weak oracle: %s", describe(got))
			}
			for who, candidate := range map[string]string{"wrong": tc.wrong, "right": tc.right} {
				got := verify(t, v, makeCase(t, s), candidate)
				named := strings.Contains(got.Message, " use "+tc.operation+" ") || strings.Contains(got.Message, " use "+tc.operation+",")
				if got.Reason != family.UnsupportedOperation || !named {
					t.Errorf("%s: %s; want %q to be named", who, describe(got), tc.operation)
				}
			}
			s.operators = true
			if got := verify(t, v, makeCase(t, s), tc.wrong); got.Score() != 0 {
				t.Errorf("wrong, with operators: %s", describe(got))
			}
			got := verify(t, v, makeCase(t, s), tc.right)
			if (got.Outcome == family.Passed) != tc.askable || !tc.askable && got.Reason != family.UnsupportedOperation {
				t.Errorf("right, with operators: %s", describe(got))
			}
		})
	}
}
