# The oracle runs the pack's own code: prompts and tests, never a candidate's.
#
# A small server forks a child per request. The child reads the request itself,
# so that the server's memory, which later children inherit, holds no row.

# What tests often import is imported here, once for all children.
import copy
import gc
import math
import random
import re
import signal
import string
import threading
import traceback
import types
import typing

try:
    import resource
except ImportError:  # Debian's minimal Python; the sandbox's limit holds alone
    resource = None

FOLDER = "securebench-row"  # where a row begins; tests make no such name
MAX_DETAIL = 16 << 10
DECODERS = ("collections", "decimal", "fractions")


# Running the tests.


class ProtocolFailure(BaseException):
    """The row cannot pass any more. No except clause of a test swallows it:
    it is no Exception, and the channel stays failed."""


class CandidateError(Exception):
    """An exception of the candidate that is on no list."""


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
        """Ends the row over what nobody can answer here."""
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
            self.fail("argument")  # no TypeError: a test may expect one

    def request(self, operation, on, name, *rest):
        """Asks the worker, and gives back the kind of answer and its decoder.
        A set of objects asks for their hashes while it is decoded."""
        target = b"N" if on is None else self.foreign(on)
        frame = message(text(operation), target, text(name), *rest)
        if os.getpid() != self.owner:
            self.fail("sticky")  # and the lock may be held for ever
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
        """Sends a request and waits for the answer. What the tests raise
        meanwhile, as a handler of signals may, is theirs, but the answer to
        this request is lost, and with it the row."""
        self.waiting = True
        try:
            self.channel.send(frame)
            answer = self.channel.receive()
        except TooLarge:
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
        """Waits for what other threads have asked; they ask nothing more."""
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
    """How the encoder takes what is of no exact known type in an argument."""
    if any(kind is p for p in PROXIES):
        return None
    return inherited(kind) or number_like(kind)


def raised(asked, name, args, shown):
    """The exception of the candidate, with its arguments and its text."""
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
    """Whether code of the tests raised e while a value was decoded."""
    tb = e.__traceback__
    while tb is not None:
        space = tb.tb_frame.f_globals
        if space is not globals() and space.get("__name__") not in DECODERS:
            return True
        tb = tb.tb_next
    return False


def write_back(old, new):
    """Gives an argument the content that the candidate left it with."""
    if isinstance(old, (list, bytearray)):
        old[:] = new
    elif isinstance(old, (dict, set)):
        old.clear()
        old.update(new)
    else:
        old.clear()
        old.extend(new)


def namespace(row, prompt, names):
    """What the tests see: the prompt's own names, then the candidate's."""
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
            pass  # prose that happens to parse; it may also exit
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
    """Runs the tests to their end and says what became of them."""
    detail = ""
    try:
        space = namespace(row, prompt, names)
        exec(compiled(tests, "tests.py", row), space)
    except MemoryError:
        row.failed = row.failed or "memory"
    except BaseException:
        row.failed = row.failed or "fail"  # before objects are shown, which asks
        detail = explain()
    if os.getpid() != row.owner:
        # A fork of the tests that came this far has no say, but may be asked.
        os._exit(1 if row.failed else 0)
    return row.close() or "pass", detail


def explain():
    """The traceback, for the restricted lane only."""
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


# The server.


def child(channel):
    os.dup2(0, 2)  # what tests print goes nowhere
    os.dup2(0, 1)
    request = Decoder(channel.receive())
    request.open()
    operation = request.only(str)
    memory, seconds = request.only(int), request.only(int)
    limit(memory, seconds)
    arguments = request.value()
    request.end()
    del request
    if operation == "analyse":
        channel.send(analyse(arguments))
        return
    prompt, tests, names, handles, mutates, seed = arguments
    random.seed(seed)
    os.chdir(FOLDER)
    row = Row(channel, handles, mutates)
    verdict, detail = run(row, prompt, tests, names)
    channel.send(message(text("verdict"), text(verdict), text(detail),
                         Encoder().value(row.answers)))


def clear(pid):
    """Ends whatever the child has left behind."""
    try:
        if os.getpid() == 1:
            os.kill(-1, signal.SIGKILL)  # everybody else in the sandbox
        else:
            os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass
    try:
        while os.waitpid(-1, 0 if os.getpid() == 1 else os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def empty(root):
    """Removes all that lies in a folder, and follows no link. Folders inside
    are brought to the top first, so that no depth is too deep."""
    while True:
        try:
            entries = list(os.scandir(root))
        except FileNotFoundError:
            return
        if not entries:
            return
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
                continue
            os.chmod(entry.path, 0o700)
            for inner in list(os.scandir(entry.path)):
                if inner.is_dir(follow_symlinks=False):
                    os.chmod(inner.path, 0o700)
                    os.rename(inner.path, os.path.join(root, os.urandom(16).hex()))
                else:
                    os.unlink(inner.path)
            os.rmdir(entry.path)


def shared():
    """System V objects, which would outlive a row as well."""
    found = set()
    for kind in ("shm", "sem", "msg"):
        try:
            with open("/proc/sysvipc/" + kind) as f:
                found.update((kind, *line.split()[:2]) for line in f)
        except OSError:
            pass  # there are none here
    return found


def restore(scratch, before):
    """Makes the sandbox what it was before the row, and says whether it is."""
    try:
        for root in scratch:
            empty(root)
        return shared() <= before
    except OSError:
        return False


def serve(channel, scratch):
    before = shared()
    gc.freeze()
    clean = True
    while clean:
        os.makedirs(FOLDER, exist_ok=True)
        channel.receive()  # empty: it asks for a child, which reads the rest
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                child(channel)
                os._exit(0)
            except BaseException:
                os._exit(70)
        status = os.waitpid(pid, 0)[1]
        clear(pid)
        clean = restore(scratch, before)
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        channel.send(message(text("done"), Encoder().value(code), Encoder().value(clean)))


# The arguments are the places that a row can write to; tests see none.
places = sys.argv[1:]
del sys.argv[1:]
serve(private_channel(), places)
