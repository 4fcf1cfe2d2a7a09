# The driver of pytest. It reports what pytest itself decides about each test,
# through a plugin object that no file of the checkout can name.

import tempfile


def passed_over(report):
    """The status of a test by one report, or None."""
    if report.outcome == "failed":
        return "failed" if report.when == "call" else "error"
    if report.outcome == "skipped":
        return "xfailed" if hasattr(report, "wasxfail") else "skipped"
    if report.outcome == "passed" and report.when == "call":
        return "xpassed" if hasattr(report, "wasxfail") else "passed"
    return None


def settings(root):
    """The settings of tests outside: those in their folder, or none. pytest itself
    would look for them in the folders above as well."""
    for name, mark in (("pytest.ini", ""), (".pytest.ini", ""), ("pyproject.toml", "[tool.pytest"),
                       ("tox.ini", "[pytest]"), ("setup.cfg", "[tool:pytest]")):
        path = os.path.join(root, name)
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="replace") as f:
                if mark in f.read():
                    return path
    return os.devnull


def name_plugin(pluginmanager, plugin, name):
    """Tells pytest which distribution a plugin is of, for required_plugins."""
    try:
        from importlib.metadata import distributions
        from pluggy._manager import DistFacade
        for dist in distributions():
            if any(e.group == "pytest11" and e.name == name for e in dist.entry_points):
                pluginmanager._plugin_distinfo.append((plugin, DistFacade(dist)))
                return
    except Exception:
        pass  # an older Python or pytest, which asks otherwise


def fresh_cache(config):
    """Gives pytest's cache an empty folder of its own, outside of the checkout, so
    that neither the base nor a candidate says what failed in an earlier run."""
    try:
        config.getini("cache_dir")
        config._inicache["cache_dir"] = tempfile.mkdtemp()
    except Exception:
        pass  # the project has no cache


def lift(config):
    """Takes back settings that would end the run, or fail it, for canaries or because
    only some of a project's tests run."""
    config.option.maxfail = 0  # a canary fails on purpose
    for name in ("stepwise", "stepwise_skip", "stepwise_reset"):
        if hasattr(config.option, name):
            setattr(config.option, name, False)
    if hasattr(config.option, "numprocesses"):  # other processes have no channel
        config.option.numprocesses, config.option.dist, config.option.tx = None, "no", []
    coverage = config.pluginmanager.getplugin("_cov")
    if hasattr(coverage, "options"):
        coverage.options.cov_fail_under = 0


def reporter(pytest, plan, send):
    from _pytest import hookspec
    hook = pytest.hookimpl
    root = os.path.realpath(plan["root"] or os.getcwd())
    places = {os.path.join(root, c["path"]): c for c in plan["canaries"]}

    def path(item):
        return os.path.realpath(str(getattr(item, "path", None) or item.fspath))

    def name(item):
        nodeid = item.nodeid.replace("::()", "")
        if path(item) in places:  # whatever the root folder is
            return "::".join([places[path(item)]["path"]] + nodeid.split("::")[1:])
        return nodeid

    def wanted(path):
        """Whatever a project ignores, canaries are collected."""
        return False if os.path.realpath(str(path)) in places else None

    class Reporter(object):
        session = None
        started = False
        others = canary_failures = 0
        reports = ()
        canary = False

        @hook(tryfirst=True)
        def pytest_cmdline_parse(self, pluginmanager, args):
            for name, module, attribute, origin in plan["plugins"]:
                spec = importlib.util.find_spec(module.partition(".")[0])
                if not spec or (spec.origin or "") != origin:
                    raise ImportError("the plugin %s is not the image's" % module)
                plugin = importlib.import_module(module)
                for part in filter(None, attribute.split(".")):
                    plugin = getattr(plugin, part)
                pluginmanager.register(plugin, name)
                name_plugin(pluginmanager, plugin, name)

        @hook(hookwrapper=True)
        def pytest_cmdline_main(self, config):
            os.environ.pop("PYTEST_DISABLE_PLUGIN_AUTOLOAD", None)
            os.environ.update(plan["autoload"])
            fresh_cache(config)
            lift(config)
            # A file below a folder that is an argument as well confuses pytest.
            folders = [os.path.join(os.path.realpath(a), "") for a in config.args]
            if plan["rehearsal"]:
                config.args, config.option.continue_on_collection_errors = sorted(places), True
            else:
                config.args = list(config.args) + [
                    p for p in sorted(places) if not p.startswith(tuple(folders))]
            config.getini("python_files").extend(os.path.basename(p) for p in places)
            config.getini("python_functions").extend(f for c in places.values() for f in c["functions"])
            yield

        # A project that is pytest itself can say 7 before it has the argument of 7.
        if "collection_path" in hookspec.pytest_ignore_collect.__code__.co_varnames:
            @hook(tryfirst=True)
            def pytest_ignore_collect(self, collection_path):
                return wanted(collection_path)
        else:
            @hook(tryfirst=True)
            def pytest_ignore_collect(self, path):
                return wanted(path)

        @hook(hookwrapper=True, tryfirst=True)
        def pytest_collection_modifyitems(self, session, config, items):
            found = {}
            for item in items:
                if path(item) in places:
                    found.setdefault(path(item), {}).setdefault(item.nodeid, item)
            yield
            items[:] = [item for item in items if path(item) not in places and not plan["rehearsal"]]
            self.others = len(items)
            place(items, path, [(places[p]["place"], list(tests.values()))
                                for p, tests in sorted(found.items())])

        def pytest_collectreport(self, report):
            if report.failed:
                send("broken", ("id", report.nodeid))

        def pytest_collection_finish(self, session):
            self.session, self.started = session, True
            for item in session.items:
                send("test", ("id", name(item)), ("names", []))
            send("start", ("tests", len(session.items)))

        @hook(hookwrapper=True)
        def pytest_runtest_protocol(self, item, nextitem):
            self.reports, self.canary = [], path(item) in places
            yield
            statuses = [passed_over(r) for r in self.reports]
            for status in ("error", "failed", "xpassed", "passed", "xfailed", "skipped"):
                if status in statuses:
                    send("result", ("id", name(item)), ("status", status))
                    break
            self.reports, self.canary = (), False

        def pytest_runtest_logreport(self, report):
            self.reports += type(self.reports)([report])
            if self.canary and report.failed and not hasattr(report, "wasxfail"):
                self.canary_failures += 1

        def status(self, status):
            """What pytest would have returned without canaries."""
            if not self.started:
                send("start", ("tests", 0))
            elif status == 1 and self.session.testsfailed == self.canary_failures:
                return 0 if self.others else 5
            return status

    return Reporter()


def main():
    plan, send, end = connect()
    start_site()
    if plan["late"]:  # pytest, or what it needs, is the checkout's product
        open_checkout(plan)
    import pytest
    if not plan["late"]:
        open_checkout(plan)
    if plan["root"]:
        plan["args"][:0] = ["-c", settings(plan["root"])]
    sys.argv = [os.path.join(os.path.dirname(pytest.__file__), "__main__.py")] + plan["args"]
    plan["autoload"] = {k: v for k, v in os.environ.items() if k == "PYTEST_DISABLE_PLUGIN_AUTOLOAD"}
    if plan["autoload"]:  # the row's own wish
        plan["plugins"] = []
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    report = reporter(pytest, plan, send)
    try:
        status = pytest.main(list(plan["args"]), plugins=[report])
    except SystemExit as e:
        status = e.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 3
    end(report.status(int(status) if isinstance(status, int) else 3))


main()
