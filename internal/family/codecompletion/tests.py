# The program of the test box: it runs the pack's own code, never a candidate's.
# This part runs the tests of one row, in a child of the server (server.py).

# What tests often import is imported here, once for all children.
import collections
import copy
import math
import random
import re
import string
import threading
import traceback
import types
import typing

try:
    import resource
except ImportError:  # Debian's minimal Python; the sandbox's limit holds alone
    resource = None

MAX_DETAIL = 16 << 10
DECODERS = ("collections", "decimal", "fractions")


class ProtocolFailure(BaseException):
    """The row cannot pass any more. Tests cannot swallow it: it is not an
    Exception, and the row stays failed."""


class CandidateError(Exception):
    """An exception of the candidate that is not in RAISABLE."""


RAISABLE = {e.__name__: e for e in (
    TypeError, ValueError, KeyError, IndexError, ZeroDivisionError,
    AttributeError, OverflowError, ArithmeticError, LookupError,
    RuntimeError, RecursionError, NotImplementedError)}


class Row:
    """The tests' side of one row: sends requests, remembers a failure."""

    def __init__(self, channel, objects, mutates):
        self.channel, self.mutates = channel, mutates
        self.handles, self.operators = bool(objects), objects == "operators"
        self.failed, self.known, self.answers = None, {}, 0
        self.lock, self.owner, self.waiting = threading.RLock(), os.getpid(), False
        self.most = MAX_ARGUMENTS if mutates else MAX_NODES
        Sealed.row = self

    def fail(self, why):
        self.failed = self.failed or why
        raise ProtocolFailure(self.failed)

    def unsupported(self, operation):
        """Ends the row over an operation that has no answer."""
        self.fail("unsupported " + operation)

    def handle(self, number):
        if not self.handles:
            raise Malformed
        if number not in self.known:
            self.known[number] = Handle(number)
        return self.known[number]

    def foreign(self, x):
        if type(x) is not Handle:
            raise Unsupported
        return atom(72, b"%x" % _part(x, "_name"))

    def encode(self, x):
        try:
            return Encoder(self.foreign, MAX_ARGUMENTS, method=passed).value(x)
        except TooLarge:
            self.fail("large")
        except Unsupported:
            self.fail("argument")  # not a TypeError, which a test may expect

    def request(self, operation, on, name, *rest):
        """Asks the candidate box and returns the kind of the answer and its
        content. Decoding a set of objects asks for their hashes."""
        target = b"N" if on is None else self.foreign(on)
        frame = message(text(operation), target, text(name), *rest)
        if os.getpid() != self.owner:
            self.fail("sticky")  # in a fork, the lock may be held for ever
        with self.lock:
            if self.failed or self.waiting:
                self.fail("sticky")
            answer = self.exchange(frame)
            try:
                return self.understood(Decoder(answer, self.handle, self.most), name)
            except MemoryError:
                self.fail("memory")
            except BaseException as e:
                if from_tests(e):
                    self.failed = self.failed or "interrupted"
                    raise
                self.fail("malformed")

    def exchange(self, frame):
        """Sends a request and waits for the answer. If the tests raise something
        meanwhile, as a signal handler may, the answer is lost and the row with
        it."""
        self.waiting = True
        try:
            self.channel.send(frame)
            answer = self.channel.receive()
        except FrameTooLarge:
            self.fail("large")
        except MemoryError:
            self.fail("memory")
        except BaseException:
            self.failed = self.failed or "interrupted"
            raise
        self.waiting = False
        self.answers += 1
        return answer

    def close(self):
        """Waits for requests of other threads and allows no more."""
        with self.lock:
            verdict, self.failed = self.failed, "sticky"
        return verdict

    def understood(self, reply, name):
        reply.open()
        kind = reply.only(str)
        if kind == "raise":
            out = raised(name, reply.only(str), reply.value(), reply.value())
        elif kind == "value":
            out = reply.value()
        elif kind == "changed":
            out = reply.value(), reply.only(list)
        elif kind == "callable":
            out = None
        else:
            raise Malformed
        reply.end()
        return kind, out

    def value(self, answer, callable_value=None):
        kind, out = answer
        if kind == "raise":
            raise out from None
        return callable_value if kind == "callable" else out

    def call(self, on, name, args, kwargs, bound):
        given = self.encode((args, kwargs))
        answer = self.request("call", on, name, given, b"T" if bound else b"F")
        if answer[0] != "changed":
            return self.value(answer)
        result, changed = answer[1]
        for old, new in zip((*args, *kwargs.values()), changed):
            if any(old is b for b in bound) and type(new) is type(old):
                write_back(old, new)
        return result


def passed(kind):
    """The encoder's method for an argument whose type is not in EXACT."""
    if any(kind is p for p in PROXIES):
        return None
    return inherited(kind) or number_like(kind)


def raised(asked, name, args, shown):
    """The candidate's exception, with its arguments and its text."""
    cls = RAISABLE.get(name, CandidateError)
    if name == "StopIteration" and asked == "__next__":
        cls = StopIteration
    if shown is not None and (args is not None or cls is KeyError):
        own = {"__str__": lambda self: shown, "__module__": cls.__module__}
        cls = type(cls.__name__, (cls,), own)
    if args is None:
        args = () if shown is None else (shown,)
    out = cls(*args)
    out.from_candidate = True
    return out


def from_tests(e):
    """Whether the tests' own code raised e while a value was decoded."""
    tb = e.__traceback__
    while tb is not None:
        space = tb.tb_frame.f_globals
        if space is not globals() and space.get("__name__") not in DECODERS:
            return True
        tb = tb.tb_next
    return False


def write_back(old, new):
    """Gives an argument the content that the candidate has given it."""
    if isinstance(old, (list, bytearray)):
        old[:] = new
    elif isinstance(old, (dict, set)):
        old.clear()
        old.update(new)
    else:
        old.clear()
        old.extend(new)


def namespace(row, prompt, names):
    """The tests' globals: the prompt's own names, then the candidate's."""
    module = types.ModuleType(TESTS)
    space = vars(module)
    space["__builtins__"] = builtins
    if row.handles:
        space.update(GUARDS)
    sys.modules[module.__name__] = module  # dataclasses of the tests look here
    if prompt is not None:
        try:
            exec(compiled(prompt, "prompt.py", row), space)
        except BaseException:
            pass  # prose that happens to parse, or a prompt that exits
    for name, kind in names:
        space[name] = (Constructor if kind == "class" else Function)(name)
    for name, kind in names:
        if kind == "value":
            answer = row.request("get", None, name)
            if answer[0] == "value":
                space[name] = answer[1]
            else:
                del space[name]
    return space


def run(row, prompt, tests, names):
    """Runs the tests and returns a verdict and a traceback."""
    detail = ""
    try:
        space = namespace(row, prompt, names)
        asked = row.answers
        exec(compiled(tests, "tests.py", row), space)
        if row.answers == asked:  # a file that only defines its tests
            run_defined(space)
    except MemoryError:
        row.failed = row.failed or "memory"
    except BaseException:
        row.failed = row.failed or "fail"  # before the traceback asks for reprs
        detail = explain()
    if os.getpid() != row.owner:
        # A fork of the tests reports nothing, but its exit status may be read.
        os._exit(1 if row.failed else 0)
    return row.close() or "pass", detail


def run_defined(space):
    """Runs the test cases of unittest that a file of tests defines."""
    unittest = sys.modules.get("unittest")
    if unittest is None:
        return
    result = unittest.TestResult()
    for kind in list(space.values()):
        if type(kind) is type and issubclass(kind, unittest.TestCase) and kind.__module__ == TESTS:
            unittest.defaultTestLoader.loadTestsFromTestCase(kind).run(result)
    for kind, found in (("failed", result.failures + result.errors), ("passed unexpectedly", result.unexpectedSuccesses)):
        if found:
            raise AssertionError("%d tests %s, the first:\n%s" % (len(found), kind, found[0][1] if kind == "failed" else found[0]))


def explain():
    """The traceback, for the restricted folder only."""
    try:
        return traceback.format_exc(limit=-8)[-MAX_DETAIL:]
    except BaseException:
        return "the traceback cannot be shown"


def limit(memory, seconds):
    if resource is None:
        return
    for what, value in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, seconds),
                        (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(what)[1]
        if hard != resource.RLIM_INFINITY:
            value = min(value, hard)
        resource.setrlimit(what, (value, value))
