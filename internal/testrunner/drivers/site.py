# Runs when a Python starts that a checker, or a test of it, has started. With
# PYTHONSAFEPATH nothing of the folder that it starts in is imported, which is the
# candidate's; but a program of the candidate's finds the modules beside it, as
# everywhere. The image's own module of this name runs afterwards.

import os
import sys


def beside():
    """Puts the folder of a script in front, as Python does that is not told -P."""
    script = (getattr(sys, "argv", None) or [""])[0]
    given = getattr(sys, "orig_argv", [])[1:]
    options = given[:given.index(script)] if script in given else []
    safe = [o for o in options if o[:1] == "-" and o[:2] != "--" and "P" in o]
    if getattr(sys.flags, "safe_path", False) and not safe and script not in ("", "-", "-c", "-m") and os.path.isfile(script):
        sys.path.insert(0, os.path.dirname(os.path.realpath(script)))


def following():
    """Runs the module of this name that this one stands in front of."""
    import importlib.machinery
    import importlib.util
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [p for p in sys.path if os.path.abspath(p or os.curdir) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec and spec.loader and os.path.dirname(os.path.abspath(spec.origin or here)) != here:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if sys.version_info >= (3, 6):
    following()
    beside()
