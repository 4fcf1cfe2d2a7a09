# Judges answers with a file of the pack. Each question is answered by a child process,
# so that no question knows of another and a child that dies takes nothing along.

import json
import signal
import sys
import traceback
import types

MAX_REASON = 2000  # characters of what a checker says
MAX_TRACE = 8000  # characters of a traceback


def load(name, source):
    """The function check of a file."""
    module = types.ModuleType("checker")
    module.__file__ = name
    sys.modules["checker"] = module
    exec(compile(source, name, "exec"), module.__dict__)
    return module.check


def plain(s, most):
    return text(s[:most].encode("utf-8", "replace").decode())


def broken():
    return message(text("broken"), plain(traceback.format_exc()[-MAX_TRACE:], MAX_TRACE))


def judged(check, question):
    """What the checker says of an answer."""
    try:
        answer, said, row = question
        result = check(answer, said, json.loads(row))
        if type(result) not in (tuple, list) or len(result) != 2:
            raise TypeError("check must return (score, reason), not " + type(result).__name__)
        score, reason = float(result[0]), result[1]
        if not 0 <= score <= 1:
            raise ValueError("the score must be from 0 to 1, not " + repr(score))
        if not isinstance(reason, str):
            raise TypeError("the reason must be a string, not " + type(reason).__name__)
        return message(text("score"), text(repr(score)), plain(reason, MAX_REASON))
    except BaseException:
        return broken()


def apart(channel, work):
    """The result of work in a child process."""
    source, sink = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            for fd in (source, channel.source, channel.sink):
                os.close(fd)
            data = work()
            while data:
                data = data[os.write(sink, data):]
        finally:
            os._exit(0)
    os.close(sink)
    parts = []
    while True:
        part = os.read(source, 1 << 16)
        if not part:
            break
        parts.append(part)
    os.close(source)
    try:
        os.killpg(child, signal.SIGKILL)
    except OSError:
        pass  # it has ended, and all that it started
    _, status = os.waitpid(child, 0)
    data = b"".join(parts)
    if not data or len(data) > MAX_TRACE * 8:
        return message(text("broken"), text("the process of the checker ended with status " + str(status)))
    return data


def serve(channel):
    channel.send(text("ready"))
    name, source = Decoder(channel.receive()).value()
    check, fault = None, None
    try:
        check = load(name, source)
    except BaseException:
        fault = broken()
    channel.send(text("ready"))
    while True:
        question = Decoder(channel.receive()).value()
        channel.send(fault or apart(channel, lambda: judged(check, question)))


serve(private_channel())
