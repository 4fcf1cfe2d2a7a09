# The worker holds the candidate and nothing else: no test, no expected value.
# It loads the candidate once and then does what single requests ask for.
#
# Candidate code can change everything in this process. That is why nothing
# here is a defence: the parent checks each reply and the oracle checks it again.

import types

RAISABLE = (TypeError, ValueError, KeyError, IndexError, ZeroDivisionError,
            AttributeError, OverflowError, ArithmeticError, LookupError,
            RuntimeError, RecursionError, NotImplementedError)
MUTABLE = (list, dict, set, bytearray, collections.deque, collections.Counter,
           collections.OrderedDict, collections.defaultdict)


class Worker:
    flags = 0  # of the prompt, that hold for the candidate

    def __init__(self, channel):
        self.channel = channel
        self.module = types.ModuleType("candidate")
        self.objects, self.numbers = [], {}
        self.handles = False

    def greet(self):
        return (text("value"), b"N")

    def prompt(self, source):
        """Runs the prompt, so that the candidate finds what it imports and
        defines. One that fails leaves nothing."""
        space = vars(self.module)
        fresh = dict(space)
        sys.modules["candidate"] = self.module
        last = source.rstrip().rpartition("\n")[2]
        if last.endswith(":"):  # a head without a body
            source = source.rstrip() + "\n" + last[:len(last) - len(last.lstrip())] + "    pass\n"
        try:
            code = compile(source, "prompt.py", "exec", dont_inherit=True)
            exec(code, space)
            self.flags = code.co_flags & 0x1000000  # from __future__ import annotations
        except BaseException:
            space.clear()
            space.update(fresh)
        return (text("value"), b"N")

    def extract(self, program, words, prompt, names):
        """Takes the code from what an agent said, before any of it runs."""
        space = {}
        exec(compile(program, "extract.py", "exec", dont_inherit=True), space)
        return (text("value"), Encoder().value(space["extract"](words, prompt, names)))

    def load(self, source, names, handles):
        self.handles = handles
        sys.modules["candidate"] = self.module
        space = vars(self.module)
        while names:  # none is answered by the prompt, and none is left to be found
            space.pop(names.pop(), None)
        code = compile(source, "candidate.py", "exec", self.flags, True)
        exec(code, space)
        return (text("value"), b"N")

    def known(self, number):
        return self.objects[number]

    def foreign(self, x):
        """Gives an object of the candidate's own type a handle."""
        if not self.handles:
            raise Unsupported
        number = self.numbers.get(id(x))
        if number is None:
            number = self.numbers[id(x)] = len(self.objects)
            self.objects.append(x)  # keeps the object, and so its id, alive
        return atom(72, b"%x" % number)

    def target(self, on, name):
        """What a request names: an attribute, or a name of the module."""
        if on is not None:
            return getattr(on, name)
        names = vars(self.module)
        if name not in names:
            raise NameError
        return names[name]

    def call(self, on, name, given, mutates):
        args, kwargs = given
        result = self.target(on, name)(*args, **kwargs)
        encoder = Encoder(self.foreign, MAX_ARGUMENTS if mutates else MAX_NODES)
        reply = (text("value"), encoder.value(result))
        if mutates:
            reply += (encoder.value([a if type(a) in MUTABLE else None for a in args]),)
        return reply

    def get(self, on, name):
        found = self.target(on, name)
        if on is not None and callable(found):
            return (text("callable"),)
        return (text("value"), Encoder(self.foreign).value(found))

    def set(self, on, name, value):
        setattr(on, name, value)
        return (text("value"), b"N")

    def answer(self, operation, arguments):
        try:
            return operation(*arguments)
        except TooLarge:
            return (text("large"),)
        except Unsupported:
            return (text("unsupported"),)
        except Exception as e:
            return (text("raise"), text(nearest(type(e))), details(e))
        except BaseException:
            return (text("escape"),)

    def serve(self):
        operations = {"greet": (self.greet, 0), "load": (self.load, 3),
                      "prompt": (self.prompt, 1), "extract": (self.extract, 4),
                      "call": (self.call, 4), "get": (self.get, 2), "set": (self.set, 3)}
        while True:
            request = Decoder(self.channel.receive(), self.known, MAX_ARGUMENTS)
            request.open()
            nonce = request.only(bytes)
            operation, n = operations[request.only(str)]
            arguments = [request.value() for _ in range(n)]
            del request  # it has the names
            reply = self.answer(operation, arguments)
            flush()
            self.channel.send(message(atom(66, nonce), *reply))


def flush():
    """Lets prints out; the process ends without doing it."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        pass


def nearest(kind):
    """The name under which an exception crosses."""
    for base in _mro(kind):
        if base in RAISABLE:
            return base.__name__
    return "SyntaxError" if SyntaxError in _mro(kind) else "Exception"


def details(e):
    """The exception's arguments where they are small plain data."""
    try:
        args = BaseException.args.__get__(e)
        return Encoder(nodes=64, size=4096).value(tuple(args))
    except BaseException:
        return b"U0:"


Worker(private_channel()).serve()
