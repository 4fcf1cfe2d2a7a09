"""Runs securebench from Python, and reads what it recorded.

    import securebench

    done = securebench.run("packs/demo", agent="oracle", output_dir="runs/demo")
    print(done.passed, "of", done.total)
    for record in done.records():
        print(record["task_id"], record["outcome"])

The program decides everything: this module only starts it, and reads its files. A record
is a line of candidates.jsonl, as docs/records.md describes it.
"""
import ast
import io
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

__all__ = ["Failed", "Run", "program", "records", "run"]


class Failed(Exception):
    """securebench ended with an exit code that stands for no result."""

    def __init__(self, code, message):
        super().__init__(f"securebench ended with exit code {code}: {message}")
        self.code = code


class Run:
    """A run that has ended."""

    def __init__(self, dir, code, summary):
        self.dir = Path(dir)
        self.code = code  # 0; 20 if the condition of fail_on is met, 21 if infrastructure errors remain
        self.summary = summary  # the words of the last line, by name
        self.total, self.verified, self.passed = (int(summary[k]) for k in ("total", "verified", "passed"))

    def records(self):
        """Yields its records."""
        return records(self.dir)

    def verify(self):
        """Returns what "securebench verify" says of it, as a dictionary; its "ok" is the verdict."""
        out = _start(["verify", str(self.dir), "--json"], capture_output=True).stdout
        return json.loads(out)

    def __repr__(self):
        return f"Run({str(self.dir)!r}, {self.passed} of {self.total} passed)"


def program():
    """Returns the path of the program: SECUREBENCH, or that of this package, or that of the path."""
    named = os.environ.get("SECUREBENCH")
    if named:
        return named
    for folder in (sysconfig.get_path("scripts"), os.path.join(sys.prefix, "bin"), sysconfig.get_path("scripts", f"{os.name}_user"),
                   Path(__file__).parents[1] / "bin"):
        found = os.path.join(folder, "securebench")
        if os.access(found, os.X_OK):
            return found
    found = shutil.which("securebench")
    if found is None:
        raise FileNotFoundError("securebench is not installed: pip install securebench, or name it in SECUREBENCH")
    return found


def run(pack, *, env=None, cwd=None, show=False, **flags):
    """Runs an agent on a pack and waits for the end.

    pack is a folder, a manifest or a tester YAML. Every flag of "securebench run" is a
    keyword, with _ for -: agent="oracle", output_dir="out", task=["a*", "b*"], force=True.
    With show, the program's progress is shown; else it is in the message of Failed.
    """
    args = ["run", os.fspath(pack)]
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        if value is None:
            continue
        if isinstance(value, bool):
            args.append(f"{flag}={str(value).lower()}")
        else:
            for one in value if isinstance(value, (list, tuple)) else [value]:
                args.append(f"{flag}={os.fspath(one) if isinstance(one, os.PathLike) else one}")
    done = _start(args, env=env, cwd=cwd, stdout=subprocess.PIPE, stderr=None if show else subprocess.PIPE)
    lines = done.stdout.splitlines()
    words = dict(word.split("=", 1) for word in lines[-1].split() if "=" in word) if lines else {}
    if done.returncode not in (0, 20, 21) or "output" not in words:
        said = (done.stderr or "").strip().splitlines()
        raise Failed(done.returncode, said[-1] if said else "see above")
    output = re.search(r' output=("(?:[^"\\]|\\.)*"|\S+)', lines[-1]).group(1)  # in quotes if it has blanks
    output = ast.literal_eval(output) if output.startswith('"') else output
    return Run(Path(cwd or ".") / Path(output).parent, done.returncode, words)


def records(run):
    """Yields the records of a run: of its directory, of a copy of the public part, or of a bundle.

    They are read, not checked: Run.verify, "securebench verify" or "python -m securebench.verify" do that.
    """
    run = Path(run)
    if run.is_dir():
        lines = open(run / "candidates.jsonl", encoding="ascii")
    else:
        lines = io.TextIOWrapper(zipfile.ZipFile(run).open("securebench-run/candidates.jsonl"), encoding="ascii")
    with lines:
        for line in lines:
            if line.endswith("\n"):  # the last line of a run that goes on may be incomplete
                yield json.loads(line)


def _start(args, **how):
    return subprocess.run([program(), *args], stdin=subprocess.DEVNULL, text=True, **how)
