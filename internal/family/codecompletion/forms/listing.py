# Lists the tests of files that must be reported, by pytest's ids. It reads the
# texts and runs nothing of them.
import ast
import json
import sys


def marked(node, *words):
    text = " ".join(ast.dump(d) for d in node.decorator_list)
    return any(word in text for word in words)


def tests(body, prefix):
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test"):
            if not marked(node, "skip", "xfail", "expectedFailure", "fixture", "property"):
                yield prefix + node.name + ("[" if marked(node, "parametrize") else "")


def last(base):
    return base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")


def collected(node):
    if any(last(b).endswith("TestCase") for b in node.bases):
        return True
    return node.name.startswith("Test") and not any(getattr(n, "name", "") in ("__init__", "__new__") for n in node.body)


def listed(tree):
    out = list(tests(tree.body, ""))
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and collected(node) and not marked(node, "skip", "parametrize"):
            out += tests(node.body, node.name + "::")
    return sorted(set(out))


out = {}
for name, text in sorted(json.loads(sys.stdin.buffer.read().decode("utf-8")).items()):
    try:
        out[name] = listed(ast.parse(text.encode("utf-8")))
    except (SyntaxError, ValueError) as e:
        print(json.dumps({"file": name, "line": getattr(e, "lineno", None) or 0}))
        break
else:
    print(json.dumps({"tests": out}))
