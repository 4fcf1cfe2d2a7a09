package codecompletion

import (
	"strings"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/link"
	"securebench/internal/verdict"
)

// TestHonestCandidatesPass: what well-meant code does must not fail.
func TestHonestCandidatesPass(t *testing.T) {
	t.Parallel()
	point := "class Point:\n    def __init__(self, x, y=0):\n        self.x, self.y = x, y\n" +
		"    def plus(self, other, *, scale=1):\n        return Point(self.x + scale * other.x, self.y + scale * other.y)\n" +
		"    @classmethod\n    def origin(cls):\n        return cls(0, 0)\n"
	tests := map[string]struct{ candidate, tests string }{
		"keywords":          {"def f(a, *rest, k=1, **more): return a + sum(rest) + k + sum(more.values())", "assert f(1, 2, k=3, z=4) == 10"},
		"prints":            {"print('loading')\ndef f(x):\n    print('working', x)\n    return x", "print(f(1))\nassert f(2) == 2"},
		"reads stdin":       {"import sys\ndef f(x): return x + len(sys.stdin.read())", "assert f(1) == 1"},
		"writes to tmp":     {"def f(x):\n    with open('/tmp/honest', 'w') as o: o.write(str(x))\n    with open('/tmp/honest') as o: return int(o.read())", "assert f(1) == 1"},
		"dataclass inside":  {"from __future__ import annotations\nfrom dataclasses import dataclass, astuple\n@dataclass\nclass P:\n    x: int\ndef f(x): return astuple(P(x))", "assert f(1) == (1,)"},
		"builtins patched":  {"import builtins\nbuiltins.len = builtins.isinstance = builtins.type = builtins.print = builtins.__import__ = None\ndef f(x): return [x, {x: 'a'}]", "assert f(1) == [1, {1: 'a'}]"},
		"main guard":        {"def f(x): return x\nif __name__ == '__main__':\n    raise SystemExit(f(1))", "assert f(1) == 1"},
		"exit at the end":   {"import atexit, os\natexit.register(os._exit, 3)\ndef f(x): return x", "assert f(1) == 1"},
		"a thread":          {"import threading\ndef f(x):\n    out = []\n    t = threading.Thread(target=lambda: out.append(x))\n    t.start()\n    t.join()\n    return out", "assert f(1) == [1]"},
		"deep recursion":    {"import sys\nsys.setrecursionlimit(20000)\ndef f(n): return 0 if n == 0 else 1 + f(n - 1)", "assert f(10000) == 10000"},
		"a generator":       {"def f(n):\n    for i in range(n): yield i", "assert list(f(3)) == [0, 1, 2]\nassert next(f(1)) == 0"},
		"iterators as args": {"def f(xs): return sum(xs)", "assert f(x for x in [1, 2]) == 3\nassert f(map(int, '12')) == 3\nassert f({1: 2}.values()) == 2"},
		"counter and friends": {"import collections, enum\nclass E(enum.IntEnum):\n    A = 1\ndef f(s): return collections.Counter(s), E.A, collections.namedtuple('P', 'x')(1), collections.deque([1], 2)",
			"import collections\nassert f('aab') == ({'a': 2, 'b': 1}, 1, (1,), collections.deque([1]))"},
		"decimals and fractions": {"def f(x): return x / 3, -x", "from fractions import Fraction as F\nfrom decimal import Decimal as D\nassert f(F(1, 2)) == (F(1, 6), F(-1, 2))\nassert f(D('1.5'))[0] == D('0.5')"},
		"odd values":             {"def f(x): return x", "import math\nfor v in (10**5000, -0.0, 1e308, float('inf'), 1+2j, '\\ud800', b'\\xff', None, ..., ()):\n    if v is not ...: assert f(v) == v\nassert math.isnan(f(float('nan')))\nassert math.copysign(1, f(-0.0)) < 0\nassert f(True) is True"},
		"counters": {"import collections\ndef f(s):\n    assert s is None or s.most_common(1) and s['zz'] == 0\n    return collections.Counter('aab')",
			"import collections\nc = f(None)\nassert c.most_common(1) == [('a', 2)] and c['zz'] == 0 and c == {'a': 2, 'b': 1}\nassert c == collections.Counter(a=2, b=1, z=0) and f(c).total() == 3"},
		"default dicts": {"import collections\ndef f(k):\n    d = collections.defaultdict(k)\n    if k is None:\n        d[1] = 2\n        return d\n    d['x']\n    return d\ndef g(): return f(int), f(list), f(set), f(dict), f(str), f(float), f(bool), f(tuple), f(None)",
			"for d, e in zip(g(), [0, [], set(), {}, '', 0.0, False, ()]):\n    assert d['x'] == d['zz'] == e and type(d['zz']) is type(e)\nd = g()[-1]\nassert d == {1: 2}\ntry:\n    d[3]\nexcept KeyError:\n    pass\nelse:\n    assert 0"},
		"default dicts of others": {"import collections\ndef f(): return collections.defaultdict(lambda: 7, a=1)", "assert f() == {'a': 1}"},
		"ordered dicts": {"import collections\ndef f(*k): return collections.OrderedDict.fromkeys(k)",
			"from collections import OrderedDict as O\nassert f(2, 1) == O([(2, None), (1, None)]) != O([(1, None), (2, None)])\nassert f(1, 2) == {2: None, 1: None}\nd = f(1, 2)\nd.move_to_end(1)\nassert list(d) == [2, 1]"},
		"an object's total":     {"class C:\n    def __init__(self): self.total = 5\ndef f(): return C()", "c = f()\nassert c.total == 5"},
		"long strings":          {"def f(n): return 'a' * n", "assert len(f(8_000_000)) == 8_000_000\nassert f(4) == 'aaaa'"},
		"a long argument":       {"def f(s): return len(s)", "assert f('\u00e9' * 4_000_000) == 4_000_000 and f(b'x' * 8_000_000) == 8_000_000"},
		"many arguments":        {"def f(l): return sum(l)", "assert f(list(range(300_000))) == sum(range(300_000))\nassert f(range(10**6)) == sum(range(10**6))"},
		"sets and views":        {"def f(x): return {1, 'a', (2,)}, frozenset(x), dict.fromkeys(x).keys()", "assert f([1, 2]) == ({(2,), 'a', 1}, {1, 2}, {2, 1})"},
		"an own exception":      {"class E(ValueError):\n    pass\ndef f(x): raise E('no ' + x)", "try:\n    f('way')\nexcept ValueError as e:\n    assert str(e) == 'no way'\nelse:\n    assert 0"},
		"another exception":     {"def f(x): raise FileNotFoundError(x)", "try:\n    f('way')\nexcept Exception:\n    pass\nelse:\n    assert 0"},
		"a constant":            {"LIMIT = [1, {'a': 2}]\ndef f(x): return LIMIT[0] + x", "assert LIMIT == [1, {'a': 2}]\nassert f(1) == 2"},
		"objects":               {point, "p = Point(1, y=2)\nq = p.plus(Point(3), scale=2)\nassert (q.x, q.y) == (7, 2)\nq.x = 9\nassert q.x == 9 and q is not p\nassert Point.origin().x == 0"},
		"objects in containers": {point + "def f(): return [Point(1), {'a': Point(2)}]", "a, b = f()\nassert a.x + b['a'].x == 3 and Point(1).x"},
		"threads in the tests":  {"def f(x): return x", "import threading\nseen = []\nts = [threading.Thread(target=lambda i=i: seen.append(f(i))) for i in range(8)]\n[t.start() for t in ts]; [t.join() for t in ts]\nassert sorted(seen) == list(range(8))"},
		"name of a function":    {"def f(x): return x", "assert f.__name__ == 'f' and callable(f) and f(1) == 1"},
	}
	v := newTestVerifier(t, newLocalEngine(t))
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := spec{prompt: "Write it.", tests: tc.tests + "\n", reference: tc.candidate + "\n"}
			if got := verify(t, v, makeCase(t, s), tc.candidate+"\n"); got.Outcome != verdict.Passed || got.Reason != "" {
				t.Errorf("got %s", describe(got))
			}
		})
	}
}

// TestPromptHelpersStayTheTests: a candidate cannot redefine what the tests
// check with (split rule F1).
func TestPromptHelpersStayTheTests(t *testing.T) {
	s := spec{
		prompt:    "def encode(s):\n    return s[::-1]\n\ndef decode(s):\n    '''Undoes encode.'''\n",
		reference: "def encode(s):\n    return s[::-1]\n\ndef decode(s):\n    return s[::-1]\n",
		tests:     "import random\nfor _ in range(9):\n    s = str(random.random())\n    assert decode(encode(s)) == s\n",
	}
	v := newTestVerifier(t, newLocalEngine(t))
	checkAttack(t, v, makeCase(t, s), attack{row: s, reason: verdict.TestsFailed,
		candidate: "def encode(s): return s\ndef decode(s): return s\n"})
}

// TestMutates: arguments come back only if the row asks for them, and only
// those that the test holds under a name; the record says it.
func TestMutates(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	const candidate = "def f(l, d=None):\n    l.append(4)\n    if d is not None: d['k'] = 1\n"
	s := spec{prompt: "Append 4.", reference: candidate, tests: "l, d = [1], {}\nf(l, d)\nassert l == [1, 4] and d == {'k': 1}\n"}
	if got := verify(t, v, makeCase(t, s), candidate); got.Score() != 0 {
		t.Errorf("not declared: %s", describe(got))
	}
	s.mutates = true
	got := verify(t, v, makeCase(t, s), candidate)
	if got.Outcome != verdict.Passed || strings.Join(got.Labels, ",") != "mutates" {
		t.Errorf("declared: %v %s", got.Labels, describe(got))
	}
	s.tests = "box = [[1]]\nf(box[0])\nassert box == [[1]]\n"
	if got := verify(t, v, makeCase(t, s), candidate); got.Outcome != verdict.Passed {
		t.Errorf("an argument without a name was changed: %s", describe(got))
	}
	s.tests = "l = [1]\nf(l)\nassert l == [1, 4]\n"
	forged := insider + "def f(l, d=None): pass\nclass F:\n    def __init__(self, *a): pass\n    def value(self, x, depth=1): return b'U1:I1:4'\nM.Encoder = F\n"
	if got := verify(t, v, makeCase(t, s), forged); got.Reason != verdict.ProtocolViolation {
		t.Errorf("changed arguments that are not a list: %s", describe(got))
	}
}

// TestMutatesManyItems: what the tests pass may come back, however long it is.
func TestMutatesManyItems(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	s := spec{prompt: "Sort in place.", reference: "def f(l): l.sort()\n", mutates: true,
		tests: "l = list(range(300_000, 0, -1))\nf(l)\nassert l == list(range(1, 300_001))\n"}
	if got := verify(t, v, makeCase(t, s), s.reference); got.Outcome != verdict.Passed {
		t.Error(describe(got))
	}
	if got := verify(t, v, makeCase(t, s), "def f(l): pass\n"); got.Reason != verdict.TestsFailed {
		t.Errorf("nothing sorted: %s", describe(got))
	}
	s.tests = "from collections import *\nc, o, d = Counter(a=1), OrderedDict(b=1, a=2), defaultdict(list)\n" +
		"f(c); f(o); f(d)\nassert c == Counter(a=1, z=9) and list(o) == ['a', 'z'] and d['z'] == 9 and d['y'] == []\n"
	candidate := "def f(d):\n    d.pop('b', 0)\n    d['z'] = 9\n"
	if got := verify(t, v, makeCase(t, s), candidate); got.Outcome != verdict.Passed {
		t.Errorf("dicts of other kinds: %s", describe(got))
	}
}

// TestPromptThatExits: prose that happens to be a program is prose, whatever
// it does.
func TestPromptThatExits(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	for _, prompt := range []string{
		"raise SystemExit('usage')\n", "import sys\nsys.exit(0)\n", "raise KeyboardInterrupt\n", "write\n", "1 / 0\n",
	} {
		s := add()
		s.prompt = prompt
		checkAttack(t, v, makeCase(t, s), attack{row: s, reason: verdict.TestsFailed, candidate: "def add(a, b): return 4\n"})
	}
}

// TestObjectsKeepTheirDistance: nothing of a candidate's object takes part in
// what the tests decide (split rule 5.6).
func TestObjectsKeepTheirDistance(t *testing.T) {
	t.Parallel()
	v := newTestVerifier(t, newLocalEngine(t))
	const candidate = `
class B:
    def __init__(self, *a): pass
    __eq__ = __lt__ = __gt__ = __contains__ = __bool__ = lambda *a: True
    __hash__ = __len__ = __index__ = __int__ = lambda self: 5
    def __iter__(self): return iter([5])
    def __getattr__(self, name): return B()
    def m(self): return B()
`
	for _, tests := range []string{
		"assert B(1) == 5", "assert 5 == B(1)", "assert B(1) in [5]", "assert 5 in B(1)",
		"assert bool(B(1))", "assert B(1)", "assert len(B(1)) == 5", "assert list(B(1)) == [5]",
		"assert int(B(1)) == 5", "assert hash(B(1)) == 5", "assert B(1) < 6", "assert {B(1): 1}",
		"assert B(1).__eq__(5) is True", "assert B(1)._x is not None", "assert B(1).m() == 5",
		"assert B(1).m == 5", "assert not B(1) != 5", "assert B.__name__ == 'B'",
	} {
		s := spec{prompt: "Write B.", tests: tests + "\n", reference: "class B: pass\n"}
		if got := verify(t, v, makeCase(t, s), candidate); got.Score() != 0 {
			t.Errorf("%s: %s", tests, describe(got))
		}
	}
}

// TestOnlyAnExplicitVerdictPasses: neither an early end nor tests that ask
// nothing are a pass.
func TestOnlyAnExplicitVerdictPasses(t *testing.T) {
	t.Parallel()
	v := newTestVerifier(t, newLocalEngine(t))
	for name, tests := range map[string]string{
		"nothing asked":        "x = add\n",
		"the tests exit":       "assert add(2, 3) == 5\nraise SystemExit(0)\n",
		"the tests end hard":   "assert add(2, 3) == 5\nimport os\nos._exit(0)\n",
		"the tests are killed": "assert add(2, 3) == 5\nimport os\nos.kill(os.getpid(), 11)\n",
		"an own exception":     "assert add(2, 3) == 5\nraise KeyboardInterrupt\n",
		"a function passed":    "try:\n    add(add, len)\nexcept TypeError:\n    pass\n",
		"a huge argument":      "try:\n    add([0] * 10**7, 1)\nexcept Exception:\n    pass\n",
	} {
		s := add()
		s.tests = tests
		if got := verify(t, v, makeCase(t, s), s.reference); got.Score() != 0 || got.Reason != verdict.TestsFailed {
			t.Errorf("%s: %s", name, describe(got))
		}
	}
}

// TestPrintsAreNoFailure: a candidate that prints more than anybody keeps is
// scored by its answers, which come through; what was dropped is counted.
func TestPrintsAreNoFailure(t *testing.T) {
	v := newTestVerifier(t, newLocalEngine(t))
	s := spec{prompt: "Write f.", tests: "assert [f(i) for i in range(50)] == list(range(50))\n", reference: "def f(x): return x\n",
		limits: sandbox.Limits{Output: 1 << 20}}
	const loud = "import sys\ndef f(x):\n    print('x' * (1 << 20))\n    print('y' * (1 << 20), file=sys.stderr)\n    return x\n"
	got := verify(t, v, makeCase(t, s), loud)
	if dropped := got.Metadata.Int("dropped_output_bytes"); got.Outcome != verdict.Passed || dropped != 100*(1<<20+1)-link.MaxStderr {
		t.Errorf("%d bytes dropped: %s", dropped, describe(got))
	}
	if n := len(got.Restricted["candidate-output.txt"]); n != link.MaxStderr {
		t.Errorf("%d bytes are kept", n)
	}
	got = verify(t, v, makeCase(t, s), strings.Replace(loud, "return x", "return 0", 1))
	if _, ok := got.Metadata["dropped_output_bytes"]; !ok || got.Reason != verdict.TestsFailed {
		t.Errorf("a wrong one: %s", describe(got))
	}
	if _, ok := verify(t, v, makeCase(t, s), s.reference).Metadata["dropped_output_bytes"]; ok {
		t.Error("a quiet candidate has dropped something")
	}
}
