# The driver of Django's own tests: the base's runtests.py, in this process, with
# a runner that reports.

import runpy


def main():
    plan, send, end = connect()
    start_site()
    script = plan["script"]
    plan["paths"].insert(0, os.path.dirname(os.path.abspath(script)))
    open_checkout(plan)
    runner, finish = make_runner(plan, send)
    unittest.TextTestRunner = runner
    args = list(plan["args"])
    with open(script, encoding="utf-8") as f:
        if "--parallel" in f.read():
            args.append("--parallel=1")  # other processes have no channel
    sys.argv = [script] + args
    finish(end, lambda: runpy.run_path(script, run_name="__main__"))


main()
