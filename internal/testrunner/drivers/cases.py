# What the drivers of unittest and django share: a runner that reports what
# unittest itself decides about each test.

import unittest


def leaves(suite):
    if isinstance(suite, unittest.TestSuite):
        return [test for child in suite for test in leaves(child)]
    return [suite]


def names(test):
    """By what a row can mean a test, beside its id: its description in the forms of
    all versions of Python, and the first line of its documentation."""
    method = getattr(test, "_testMethodName", None)
    if not method:
        return [str(test)]
    where = unittest.util.strclass(type(test))
    return ["%s (%s)" % (method, where), "%s (%s.%s)" % (method, where, method)] + [
        line for line in [test.shortDescription()] if line]


def prune(suite, files):
    """Removes tests of the given files, which discovery can have found."""
    def wanted(test):
        if isinstance(test, unittest.TestSuite):
            prune(test, files)
            return True
        module = sys.modules.get(type(test).__module__)
        return os.path.realpath(getattr(module, "__file__", None) or "/") not in files
    suite._tests[:] = [t for t in suite._tests if wanted(t)]


def load(canary):
    """The tests of a canary, whatever the row selects."""
    name = canary["path"][:-len(".py")].replace("/", ".")
    spec = importlib.util.spec_from_file_location(name, os.path.abspath(canary["path"]))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return unittest.TestLoader().loadTestsFromModule(module)


def make_runner(plan, send):
    original = unittest.TextTestRunner
    canaries = []
    state = {"free": True, "started": False}

    def result_class(base):
        class Result(base):
            # A failing canary must not end the run.
            failfast = property(lambda self: False, lambda self, value: None)
            found = None

            def startTest(self, test):
                self.found = []
                if test not in canaries:
                    super().startTest(test)

            def stopTest(self, test):
                if test not in canaries:
                    super().stopTest(test)
                for status in ("error", "failed", "xpassed", "passed", "xfailed", "skipped"):
                    if status in self.found:
                        send("result", ("id", test.id()), ("status", status))
                        break
                self.found = None

            def note(self, status, test):
                if self.found is not None:
                    self.found.append(status)
                elif status == "error":  # a class or module that cannot be set up
                    send("broken", ("id", test.id()))

        def wrap(method, status):
            inherited = getattr(base, method)

            def add(self, test, *args):
                self.note(status, test)
                if test not in canaries:
                    inherited(self, test, *args)
            setattr(Result, method, add)

        for method, status in (("addSuccess", "passed"), ("addFailure", "failed"), ("addError", "error"),
                               ("addSkip", "skipped"), ("addExpectedFailure", "xfailed"),
                               ("addUnexpectedSuccess", "xpassed")):
            wrap(method, status)

        def add_subtest(self, test, subtest, err):
            if err is not None:
                self.note("failed" if issubclass(err[0], test.failureException) else "error", test)
            if test not in canaries:
                base.addSubTest(self, test, subtest, err)
        Result.addSubTest = add_subtest
        return Result

    class Runner(original):
        ours = False

        def run(self, suite):
            if state["free"]:  # tests may run suites of their own
                self.ours, state["free"] = True, False
                unittest.TextTestRunner = original
                prune(suite, [os.path.realpath(c["path"]) for c in plan["canaries"]])
                loaded = [(c["place"], load(c)) for c in plan["canaries"]]
                canaries.extend([t for _, s in loaded for t in leaves(s)])
                place(suite._tests, lambda t: id(t) if isinstance(t, unittest.TestSuite) else type(t),
                      [(where, [s]) for where, s in loaded])
                tests = leaves(suite)
                for test in tests:
                    send("test", ("id", test.id()), ("names", names(test)))
                send("start", ("tests", len(tests)))
                state["started"] = True
            return super().run(suite)

        def _makeResult(self):
            if self.ours:
                self.resultclass = result_class(self.resultclass)
            return super()._makeResult()

    def finish(end, run):
        try:
            run()
            status = 0
        except SystemExit as e:
            status = e.code if isinstance(e.code, int) else int(e.code is not None)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            status = 3
        if not state["started"]:
            send("start", ("tests", 0))
        end(status if 0 <= status <= 255 else 1)

    return Runner, finish
