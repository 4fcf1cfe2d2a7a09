# The driver of SymPy's own runner: the base's bin/test reads the command line,
# and the base's runner runs the tests in this process with a reporter of ours.

import runpy
import types


def command_line(plan):
    """What bin/test would call sympy.test with. It sets variables that must be set
    before SymPy is loaded, so it gets a stand-in for SymPy."""
    stand_in, seen = types.ModuleType("sympy"), []
    stand_in.test = lambda *paths, **options: seen.append((paths, options)) or True
    sys.modules["sympy"] = stand_in
    sys.argv = [plan["script"]] + plan["args"]
    try:
        runpy.run_path(plan["script"], run_name="__main__")
    except SystemExit:
        pass
    del sys.modules["sympy"]
    paths, options = seen[0]
    for name in ("subprocess", "rerun", "parallel", "store_durations", "use_sympy_runner"):
        options.pop(name, None)
    return paths, options


def load_runner():
    try:
        return importlib.import_module("sympy.testing.runtests")
    except ModuleNotFoundError as e:
        if not str(e.name).startswith("sympy.testing"):
            raise
        return importlib.import_module("sympy.utilities.runtests")


def replace(runtests, plan, lines):
    root = os.path.realpath(os.getcwd())
    canaries = [os.path.join(root, c["path"]) for c in plan["canaries"]]

    class Reporter(runtests.PyTestReporter):
        file = test = None

        def entering_filename(self, filename, n):
            self.file, self.test = filename, None
            super().entering_filename(filename, n)

        def leaving_filename(self):
            self.file = self.test = None
            super().leaving_filename()

        def entering_test(self, f):
            self.test = f.__name__
            super().entering_test(f)

        def import_error(self, filename, exc_info):
            lines.append(("broken", filename, ""))
            super().import_error(filename, exc_info)

        def note(self, status):
            """Reports whether a test's result belongs to the row."""
            if self.test is None:
                lines.append(("broken", str(self.file), ""))
                return True
            file = os.path.relpath(os.path.realpath(self.file), root).replace(os.sep, "/")
            lines.append((status, file + "::" + self.test, self.test))
            return os.path.realpath(self.file) not in canaries

    def wrap(method, status):
        inherited = getattr(runtests.PyTestReporter, method)

        def report(self, *args):
            if self.note(status):
                inherited(self, *args)
        setattr(Reporter, method, report)

    for method, status in (("test_pass", "passed"), ("test_fail", "failed"), ("test_exception", "error"),
                           ("test_skip", "skipped"), ("test_xfail", "xfailed"), ("test_xpass", "xpassed")):
        wrap(method, status)

    class Tests(runtests.SymPyTests):
        def test(self, *args, **kwargs):
            self._testfiles[:] = [f for f in self._testfiles if os.path.realpath(f) not in canaries]
            self._testfiles.extend(canaries)
            return super().test(*args, **kwargs)

        def test_file(self, filename, *args, **kwargs):
            if filename not in canaries:
                return super().test_file(filename, *args, **kwargs)
            selected, self._kw = self._kw, ()  # whatever the row selects
            try:
                return super().test_file(filename)
            finally:
                self._kw = selected

    runtests.PyTestReporter, runtests.SymPyTests = Reporter, Tests


def main():
    plan, send, end = connect()
    start_site()
    plan["paths"].insert(0, os.path.dirname(os.path.abspath(plan["script"])))
    open_checkout(plan)
    lines = []
    try:
        paths, options = command_line(plan)
        runtests = load_runner()
        replace(runtests, plan, lines)
        status = int(runtests._test(*paths, **options))
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 3
    results = [line for line in lines if line[0] != "broken"]
    for _, name, function in results:
        send("test", ("id", name), ("names", [function]))
    send("start", ("tests", len(results)))
    for kind, name, _ in lines:
        if kind == "broken":
            send("broken", ("id", name))
        else:
            send("result", ("id", name), ("status", kind))
    end(status)


main()
