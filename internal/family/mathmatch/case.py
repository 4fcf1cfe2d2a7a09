# The case sandbox reads a candidate's expression and writes it as JSON arrays: a name,
# and then texts and arrays. It holds no gold answer.

import json
from mpmath.libmp import to_str


def tree(e, left):
    left[0] -= 1
    if left[0] < 0:
        raise TooLarge
    if isinstance(e, sympy.Integer):
        return ["Integer", str(e.p)]
    if isinstance(e, sympy.Rational):
        return ["Rational", str(e.p), str(e.q)]
    if isinstance(e, sympy.Float):
        return ["Float", to_str(e._mpf_, e._prec * 10 // 33 + 4), str(e._prec)]
    if isinstance(e, sympy.Symbol):
        return ["RealSymbol" if e.is_real else "Symbol", e.name]
    if isinstance(e, (FiniteSet, And)):
        return [type(e).__name__] + [tree(a, left) for a in e._unsorted_args]
    if isinstance(e, sympy.MatrixBase):
        return ["Matrix", str(e.rows), str(e.cols)] + [tree(a, left) for a in e.flat()]
    if isinstance(e, AppliedUndef):
        return ["Apply", e.func.__name__] + [tree(a, left) for a in e.args]
    return [type(e).__name__] + [tree(a, left) for a in e.args]


def answer(latex):
    e = read(latex)
    if not isinstance(e, (sympy.Basic, sympy.MatrixBase)):
        return ("unreadable", "")  # the library's texts are no expressions
    return ("tree", json.dumps(tree(e, [NODES])))


serve(answer, EXAMPLES)
