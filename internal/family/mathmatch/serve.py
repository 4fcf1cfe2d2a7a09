# Answers questions in a child process: what takes too long or too much memory ends the
# child, and another takes its place without importing anything again.

import functools
import gc
import logging
import os
import resource
import signal
import sys

sys.path.insert(0, LIBRARIES)
logging.disable(logging.CRITICAL)

import sympy
from sympy.core.function import AppliedUndef
from latex2sympy2_extended import NormalizationConfig, normalize_latex
from latex2sympy2_extended.logic import And
from latex2sympy2_extended.sets import FiniteSet
from math_verify.grader import verify
from math_verify.parser import parse_latex_cached

# The library's own configuration for LaTeX. Its other one, for plain expressions, ends
# in Python's eval and is not used.
LATEX = NormalizationConfig(basic_latex=True, units=True, malformed_operators=True, nits=True, boxed="all", equations=False)


def read(latex):
    return parse_latex_cached(normalize_latex(latex, config=LATEX))


def limit(memory):
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + 1 + SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def work(channel, memory, answer):
    while True:
        question = Decoder(channel.receive()).value()
        limit(memory)
        try:
            said = answer(question)
        except MemoryError:
            said = ("overrun", "")
        except Exception:
            said = ("unreadable", "")
        channel.send(message(text(said[0]), text(said[1])))


def serve(answer, examples):
    channel = private_channel()
    channel.send(text("ready"))
    memory = Decoder(channel.receive()).value()
    for example in examples:  # the parser learns the grammar as it reads
        read(example)
    gc.collect()
    gc.freeze()
    channel.send(text("ready"))
    while True:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGXCPU, signal.SIG_DFL)
            try:
                work(channel, memory, answer)
            finally:
                os._exit(1)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSIGNALED(status):
            os._exit(1)
        channel.send(message(text("overrun"), text("")))


EXAMPLES = (r"\frac{3}{4}", r"2\sqrt{3}", r"x^{2}+2x+1", r"(-\infty,3]\cup[4,5)", r"\{1,2,3\}", r"(2,\frac{\pi}{4})",
            r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"y=2x-1", r"x\leq 3", r"\sin x+e^{2x}", r"-\frac{\sqrt{5}-1}{2}", r"5!", r"3+4i")
