# Python's values as bytes. This source stands in front of a program that
# exchanges values; decode.py follows it.
#
# One value has one encoding: a tag, then a length and bytes, or a count and
# members. It is not JSON because Debian's minimal Python has no json module,
# and because what has one form can be compared byte for byte.

import builtins
import sys

# The parts of collections and struct that are written in C: to load the rest takes
# 2 ms, and every candidate has a process of its own.
from _collections import OrderedDict, defaultdict, deque
from _struct import calcsize, pack, unpack

# Candidate code may patch the builtins later; this module keeps the originals.
globals().update({k: v for k, v in vars(builtins).items() if k[0] != "_"})

MAX_DEPTH = 64
MAX_NODES = 200_000
MAX_ARGUMENTS = 1 << 20  # nodes of what trusted code sends; MAX_BYTES is lower
MAX_BYTES = 8 << 20
MAX_FRAME = MAX_BYTES + (64 << 10)  # of a message with a value
ENVELOPE = 64  # nodes of a message beside its value
MAX_RANGE_DIGITS = 64
MAX_DECIMAL_DIGITS = 10_000
MIN_RUN = 16  # members from which a list or tuple of one plain type is packed

_mro = type.__dict__["__mro__"].__get__
_keys, _values, _items = type({}.keys()), type({}.values()), type({}.items())

# The factories of defaultdicts that cross. None runs code of the sender's.
FACTORIES = {f.__name__: f for f in (bool, dict, float, int, list, set, str, tuple)}


class TooLarge(Exception):
    """The value is over a cap."""


class Unsupported(Exception):
    """The value is of a type that does not cross."""


class Malformed(Exception):
    """The bytes are not the encoding of a value."""


def refuse(value):
    raise Unsupported


def atom(tag, data):
    return b"%c%d:%b" % (tag, len(data), data)


def message(*parts):
    """Joins encoded values to an encoded tuple."""
    return b"U%d:" % len(parts) + b"".join(parts)


def known(kind):
    """The method for a type that is not in EXACT, or None."""
    return inherited(kind) or number_like(kind) or iterable(kind)


class Encoder:
    """Encodes one value. method finds the method for a type that is not in EXACT;
    if it returns None, foreign encodes the value. size is what may still be
    written."""

    def __init__(self, foreign=refuse, nodes=MAX_NODES, size=MAX_BYTES, method=known):
        self.foreign, self.nodes, self.size, self.method = foreign, nodes, size, method

    def count(self, nodes):
        self.nodes -= nodes
        if self.nodes < 0:
            raise TooLarge

    def room(self, size):
        """Refuses data that will not fit before it is made."""
        if size > self.size:
            raise TooLarge

    def written(self, data):
        self.room(len(data))
        self.size -= len(data)
        return data

    def value(self, x, depth=1):
        if depth > MAX_DEPTH:
            raise TooLarge
        self.count(1)
        kind = type(x)
        method = EXACT.get(kind) or self.method(kind)
        if method is None:
            return self.written(self.foreign(x))
        return method(self, x, depth)

    def atom(self, tag, data):
        return self.written(atom(tag, data))

    def container(self, tag, n, parts):
        """Puts the head before members that have been written."""
        return self.written(b"%c%d:" % (tag, n)) + b"".join(parts)

    def none(self, x, depth):
        return self.written(b"N")

    def bool(self, x, depth):
        return self.written(b"T" if x else b"F")

    def int(self, x, depth):
        x = int.__pos__(x)
        self.room(x.bit_length() // 4)
        return self.atom(73, b"%x" % x)

    def float(self, x, depth):
        return self.written(b"D" + double(float.__pos__(x)))

    def complex(self, x, depth):
        x = complex.__pos__(x)
        return self.written(b"C" + double(x.real) + double(x.imag))

    def str(self, x, depth):
        self.room(str.__len__(x))
        return self.atom(83, str.encode(x, "utf-8", "surrogatepass"))

    def bytes(self, x, depth):
        self.room(bytes.__len__(x))
        return self.atom(66, bytes.__getitem__(x, slice(None)))

    def bytearray(self, x, depth):
        self.room(bytearray.__len__(x))
        return self.atom(65, bytes(bytearray.__getitem__(x, slice(None))))

    def members(self, tag, it, depth):
        parts = [self.value(m, depth + 1) for m in it]
        return self.container(tag, len(parts), parts)

    def sequence(self, tag, x, depth):
        """Encodes an exact list or tuple, as one run if it is one."""
        data = packed(x) if len(x) >= MIN_RUN else None
        if data is None and len(x) >= MIN_RUN and any(type(m) not in EXACT for m in x):
            return self.made_plain(tag, x, depth)
        if data is None:
            return self.members(tag, x, depth)
        if depth >= MAX_DEPTH:
            raise TooLarge
        self.count(len(x))
        return self.run(tag, x, data)

    def made_plain(self, tag, x, depth):
        """Encodes members whose encoding alone is plain, such as numpy's ints:
        they may be a run, too."""
        parts = [self.value(m, depth + 1) for m in x]
        if len({p[:1] for p in parts}) == 1 and parts[0][:1] in (b"I", b"D", b"S"):
            plain = [Decoder(p).value() for p in parts]
            data = packed(plain)
            if data is not None:
                self.size += sum(map(len, parts))  # they are not sent
                return self.run(tag, plain, data)
        return self.container(tag, len(parts), parts)

    def run(self, tag, x, data):
        return self.written(b"%c%d:#%b" % (tag, len(x), data))

    def list(self, x, depth):
        return self.sequence(76, list.__getitem__(x, slice(None)), depth)

    def tuple(self, x, depth):
        return self.sequence(85, tuple.__getitem__(x, slice(None)), depth)

    def unordered(self, tag, it, depth):
        parts = unique(sorted([self.value(m, depth + 1) for m in it]))
        return self.container(tag, len(parts), parts)

    def set(self, x, depth):
        return self.unordered(69, set.__iter__(x), depth)

    def frozenset(self, x, depth):
        return self.unordered(90, frozenset.__iter__(x), depth)

    def pairs(self, tag, it, depth, ahead=()):
        names, values = [], []
        for k, v in it:
            names.append(self.value(k, depth + 1))
            values.append(self.value(v, depth + 1))
        parts = map(b"".join, zip(unique(names), values))
        return self.container(tag, len(names), [*ahead, *parts])

    def dict(self, x, depth):
        return self.pairs(77, dict.items(x), depth)

    def counter(self, x, depth):
        return self.pairs(99, dict.items(x), depth)

    def ordered_dict(self, x, depth):
        return self.pairs(79, OrderedDict.items(x), depth)

    def default_dict(self, x, depth):
        factory = defaultdict.default_factory.__get__(x)
        if factory is None:
            return self.pairs(100, dict.items(x), depth, [self.none(None, depth)])
        for name, known in FACTORIES.items():
            if factory is known:
                return self.pairs(100, dict.items(x), depth, [self.str(name, depth)])
        return self.dict(x, depth)  # its factory cannot cross

    def keys(self, x, depth):
        parts = unique([self.value(m, depth + 1) for m in x])
        return self.container(107, len(parts), parts)

    def values(self, x, depth):
        return self.members(118, x, depth)

    def items(self, x, depth):
        return self.pairs(109, x, depth)

    def range(self, x, depth):
        try:
            self.count(len(x))
        except OverflowError:
            raise TooLarge from None
        parts = [self.int(n, depth) for n in (x.start, x.stop, x.step)]
        if max(map(len, parts)) > MAX_RANGE_DIGITS:
            raise TooLarge
        return self.written(b"R") + b"".join(parts)

    def deque(self, x, depth):
        limit = deque.maxlen.__get__(x)
        parts = [self.none(None, depth) if limit is None else self.int(limit, depth)]
        parts += [self.value(m, depth + 1) for m in deque.__iter__(x)]
        return self.container(81, len(parts) - 1, parts)

    def decimal(self, x, depth):
        text = type(x).__str__(x).encode()
        if not decimal_text(text):
            raise Unsupported
        return self.atom(80, text)

    def fraction(self, x, depth):
        return self.written(b"K") + self.int(x.numerator, depth) + self.int(x.denominator, depth)

    def iterator(self, x, depth):
        return self.members(74, x, depth)

    def slice(self, x, depth):
        parts = [self.none(None, depth) if n is None else self.int(n, depth)
                 for n in (x.start, x.stop, x.step) if n is None or whole(n)]
        if len(parts) < 3:
            raise Unsupported
        return self.written(b"G") + b"".join(parts)

    def memoryview(self, x, depth):
        if x.format != "B" or x.ndim != 1:
            raise Unsupported
        self.room(x.nbytes)
        return self.atom(119, x.tobytes())

    def array(self, x, depth):
        array = sys.modules["array"].array
        code = array.typecode.__get__(x)
        if code not in ARRAYS:
            raise Unsupported
        parts = [self.str(code, depth)]
        parts += [self.value(m, depth + 1) for m in array.__iter__(x)]
        return self.container(121, len(parts) - 1, parts)

    def read_out(self, x, depth):
        return self.members(74, iter(x), depth)

    def number(self, x, depth):
        """Encodes an object that only converts to a number."""
        for name, kind in NUMBERS.items():
            try:
                n = getattr(type(x), name)(x)
            except Exception:
                continue
            if isinstance(n, kind) and (kind is not complex or n.imag != 0):
                return EXACT[kind](self, n, depth)
        raise Unsupported


EXACT = {
    type(None): Encoder.none, bool: Encoder.bool, int: Encoder.int,
    float: Encoder.float, complex: Encoder.complex, str: Encoder.str,
    bytes: Encoder.bytes, bytearray: Encoder.bytearray, list: Encoder.list,
    tuple: Encoder.tuple, set: Encoder.set, frozenset: Encoder.frozenset,
    dict: Encoder.dict, OrderedDict: Encoder.ordered_dict,
    defaultdict: Encoder.default_dict,
    range: Encoder.range, deque: Encoder.deque, _keys: Encoder.keys,
    _values: Encoder.values, _items: Encoder.items,
    slice: Encoder.slice, memoryview: Encoder.memoryview,
}

# The type codes of arrays of numbers.
ARRAYS = "bBhHiIlLqQfd"

NUMBERS = {"__index__": int, "__complex__": complex, "__float__": float}


# Types of modules that are imported by whoever holds such a value.
LATE = (("collections", "Counter", Encoder.counter), ("decimal", "Decimal", Encoder.decimal),
        ("fractions", "Fraction", Encoder.fraction), ("array", "array", Encoder.array))


def late(kind):
    """The method for a type of LATE, or None."""
    for name, cls, method in LATE:
        module = sys.modules.get(name)
        if module is not None and vars(module).get(cls) is kind:
            return method
    return None


def inherited(kind):
    """The method for a subclass of a known type, a number or an iterator."""
    bases = _mro(kind)
    for base in bases:
        method = EXACT.get(base) or late(base)
        if method is not None:
            return method
    if any("__next__" in vars(base) for base in bases):
        return Encoder.iterator
    return None


def defines(kind, name):
    """Whether a type has a method that object does not have."""
    own = [vars(base)[name] for base in _mro(kind)[:-1] if name in vars(base)]
    return bool(own) and own[0] is not None


def number_like(kind):
    """The method for a scalar of another library, such as an int of numpy's."""
    if defines(kind, "__len__") or defines(kind, "__iter__"):
        return None
    return Encoder.number if any(defines(kind, name) for name in NUMBERS) else None


def iterable(kind):
    """The method for an object that can only be iterated. Types are not values."""
    more = ("__len__", "__bool__", "__getitem__", "__contains__", "__eq__")
    if type in _mro(kind) or any(defines(kind, name) for name in more):
        return None
    return Encoder.read_out if defines(kind, "__iter__") else None


def whole(n):
    return issubclass(type(n), int)


def unique(parts):
    """Refuses members that differ only by type or identity."""
    if len(set(parts)) != len(parts):
        raise Unsupported
    return parts


def double(x):
    return pack(">d", x) if x == x else b"\x7f\xf8" + bytes(6)


# A run replaces the members of a list or tuple that has at least MIN_RUN of
# them, all of one plain type: "#", a type code, and the members side by side.
# Integers take the fewest bytes that hold all of them; strings are joined by
# NUL. Only members that fit no run are written one by one.


def packed(x):
    """The run that holds the members of x, or None."""
    pack = PACK.get(type(x[0]))
    return pack(x) if pack and len(set(map(type, x))) == 1 else None


def pack_ints(x):
    code = int_code(min(x), max(x))
    return code and code + pack(b">%d%b" % (len(x), code), *x)


def int_code(low, high):
    """The struct code of the narrowest integer that holds both, or None."""
    for code, bits in INT_CODES:
        if -1 << bits <= low and high < 1 << bits:
            return code
    return None


def pack_floats(x):
    if sum(x) != sum(x):  # there may be a NaN: one form crosses
        return b"d" + b"".join(map(double, x))
    return b"d" + pack(">%dd" % len(x), *x)


def pack_bools(x):
    return b"?" + bytes(x)


def pack_strings(x):
    joined = "\0".join(x)
    if joined.count("\0") != len(x) - 1:
        return None
    data = joined.encode("utf-8", "surrogatepass")
    return b"s%d:%b" % (len(data), data)


INT_CODES = ((b"b", 7), (b"h", 15), (b"i", 31), (b"q", 63))
PACK = {int: pack_ints, float: pack_floats, bool: pack_bools, str: pack_strings}


def decimal_text(text):
    """Whether text is a number as str(Decimal) writes it, within bounds."""
    body = text[1:] if text[:1] == b"-" else text
    if body in (b"NaN", b"Infinity"):
        return True
    digits, e, exponent = body.partition(b"E")
    whole, dot, part = digits.partition(b".")
    return (whole.isdigit() and part.isdigit() == bool(dot)
            and len(digits) <= MAX_DECIMAL_DIGITS
            and (not e or exponent[:1] in (b"+", b"-")
                 and exponent[1:].isdigit() and len(exponent) <= 5))


def text(s):
    """Encodes a string of this program's own."""
    return atom(83, s.encode("utf-8", "surrogatepass"))


