package codecompletion

import (
	"fmt"
	"time"

	"securebench/internal/verdict"
)

// insider is what a candidate does to hold the candidate box's own channel: nothing
// in the candidate box is a boundary.
const insider = `
import __main__ as M
import os, sys
def _candidate():
    f = sys._getframe()
    while f:
        w = f.f_locals.get('self')
        if type(w).__name__ == 'Candidate':
            return w
        f = f.f_back
W = _candidate()
FD = W.channel.sink
def frame(data):
    return len(data).to_bytes(4, 'big') + data
`

// encodes makes the candidate box's encoder answer with the given Python bytes.
func encodes(expression string) string {
	return insider + fmt.Sprintf(`
class Forger:
    def __init__(self, *a, **k): pass
    def value(self, x, depth=1): return EVIL
EVIL = %s
M.Encoder = Forger
def add(a, b): return 4
`, expression)
}

// protocolAttacks speak the protocol themselves. None has a naive runner to
// fire against: their target is this protocol alone.
func protocolAttacks() []attack {
	hasty := add()
	hasty.limits.Timeout = time.Second
	forged := func(name, expression string) attack {
		return attack{id: "codec", name: name, candidate: encodes(expression), reason: verdict.ProtocolViolation}
	}
	wrote := func(name, statement string) attack {
		return attack{id: "frames", name: name, reason: verdict.ProtocolViolation,
			candidate: insider + statement + "\ndef add(a, b): return 4\n"}
	}
	out := []attack{
		forged("an unknown tag", `b'X'`),
		forged("depth 1e6", `b'L1:' * 1_000_000 + b'N'`),
		forged("depth 65", `b'L1:' * 64 + b'N'`),
		forged("a million values", `b'L1000000:' + b'N' * 1_000_000`),
		forged("a set of 1 and True", `b'E2:I1:1T'`),
		forged("a set out of order", `b'E2:I1:2I1:1'`),
		forged("an unhashable member", `b'E1:L0:'`),
		forged("a key twice", `b'M2:I1:1NI1:1N'`),
		forged("keys 1 and 1.0", `b'M2:I1:1ND\x3f\xf0' + bytes(6) + b'N'`),
		forged("a handle", `b'H1:0'`),
		forged("bad hex", `b'I2:zz'`),
		forged("a bool with content", `b'T1:1'`),
		forged("a counter with a key twice", `b'c2:I1:1NI1:1N'`),
		forged("an unhashable key of an ordered dict", `b'O1:L0:N'`),
		forged("a factory that is no builtin", `b'd0:S4:eval'`),
		forged("a factory that is a class of the tests", `b'd0:S7:Counter'`),
		forged("a huge range", `b'RI1:0I9:fffffffffI1:1'`),
		forged("a decimal with a long exponent", `b'P9:1E+999999'`),
		forged("a fraction not in lowest terms", `b'KI1:2I1:4'`),
		forged("a cut-off value", `b'S99:abc'`),
		forged("two values", `b'I1:5I1:6'`),
		wrote("a frame at import", `os.write(FD, frame(b'U1:N'))`),
		wrote("a verdict", `os.write(FD, frame(b'U3:S7:verdictS4:passS0:'))`),
		wrote("the server's last word", `os.write(FD, frame(b'U2:S4:doneI1:0'))`),
		wrote("a header of 4 GiB", `os.write(FD, b'\xff\xff\xff\xff')`),
		wrote("one stray byte", `os.write(FD, b'\0')`),
		wrote("text", `os.write(FD, b'{"passed": true}\n')`),
		{id: "frames", name: "an endless stream", reason: verdict.ProtocolViolation,
			candidate: insider + "while 1: os.write(FD, bytes(65536))\n"},
		{id: "frames", name: "a reply more than asked", reason: verdict.ProtocolViolation,
			candidate: insider + "send = W.channel.send\ndef twice(data):\n    send(data)\n    send(data)\ndef add(a, b):\n    W.channel.send = twice\n    return a + b\n"},
		{id: "frames", name: "a reply of another call", reason: verdict.ProtocolViolation,
			candidate: insider + "last = []\nsend = W.channel.send\ndef again(data):\n    last.append(data)\n    send(last[0])\nW.channel.send = again\ndef add(a, b): return a + b\n"},
		{id: "frames", name: "a slow drip", reason: verdict.VerificationTimeout, row: hasty,
			candidate: insider + "import time\ndef add(a, b):\n    os.write(FD, bytes([0, 0, 16, 0]))\n    while 1:\n        os.write(FD, b'x')\n        time.sleep(0.05)\n"},
		{id: "frames", name: "the channel closed", reason: verdict.WorkerExited,
			candidate: insider + "os.close(W.channel.source)\nos.close(FD)\n"},
	}
	return append(out, exceptionAttacks()...)
}

// exceptionAttacks are about values and exceptions that tests could take for
// something of their own.
func exceptionAttacks() []attack {
	zip := spec{
		prompt: "Define twice(x).", reference: "def twice(x):\n    return 2 * x\n",
		tests: "for got, want in zip(map(twice, [1, 2, 3]), [2, 4, 6]):\n    assert got == want\n",
	}
	swallow := spec{
		prompt: "Define add(a, b).", reference: honestMain,
		tests: "try:\n    r = add(2, 3)\nexcept:\n    r = 5\nassert r == 5\n",
	}
	expects := spec{
		prompt: "Define half(n); an odd n raises ValueError.", reference: "def half(n):\n    if n % 2:\n        raise ValueError(n)\n    return n // 2\n",
		tests: "assert half(4) == 2\ntry:\n    half(3)\nexcept ValueError:\n    pass\nelse:\n    raise AssertionError\n",
	}
	written := spec{
		prompt: "Define ordered(l).", reference: "def ordered(l):\n    return sorted(l)\n",
		tests: "l = [3, 1, 2]\nassert ordered(l) == sorted(l)\n",
	}
	together := spec{
		prompt: "Define a(), b() and c(x, y).", reference: "def a(): return 1\ndef b(): return 2\ndef c(x, y): return x + y\n",
		tests: "assert c(a(), b()) == 3\n",
	}
	counts := spec{
		prompt: "Define count(s).", reference: "from collections import Counter\ndef count(s):\n    return Counter(s)\n",
		tests: "from collections import Counter\nassert count('aab') == Counter('aab')\nassert count('aab').most_common(1) == [('a', 2)]\n",
	}
	ordered := spec{
		prompt: "Define index(keys).", reference: "from collections import OrderedDict\ndef index(keys):\n    return OrderedDict((k, 1) for k in keys)\n",
		tests: "from collections import OrderedDict\nassert index('ba') == OrderedDict(b=1, a=1)\n",
	}
	object := spec{
		prompt: "Define class Box.", reference: "class Box:\n    def __init__(self, x):\n        self.x = x\n",
		tests: "assert Box(4).x == 4\nassert Box(4) is not Box(4)\n",
	}
	as := func(name string) string {
		return insider + "M.nearest = lambda kind: '" + name + "'\ndef twice(x): raise ValueError\n"
	}
	return []attack{
		{id: "5.4", name: "StopIteration ends the loop of the tests", weak: "sentinel", row: zip, reason: verdict.TestsFailed,
			candidate: "def twice(x): raise StopIteration\n"},
		{id: "5.4", name: "StopIteration by a forged name", row: zip, reason: verdict.TestsFailed, candidate: as("StopIteration")},
		{id: "5.4", name: "AssertionError by a forged name", row: zip, reason: verdict.TestsFailed, candidate: as("AssertionError")},
		{id: "5.4", name: "a name that is no exception", row: zip, reason: verdict.TestsFailed, candidate: as("print")},
		{id: "5.5", name: "os._exit under a bare except", row: swallow, reason: verdict.WorkerExited,
			candidate: "import os\ndef add(a, b): os._exit(0)\n"},
		{id: "5.5", name: "SystemExit under a bare except", weak: "sentinel", row: swallow, reason: verdict.WorkerExited,
			candidate: "def add(a, b): raise SystemExit\n"},
		{id: "5.5", name: "a bad value under a bare except", row: swallow, reason: verdict.ProtocolViolation,
			candidate: encodes(`b'E2:I1:1T'`)},
		{id: "5.5", name: "a chameleon under a bare except", weak: "sentinel", row: swallow, reason: verdict.TestsFailed,
			candidate: equalToAll},
		{id: "5.4", name: "another exception than the expected", row: expects, reason: verdict.TestsFailed,
			candidate: "def half(n):\n    if n % 2: raise KeyError\n    return n // 2\n"},
		{id: "5.3", name: "the argument changed for the tests", weak: "sentinel", row: written, reason: verdict.TestsFailed,
			candidate: "def ordered(l):\n    l.clear()\n    return []\n"},
		{id: "5.6", name: "an object with its own equality", weak: "", row: object, reason: verdict.TestsFailed,
			candidate: "class Box:\n    def __init__(self, x): self.x = 5\n    def __eq__(self, o): return True\n"},
		{id: "values", name: "cyclic", reason: verdict.OutputLimit, candidate: "def add(a, b):\n    x = []\n    x.append(x)\n    return x\n"},
		{id: "values", name: "deep", reason: verdict.OutputLimit, candidate: "def add(a, b):\n    x = []\n    for _ in range(100_000): x = [x]\n    return x\n"},
		{id: "values", name: "many", reason: verdict.OutputLimit, candidate: "def add(a, b): return [0] * 10**7\n"},
		{id: "values", name: "a huge int", reason: verdict.OutputLimit, candidate: "def add(a, b): return 2**(8 * 10**7)\n"},
		{id: "values", name: "a huge string", reason: verdict.OutputLimit, candidate: "def add(a, b): return 'x' * (9 << 20)\n"},
		{id: "values", name: "a huge range", reason: verdict.OutputLimit, candidate: "def add(a, b): return range(10**30)\n"},
		{id: "values", name: "two that are too large together", row: together, reason: verdict.TestsFailed,
			candidate: "def a(): return b'x' * 7_700_000\ndef b(): return [0.5] * 190_000\ndef c(x, y): return 3\n"},
		{id: "values", name: "a counter that equals everything", weak: "sentinel", row: counts, reason: verdict.TestsFailed,
			candidate: "from collections import Counter\nclass C(Counter):\n    __eq__ = lambda *a: True\n    __ne__ = lambda *a: False\n    most_common = lambda *a: [('a', 2)]\ndef count(s):\n    return C()\n"},
		{id: "values", name: "a default dict that equals everything", weak: "sentinel", row: ordered, reason: verdict.TestsFailed,
			candidate: "from collections import defaultdict\nclass D(defaultdict):\n    __eq__ = lambda *a: True\n    __missing__ = lambda *a: 1\ndef index(keys):\n    return D()\n"},
		{id: "values", name: "another order", row: ordered, reason: verdict.TestsFailed,
			candidate: "from collections import OrderedDict\ndef index(keys):\n    return OrderedDict((k, 1) for k in sorted(keys))\n"},
		{id: "values", name: "an endless generator", reason: verdict.OutputLimit, candidate: "import itertools\ndef add(a, b): return itertools.count()\n"},
		{id: "values", name: "nan", reason: verdict.TestsFailed, candidate: "def add(a, b): return float('nan')\n"},
		{id: "values", name: "inf", reason: verdict.TestsFailed, candidate: "def add(a, b): return float('inf')\n"},
		{id: "values", name: "an object", reason: verdict.TestsFailed, candidate: "def add(a, b): return object()\n"},
		{id: "values", name: "a function", reason: verdict.TestsFailed, candidate: "def add(a, b): return add\n"},
		{id: "names", name: "nothing defined", reason: verdict.TestsFailed, candidate: "pass\n"},
		{id: "names", name: "a constant instead of a function", reason: verdict.TestsFailed, candidate: "add = 5\n"},
	}
}
