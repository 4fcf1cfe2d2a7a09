# Which names of the tests are the candidate's, and how they are used. Nothing is
# executed here.

import _symtable
import ast


def parsed(source):
    """The module's syntax tree, or None."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def statements(body):
    """The statements that run at module level, nested blocks included."""
    for node in body:
        yield node
        for field in ("body", "orelse", "finalbody", "handlers"):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                yield from statements(getattr(node, field, ()))


def targets(node):
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, (ast.AnnAssign, ast.AugAssign)) and node.value is not None:
        return [node.target]
    return []


def definitions(tree):
    """Name -> function, class or value, as the module defines them."""
    found = {}
    for node in statements(tree.body if tree else []):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found[node.name] = "function"
        elif isinstance(node, ast.ClassDef):
            found[node.name] = "class"
        for target in targets(node):
            for name in ast.walk(target):
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                    found[name.id] = "function" if isinstance(node.value, ast.Lambda) else "value"
    return found


def free_names(source):
    """The names that the module takes from outside, builtins included."""
    top = _symtable.symtable(source, "tests", "exec")
    bound = _symtable.DEF_LOCAL | _symtable.DEF_IMPORT
    used, defined, todo = set(), set(), [top]
    while todo:
        table = todo.pop()
        todo += table.children
        for name, flags in table.symbols.items():
            scope = flags >> _symtable.SCOPE_OFF & _symtable.SCOPE_MASK
            outside = scope in (_symtable.GLOBAL_IMPLICIT, _symtable.GLOBAL_EXPLICIT)
            if flags & bound and (table is top or outside):
                defined.add(name)
            elif flags & _symtable.USE and (table is top or outside):
                used.add(name)
    return used - defined


def is_stub(node):
    """Whether a definition leaves its body to the candidate."""
    if isinstance(node, ast.ClassDef):
        return all(trivial(s) or isinstance(s, (ast.FunctionDef, ast.AsyncFunctionDef))
                   and is_stub(s) for s in node.body)
    return all(map(trivial, node.body))


def trivial(node):
    if isinstance(node, ast.Raise):
        raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return isinstance(node.value.value, (str, type(...)))
    return isinstance(node, (ast.Import, ast.ImportFrom, ast.Pass))


def prompt_functions(tree):
    """Name -> whether it is a stub, for what the prompt defines."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name: is_stub(node) for node in statements(tree.body if tree else [])
            if isinstance(node, kinds)}


def choose(free, prompt, reference, entry):
    """The names that are proxied, by the rule for row data."""
    if entry:
        return set(entry)
    functions = prompt_functions(prompt)
    if reference is not None:
        names = free & definitions(reference).keys()
        return {n for n in names if functions.get(n, True)} or names
    stubs = {n for n, stub in functions.items() if stub} & free
    known_names = definitions(prompt).keys() | imported(prompt) | set(dir(builtins))
    return stubs or free - known_names - {"__file__"} or free & functions.keys()


def imported(tree):
    return {(a.asname or a.name).partition(".")[0]
            for node in statements(tree.body if tree else [])
            if isinstance(node, (ast.Import, ast.ImportFrom)) for a in node.names}


def called(tree):
    """The names that the tests call."""
    return {node.func.id for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


def aliases(tree, names):
    """Names of the tests that stand for a proxied one, as in check(candidate)."""
    functions = {n.name: n.args.args for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    found = set(names)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            for given, taken in zip(node.args, functions.get(node.func.id, ())):
                if isinstance(given, ast.Name) and given.id in names:
                    found.add(taken.arg)
    return found


def wants_handles(tree, names, kinds):
    """Whether the tests use objects of the candidate's own types."""
    if "class" in [kinds.get(n) for n in names]:
        return True
    callees = aliases(tree, names)
    # total or subtract may be methods of objects; handles harm no plain value.
    common = EXACT.keys() - {defaultdict}
    plain = {attr for kind in common for attr in dir(kind)} | {"typecode"}  # an array's

    def method(node):
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)

    def sources(node):
        """The names that an expression is, or is a part of; RESULT stands for what the
        candidate answers."""
        while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred, ast.NamedExpr)) or method(node):
            node = node.func if method(node) else node.value
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in callees:
                return {RESULT}
            return set().union(*map(sources, node.args)) if node.func.id in PASS_ON else set()
        return {node.id} if isinstance(node, ast.Name) else set()

    passed = {}  # name -> the names that it is assigned to
    for target, given in assignments(tree):
        bound = {n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        for name in sources(given):
            passed.setdefault(name, set()).update(bound)
    held, todo = {RESULT}, [RESULT]
    while todo:
        new = passed.get(todo.pop(), set()) - held
        held |= new
        todo += new
    return any(isinstance(node, ast.Attribute) and node.attr not in plain and not held.isdisjoint(sources(node.value))
               for node in ast.walk(tree))


RESULT = ""  # no name

# Builtins that return members of their arguments.
PASS_ON = {"enumerate", "iter", "list", "max", "min", "next", "reversed", "sorted", "tuple", "zip"}


def assignments(tree):
    """The pairs of a target and the value, or the iterable of values, that it gets."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            yield from ((target, node.value) for target in node.targets)
        elif isinstance(node, (ast.For, ast.comprehension)):
            yield node.target, node.iter
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            yield node.target, node.value


def analyse(request):
    """Answers (names, kinds, handles, prompt runs, reference state)."""
    prompt_text, tests, reference_text, entry = request
    tree, prompt = parsed(tests), parsed(prompt_text)
    if tree is None:
        return message(text("broken"))
    reference, state = None, "none"
    if reference_text is not None:
        reference, state = parsed(reference_text), "whole"
        if reference is None:
            reference = parsed(prompt_text + reference_text)
            state = "continues" if reference is not None else "none"
    names = choose(free_names(tests), prompt, reference, entry)
    kinds = {**definitions(prompt), **definitions(reference)}
    calls = called(tree)
    rows = [(n, "function" if n in calls and kinds.get(n) == "value" else
             kinds.get(n, "function")) for n in sorted(names)]
    handles = wants_handles(tree, names, dict(rows))
    return message(text("analysis"), Encoder().value(rows), Encoder().value(handles),
                   Encoder().value(prompt is not None), text(state))
