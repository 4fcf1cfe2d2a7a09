package codecompletion

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"securebench/internal/family"
	"securebench/internal/sandbox"
	"securebench/internal/verdict"
)

// weakEngine runs the test box with proxies that answer for the candidate.
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
	if spec.Labels.Role == roleTest {
		spec.Command = slices.Clone(spec.Command)
		p := program(&spec)
		*p = strings.Replace(*p, proxiesSource, e.proxies, 1)
	}
	return e.localEngine.Open(ctx, spec)
}

// vacuous is a test that a wrong class passes where the test box answers for the
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
		{"a method is unlike another", "p, q = P(1), P(2)\nassert p.me != q.me and p.x == 1\n", flat, point, "!= on a method", false},
		{"a docstring", "assert P.__doc__ and P(1).x == 1\n", flat, "class P:\n    'A point.'\n    def __init__(self, x): self.x = x\n", "a private name", false},
		{"a class that is there", "assert P\nassert make(1) is not None\n", "def make(x): return 1\n", point, "bool on a class", false},
		{"of one type", "assert type(make(1)) is type(P(1))\nassert P(1).x == 1\n", flat + "class Q(P): pass\ndef make(x): return Q(x)\n", point, "type", false},
		{"of one type, by map", "assert len(set(map(type, [make(1), P(1)]))) == 1\nassert P(1).x == 1\n", flat + "class Q(P): pass\ndef make(x): return Q(x)\n", point, "type", false},
		{"not callable", "assert P(1).x == 1\nassert not callable(P(1))\n", "class P:\n    def __init__(self, x): self.x = x\n    def __call__(self): pass\n", point, "callable", false},
		{"no sequence pattern", "assert P(1).x == 1\nmatch P(1):\n    case [a, b]: raise AssertionError\n", "class P(list):\n    def __init__(self, x):\n        super().__init__((1, 2))\n        self.x = x\n", point, "match", false},
		{"no attributes of functions", "assert make(1).x == 1\nassert not hasattr(make, 'cache')\n", flat + "make.cache = {}\n", point, "attributes on a function", false},
		{"no sorting in the code", "assert make(1).x == 1\nassert 'sorted' not in make.__code__.co_names\n", flat + "def make(x): return sorted([P(x)], key=id)[0]\n", point, "attributes on a function", false},
	}
}

// TestVacuousAssertions: what the test box cannot ask fails the row by name, for
// the reference too, so that the author learns of it; it is no error that a
// test may expect and no answer of Python's about the proxy.
func TestVacuousAssertions(t *testing.T) {
	t.Parallel()
	weak := newTestVerifier(t, newWeakEngine(t))
	v := newTestVerifier(t, newLocalEngine(t))
	for _, tc := range vacuousTests() {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := spec{prompt: "Write it.", tests: tc.tests, reference: tc.right + "\n"}
			if strings.Contains(tc.tests, "make(") {
				s.entry = []string{"P", "make"}
				s.reference = point
			}
			if got := verify(t, weak, makeCase(t, s), tc.wrong); got.Outcome != verdict.Passed {
				t.Errorf("the weak test box: %s", describe(got))
			}
			for who, candidate := range map[string]string{"wrong": tc.wrong, "right": tc.right} {
				got := verify(t, v, makeCase(t, s), candidate)
				named := strings.Contains(got.Message, " use "+tc.operation+" o")
				if got.Reason != verdict.UnsupportedOperation || !named {
					t.Errorf("%s: %s; want %q to be named", who, describe(got), tc.operation)
				}
			}
			s.operators = true
			if got := verify(t, v, makeCase(t, s), tc.wrong); got.Score() != 0 {
				t.Errorf("wrong, with operators: %s", describe(got))
			}
			got := verify(t, v, makeCase(t, s), tc.right)
			if (got.Outcome == verdict.Passed) != tc.askable || !tc.askable && got.Reason != verdict.UnsupportedOperation {
				t.Errorf("right, with operators: %s", describe(got))
			}
		})
	}
}

// TestOperatorsKeepTheirDistance: with operators too, what a test expects is
// compared here, an assertion that failed stays failed, and answers have their
// exact type.
func TestOperatorsKeepTheirDistance(t *testing.T) {
	t.Parallel()
	const chameleon = `
class B:
    def __init__(self, *a): pass
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __bool__ = lambda *a: True
    __ne__ = lambda *a: False
    __hash__ = __len__ = __index__ = __int__ = lambda self: 5
    def __iter__(self): return iter([5])
    def __enter__(self): return self
    def __exit__(self, *a): return True
    def m(self): return B()
    def fails(self): raise ValueError
    def __next__(self): raise StopIteration
def f(*a): return B()
`
	tests := map[string]verdict.Reason{
		"assert B(1) == 5":                                         verdict.UnsupportedOperation,
		"assert 5 == B(1)":                                         verdict.UnsupportedOperation,
		"assert not B(1) != 5":                                     verdict.UnsupportedOperation,
		"assert B(1) > 4":                                          verdict.UnsupportedOperation,
		"assert 6 > B(1)":                                          verdict.UnsupportedOperation,
		"assert B(1) in [5]":                                       verdict.UnsupportedOperation,
		"assert [B(1)] == [5]":                                     verdict.UnsupportedOperation,
		"assert f(1) == None":                                      verdict.UnsupportedOperation,
		"assert B(1) == B":                                         verdict.UnsupportedOperation,
		"assert {'a': B(1)} == {'a': 5}":                           verdict.UnsupportedOperation,
		"assert B(1).m == B(1).m":                                  verdict.UnsupportedOperation,
		"assert isinstance(B(1), B)":                               verdict.UnsupportedOperation,
		"assert B(1).__eq__(5)":                                    verdict.UnsupportedOperation,
		"with B(1) as b:\n    assert b.m() is b":                   verdict.TestsFailed,
		"with B(1) as b:\n    b.fails()\n    assert False":         verdict.UnsupportedOperation,
		"for x, y in zip(f(1), [5, 6], strict=True): pass":         verdict.TestsFailed,
		"with B(1):\n    raise SystemExit":                         verdict.TestsFailed,
		"try:\n    assert B(1) == 5\nexcept BaseException: 1":      verdict.UnsupportedOperation,
		"try:\n    raise B(1).m\nexcept TypeError: assert 0":       verdict.TestsFailed,
		"import unittest\nunittest.TestCase().assertEqual(f(), 5)": verdict.UnsupportedOperation,
	}
	v := newTestVerifier(t, newLocalEngine(t))
	for tests, want := range tests {
		s := spec{prompt: "Write B.", tests: "B(1)\n" + tests + "\n", reference: "class B: pass\ndef f(): pass\n", operators: true}
		if got := verify(t, v, makeCase(t, s), chameleon); got.Score() != 0 || got.Reason != want {
			t.Errorf("%s: %s", tests, describe(got))
		}
	}
	for name, how := range map[string]string{
		"a length that is none": "__len__'] = lambda x: True", "a text that is none": "__str__'] = lambda x: 5",
		"a hash that is none": "__hash__'] = lambda x: 5.0", "a truth that is none": "__bool__'] = lambda x: 1",
		"an iterator that is none": "__iter__'] = lambda x: [1]",
	} {
		s := spec{prompt: "Write B.", entry: "B", operators: true,
			tests: "b = B()\ntry:\n    len(b), str(b), {b: 1}, bool(b), list(b)\nexcept Exception:\n    pass\n"}
		candidate := insider + "M.OPERATORS['" + how + "\n" + chameleon
		if got := verify(t, v, makeCase(t, s), candidate); got.Reason != verdict.ProtocolViolation {
			t.Errorf("%s: %s", name, describe(got))
		}
		if got := verify(t, v, makeCase(t, s), chameleon); got.Outcome != verdict.Passed {
			t.Errorf("%s: the honest twin: %s", name, describe(got))
		}
	}
}

// TestExpectedValuesStay: a class that logs what it is compared with learns
// nothing that the tests expect.
func TestExpectedValuesStay(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	s := spec{prompt: "Write B.", entry: "B", operators: true, reference: "class B: pass\n",
		tests: "b = B()\nassert b == B()\ntry:\n    with b: assert b.x == 'canary-98', 'not canary-97'\nexcept AssertionError:\n    pass\n" +
			"try:\n    assert b == 'canary-99'\nexcept Exception:\n    pass\n"}
	got := verify(t, v, makeCase(t, s), "class B:\n    x = 1\n    def __enter__(self): pass\n    def __exit__(self, *e): print('seen', *e)\n    def __eq__(self, o):\n        print('seen', type(o).__name__, o)\n        return True\n")
	seen := string(got.Restricted["candidate-output.txt"])
	if got.Score() != 0 || strings.Contains(seen, "canary") || !strings.Contains(seen, "seen B") {
		t.Errorf("%s\nthe candidate printed %q", describe(got), seen)
	}
}

// TestObjectsAndTheirBases: objects of the classes that the tests use are
// objects; all others arrive as their base.
func TestObjectsAndTheirBases(t *testing.T) {
	tests := map[string]struct{ candidate, tests string }{
		"a Counter under the name":      {"from collections import Counter as Stack", "s = Stack('aab')\nassert s.most_common(1) == [('a', 2)] and s['a'] == 2 and len(s) == 2"},
		"a builtin under the name":      {"Stack = list", "s = Stack()\ns.append(1)\nassert s == [1] and len(s) == 1"},
		"another class than the used":   {"from collections import Counter, namedtuple\nclass P: pass\nR = namedtuple('R', 'a b')\nclass L(list): pass\ndef f(): return R(1, 2), L([3]), Counter('a')\n", "P()\nassert f() == ((1, 2), [3], {'a': 1})"},
		"a subclass of the used":        {"class P(dict):\n    x = 1\nclass Q(P):\n    x = 2\ndef f(): return [Q(a=1)]\n", "assert P().x == 1\nassert f()[0].x == 2 and f()[0].get('a') == 1"},
		"an iterator with more":         {"class P:\n    def __init__(self): self.n = 0\n    def __iter__(self): return self\n    def __next__(self):\n        self.n += 1\n        return self.n\n    def reset(self): self.n = 0\n", "p = P()\nassert p.n == 0 and p.reset() is None"},
		"a node that can be called":     {"class P:\n    def __init__(self, v, next=None): self.v, self.next = v, next\n    def __call__(self): return 1\n    def go(self): return 2\n", "p = P(1, P(2))\nassert p.next.v == 2 and p.next.next is None and p.next.go() == 2"},
		"class attributes":              {"class P:\n    count = 0\n    def __init__(self): P.count += 1\n", "P(); P()\nassert P.count == 2\nP.count = 0\nP()\nassert P.count == 1"},
		"a class that a function makes": {"def P(x):\n    class Q: pass\n    q = Q()\n    q.x = x\n    return q\n", "assert P(3).x == 3"},
		"numbers of another library":    {"class I:\n    __module__ = 'lib'\n    def __index__(self): return 3\nclass P:\n    x = I()\n", "assert P().x == 3"},
	}
	v := newTestVerifier(t, newLocalEngine(t))
	for name, tc := range tests {
		s := spec{prompt: "Write it.", tests: tc.tests + "\n", reference: "class P: pass\nclass Stack: pass\ndef f(): pass\n"}
		if got := verify(t, v, makeCase(t, s), tc.candidate+"\n"); got.Outcome != verdict.Passed {
			t.Errorf("%s: %s", name, describe(got))
		}
	}
}

// TestClosuresNeedOperators: what a function returns can be called where the
// row says so.
func TestClosuresNeedOperators(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	s := spec{prompt: "Write f.", reference: "def f(k): return lambda x: x + k\n", tests: "assert f(1)(2) == 3 and f(5)(x=0) == 5 and f(5)(*[1]) == 6\n"}
	if got := verify(t, v, makeCase(t, s), s.reference); got.Reason != verdict.TestsFailed {
		t.Errorf("without operators: %s", describe(got))
	}
	s.operators = true
	if got := verify(t, v, makeCase(t, s), s.reference); got.Outcome != verdict.Passed {
		t.Errorf("with operators: %s", describe(got))
	}
	if got := verify(t, v, makeCase(t, s), "def f(k): return lambda x: 3\n"); got.Reason != verdict.TestsFailed {
		t.Errorf("a wrong one: %s", describe(got))
	}
}

// TestFunctionsStayUseful: what tests and libraries do with a function that
// they call is no question to the candidate.
func TestFunctionsStayUseful(t *testing.T) {
	s := spec{prompt: "Write f.", reference: "def f(x): return x + 1\nclass P:\n    def __init__(self, x): self.x = x\n    def get(self): return self.x\n", tests: `
import concurrent.futures, functools, inspect, threading, timeit, types, unittest
cached = functools.lru_cache(f)
@functools.wraps(f)
def wrapped(x): return f(x)
assert cached(1) == wrapped(1) == functools.partial(f, 1)() == 2 and wrapped.__name__ == 'f'
assert list(map(f, [1, 2])) == [2, 3] and sorted([2, 1], key=f) == [1, 2]
assert {f: 1}[f] == 1 and f in [f] and f == f and callable(f) and isinstance(f, types.FunctionType)
assert timeit.timeit(functools.partial(f, 1), number=2) > 0
out = []
t = threading.Thread(target=lambda: out.append(f(1)))
t.start(); t.join()
assert out == [2]
with concurrent.futures.ThreadPoolExecutor(2) as pool:
    assert list(pool.map(f, range(4))) == [1, 2, 3, 4]
unittest.TestCase().assertRaises(TypeError, f, 'a')
unittest.TestCase().assertRaises(TypeError, P)
p = P(1)
assert [g() for g in (p.get, p.get)] == [1, 1] and callable(p.get) and callable(P)
t = threading.Thread(target=p.get)
t.start(); t.join()
print(f, f"{f.__name__}")
`}
	v := newTestVerifier(t, newLocalEngine(t))
	if got := verify(t, v, makeCase(t, s), s.reference); got.Outcome != verdict.Passed {
		t.Error(describe(got))
	}
	for _, tests := range []string{"import inspect\ninspect.signature(f)", "import inspect\nassert not inspect.isgeneratorfunction(f)", "f.x = 1", "del f.x", "assert f.__doc__ is None", "dir(f)"} {
		s.tests = "f(1)\n" + tests + "\n"
		if got := verify(t, v, makeCase(t, s), s.reference); got.Reason != verdict.UnsupportedOperation {
			t.Errorf("%s: %s", tests, describe(got))
		}
	}
}

// TestExceptionsKeepTheirText: str(e) is what it is in one process.
func TestExceptionsKeepTheirText(t *testing.T) {
	s := spec{prompt: "Write f.", reference: `
import math
class Low(ValueError):
    def __init__(self, n):
        super().__init__(n)
        self.n = n
    def __str__(self): return "low by %d" % self.n
class Odd(KeyError):
    def __str__(self): return "odd " + str(self.args[0])
class Thing:
    def __repr__(self): return "thing"
def f(x):
    if x == 'own': raise Low(3)
    if x == 'key': raise Odd(4)
    if x == 'plain key': raise KeyError('k')
    if x == 'object': raise ValueError(Thing())
    if x == 'object key': raise KeyError(Thing())
    if x == 'long': raise ValueError('x' * 9000)
    if x == 'file': open('/nonexistent')
    if x == 'decode': b'\xff'.decode()
    raise RuntimeError('a', 1)
`, tests: `
def text(x, kind):
    try:
        f(x)
    except kind as e:
        return str(e)
    raise AssertionError(x)
assert text('own', ValueError) == 'low by 3'
assert text('key', KeyError) == 'odd 4'
assert text('plain key', LookupError) == "'k'"
assert text('object', ValueError) == 'thing' and text('object key', KeyError) == 'thing'
assert text('long', ValueError) == 'x' * 9000
assert 'No such file' in text('file', Exception)
assert "can't decode byte 0xff" in text('decode', ValueError)
assert text('', RuntimeError) == "('a', 1)"
try:
    f('own')
except ValueError as e:
    assert e.args == (3,) and 'low' in f'{e}' and repr(e) == 'ValueError(3)'
try:
    f('object')
except ValueError as e:
    assert type(e) is ValueError
`}
	v := newTestVerifier(t, newLocalEngine(t))
	if got := verify(t, v, makeCase(t, s), s.reference); got.Outcome != verdict.Passed {
		t.Error(describe(got))
	}
	if got := verify(t, v, makeCase(t, s), strings.ReplaceAll(s.reference, "__str__", "text")); got.Reason != verdict.TestsFailed {
		t.Errorf("without texts: %s", describe(got))
	}
}

// TestLooseValues: numbers of other libraries, what can only be read out,
// arrays and views.
func TestLooseValues(t *testing.T) {
	s := spec{prompt: "Write f.", reference: `
import array
class I:
    def __index__(self): return 3
class F:
    def __float__(self): return 1.5
    def __complex__(self): return 1.5 + 0j
class C(F):
    def __complex__(self): return 1.5 + 2j
class Row:
    def __iter__(self): yield from (I(), F())
class Both(list):
    def __float__(self): return 1.0
def f(): return I(), F(), C(), Row(), Both([1]), array.array('i', [1, -2]), memoryview(b'ab'), array.array('f', [0.5])
def g(a, m, s): return list(a), bytes(m), [1, 2, 3, 4][s], type(a).__name__, type(m).__name__
`, tests: `
import array
i, x, c, row, both, a, m, h = f()
assert (i, x, c, both) == (3, 1.5, 1.5 + 2j, [1]) and type(i) is int and type(x) is float
assert list(row) == [3, 1.5]
assert a == array.array('i', [1, -2]) and a.typecode == 'i' and m == b'ab' and m.tobytes() == b'ab' and h[0] == 0.5
assert g(array.array('d', [1.5]), memoryview(bytearray(b'x')), slice(1, None, 2)) == ([1.5], b'x', [2, 4], 'array', 'memoryview')
`}
	v := newTestVerifier(t, newLocalEngine(t))
	if got := verify(t, v, makeCase(t, s), s.reference); got.Outcome != verdict.Passed {
		t.Error(describe(got))
	}
	for _, returned := range []string{"type('N', (), {'__index__': lambda s: 'x'})()", "array.array('u', 'a')", "memoryview(b'abcd').cast('I')",
		"type('S', (), {'__iter__': iter, '__len__': len})()", "slice('a', 'b')", "int"} {
		s := spec{prompt: "Write f.", tests: "assert f() != 77\n", reference: "def f(): return 1\n"}
		if got := verify(t, v, makeCase(t, s), "import array\ndef f(): return "+returned+"\n"); got.Reason != verdict.TestsFailed {
			t.Errorf("%s: %s", returned, describe(got))
		}
	}
}

// TestLongRunsOfLooseValues: as many numbers of other libraries as make a run
// cross in every direction as that many plain ones do.
func TestLongRunsOfLooseValues(t *testing.T) {
	const candidate = `
import enum
class I:
    def __init__(self, n): self.n = n
    def __index__(self): return self.n
class E(enum.IntEnum):
    A = 1
def ints(): return [I(n) for n in range(20)]
def mixed(): return (E.A, 1) * 10, [type('F', (float,), {})(1.5)] * 20, [type('S', (str,), {})('a')] * 20
def fill(x): x[:] = ints()
def bad(): raise ValueError(ints())
def total(x): return sum(x)
`
	s := spec{prompt: "Write them.", reference: candidate, mutates: true, tests: `
import enum
class E(enum.IntEnum):
    B = 2
class Q:
    def __index__(self): return 3
assert ints() == list(range(20))
assert mixed() == ((1,) * 20, [1.5] * 20, ['a'] * 20)
x = [0]
fill(x)
assert x == list(range(20))
try:
    bad()
    assert False
except ValueError as e:
    assert e.args == (list(range(20)),)
assert total([E.B] * 20) == 40 and total([Q()] * 20) == 60
`}
	v := newTestVerifier(t, newLocalEngine(t))
	if got := verify(t, v, makeCase(t, s), candidate); got.Outcome != verdict.Passed {
		t.Error(describe(got))
	}
	if got := verify(t, v, makeCase(t, s), strings.Replace(candidate, "range(20)", "range(1, 21)", 1)); got.Reason != verdict.TestsFailed {
		t.Errorf("other numbers: %s", describe(got))
	}
}

// TestAlwaysEqualTwins: tests that never distinguish two objects pass a class
// whose objects are all equal, and validation can show it.
func TestAlwaysEqualTwins(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	s := spec{prompt: "Write P.", reference: point, operators: true, tests: "assert P(1) == P(1)\nassert make(1) == P(1)\n"}
	for tests, want := range map[string]verdict.Outcome{
		s.tests:                                    verdict.Passed,
		s.tests + "assert P(1) != P(2)\n":          verdict.Failed,
		s.tests + "assert not P(1) == make(2)\n":   verdict.Failed,
		s.tests + "assert len({P(1), P(2)}) > 1\n": verdict.Failed,
	} {
		s.tests = tests
		twins, err := v.Twins(t.Context(), makeCase(t, s))
		if err != nil || len(twins) != 3 || twins[0].What != "every P equals every other" {
			t.Fatalf("%q: %v, error %v", tests, twins, err)
		}
		if got := verify(t, v, makeCase(t, s), content(t, twins[0].Candidate)); got.Outcome != want {
			t.Errorf("%q: %s", tests, describe(got))
		}
		if got := verify(t, v, makeCase(t, s), s.reference); got.Outcome != verdict.Passed {
			t.Errorf("%q: the reference: %s", tests, describe(got))
		}
	}
	for name, change := range map[string]func(*spec){
		"no operators": func(s *spec) { s.operators = false },
		"no reference": func(s *spec) { s.reference = "" },
		"no class":     func(s *spec) { s.tests = "assert make(1).x == 1\n" },
		"broken tests": func(s *spec) { s.tests = "assert (\n" },
	} {
		other := s
		change(&other)
		twins, err := v.Twins(t.Context(), makeCase(t, other))
		if err != nil || slices.ContainsFunc(twins, func(twin family.Twin) bool { return strings.Contains(twin.What, "equals") }) {
			t.Errorf("%s: %v, error %v", name, twins, err)
		}
	}
}

// TestIdleTwins: tests that do not look at results pass a candidate that does no
// work, and validation can show it.
func TestIdleTwins(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	const reference = "def f(x):\n    return 2 * x\nclass C:\n    def __init__(self, n):\n        self.n = n\n    def twice(self):\n        return 2 * self.n\n"
	for tests, want := range map[string][]bool{ // of None and True
		"assert f(2) == 4\n": {false, false},
		"f(2)\n":             {true, true},
		"try:\n    assert f(2) == 5\nexcept Exception:\n    pass\n": {true, true},
		"assert f(2)\n":            {false, true},
		"assert f(0) == 0\n":       {false, false},
		"assert C(2).twice()\n":    {false, true},
		"assert C(2).twice()==4\n": {false, false},
	} {
		s := spec{prompt: "Write f and C.", reference: reference, tests: tests}
		twins, err := v.Twins(t.Context(), makeCase(t, s))
		if err != nil || len(twins) != len(want) {
			t.Fatalf("%q: %v, error %v", tests, twins, err)
		}
		for i, twin := range twins {
			got := verify(t, v, makeCase(t, s), content(t, twin.Candidate))
			if (got.Outcome == verdict.Passed) != want[i] || twin.Advice == "" {
				t.Errorf("%q: %s (%s): %s, want a pass: %t", tests, twin.What, twin.Advice, describe(got), want[i])
			}
		}
	}
	for name, s := range map[string]spec{"no reference": {prompt: "p", tests: "f(1)\n"}, "no names": {prompt: "p", reference: reference, tests: "x = 1\n"}} {
		if twins, err := v.Twins(t.Context(), makeCase(t, s)); err != nil || len(twins) != 0 {
			t.Errorf("%s: %v, error %v", name, twins, err)
		}
	}
}

// TestMutatesReachesEverything: what a call changes comes back, by whatever
// name it was passed and whatever was called.
func TestMutatesReachesEverything(t *testing.T) {
	const candidate = "def f(a, *, k): k.append(a)\nclass P:\n    def __init__(self, l, s=None):\n        l.append(0)\n        if s is not None: s.add(1)\n    def fill(self, l, more=None):\n        l.append(1)\n        if more is not None: more['x'] = 1\n    @classmethod\n    def clear(cls, l): l.clear()\n"
	s := spec{prompt: "Write it.", reference: candidate, mutates: true, tests: `
k, l, s, m = [], [], set(), {}
f(5, k=k)
assert k == [5]
p = P(l, s=s)
assert l == [0] and s == {1}
p.fill(more=m, l=l)
assert l == [0, 1] and m == {'x': 1}
P.clear(l)
assert l == []
def inner():
    own = [1]
    p.fill(own)
    assert own == [1, 1]
inner()
`}
	v := newTestVerifier(t, newLocalEngine(t))
	if got := verify(t, v, makeCase(t, s), candidate); got.Outcome != verdict.Passed {
		t.Error(describe(got))
	}
	if got := verify(t, v, makeCase(t, s), strings.Replace(candidate, "more['x'] = 1", "pass", 1)); got.Reason != verdict.TestsFailed {
		t.Errorf("nothing changed: %s", describe(got))
	}
	s.mutates = false
	if got := verify(t, v, makeCase(t, s), candidate); got.Reason != verdict.TestsFailed {
		t.Errorf("not declared: %s", describe(got))
	}
}

// TestWhatDoesNotCross: rows of the list in docs/families/code-completion.md come out as it
// says, for a candidate that is right in one process.
func TestWhatDoesNotCross(t *testing.T) {
	t.Parallel()
	const right = `
import random
LIMIT = 0
def f(x=1):
    global LIMIT
    LIMIT += x
    f.calls = LIMIT
    return LIMIT
f.calls = 0
def draw(): return random.random()
def read(name):
    with open(name) as o: return o.read()
def kind(): return int
def isa(t): return isinstance(1, t)
class P:
    count, _hidden = 0, 1
    def __init__(self): self.Items = []
`
	rows := map[string]struct {
		tests  string
		reason verdict.Reason
	}{
		"a module variable again":     {"f()\nassert LIMIT == 1\n", verdict.TestsFailed},
		"a function's attribute":      {"f()\nassert f.calls == 1\n", verdict.UnsupportedOperation},
		"a file of the tests":         {"open('in.txt', 'w').write('x')\nassert read('in.txt') == 'x'\n", verdict.TestsFailed},
		"a seed of the tests":         {"import random\nrandom.seed(1)\na = draw()\nrandom.seed(1)\nassert draw() == a\n", verdict.TestsFailed},
		"a type that comes back":      {"assert kind() is int\n", verdict.TestsFailed},
		"a type that is passed":       {"assert isa(int)\n", verdict.TestsFailed},
		"an attribute changed inside": {"p = P()\np.Items.append(1)\nassert p.Items == [1]\n", verdict.TestsFailed},
		"a class's private attribute": {"P()\nassert P._hidden == 1\n", verdict.UnsupportedOperation},
		"a call in a fork":            {"import os\nf()\npid = os.fork()\nif not pid:\n    f()\n    os._exit(0)\nassert os.waitpid(pid, 0)[1] == 0\n", verdict.TestsFailed},
	}
	e := newLocalEngine(t)
	v := newTestVerifier(t, e)
	for name, tc := range rows {
		s := spec{prompt: "Write it.", reference: right, tests: tc.tests}
		if name != "a module variable again" && !naivePasses(t, e, attack{row: s, candidate: right, weak: "bare"}) {
			t.Errorf("%s: fails in one process", name)
		}
		if got := verify(t, v, makeCase(t, s), right); got.Reason != tc.reason {
			t.Errorf("%s: %s", name, describe(got))
		}
	}
}
