# The driver of unittest: "python -m unittest", with a runner that reports.


def main():
    plan, send, end = connect()
    start_site()
    open_checkout(plan)
    runner, finish = make_runner(plan, send)
    sys.argv = [sys.executable + " -m unittest"] + plan["args"]
    finish(end, lambda: unittest.TestProgram(module=None, argv=sys.argv, testRunner=runner))


main()
