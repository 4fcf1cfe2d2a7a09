# The beginning of every driver: the channel to the parent, and a start of Python
# that runs nothing of the checkout.
#
# Candidate code shares this process, so nothing here is a defence in itself: it
# keeps out what prints, patches by name, or hopes to be loaded at the start.

import sys

sys.path[:] = [p for p in sys.path if p]  # "" is the checkout

import fcntl
import os
import importlib.util
import json
import site


def connect():
    """Returns the plan, a function that sends a line, and one that ends the process."""
    write, getpid, leave = os.write, os.getpid, os._exit
    quote = json.encoder.encode_basestring_ascii  # C code, which nobody can patch
    channel = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, 400)
    os.dup2(2, 1)
    text = b""
    while not text.endswith(b"\n"):
        piece = os.read(0, 1 << 16)
        if not piece:
            leave(70)
        text += piece
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    plan = json.loads(text.decode())
    start, parent = '{"key":' + quote(plan.pop("key")), getpid()

    def encode(value):
        if isinstance(value, int):
            return "%d" % value
        if isinstance(value, list):
            return "[" + ",".join([encode(v) for v in value]) + "]"
        return quote(value.encode("utf-8", "backslashreplace").decode())

    def send(kind, *fields):
        if getpid() != parent:
            return  # a forked child has nothing to say
        parts = ['"%s":%s' % (name, encode(value)) for name, value in fields]
        line = (start + ",".join([',"type":"%s"' % kind] + parts) + "}\n").encode()
        while line:
            line = line[write(channel, line):]

    def end(status):
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        send("end", ("status", status))
        leave(status)

    return plan, send, end


def start_site():
    """Does what Python does at its start without -S, but for start-up modules in
    the checkout, to which an editable installation can lead."""
    root = os.path.realpath(os.getcwd()) + os.sep

    def outside(name, run):
        def guard():
            spec = importlib.util.find_spec(name)
            if spec and spec.origin and not os.path.realpath(spec.origin).startswith(root):
                run()
        return guard

    site.execsitecustomize = outside("sitecustomize", site.execsitecustomize)
    site.execusercustomize = outside("usercustomize", site.execusercustomize)
    site.main()


def age(canaries):
    """Gives half of the canaries the date of the oldest file beside them. The others
    are as new as the tests of a test patch, so that no date tells canaries from
    tests. All files there have their date set, so that the times of that tell
    nothing either."""
    for folder in sorted({os.path.dirname(c["path"]) or "." for c in canaries}):
        try:
            with os.scandir(folder) as entries:
                dates = {e.path: e.stat(follow_symlinks=False).st_mtime_ns
                         for e in entries if e.is_file(follow_symlinks=False)}
        except OSError:
            continue
        for c in canaries:
            path = os.path.join(os.path.dirname(c["path"]) or ".", os.path.basename(c["path"]))
            if c["old"] and path in dates:
                dates[path] = min(dates.values())
        for path in dates:
            try:
                os.utime(path, ns=(dates[path], dates[path]))
            except OSError:
                pass  # it is another user's


def open_checkout(plan):
    """Makes the checkout importable, as the row's own command would have."""
    if plan["root"]:  # the canaries were laid with the tests, and no path is to be added
        if not plan["safe"]:  # the row's tests start what imports modules of the candidate's
            os.environ.pop("PYTHONSAFEPATH", None)
    else:
        age(plan["canaries"])
    paths = [os.path.abspath(p) for p in plan["paths"]]
    sys.path[:0] = paths
    os.environ.pop("PYTHONPATH", None)
    if plan["pythonpath"]:
        os.environ["PYTHONPATH"] = plan["pythonpath"]


def place(items, group, canaries):
    """Inserts lists of canaries between groups of items. Each comes with a number
    from 0 to 1 that says where."""
    for where, canary in canaries:
        gaps = [i for i in range(len(items) + 1)
                if i in (0, len(items)) or group(items[i]) != group(items[i - 1])]
        at = gaps[min(int(where * len(gaps)), len(gaps) - 1)]
        items[at:at] = canary
