# A weak runner on purpose: candidate and tests share one process. The attacks
# of the corpus must pass here, or they would prove nothing. The test puts
# "TEST_SOURCE = ..." in front and runs it as
# solution_test.py MODE CANDIDATE SENTINEL.
import builtins
import json
import os
import pickle
import sys
import types

mode, candidate_file, sentinel = sys.argv[1:4]


def stop(*args):
    raise RuntimeError("os._exit at import")


def load():
    """Loads the candidate as guarded as the modes promise."""
    module = types.ModuleType("securebench_candidate")
    sys.modules[module.__name__] = module
    saved, exit_now = dict(vars(builtins)), os._exit
    if mode != "bare":
        os._exit = stop
    try:
        with open(candidate_file, "rb") as f:
            exec(compile(f.read(), candidate_file, "exec"), vars(module))
    except SystemExit:
        if mode == "bare":
            raise
        raise RuntimeError("exit at import")
    finally:
        if mode != "bare":
            os._exit = exit_now
            vars(builtins).update(saved)
    return {k: v for k, v in vars(module).items() if not k.startswith("__")}


def through_pickle(function):
    return lambda *args: pickle.loads(pickle.dumps(function(*args)))


def verdict(passed):
    """Says the verdict in the way that the mode trusts."""
    if mode == "fd":
        os.write(3, json.dumps({"passed": passed}).encode() + b"\n")
    elif mode == "file" or passed:
        with open(sentinel, "w") as f:
            f.write("1" if passed else "0")


def main():
    names = load()
    if mode == "pickle":
        names = {k: through_pickle(v) if callable(v) else v for k, v in names.items()}
    names["__name__"] = "__securebench_tests__"
    try:
        exec(TEST_SOURCE, names)
    except Exception:
        verdict(False)
        raise
    verdict(True)


main()
