# The program of the candidate box. It contains only the candidate: no test, no
# expected value. It loads the candidate once, then serves requests.
#
# Candidate code can change everything in this process, so nothing here is a
# defence: the parent checks each reply, and the test box checks it again.

import _operator as operator  # the part that is written in C, as in encode.py
import marshal
import math

RAISABLE = (TypeError, ValueError, KeyError, IndexError, ZeroDivisionError,
            AttributeError, OverflowError, ArithmeticError, LookupError,
            RuntimeError, RecursionError, NotImplementedError)
MUTABLE = (list, dict, set, bytearray, deque, OrderedDict, defaultdict)
MAX_SHOWN = 1 << 16
_flags = type.__dict__["__flags__"].__get__
HEAP = 1 << 9  # the flag of types that are made at run time


def enter(x):
    return special(x, "__enter__")(x)


def leave(x, name=None, args=()):
    """Leaves a context, with an exception of the tests or without."""
    if name is None:
        return bool(special(x, "__exit__")(x, None, None, None))
    e = next((c for c in RAISABLE if c.__name__ == name), Exception)(*args)
    return bool(special(x, "__exit__")(x, type(e), e, None))


def special(x, name):
    try:
        return getattr(type(x), name)
    except AttributeError:
        raise TypeError("the object does not support the context manager protocol") from None


# The operators that a row may ask for. Each is Python's own, so it finds the
# candidate's methods as it would in one process.
OPERATORS = {
    "__len__": len, "__iter__": iter, "__next__": next, "__reversed__": reversed,
    "__getitem__": operator.getitem, "__setitem__": operator.setitem,
    "__delitem__": operator.delitem, "__contains__": operator.contains, "__str__": str,
    "__repr__": repr, "__format__": format, "__hash__": hash, "__bool__": bool,
    "__call__": lambda x, /, *a, **k: x(*a, **k), "__enter__": enter, "__exit__": leave,
    "__neg__": operator.neg, "__pos__": operator.pos, "__invert__": operator.invert,
    "__abs__": abs, "__int__": int, "__float__": float, "__complex__": complex,
    "__index__": operator.index, "__round__": round, "__trunc__": math.trunc,
    "__floor__": math.floor, "__ceil__": math.ceil, "__divmod__": divmod,
    "__rdivmod__": lambda x, y: divmod(y, x), "__pow__": pow,
    "__rpow__": lambda x, y, *m: pow(y, x, *m), "__ipow__": operator.ipow,
    "__eq__": operator.eq, "__ne__": operator.ne, "__lt__": operator.lt,
    "__le__": operator.le, "__gt__": operator.gt, "__ge__": operator.ge,
}


def arithmetic(function):
    name = function.rstrip("_")
    plain, into = getattr(operator, function), getattr(operator, "i" + name)
    OPERATORS[f"__{name}__"], OPERATORS[f"__i{name}__"] = plain, into
    OPERATORS[f"__r{name}__"] = lambda x, y: plain(y, x)


for _name in ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod",
              "lshift", "rshift", "and_", "or_", "xor"):
    arithmetic(_name)


def run(source, name, space):
    """Runs a module. compile() would make the types of ast first: that takes 1 ms,
    more than the rest."""
    try:
        exec(source, space)
    except SyntaxError as e:
        if e.filename == "<string>" and e.__traceback__.tb_next is None:  # not one of the source's own
            e.filename = name
        raise


def seed():
    """What is drawn from random is the same again, and elsewhere. Only a source that
    may use it pays for the import, which takes longer than the rest."""
    import random
    random.seed(0)


class Candidate:
    flags = 0  # the prompt's future statements, which hold for the candidate

    def __init__(self, channel):
        self.channel = channel
        self.module = type(sys)("candidate")
        self.objects, self.numbers = [], {}
        self.handles, self.classes = False, []

    def greet(self):
        return (text("value"), b"N")

    def program(self):
        """The program of this box, compiled: a box that runs the same Python starts
        faster with it."""
        return (text("value"), Encoder().value(marshal.dumps(compiled)))

    def prompt(self, source):
        """Runs the prompt, so that the candidate finds its imports and definitions.
        A prompt that fails leaves nothing."""
        space = vars(self.module)
        fresh = dict(space)
        if "random" in source:
            seed()
        sys.modules["candidate"] = self.module
        last = source.rstrip().rpartition("\n")[2]
        if last.endswith(":"):  # a head without a body
            source = source.rstrip() + "\n" + last[:len(last) - len(last.lstrip())] + "    pass\n"
        try:
            if "__future__" in source:
                code = compile(source, "prompt.py", "exec", dont_inherit=True)
                self.flags = code.co_flags & 0x1000000  # from __future__ import annotations
                exec(code, space)
            else:
                run(source, "prompt.py", space)
        except BaseException:
            space.clear()
            space.update(fresh)
        return (text("value"), b"N")

    def extract(self, program, words, prompt, names):
        """Takes the code from an agent's text, before any of it runs."""
        space = {}
        exec(compile(program, "extract.py", "exec", dont_inherit=True), space)
        return (text("value"), Encoder().value(space["extract"](words, prompt, names)))

    def load(self, source, names, handles):
        self.handles = handles
        if b"random" in source:
            seed()
        sys.modules["candidate"] = self.module
        space = vars(self.module)
        while names:  # the prompt answers none, and the list is left empty
            space.pop(names.pop(), None)
        if self.flags:
            exec(compile(source, "candidate.py", "exec", self.flags, True), space)
        else:
            run(source, "candidate.py", space)
        return (text("value"), b"N")

    def prepare(self, classes):
        """Takes the names of the classes that the tests use."""
        self.classes = classes
        return (text("value"), b"N")

    def used(self):
        """The classes that the tests use, as the candidate defines them now. A
        builtin, as in Stack = list, is plain data."""
        found = [vars(self.module).get(name) for name in self.classes]
        return [c for c in found if issubclass(type(c), type) and _flags(c) & HEAP]

    def encoder(self, nodes=MAX_NODES):
        """Makes an encoder, with handles for objects if the tests use them."""
        if not self.handles:
            return Encoder(nodes=nodes)
        used = self.used()

        def method(kind):
            if late(kind) is Encoder.counter:
                return Encoder.counter  # plain data by whatever name, as Stack = list
            if derives(kind, used):
                return None  # before any base is looked at
            found = inherited(kind)
            if found is None and vars(kind).get("__module__") != self.module.__name__:
                found = number_like(kind)
            return found

        return Encoder(self.foreign, nodes, method=method)

    def known(self, number):
        return self.objects[number]

    def foreign(self, x):
        """Encodes an object of the candidate's own type as a handle."""
        number = self.numbers.get(id(x))
        if number is None:
            number = self.numbers[id(x)] = len(self.objects)
            self.objects.append(x)  # keeps the object, and so its id, alive
        return atom(72, b"%x" % number)

    def target(self, on, name):
        """Looks up an attribute or a name of the module."""
        if on is not None:
            return getattr(on, name)
        names = vars(self.module)
        if name not in names:
            raise NameError
        return names[name]

    def call(self, on, name, given, mutates):
        args, kwargs = given
        try:
            if on is not None and name in OPERATORS:
                result = OPERATORS[name](on, *args, **kwargs)
            else:
                result = self.target(on, name)(*args, **kwargs)
        except StopIteration:
            if name != "__next__":
                raise
            return (text("raise"), text("StopIteration"), b"U0:", b"N")
        encoder = self.encoder(MAX_ARGUMENTS if mutates else MAX_NODES)
        reply = (text("value"), encoder.value(result))
        if mutates:
            given = (*args, *kwargs.values())
            reply += (encoder.value([a if mutable(type(a)) else None for a in given]),)
        return reply

    def get(self, on, name):
        found = self.target(on, name)
        # An object of a class that the tests use is a value even if it is callable.
        if on is not None and callable(found) and not derives(type(found), self.used()):
            return (text("callable"),)
        return (text("value"), self.encoder().value(found))

    def set(self, on, name, value):
        setattr(on, name, value)
        return (text("value"), b"N")

    def answer(self, operation, n, request):
        """Serves one request. Reading a set of objects runs candidate code, too."""
        try:
            arguments = [request.value() for _ in range(n)]
            request.data = b""  # it contains the names
            return operation(*arguments)
        except TooLarge:
            return (text("large"),)
        except Unsupported:
            return (text("unsupported"),)
        except Exception as e:
            return (text("raise"), text(nearest(type(e))), *details(e))
        except BaseException:
            return (text("escape"),)

    def serve(self):
        operations = {"greet": (self.greet, 0), "program": (self.program, 0), "prompt": (self.prompt, 1),
                      "extract": (self.extract, 4), "load": (self.load, 3),
                      "prepare": (self.prepare, 1),
                      "call": (self.call, 4), "get": (self.get, 2), "set": (self.set, 3)}
        while True:
            request = Decoder(self.channel.receive(), self.known, MAX_ARGUMENTS)
            request.open()
            nonce = request.only(bytes)
            operation, n = operations[request.only(str)]
            reply = self.answer(operation, n, request)
            flush()
            self.channel.send(message(atom(66, nonce), *reply))


def mutable(kind):
    return kind in MUTABLE or late(kind) is Encoder.counter


def derives(kind, classes):
    return any(base is c for base in _mro(kind) for c in classes)


def flush():
    """Flushes prints, which the end of the process would not."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        pass


def nearest(kind):
    """The name that an exception gets for the tests."""
    for base in _mro(kind):
        if base in RAISABLE:
            return base.__name__
    return "SyntaxError" if SyntaxError in _mro(kind) else "Exception"


def details(e):
    """The exception's arguments, if they are small plain data, and its text, if it
    does not follow from the arguments."""
    args, plain = b"N", None
    try:
        given = tuple(BaseException.args.__get__(e))
        args = Encoder(nodes=64, size=4096).value(given)
        plain = str(crosses_as(e)(*Decoder(args).value()))
    except BaseException:
        pass
    try:
        shown = str(e)
        if shown == plain or len(shown) > MAX_SHOWN:
            return args, b"N"
        return args, Encoder().value(shown)
    except BaseException:
        return args, b"N"


def crosses_as(e):
    return next((base for base in _mro(type(e)) if base in RAISABLE), Exception)


Candidate(private_channel()).serve()
