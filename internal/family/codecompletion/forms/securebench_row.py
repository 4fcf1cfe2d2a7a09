# Loads the candidate for the tests of a row, which share a process with it.
import os
import random
import sys
import types

HERE = os.path.dirname(os.path.abspath(__file__))


def text(name):
    with open(os.path.join(HERE, name), "rb") as f:
        return f.read()


def load(path):
    """The candidate's module. The prompt runs first, so that its imports and
    definitions are there; a candidate that is only the rest of the prompt is put
    behind it."""
    with open(path, "rb") as f:
        source = f.read()
    prompt = text("prompt.txt")
    random.seed(0)  # the same verdict again, and elsewhere
    try:
        code = compile(source, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        code = compile(prompt + source, path, "exec", dont_inherit=True)
    module = types.ModuleType("candidate")
    module.__file__ = path
    sys.modules["candidate"] = module
    try:
        exec(compile(prompt, "prompt.py", "exec", dont_inherit=True), vars(module))
    except Exception:
        pass  # prose, or a prompt that needs what is not there
    exec(code, vars(module))
    return module


def names(wanted):
    """What the candidate has of the names that the tests mention."""
    module = sys.modules.get("candidate") or load("/workspace/candidate.py")
    return {name: value for name, value in vars(module).items()
            if name in wanted and not name.startswith("__")}


def run(wanted):
    """Runs tests that are a plain program."""
    space = {"__name__": "tests", **names(wanted)}
    exec(compile(text("tests.txt"), "tests.py", "exec", dont_inherit=True), space)
