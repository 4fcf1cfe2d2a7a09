package codecompletion

import (
	"slices"
	"strings"
	"testing"

	"securebench/internal/verdict"
)

// classRow is a row about a class as its author writes it.
type classRow struct {
	name             string
	tests, reference string
	wrong            []string
	operators        bool // that the tests need
}

func classRows() []classRow {
	return slices.Concat(plainClassRows(), operatorClassRows(), containerClassRows())
}

// plainClassRows use methods and attributes alone.
func plainClassRows() []classRow {
	return []classRow{
		{name: "stack", tests: `
s = Stack()
assert s.is_empty()
s.push(1); s.push([2])
assert s.size() == 2 and s.peek() == [2] and s.pop() == [2] and s.pop() == 1
try:
    s.pop()
    assert False, "an empty stack pops"
except IndexError as e:
    assert str(e) == "pop from an empty stack"
`, reference: `
class Stack(list):
    def push(self, x): self.append(x)
    def is_empty(self): return not self
    def size(self): return len(self)
    def peek(self): return self[-1]
    def pop(self):
        if not self: raise IndexError("pop from an empty stack")
        return super().pop()
`, wrong: []string{
			"class Stack(list):\n    def push(self, x): self.insert(0, x)\n    def is_empty(self): return True\n    def size(self): return 2\n    def peek(self): return self[-1]\n",
			"class Stack:\n    def __init__(self): self.l = []\n    push = lambda self, x: self.l.append(x)\n    is_empty = lambda self: not self.l\n    size = lambda self: len(self.l)\n    peek = lambda self: self.l[-1]\n    pop = lambda self: self.l.pop()\n",
		}},
		{name: "LRU cache", tests: `
c = LRUCache(2)
c.put(1, 'a'); c.put(2, 'b')
assert c.get(1) == 'a'
c.put(3, 'c')
assert c.get(2) == -1 and c.get(3) == 'c' and c.get(1) == 'a'
assert c.capacity == 2
`, reference: `
from collections import OrderedDict
class LRUCache(OrderedDict):
    def __init__(self, capacity):
        super().__init__()
        self.capacity = capacity
    def get(self, k):
        if k not in self: return -1
        self.move_to_end(k)
        return self[k]
    def put(self, k, v):
        self[k] = v
        self.move_to_end(k)
        if len(self) > self.capacity: self.popitem(last=False)
`, wrong: []string{
			"class LRUCache(dict):\n    def __init__(self, capacity): self.capacity = capacity\n    def get(self, k): return dict.get(self, k, -1)\n    def put(self, k, v):\n        self[k] = v\n        if len(self) > 2: self.pop(next(iter(self)))\n",
		}},
		{name: "bank account", tests: `
import threading, unittest
class T(unittest.TestCase):
    def test_all(self):
        a = BankAccount("ann", balance=10)
        a.deposit(5)
        self.assertEqual(a.balance, 15)
        self.assertRaises(ValueError, a.withdraw, 100)
        self.assertRaises(ValueError, BankAccount, "bob", -1)
        with self.assertRaisesRegex(ValueError, "short of 85"):
            a.withdraw(100)
        ts = [threading.Thread(target=a.deposit, args=(1,)) for _ in range(5)]
        [t.start() for t in ts]; [t.join() for t in ts]
        self.assertEqual(a.balance, 20)
        BankAccount.rate = 0.5
        self.assertEqual(a.interest(), 10)
        self.assertIsNone(a.deposit(0))
import io
suite = unittest.defaultTestLoader.loadTestsFromTestCase(T)
r = unittest.TextTestRunner(stream=io.StringIO()).run(suite)
assert r.wasSuccessful(), r.errors + r.failures
`, reference: `
class Short(ValueError):
    def __init__(self, by):
        self.by = by
    def __str__(self): return "short of %d" % self.by
class BankAccount:
    rate = 0.1
    def __init__(self, owner, balance=0):
        if balance < 0: raise ValueError("below zero")
        self.owner, self.balance = owner, balance
    def deposit(self, n): self.balance += n
    def withdraw(self, n):
        if n > self.balance: raise Short(n - self.balance)
        self.balance -= n
    def interest(self): return self.rate * self.balance
`, wrong: []string{
			"class BankAccount:\n    rate = .5\n    def __init__(self, owner, balance=0): self.balance = balance\n    def deposit(self, n): self.balance += n\n    def withdraw(self, n): raise ValueError('short of 85')\n    def interest(self): return self.rate * self.balance\n",
			"class BankAccount:\n    def __init__(self, owner, balance=0): self.balance = balance\n    def deposit(self, n): self.balance += n\n    def withdraw(self, n): self.balance -= n\n    def interest(self): return 10\n",
		}},
		{name: "linked list with nodes", tests: `
l = LinkedList()
for i in (1, 2, 3): l.append(i)
n, seen = l.head, []
while n is not None:
    seen.append(n.value)
    n = n.next
assert seen == [1, 2, 3]
l.head.next.value = 9
assert l.to_list() == [1, 9, 3]
assert l.find(3) is l.head.next.next and l.find(7) is None
l.head = Node(0, l.head)
assert l.to_list() == [0, 1, 9, 3]
`, reference: `
class Node:
    def __init__(self, value, next=None): self.value, self.next = value, next
    def __call__(self): return self.value
class LinkedList:
    def __init__(self): self.head = None
    def __iter__(self):
        n = self.head
        while n:
            yield n
            n = n.next
    def append(self, v):
        last = None
        for last in self: pass
        if last: last.next = Node(v)
        else: self.head = Node(v)
    def to_list(self): return [n.value for n in self]
    def find(self, v): return next((n for n in self if n.value == v), None)
`, wrong: []string{
			"class Node:\n    def __init__(self, value, next=None): self.value, self.next = value, next\nclass LinkedList:\n    def __init__(self): self.l = []\n    def append(self, v): self.l.append(v)\n    head = property(lambda s: Node(s.l[0], Node(s.l[1], Node(s.l[2]))), lambda s, v: None)\n    def to_list(self): return self.l\n    def find(self, v): return None\n",
		}},
		{name: "named tuple", tests: "p = Point(1, y=2)\nassert p.x == 1 and p.y == 2 and p.norm() == 5\nassert p.moved(dx=2).x == 3\n",
			reference: "from typing import NamedTuple\nclass Point(NamedTuple):\n    x: int\n    y: int\n    def norm(self): return self.x ** 2 + self.y ** 2\n    def moved(self, dx=0, dy=0): return self._replace(x=self.x + dx, y=self.y + dy)\n",
			wrong:     []string{"from collections import namedtuple\nclass Point(namedtuple('P', 'x y')):\n    def norm(self): return self.x + self.y\n    def moved(self, dx=0, dy=0): return self\n"}},
		{name: "enum members", tests: "assert Color.RED.value == 1 and Color(2) is Color.BLUE and Color.BLUE.name == 'BLUE'\nassert mix(Color.RED, Color.BLUE) == 3\nassert Color.RED.other() is Color.BLUE\n",
			reference: "from enum import Enum\nclass Color(Enum):\n    RED, BLUE = 1, 2\n    def other(self): return Color(3 - self.value)\ndef mix(a, b): return a.value + b.value\n",
			wrong:     []string{"class Color:\n    def __init__(self, v): self.value = v\n    name = 'BLUE'\nColor.RED, Color.BLUE = Color(1), Color(2)\nColor.other = lambda self: Color.BLUE\ndef mix(a, b): return 3\n"}},
	}
}

// operatorClassRows compute and compare with their objects.
func operatorClassRows() []classRow {
	return []classRow{
		{name: "vector", operators: true, tests: `
v, w = Vector(1, 2), Vector(3, 4)
assert v + w == Vector(4, 6) and v - w == Vector(-2, -2)
assert v * 3 == Vector(3, 6) == 3 * v and -v == Vector(-1, -2)
assert v * w == 11 and abs(Vector(3, 4)) == 5.0
assert v != w and not v == w and v == Vector(1, 2)
assert str(v) == "(1, 2)" and repr(v) == "Vector(1, 2)" and f"{v}" == "(1, 2)"
assert len({v, Vector(1, 2), w}) == 2 and v in {Vector(1, 2): 1}
assert bool(v) and not Vector(0, 0)
assert list(v) == [1, 2] and v[0] == 1 and v[0:2] == [1, 2]
assert sum([v, w], Vector(0, 0)) == Vector(4, 6)
v += w
assert v == Vector(4, 6)
assert sorted([w, Vector(0, 0)])[0] == Vector(0, 0)
x, y = w
assert (x, y) == (3, 4)
try:
    v + 3
    raise SystemExit
except TypeError:
    pass
`, reference: `
class Vector:
    def __init__(self, x, y): self.x, self.y = x, y
    def __add__(self, o):
        if not isinstance(o, Vector): return NotImplemented
        return Vector(self.x + o.x, self.y + o.y)
    def __neg__(self): return Vector(-self.x, -self.y)
    def __sub__(self, o): return self + -o
    def __mul__(self, o):
        if isinstance(o, Vector): return self.x * o.x + self.y * o.y
        return Vector(self.x * o, self.y * o)
    __rmul__ = __mul__
    def __abs__(self): return (self * self) ** .5
    def __eq__(self, o): return isinstance(o, Vector) and list(self) == list(o)
    def __lt__(self, o): return list(self) < list(o)
    def __hash__(self): return hash((self.x, self.y))
    def __bool__(self): return any(self)
    def __iter__(self): return iter((self.x, self.y))
    def __getitem__(self, i): return [self.x, self.y][i]
    def __str__(self): return "(%d, %d)" % (self.x, self.y)
    def __repr__(self): return "Vector" + str(self)
`, wrong: []string{
			"class Vector:\n    def __init__(self, x, y): self.x, self.y = x, y\n    __eq__ = lambda *a: True\n    __add__ = __sub__ = __mul__ = __rmul__ = __neg__ = lambda s, *a: s\n",
			"class Vector(tuple):\n    def __new__(c, x, y): return tuple.__new__(c, (x, y))\n",
		}},
		{name: "dataclass", operators: true, tests: "assert Item('a', 2) == Item('a', 2) and Item('a', 2) != Item('b', 2)\nassert repr(Item('a', 2)) == \"Item(name='a', n=2)\"\nassert Item('a', 1) < Item('a', 2) and max([Item('b'), Item('c')]).name == 'c'\nassert load([['a', 2]]) == [Item('a', 2)]\nassert load([['a', 2]]) != [Item('a', 3)]\n",
			reference: "from dataclasses import dataclass\n@dataclass(order=True)\nclass Item:\n    name: str\n    n: int = 0\ndef load(rows): return [Item(*r) for r in rows]\n",
			wrong: []string{
				"class Item:\n    def __init__(self, name, n=0): self.name, self.n = name, n\n    def __eq__(self, o): return True\n    def __repr__(self): return \"Item(name='a', n=2)\"\n    __lt__ = __gt__ = __eq__\ndef load(rows): return [Item(*r) for r in rows]\n",
				"class Item:\n    def __init__(self, name, n=0): self.name, self.n = name, n\n    __repr__ = lambda s: \"Item(name='a', n=2)\"\n    __lt__ = lambda s, o: True\ndef load(rows): return [Item('a', 2)]\n",
			}},
		{name: "matrix", operators: true, tests: "m = Matrix([[1, 2], [3, 4]])\nassert m[0, 1] == 2 and m[1] == [3, 4]\nm[0, 1] = 5\nassert (m @ Matrix([[1, 0], [0, 1]])) == m\nassert m.T[1, 0] == 5 and m.shape == (2, 2) and len(m) == 2\nassert m != m.T and (m * 2)[1, 1] == 8\ndel m[0]\nassert len(m) == 1\n",
			reference: "class Matrix:\n    def __init__(self, rows): self.rows = rows\n    def __getitem__(self, k): return self.rows[k[0]][k[1]] if isinstance(k, tuple) else self.rows[k]\n    def __setitem__(self, k, v): self.rows[k[0]][k[1]] = v\n    def __delitem__(self, k): del self.rows[k]\n    def __len__(self): return len(self.rows)\n    T = property(lambda self: Matrix([list(r) for r in zip(*self.rows)]))\n    shape = property(lambda self: (len(self.rows), len(self.rows[0])))\n    def __matmul__(self, o): return Matrix([[sum(a * b for a, b in zip(r, c)) for c in zip(*o.rows)] for r in self.rows])\n    def __mul__(self, n): return Matrix([[n * x for x in r] for r in self.rows])\n    def __eq__(self, o): return self.rows == o.rows\n",
			wrong:     []string{"class Matrix(list):\n    def __getitem__(self, k): return list.__getitem__(self, k[0])[k[1]] if isinstance(k, tuple) else list.__getitem__(self, k)\n    def __setitem__(self, k, v): list.__getitem__(self, k[0])[k[1]] = v\n    shape = (2, 2)\n    T = property(lambda s: s)\n    __matmul__ = lambda s, o: s\n"}},
		{name: "enum comparison", operators: true, tests: "assert turn(D.N) == D.E and turn(D.E) != D.E and [d.name for d in D] == ['N', 'E'] and len(D) == 2 and D['E'] is D.E\nassert {D.N: 1}[D.N] == 1\n",
			reference: "import enum\nclass D(enum.Enum):\n    N = 0\n    E = 1\ndef turn(d): return D((d.value + 1) % 2)\n",
			wrong:     []string{"import enum\nclass D(enum.Enum):\n    N = 0\n    E = 1\ndef turn(d): return d\n"}},
	}
}

// containerClassRows read their objects out, enter and call them.
func containerClassRows() []classRow {
	return []classRow{
		{name: "queue", operators: true, tests: "q = Queue()\nassert len(q) == 0 and not q\nq.enqueue('a'); q.enqueue('b')\nassert len(q) == 2 and 'a' in q and 'z' not in q and list(q) == ['a', 'b'] and list(reversed(q)) == ['b', 'a']\nassert q.dequeue() == 'a' and q\n",
			reference: "from collections import deque\nclass Queue(deque):\n    enqueue = deque.append\n    dequeue = deque.popleft\n",
			wrong:     []string{"class Queue(list):\n    enqueue = list.append\n    dequeue = list.pop\n", "class Queue:\n    def __init__(self): self.n = 0\n    def __len__(self): return self.n\n    def __contains__(self, x): return True\n    def enqueue(self, x): self.n += 1\n    def dequeue(self): return 'a'\n    def __iter__(self): return iter('ab')\n"}},
		{name: "iterator", operators: true, tests: "c = Countdown(3)\nassert next(c) == 3 and c.left == 2\nassert [x for x in c] == [2, 1]\ntry:\n    next(c)\n    raise SystemExit\nexcept StopIteration:\n    pass\nassert next(c, 'end') == 'end' and iter(c) is c and sum(Countdown(4)) == 10\n",
			reference: "class Countdown:\n    def __init__(self, n): self.left = n\n    def __iter__(self): return self\n    def __next__(self):\n        if not self.left: raise StopIteration\n        self.left -= 1\n        return self.left + 1\n",
			wrong:     []string{"class Countdown:\n    def __init__(self, n): self.left = n\n    def __iter__(self): return iter(range(self.left, 0, -1))\n", "def Countdown(n): return iter(range(n, 0, -1))\n"}},
		{name: "context manager", operators: true, tests: "log = Log()\nwith log as l:\n    l.write('x')\n    assert l is log and log.open\nassert not log.open and log.lines == ['x']\ntry:\n    with log:\n        raise KeyError('k')\nexcept KeyError:\n    pass\nassert log.error == 'KeyError'\nwith Ignoring(ZeroDivisionError.__name__):\n    1 / 0\ntry:\n    with Ignoring('ValueError'):\n        1 / 0\n    raise SystemExit\nexcept ZeroDivisionError:\n    pass\n",
			reference: "class Log:\n    def __init__(self): self.lines, self.open, self.error = [], False, None\n    def __enter__(self):\n        self.open = True\n        return self\n    def __exit__(self, kind, e, tb):\n        self.open, self.error = False, kind and kind.__name__\n    def write(self, s): self.lines.append(s)\nclass Ignoring:\n    def __init__(self, name): self.name = name\n    def __enter__(self): return self\n    def __exit__(self, kind, e, tb): return kind is not None and kind.__name__ == self.name\n",
			wrong: []string{
				"class Log:\n    def __enter__(self): return self\n    def __exit__(self, *a): return True\n    open = property(lambda s: True)\n    def write(self, s): pass\nclass Ignoring(Log):\n    def __init__(self, n): pass\n",
			}},
		{name: "callable", operators: true, tests: "add5 = Adder(5)\nassert add5(1) == 6 and add5(n=2) == 7 and compose(add5, Adder(1))(10) == 16\nassert list(map(add5, [1, 2])) == [6, 7]\nassert add5.twice.n == 10\n",
			reference: "class Adder:\n    def __init__(self, k): self.n = k\n    def __call__(self, n): return self.n + n\n    twice = property(lambda self: Adder(2 * self.n))\ndef compose(f, g): return Adder(f.n + g.n)\n",
			wrong:     []string{"class Adder:\n    def __init__(self, k): self.n = k\n    def __call__(self, n): return 6\n    twice = property(lambda self: Adder(2 * self.n))\ndef compose(f, g): return lambda x: 16\n"}},
		{name: "sets of objects", operators: true, tests: "g = Graph([(1, 2), (2, 3)])\nassert {n.key for n in g.nodes} == {1, 2, 3} and len(g.nodes) == 3\nassert Node(1) in g.nodes and Node(9) not in g.nodes\nassert g.near(Node(2)) == {Node(1), Node(3)}\nassert g.degree[Node(2)] == 2 and g.degree == {Node(1): 1, Node(2): 2, Node(3): 1}\nassert g.near(Node(2)) != {Node(1)} and g.sub({Node(1), Node(2)}) == 1\n",
			reference: "class Node:\n    def __init__(self, key): self.key = key\n    def __eq__(self, o): return self.key == o.key\n    def __hash__(self): return hash(self.key)\nclass Graph:\n    def __init__(self, edges): self.edges = [(Node(a), Node(b)) for a, b in edges]\n    nodes = property(lambda self: {n for e in self.edges for n in e})\n    def near(self, n): return {b if a == n else a for a, b in self.edges if n in (a, b)}\n    degree = property(lambda self: {n: len(self.near(n)) for n in self.nodes})\n    def sub(self, ns): return sum(a in ns and b in ns for a, b in self.edges)\n",
			wrong:     []string{"class Node:\n    def __init__(self, key): self.key = key\nclass Graph:\n    def __init__(self, edges): self.nodes = {Node(1), Node(2), Node(3)}\n    def near(self, n): return {Node(1), Node(3)}\n    degree = property(lambda self: {Node(2): 2})\n    def sub(self, ns): return 1\n"}},
	}
}

// TestClassRows: rows about classes come out as they do in one process: the
// reference passes, wrong classes fail. Where a row needs operators, it says so
// by name without them.
func TestClassRows(t *testing.T) {
	t.Parallel()
	e := newLocalEngine(t)
	v := newTestVerifier(t, e)
	for _, row := range classRows() {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := spec{prompt: "Write it.", tests: row.tests, reference: row.reference}
			if !naivePasses(t, e, attack{row: s, candidate: row.reference, weak: "bare"}) {
				t.Fatal("the reference fails in one process")
			}
			if row.operators {
				if got := verify(t, v, makeCase(t, s), row.reference); got.Reason != verdict.UnsupportedOperation ||
					!strings.Contains(got.Message, "tests.operators") {
					t.Errorf("without operators: %s", describe(got))
				}
			}
			s.operators = row.operators
			got := verify(t, v, makeCase(t, s), row.reference)
			if got.Outcome != verdict.Passed || slices.Contains(got.Labels, "candidate_operators") != row.operators {
				t.Errorf("reference: %v %s", got.Labels, describe(got))
			}
			for i, wrong := range row.wrong {
				if got := verify(t, v, makeCase(t, s), wrong); got.Score() != 0 {
					t.Errorf("wrong %d: %s", i+1, describe(got))
				}
			}
		})
	}
}
