# Finds out, in the pristine sandbox, what a run depends on. Its arguments are its
# own source, the runner, the script of the command or "", and "module" if the
# command starts a module.

import configparser
import glob
import importlib.util
import json
import os
import shutil
import sys

source, runner, script, form = sys.argv[1:5]


def interpreter(script):
    """The interpreter that a script names in its first line."""
    path = shutil.which(script) or script
    try:
        with open(path, "rb") as f:
            words = f.readline().decode("utf-8", "replace").split()
    except OSError:
        return None
    if not words or not words[0].startswith("#!"):
        return None
    words[0] = words[0][2:]
    words = [w for w in words if w]
    found = shutil.which(words[-1] if os.path.basename(words[0]) == "env" else words[0])
    return found if found and "python" in os.path.basename(found) else None


def plugins():
    """The pytest plugins of the image: name, module, attribute, file of the package."""
    seen = {}
    for folder in sys.path:
        files = [f for kind in ("dist", "egg") for f in glob.glob(os.path.join(
            glob.escape(folder or "."), "*.%s-info" % kind, "entry_points.txt"))]
        files.append(os.path.join(folder, "EGG-INFO", "entry_points.txt"))
        for file in sorted(files):
            parser = configparser.ConfigParser(delimiters=("=",), interpolation=None, strict=False)
            parser.optionxform = str
            try:
                parser.read(file, encoding="utf-8")
            except (configparser.Error, OSError, UnicodeDecodeError):
                continue
            for name, value in parser.items("pytest11") if parser.has_section("pytest11") else ():
                module, _, attribute = value.partition("[")[0].strip().partition(":")
                spec = importlib.util.find_spec(module.strip().partition(".")[0])
                if spec:
                    seen.setdefault(name, [name, module.strip(), attribute.strip(), spec.origin or ""])
    return [seen[name] for name in sorted(seen)]


found = interpreter(script) if script else None
if found and os.path.realpath(found) != os.path.realpath(sys.executable):
    os.execv(found, [found, "-c", source, source, runner, "", form])
if form != "module":
    sys.path[:] = [p for p in sys.path if p]
report = {"executable": sys.executable or "", "version": list(sys.version_info[:2]), "pytest": "",
          "late": False, "plugins": [], "path": os.environ.get("PATH", ""),
          "pythonpath": os.environ.get("PYTHONPATH", ""), "software": [sys.executable or "", os.__file__]}
if runner == "pytest":
    try:
        import pytest
        report["pytest"] = pytest.__version__
        report["software"].append(pytest.__file__)
    except ImportError:
        pass
    root = os.path.realpath(os.getcwd()) + os.sep
    report["late"] = any(os.path.realpath(getattr(m, "__file__", None) or "/").startswith(root)
                         for m in list(sys.modules.values()))
    report["plugins"] = plugins()
report["software"] = sorted({p for f in report["software"] if f for p in (f, os.path.realpath(f))})
print("securebench-probe " + json.dumps(report))
