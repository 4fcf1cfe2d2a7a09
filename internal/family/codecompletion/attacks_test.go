package codecompletion

import (
	"errors"
	"strings"
	"time"

	"securebench/internal/verdict"
)

var errDead = errors.New("no sandboxes today")

// sentinel finds the file that the naive runner takes as success.
const sentinel = `
import os, sys
target = sys.argv[3] if len(sys.argv) > 3 else '/tmp/sentinel'
def mark(text='1'):
    with open(target + '.new', 'w') as f:
        f.write(text)
    os.replace(target + '.new', target) # never half written, whoever is killed
`

// equalToAll is the chameleon of many of the attacks.
const equalToAll = `
class Chameleon:
    def __eq__(self, other): return True
    __ne__ = __lt__ = __le__ = __gt__ = __ge__ = lambda self, other: False
    __hash__ = lambda self: 0
    __bool__ = lambda self: True
    __class__ = property(lambda self: int)
def add(a, b):
    return Chameleon()
`

const honestMain = "def add(a, b):\n    return a + b\n"

// verdictAttacks want a pass without a solution: the nine that pass in the
// reference's runner (B1 to B9), and rows of the catalogue.
func verdictAttacks() []attack {
	unit := add()
	unit.tests = `import io, unittest
class T(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(2, 3), 5)
        self.assertEqual(add(-4, 10), 6)
suite = unittest.defaultTestLoader.loadTestsFromTestCase(T)
assert unittest.TextTestRunner(stream=io.StringIO()).run(suite).wasSuccessful()
`
	return []attack{
		{id: "B1", name: "sentinel, then os._exit in the call", weak: "sentinel", reason: verdict.WorkerExited,
			candidate: sentinel + "mark()\ndef add(a, b): os._exit(0)\n"},
		{id: "B2", name: "sentinel, then SystemExit in the call", weak: "sentinel", reason: verdict.WorkerExited,
			candidate: sentinel + "mark()\ndef add(a, b): raise SystemExit(0)\n"},
		{id: "B3", name: "sentinel, then posix._exit at import", weak: "sentinel", reason: verdict.WorkerExited,
			candidate: sentinel + "mark()\nimport posix\nposix._exit(0)\n"},
		{id: "B4", name: "an object that equals everything", weak: "sentinel", reason: verdict.TestsFailed,
			candidate: equalToAll},
		{id: "B5", name: "the test source replaced", weak: "sentinel", reason: verdict.TestsFailed,
			candidate: "import __main__\n__main__.TEST_SOURCE = 'pass'\n"},
		{id: "B6", name: "expected values read from the test file", weak: "sentinel", reason: verdict.TestsFailed,
			candidate: `
import re
def add(a, b):
    with open('solution_test.py') as f:
        return int(re.search(r'add\(%d, %d\) == (\d+)' % (a, b), f.read()).group(1))
`},
		{id: "B7", name: "stack walk to the test source", weak: "sentinel", reason: verdict.TestsFailed,
			candidate: `
import re, sys
def add(a, b):
    f = sys._getframe()
    while f:
        text = f.f_globals.get('TEST_SOURCE')
        if text:
            return int(re.search(r'add\(%d, %d\) == (\d+)' % (a, b), text).group(1))
        f = f.f_back
`},
		{id: "B8", name: "itself again under python -O", weak: "sentinel", reason: verdict.WorkerExited,
			candidate: `
import os, sys
if not sys.flags.optimize:
    os.execv(sys.executable, [sys.executable, '-O'] + sys.argv)
def add(a, b):
    return 4
`},
		{id: "B9", name: "sentinel written by atexit", weak: "sentinel", reason: verdict.TestsFailed,
			candidate: sentinel + "import atexit\natexit.register(lambda: (mark(), os._exit(0)))\ndef add(a, b): return 4\n"},
		{id: "C01", name: "os._exit at import", weak: "bare", reason: verdict.WorkerExited,
			candidate: "import os\nos._exit(0)\n"},
		{id: "C02", name: "sys.exit at import", weak: "bare", reason: verdict.WorkerExited,
			candidate: "import sys\nsys.exit(0)\n"},
		{id: "C02", name: "sys.exit in the call", weak: "bare", reason: verdict.WorkerExited,
			candidate: "import sys\ndef add(a, b): sys.exit(0)\n"},
		{id: "C02", name: "exit in __del__", weak: "bare", reason: verdict.WorkerExited,
			candidate: "import os\nclass D:\n    def __del__(self): os._exit(0)\ndef add(a, b):\n    D()\n    return 4\n"},
		{id: "C03", name: "any file that holds the tests", weak: "sentinel", reason: verdict.TestsFailed,
			candidate: `
import glob, re
def add(a, b):
    for path in glob.glob('*test*') + glob.glob('/tmp/*test*') + glob.glob('/proc/[0-9]*/cmdline'):
        try:
            with open(path) as f:
                return int(re.search(r'add\(%d, %d\) == (\d+)' % (a, b), f.read()).group(1))
        except (OSError, AttributeError, ValueError):
            pass
`},
		{id: "C04", name: "grader frames searched for expected values", weak: "sentinel", reason: verdict.TestsFailed,
			candidate: `
import re, sys
def add(a, b):
    f = sys._getframe()
    while f:
        for text in [*f.f_globals.values(), *f.f_locals.values(), *f.f_code.co_consts]:
            m = isinstance(text, str) and re.search(r'add\(%d, %d\) == (\d+)' % (a, b), text)
            if m:
                return int(m.group(1))
        f = f.f_back
`},
		{id: "C05", name: "forged verdicts everywhere", weak: "file*1", reason: verdict.WorkerExited,
			candidate: sentinel + `
mark()
print('{"passed": true, "score": 1}\n100 100\nALL TESTS PASSED', flush=True)
print('ALL TESTS PASSED', file=sys.stderr, flush=True)
def add(a, b):
    os._exit(0)
`},
		{id: "C06", name: "builtins patched", weak: "bare", reason: verdict.TestsFailed,
			candidate: "import builtins\nbuiltins.exec = lambda *a: None\nbuiltins.len = builtins.isinstance = lambda *a: 1\n"},
		{id: "C07", name: "a chameleon as a subclass of int", weak: "sentinel", reason: verdict.TestsFailed,
			candidate: "class I(int):\n    def __eq__(self, o): return True\n    __hash__ = int.__hash__\ndef add(a, b): return I(4)\n"},
		{id: "C08", name: "a value that runs code when it is unpickled", weak: "pickle", reason: verdict.TestsFailed,
			candidate: "import os\nclass P:\n    def __reduce__(self): return os._exit, (0,)\ndef add(a, b): return P()\n"},
		{id: "C09", name: "unittest stubbed", weak: "sentinel", reason: verdict.TestsFailed, row: unit,
			candidate: "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\ndef add(a, b): return 4\n"},
		{id: "C12", name: "a daemon that overwrites the verdict", weak: "file", reason: verdict.TestsFailed,
			candidate: sentinel + `
import posix, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(64):
            try: os.close(fd)
            except OSError: pass
        for _ in range(1000):
            mark()
            time.sleep(0.01)
    posix._exit(0)
def add(a, b): return 4
`},
		{id: "C13", name: "a verdict on every descriptor", weak: "fd", reason: verdict.ProtocolViolation,
			candidate: `
import os
for fd in range(3, 1024):
    try: os.write(fd, b'{"passed": true}\n')
    except OSError: pass
def add(a, b): return 4
`},
		{id: "C21", name: "shadow modules in the working directory", weak: "bare*2", reason: verdict.TestsFailed,
			candidate: `
import os, sys
for name in ('json', 'random', 'typing', 'pickle'):
    with open(name + '.py', 'w') as f:
        f.write('import os\nos._exit(0)\n')
sys.path.insert(0, os.getcwd())
`},
		{id: "C25", name: "utf-7 hides the chameleon", weak: "sentinel", reason: verdict.TestsFailed,
			candidate: "# -*- coding: utf-7 -*-\n" + strings.ReplaceAll(equalToAll, "__eq__", "+AF8AXw-eq+AF8AXw-")},
		{id: "C26", name: "the clock patched", weak: "sentinel", reason: verdict.TestsFailed,
			row: spec{prompt: "Define add(a, b), fast.", reference: honestMain,
				tests: "import time\nt = time.time()\nassert add(2, 3) == 5\nassert time.time() - t < 2\n"},
			candidate: "import time\nsleep = time.sleep\ntime.time = time.perf_counter = lambda: 0\ndef add(a, b):\n    sleep(3)\n    return a + b\n"},
		{id: "C27", name: "work done after the clock", weak: "sentinel", reason: verdict.TestsFailed,
			row: spec{prompt: "Define squares(n), fast.", reference: "def squares(n):\n    return [i * i for i in range(n)]\n",
				tests: "import time\nt = time.time()\nr = squares(3)\nassert time.time() - t < 2\nwhile not r and time.time() - t < 4: time.sleep(0.1)\nassert r == [0, 1, 4]\n"},
			candidate: `
import threading, time
def squares(n):
    out = []
    def late():
        time.sleep(1)
        out[:] = [i * i for i in range(n)]
    threading.Thread(target=late, daemon=True).start()
    return out
`},
		{id: "C27", name: "a lazy object that answers at comparison", weak: "sentinel", reason: verdict.TestsFailed,
			candidate: "class Lazy:\n    def __eq__(self, other): return other == other\ndef add(a, b): return Lazy()\n"},
		{id: "C28", name: "all objects searched for expected values", weak: "sentinel", reason: verdict.TestsFailed,
			candidate: `
import gc, re
def add(a, b):
    for d in gc.get_objects():
        if type(d) is dict:
            for text in list(d.values()):
                m = type(text) is str and re.search(r'add\(%d, %d\) == (\d+)' % (a, b), text)
                if m:
                    return int(m.group(1))
`},
		{id: "C30", name: "skip raised in the call", weak: "sentinel", reason: verdict.TestsFailed, row: unit,
			candidate: "import unittest\ndef add(a, b): raise unittest.SkipTest\n"},
		{id: "C30", name: "GeneratorExit in the call", reason: verdict.WorkerExited,
			candidate: "def add(a, b): raise GeneratorExit\n"},
		{id: "C30", name: "KeyboardInterrupt in the call", reason: verdict.WorkerExited,
			candidate: "def add(a, b): raise KeyboardInterrupt\n"},
	}
}

// resourceAttacks want to hang, flood or break the runner.
func resourceAttacks() []attack {
	hasty := add() // of these, no more is expected than that time runs out
	hasty.limits.Timeout = time.Second
	small := hasty
	small.limits.Output = 1 << 20
	return []attack{
		{id: "C10", name: "everybody in reach killed", reason: verdict.TestsFailed, alone: true,
			candidate: "import os, signal\nfor pid in (os.getppid(), 0, -1):\n    try: os.kill(pid, signal.SIGSTOP if pid > 0 else 9)\n    except OSError: pass\ndef add(a, b): return 4\n"},
		{id: "C15", name: "memory", reason: verdict.TestsFailed,
			candidate: "b = [bytearray(1 << 30) for _ in range(999)]\n"},
		{id: "C16", name: "a flood on standard output", reason: verdict.VerificationTimeout, row: small,
			candidate: "import sys\ndef add(a, b):\n    while 1: sys.stdout.write('x' * (1 << 20))\n"},
		{id: "C16", name: "a flood on standard error", reason: verdict.VerificationTimeout, row: small,
			candidate: "import sys\nwhile 1: sys.stderr.write('x' * (1 << 20))\n"},
		{id: "C17", name: "an endless loop that ignores signals", reason: verdict.VerificationTimeout, row: hasty,
			candidate: "import signal\nfor s in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM): signal.signal(s, signal.SIG_IGN)\ndef add(a, b):\n    while 1: pass\n"},
		{id: "C17", name: "an endless import", reason: verdict.VerificationTimeout, row: hasty,
			candidate: "import time\ntime.sleep(1e6)\n"},
		{id: "C18", name: "a child holds the pipes", reason: verdict.WorkerExited, alone: true,
			candidate: "import os\nif os.fork():\n    os._exit(0)\nos.setsid()\nimport time\ntime.sleep(1e6)\n"},
		{id: "C24", name: "a source of 50 MB", reason: verdict.CandidateTooLarge,
			candidate: "x = [" + strings.Repeat("1,", 25<<20) + "]\n"},
		{id: "C24", name: "nested brackets", reason: verdict.TestsFailed,
			candidate: "x = " + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "\n"},
		{id: "C24", name: "decorators", reason: verdict.TestsFailed,
			candidate: strings.Repeat("@f\n", 100_000) + "def add(a, b): return 4\n"},
		{id: "C31", name: "a crash", reason: verdict.WorkerExited,
			candidate: "import os\ndef add(a, b): os.abort()\n"},
		{id: "C31", name: "a stack overflow", reason: verdict.WorkerExited,
			candidate: "import sys\nsys.setrecursionlimit(10**9)\ndef add(a, b):\n    x = []\n    for _ in range(10**6): x = [x]\n    repr(x)\n    return 4\n"},
		{id: "C32", name: "an exception that cannot be shown", reason: verdict.VerificationTimeout, row: hasty,
			candidate: "class E(Exception):\n    def __str__(self):\n        while 1: pass\n    __repr__ = __str__\n    args = property(__str__)\ndef add(a, b): raise E\n"},
		{id: "C32", name: "300 MB of exception", reason: verdict.TestsFailed,
			candidate: "def add(a, b): raise ValueError('\\x1b' * 300_000_000)\n"},
	}
}
