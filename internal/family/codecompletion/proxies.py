# What the tests hold in place of the candidate's objects, classes and functions.
#
# Nothing here answers for the candidate. What the candidate box is not asked is
# refused, and a refusal fails the row: an error could be what a test expects, and
# Python's own answer would be about the proxy.

import ast
import types

TESTS = "__securebench_tests__"
MAX_NAME = 1000
_part, _keep = object.__getattribute__, object.__setattr__


def asked_by_tests():
    """Whether the tests' own code uses a proxy, not a library's."""
    return sys._getframe(2).f_globals.get("__name__") == TESTS


class Sealed(type):
    """The type of the proxies' types. A test could get at these by map(type, …)
    and find that all objects of the candidate have the same type."""

    row = None  # the row of this process, once it has one

    def __eq__(cls, other):
        if asked_by_tests():
            Sealed.row.unsupported("type")
        return cls is other

    def __ne__(cls, other):
        if asked_by_tests():
            Sealed.row.unsupported("type")
        return cls is not other

    def __hash__(cls):
        if asked_by_tests():
            Sealed.row.unsupported("type")
        return type.__hash__(cls)

    def __getattribute__(cls, name):
        if Sealed.row is not None and sys._getframe(1).f_globals is not globals():
            Sealed.row.unsupported("type")
        return type.__getattribute__(cls, name)


# Special methods that the candidate box runs if the row has operators, and their
# names in messages. operators.go has the same list.
OPERATORS = {
    "__len__": "len", "__iter__": "iter", "__next__": "next", "__reversed__": "reversed",
    "__getitem__": "[]", "__setitem__": "[] =", "__delitem__": "del []", "__contains__": "in",
    "__str__": "str", "__repr__": "repr", "__format__": "format", "__hash__": "hash",
    "__bool__": "bool", "__call__": "()", "__enter__": "with", "__exit__": "with",
    "__neg__": "-", "__pos__": "+", "__invert__": "~", "__abs__": "abs", "__int__": "int",
    "__float__": "float", "__complex__": "complex", "__index__": "index", "__round__": "round",
    "__trunc__": "trunc", "__floor__": "floor", "__ceil__": "ceil",
}
for _name, _label in {
        "add": "+", "sub": "-", "mul": "*", "matmul": "@", "truediv": "/", "floordiv": "//",
        "mod": "%", "divmod": "divmod", "pow": "**", "lshift": "<<", "rshift": ">>",
        "and": "&", "or": "|", "xor": "^"}.items():
    OPERATORS[f"__{_name}__"] = OPERATORS[f"__r{_name}__"] = _label
    if _name != "divmod":
        OPERATORS[f"__i{_name}__"] = _label + "="

COMPARISONS = {"__eq__": "==", "__ne__": "!=", "__lt__": "<", "__le__": "<=",
               "__gt__": ">", "__ge__": ">="}

# Special methods that are never run. isinstance and issubclass ask the class.
NEVER = {
    "__await__": "await", "__aiter__": "async for", "__anext__": "async for",
    "__aenter__": "async with", "__aexit__": "async with", "__bytes__": "bytes",
    "__buffer__": "memoryview", "__fspath__": "fspath", "__sizeof__": "sizeof",
    "__dir__": "dir", "__delattr__": "del attribute", "__instancecheck__": "isinstance",
    "__subclasscheck__": "issubclass",
}

# The exact types of answers.
ANSWERS = {"__len__": int, "__str__": str, "__repr__": str, "__format__": str,
           "__hash__": int, "__bool__": bool, "__contains__": bool, "__int__": int,
           "__index__": int, "__float__": float, "__complex__": complex, "__exit__": bool}


def refused(label):
    def method(self, *args, **kwargs):
        kinds = ((Constructor, "class"), (Method, "method"), (Function, "function"))
        what = next((name for kind, name in kinds if type(self) is kind), "object")
        Sealed.row.unsupported(label + " of a " + what)
    return method


class Proxy(metaclass=Sealed):
    """Refuses every operation. Subclasses allow some."""

    __slots__ = ("_name",)

    def __init__(self, name):
        _keep(self, "_name", name)

    def __setattr__(self, name, value):
        Sealed.row.unsupported("attributes of a method")


for _name, _label in {**OPERATORS, **COMPARISONS, **NEVER}.items():
    setattr(Proxy, _name, refused(_label))


def private(name):
    """The name in messages for the use of a name that is not public."""
    return {"__class__": "isinstance", "__dict__": "vars",
            "__mro_entries__": "class", "__bases__": "issubclass"}.get(name, "a private name")


def check_public(name):
    if name[:1] in ("", "_") or len(name) > MAX_NAME:
        Sealed.row.unsupported(private(name))


def operate(on, name, args, kwargs={}):
    """Has the candidate box apply an operator to an object."""
    row = Sealed.row
    if not row.operators:
        row.unsupported({**OPERATORS, **COMPARISONS}[name])
    given = row.encode((args, kwargs))
    out = row.value(row.request("call", on, name, given, b"F"))
    if type(out) is not ANSWERS.get(name, type(out)):
        row.fail("malformed")
    return out


def forwarded(name):
    def method(self, *args):
        return operate(self, name, args)
    return method


def compared(name):
    """What a test expects never goes to the candidate, which could agree to it."""
    def method(self, other):
        if Sealed.row.operators and type(other) is not Handle:
            Sealed.row.unsupported(COMPARISONS[name] + " with plain data")
        return operate(self, name, (other,))
    return method


class Handle(Proxy):
    """An object in the candidate box. Its name is its number there. Only identity
    is known here."""

    __slots__ = ()

    def __getattribute__(self, name):
        check_public(name)
        row = Sealed.row
        return row.value(row.request("get", self, name), Method(self, name))

    def __setattr__(self, name, value):
        check_public(name)
        row = Sealed.row
        row.value(row.request("set", self, name, row.encode(value)))

    def __call__(self, /, *args, **kwargs):
        return operate(self, "__call__", args, kwargs)

    def __iter__(self):
        out = operate(self, "__iter__", ())
        if type(out) not in (Handle, type(iter([]))):
            Sealed.row.fail("malformed")
        return out

    def __exit__(self, kind, error, trace):
        """Asks the candidate, but it can swallow neither a failed assertion nor an
        exception of its own."""
        if error is None:
            return operate(self, "__exit__", ())
        if not isinstance(error, Exception):
            return False
        swallowed = operate(self, "__exit__", carried(error))
        if swallowed and getattr(error, "from_candidate", False):
            Sealed.row.unsupported("with around an exception of its own")
        return swallowed and not isinstance(error, AssertionError)


for _name in OPERATORS.keys() - vars(Handle).keys():
    setattr(Handle, _name, forwarded(_name))
for _name in COMPARISONS:
    setattr(Handle, _name, compared(_name))


def carried(error):
    """An exception of the tests for the candidate box: a name and arguments. Those
    of an assertion say what was expected, and stay here."""
    name = next((b.__name__ for b in type(error).__mro__ if b in RAISABLE.values()), None)
    try:
        Encoder(nodes=64, size=4096).value(error.args)
        return (name, error.args) if name else ("Exception", ())
    except (TooLarge, Unsupported):
        return name or "Exception", ()


def truth(self):
    """Older versions of threading test a target before they call it."""
    if asked_by_tests():
        refused("bool")(self)
    return True


class Method(Proxy):
    """A public method of an object in the candidate box."""

    __slots__ = ("_on",)

    def __init__(self, on, name):
        _keep(self, "_on", on)
        _keep(self, "_name", name)

    def __call__(self, /, *args, **kwargs):
        bound = bound_names(args, kwargs, sys._getframe(1))
        return Sealed.row.call(_part(self, "_on"), _part(self, "_name"), args, kwargs, bound)

    def __getattribute__(self, name):
        if name == "__name__" and not asked_by_tests():
            return _part(self, "_name")  # threading and assertRaises ask for it
        Sealed.row.unsupported("attributes of a method")

    __bool__ = truth


class Constructor(Proxy):
    """A class of the candidate: it makes objects and has public attributes."""

    __slots__ = ()

    def __call__(self, /, *args, **kwargs):
        bound = bound_names(args, kwargs, sys._getframe(1))
        return Sealed.row.call(None, _part(self, "_name"), args, kwargs, bound)

    def __getattribute__(self, name):
        if name == "__name__" and not asked_by_tests():
            return _part(self, "_name")
        check_public(name)
        return getattr(the_class(self), name)

    def __setattr__(self, name, value):
        check_public(name)
        setattr(the_class(self), name, value)

    __bool__ = truth


def the_class(proxy):
    row = Sealed.row
    return row.value(row.request("get", None, _part(proxy, "_name")))


def of_class(name):
    """An operator on the class itself, as on an Enum."""
    def method(self, *args):
        if not Sealed.row.operators:
            Sealed.row.unsupported(OPERATORS[name])
        return getattr(Handle, name)(the_class(self), *args)
    return method


for _name in ("__len__", "__iter__", "__reversed__", "__getitem__", "__contains__"):
    setattr(Constructor, _name, of_class(_name))


class Function(metaclass=Sealed):
    """A function of the candidate. It is equal to itself only. Its code, signature
    and attributes are not here."""

    __slots__ = ("_name",)

    def __init__(self, name):
        _keep(self, "_name", name)

    def __call__(self, /, *args, **kwargs):
        bound = bound_names(args, kwargs, sys._getframe(1))
        return Sealed.row.call(None, _part(self, "_name"), args, kwargs, bound)

    def __getattribute__(self, name):
        if name in ("__name__", "__qualname__"):
            return _part(self, "_name")
        if name == "__class__":
            return types.FunctionType
        if sys._getframe(1).f_globals.get("__name__") == "functools":  # wraps, lru_cache
            if name == "__dict__":
                return {}
            raise AttributeError(name)
        Sealed.row.unsupported("attributes of a function")

    def __setattr__(self, name, value):
        Sealed.row.unsupported("attributes of a function")

    def __delattr__(self, name):
        Sealed.row.unsupported("attributes of a function")

    __dir__ = refused("dir")


PROXIES = (Handle, Method, Constructor, Function)


def is_proxy(x):
    return any(type(x) is kind for kind in PROXIES)


def bound_names(args, kwargs, frame):
    """The arguments that the calling test holds under a plain name, if the row
    writes arguments back."""
    if not Sealed.row.mutates:
        return ()
    held = [*frame.f_locals.values(), *frame.f_globals.values()]
    kinds = (list, dict, set, bytearray, deque)
    return tuple(a for a in (*args, *kwargs.values())
                 if issubclass(type(a), kinds) and any(a is h for h in held))


# type(x) and callable(x) look at the proxy without asking it, and so may a
# pattern. The tests are rewritten to call these guards first.


def guard(function, *args):
    """Calls a function that is named type or callable."""
    if args and is_proxy(args[0]):
        if function is type:
            Sealed.row.unsupported("type")
        if function is callable and type(args[0]) is Handle:
            Sealed.row.unsupported("callable")
    return function(*args)


def matched(x):
    """The subject of a match statement."""
    if is_proxy(x):
        Sealed.row.unsupported("match")
    return x


GUARDS = {"__securebench_guard__": guard, "__securebench_matched__": matched}


def asking(name, *args):
    return ast.Call(ast.Name(name, ast.Load()), list(args), [])


def guarded(source):
    """The syntax tree of a module, with guards."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
                and node.func.id in ("type", "callable")
                and len(node.args) == 1 and not node.keywords):
            node.args.insert(0, node.func)
            node.func = ast.copy_location(ast.Name("__securebench_guard__", ast.Load()), node.func)
        elif isinstance(node, getattr(ast, "Match", ())):  # Python 3.10 and later
            node.subject = asking("__securebench_matched__", node.subject)
    return ast.fix_missing_locations(tree)


def compiled(source, name, row):
    """Compiles the tests or the prompt."""
    code = guarded(source) if row.handles else source
    return compile(code, name, "exec", dont_inherit=True, optimize=0)
