# Weak proxies on purpose: what the candidate is not asked, Python answers for
# the proxy, or it is an error like one of the candidate's. Wrong classes must
# pass here, or the tests that use them would prove nothing.

TESTS = "__securebench_tests__"
GUARDS = {}
_part, _keep = object.__getattribute__, object.__setattr__


class Sealed:
    row = None


def public(name):
    if name[:1] == "_":
        raise AttributeError(name)
    return name


class Handle:
    __slots__ = ("_name",)
    __hash__ = None

    def __init__(self, name):
        _keep(self, "_name", name)

    def __eq__(self, other):
        return self is other

    def __ne__(self, other):
        return self is not other

    def __getattr__(self, name):
        row = Sealed.row
        return row.value(row.request("get", self, public(name)), Method(self, name))

    def __setattr__(self, name, value):
        row = Sealed.row
        row.value(row.request("set", self, public(name), row.encode(value)))

    def __delattr__(self, name):
        raise AttributeError(name)


class Method:
    __hash__ = None

    def __init__(self, on, name):
        self.__dict__.update(_on=on, _name=name)

    def __call__(self, *args, **kwargs):
        return Sealed.row.call(self._on, self._name, args, kwargs, ())


class Constructor:
    """A class of the candidate."""

    def __init__(self, name):
        self._name = name

    def __call__(self, *args, **kwargs):
        return Sealed.row.call(None, self._name, args, kwargs, ())

    def __getattr__(self, name):
        row = Sealed.row
        return getattr(row.value(row.request("get", None, self._name)), public(name))


def Function(name):
    def proxy(*args, **kwargs):
        return Sealed.row.call(None, name, args, kwargs, ())

    proxy.__name__ = name
    return proxy


PROXIES = (Handle, Method, Constructor)


def compiled(source, name, row):
    return compile(source, name, "exec", dont_inherit=True, optimize=0)
