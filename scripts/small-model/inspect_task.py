"""Asks a model the questions of a pack through Inspect AI, one at a time.

usage: inspect_task.py TASKS.jsonl ADDRESS TOKENS LOGS
"""

import json
import os
import sys

from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import match
from inspect_ai.solver import generate


def main():
    tasks, address, tokens, logs = sys.argv[1:]
    rows = [json.loads(line) for line in open(tasks)]
    samples = [Sample(id=r["id"], input=r["input"]["question"], target=str(r["eval"]["accepted_answers"][0])) for r in rows]
    os.environ["SMALL_API_KEY"], os.environ["SMALL_BASE_URL"] = "EMPTY", address + "/v1"
    log = eval(Task(dataset=MemoryDataset(samples), solver=generate(), scorer=match(numeric=True)),
               model="openai-api/small/smollm2", max_tokens=int(tokens), max_connections=1,
               max_samples=1, log_dir=logs, display="none")[0]
    done = sum(bool(s.scores) for s in log.samples or [])
    if log.status != "success" or done != len(rows):
        sys.exit(f"inspect: {log.status}, {done} of {len(rows)} scored: {log.error and log.error.message}")


if __name__ == "__main__":
    main()
