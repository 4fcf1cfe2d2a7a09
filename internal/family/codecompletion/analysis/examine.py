# Why a row's own solution may fail, as far as the row's sources say so. Nothing is
# executed here. Only a row's author sees what is found.


def unreadable(source):
    """The line and the cause if source does not parse, or None."""
    try:
        ast.parse(source)
    except SyntaxError as e:
        return e.lineno or 1, "%s: %s" % (type(e).__name__, e.msg)
    except (ValueError, MemoryError, RecursionError) as e:
        return 1, "%s: %s" % (type(e).__name__, e)


def reference_fault(prompt, reference):
    """The fault of a reference that parses neither alone nor behind the prompt."""
    alone = unreadable(reference)
    if alone is None or unreadable(prompt + reference) is None:
        return None
    if reference[:1] in " \t" and unreadable(prompt) is None:
        line, what = unreadable(prompt + reference)
        return max(1, line - prompt.count("\n")), what
    return alone


def line_of(tree, name):
    return min((n.lineno for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name), default=1)


def everything(tree):
    """Whether a module may define names that its text does not show."""
    return tree is None or any(
        isinstance(n, ast.ImportFrom) and any(a.name == "*" for a in n.names) or
        isinstance(n, ast.Name) and n.id in ("exec", "globals", "vars", "setattr") for n in ast.walk(tree))


def examine(request):
    """Answers [(field, line or 0, what), ...]; a field is tests, reference, entry."""
    prompt, tests, reference, entry = request
    found = []
    fault = unreadable(tests)
    if fault:
        found.append(("tests", *fault))
    if reference is not None:
        fault = reference_fault(prompt, reference)
        if fault:
            found.append(("reference", *fault))
    if not found:
        found += names_fault(prompt, tests, reference, entry)
    return message(text("examination"), Encoder().value(found))


def names_fault(prompt_text, tests, reference, entry):
    prompt, tree = parsed(prompt_text), parsed(tests)
    module = None if reference is None else parsed(reference) or parsed(prompt_text + reference)
    if everything(module):
        return
    yield from missing_modules(module)
    own = definitions(module)
    exist = ", ".join(sorted(own)) or "nothing"
    known = own.keys() | imported(module)
    for name in entry:
        if name not in known:
            yield "entry", 0, "the reference does not define %s; it defines %s" % (name, exist)
    if everything(tree):
        return
    used = free_names(tests)
    if not used & (known | set(entry)):
        yield "tests", 0, "the tests use nothing of the reference, which defines %s" % exist
    known = known | set(entry) | definitions(prompt).keys() | imported(prompt) | set(dir(builtins))
    for name in sorted(used - known - {"__file__", "__builtins__"}):
        yield "tests", line_of(tree, name), "nothing defines %s; the reference defines %s" % (name, exist)


def missing_modules(tree):
    """The imports of a module for which the image has nothing."""
    for node in statements(tree.body if tree else []):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module]
        for name in names:
            top = name.partition(".")[0]
            if not importable(top):
                yield "reference", node.lineno, "ModuleNotFoundError: the image has no module %s" % top


def importable(name):
    """Whether a module is there, as far as that is known without importing it."""
    try:
        from importlib.util import find_spec
        return find_spec(name) is not None
    except Exception:
        return True
