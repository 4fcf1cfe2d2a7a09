"""Runs tasks with their known solutions through Inspect AI: one sandbox per task,
in which the solver writes the solution and the scorer runs the tests.

usage: inspect_task.py TASKS.json COMPOSE.yaml WORKERS LOGS [old-engine]
"""

import json
import sys

from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import CORRECT, INCORRECT, Score, accuracy, scorer
from inspect_ai.solver import solver
from inspect_ai.util import sandbox


@solver
def known_solution():
    async def solve(state, generate):
        await sandbox().write_file("candidate.py", state.metadata["solution"])
        return state

    return solve


@scorer(metrics=[accuracy()])
def tests_pass():
    async def score(state, target):
        await sandbox().write_file("check.py", state.metadata["check"])
        done = await sandbox().exec(["python3", "check.py"], timeout=60)
        return Score(value=CORRECT if done.success else INCORRECT, explanation=done.stderr)

    return score


def main():
    tasks, compose, workers, logs = sys.argv[1:5]
    if sys.argv[5:] == ["old-engine"]:
        # The release refuses engines before 24.0.6, and runs on them without this check.
        from inspect_ai.util._sandbox.docker import prereqs

        async def unchecked(*_):
            return None

        prereqs.validate_docker_engine = unchecked
    samples = [
        Sample(id=t["id"], input=t["prompt"], metadata={"solution": t["solution"], "check": t["check"]})
        for t in json.load(open(tasks))
    ]
    task = Task(dataset=MemoryDataset(samples), solver=known_solution(), scorer=tests_pass(), sandbox=("docker", compose))
    log = eval(task, model="mockllm/model", max_samples=int(workers), max_sandboxes=int(workers), log_dir=logs, display="none")[0]
    passed = sum(s.scores["tests_pass"].value == CORRECT for s in log.samples or [] if s.scores)
    print(json.dumps({"status": log.status, "passed": passed, "error": str(log.error.message) if log.error else ""}))


if __name__ == "__main__":
    main()
