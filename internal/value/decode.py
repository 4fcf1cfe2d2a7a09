# The decoder. encode.py stands in front of it.


class Decoder:
    """Decodes strictly; only exact builtins and standard types come out."""

    def __init__(self, data, handle=None, nodes=MAX_NODES):
        self.data, self.pos, self.handle = data, 0, handle
        self.nodes = nodes + ENVELOPE

    def take(self, n):
        end = self.pos + n
        if end > len(self.data):
            raise Malformed
        part = self.data[self.pos:end]
        self.pos = end
        return part

    def count(self):
        end = self.data.index(b":", self.pos, self.pos + 9)
        text = self.take(end - self.pos)
        self.pos += 1
        if not text.isdigit() or text[:1] == b"0" and len(text) > 1:
            raise Malformed
        return int(text)

    def open(self):
        """Enters a tuple and returns the number of its members."""
        if self.take(1) != b"U":
            raise Malformed
        return self.count()

    def end(self):
        if self.pos != len(self.data):
            raise Malformed

    def spend(self, nodes):
        self.nodes -= nodes
        if self.nodes < 0:
            raise Malformed

    def value(self, depth=1):
        self.spend(1)
        if depth > MAX_DEPTH:
            raise Malformed
        return READ[self.take(1)](self, depth)

    def only(self, kind, depth=1):
        x = self.value(depth)
        if type(x) is not kind:
            raise Malformed
        return x

    def members(self, depth):
        return [self.value(depth + 1) for _ in range(self.count())]

    def sequence(self, depth):
        """Reads the members of a list or tuple, one by one or as a run."""
        n = self.count()
        if self.data[self.pos:self.pos + 1] == b"#":
            return self.run(n, depth)
        return [self.value(depth + 1) for _ in range(n)]

    def run(self, n, depth):
        self.take(1)
        if n < MIN_RUN or depth >= MAX_DEPTH:
            raise Malformed
        self.spend(n)
        out = UNPACK[self.take(1)](self, n)
        if len(out) != n:
            raise Malformed
        return out

    def numbers(self, code, n):
        data = self.take(n * calcsize(b">" + code))
        return data, list(unpack(b">%d%b" % (n, code), data))

    def ints(self, code, n):
        out = self.numbers(code, n)[1]
        if int_code(min(out), max(out)) != code:
            raise Malformed
        return out

    def floats(self, n):
        data, out = self.numbers(b"d", n)
        if sum(out) != sum(out) and pack_floats(out) != b"d" + data:
            raise Malformed
        return out

    def bools(self, n):
        data, out = self.numbers(b"?", n)
        if max(data) > 1:
            raise Malformed
        return out

    def strings(self, n):
        return self.str(0).split("\0")

    def int(self, depth):
        text = self.take(self.count())
        n = int(text, 16)
        if b"%x" % n != text:
            raise Malformed
        return n

    def bare_int(self):
        if self.take(1) != b"I":
            raise Malformed
        return self.int(0)

    def double(self, depth):
        raw = self.take(8)
        x = unpack(">d", raw)[0]
        if double(x) != raw:
            raise Malformed
        return x

    def complex(self, depth):
        return complex(self.double(0), self.double(0))

    def bytes(self, depth):
        return self.take(self.count())

    def str(self, depth):
        return self.bytes(0).decode("utf-8", "surrogatepass")

    def unordered(self, depth):
        out, last = [], b""
        for _ in range(self.count()):
            start = self.pos
            out.append(self.value(depth + 1))
            raw = self.data[start:self.pos]
            if raw <= last:
                raise Malformed
            last = raw
        return distinct(set(out), len(out))

    def pairs(self, depth):
        return self.entries(self.count(), depth)

    def entries(self, n, depth):
        out = {}
        for _ in range(n):
            key = self.value(depth + 1)
            out[key] = self.value(depth + 1)
        return distinct(out, n)

    def counter(self, depth):
        import collections
        return collections.Counter(self.pairs(depth))

    def default_dict(self, depth):
        n = self.count()
        tag = self.take(1)
        if tag == b"N":
            factory = None
        elif tag == b"S":
            factory = FACTORIES[self.str(0)]
        else:
            raise Malformed
        return defaultdict(factory, self.entries(n, depth))

    def keys(self, depth):
        names = self.members(depth)
        return distinct(dict.fromkeys(names), len(names)).keys()

    def range(self, depth):
        start, stop, step = self.bare_int(), self.bare_int(), self.bare_int()
        out = range(start, stop, step)
        self.spend(len(out))
        return out

    def deque(self, depth):
        n = self.count()
        limit = None if self.data[self.pos:self.pos + 1] == b"N" else self.bare_int()
        if limit is None:
            self.pos += 1
        elif limit < n:
            raise Malformed
        return deque((self.value(depth + 1) for _ in range(n)), limit)

    def decimal(self, depth):
        text = self.bytes(0)
        if not decimal_text(text):
            raise Malformed
        import decimal
        out = decimal.Decimal(text.decode())
        if str(out).encode() != text:
            raise Malformed
        return out

    def fraction(self, depth):
        numerator, denominator = self.bare_int(), self.bare_int()
        import fractions
        out = fractions.Fraction(numerator, denominator)
        if (out.numerator, out.denominator) != (numerator, denominator):
            raise Malformed
        return out

    def slice(self, depth):
        return slice(*[self.bound() for _ in range(3)])

    def bound(self):
        if self.data[self.pos:self.pos + 1] != b"N":
            return self.bare_int()
        self.pos += 1
        return None

    def array(self, depth):
        n = self.count()
        if self.take(1) != b"S":
            raise Malformed
        code, given = self.str(0), [self.value(depth + 1) for _ in range(n)]
        if len(code) != 1 or code not in ARRAYS:
            raise Malformed
        import array
        out = array.array(code, given)
        if [Encoder().value(m) for m in out] != [Encoder().value(m) for m in given]:
            raise Malformed
        return out

    def opaque(self, depth):
        if self.handle is None:
            raise Malformed
        return self.handle(self.int(0))


def distinct(found, n):
    if len(found) != n:
        raise Malformed
    return found


READ = {
    b"N": lambda d, _: None, b"T": lambda d, _: True, b"F": lambda d, _: False,
    b"I": Decoder.int, b"D": Decoder.double, b"C": Decoder.complex,
    b"S": Decoder.str, b"B": Decoder.bytes,
    b"A": lambda d, _: bytearray(d.bytes(0)), b"L": Decoder.sequence,
    b"U": lambda d, depth: tuple(d.sequence(depth)), b"E": Decoder.unordered,
    b"Z": lambda d, depth: frozenset(d.unordered(depth)), b"M": Decoder.pairs,
    b"c": Decoder.counter, b"O": lambda d, depth: OrderedDict(d.pairs(depth)),
    b"d": Decoder.default_dict, b"R": Decoder.range, b"Q": Decoder.deque,
    b"P": Decoder.decimal, b"K": Decoder.fraction, b"k": Decoder.keys,
    b"v": lambda d, depth: dict(enumerate(d.members(depth))).values(),
    b"m": lambda d, depth: d.pairs(depth).items(),
    b"J": lambda d, depth: iter(d.members(depth)), b"H": Decoder.opaque,
    b"G": Decoder.slice, b"w": lambda d, _: memoryview(d.bytes(0)), b"y": Decoder.array,
}


UNPACK = {
    b"b": lambda d, n: d.ints(b"b", n), b"h": lambda d, n: d.ints(b"h", n),
    b"i": lambda d, n: d.ints(b"i", n), b"q": lambda d, n: d.ints(b"q", n),
    b"d": Decoder.floats, b"?": Decoder.bools, b"s": Decoder.strings,
}
