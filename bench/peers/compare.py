#!/usr/bin/env python3
"""Runs the same tasks with their known solutions through securebench, Harbor and
Inspect AI, one after another in the same run, and prints seconds per task.

usage: compare.py --data HumanEval.jsonl [--tasks 16] [--workers 1,2] [--engines native,docker]
                  [--work DIR] [--binary bin/securebench] [--image IMAGE] [--out DIR]

The peers come from the package registry that pip is configured for, into a virtual
environment below --work; they need Python 3.12 or newer, a Docker engine and
docker's compose plug-in, which is built from its Go module if it is missing.
Every time is that of a whole command, its start included. Each task gets one
container of the peer; securebench makes an agent's and a candidate's sandbox, and
keeps the tests away from both.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
COMPOSE = "v2.40.3"
SCHEMA = "securebench.peers/1"


def main():
    o = options()
    work = pathlib.Path(o.work).resolve()
    work.mkdir(parents=True, exist_ok=True)
    env = environment(work)
    python = install(work)
    tasks = read(o.data, o.tasks)
    systems = prepare(o, work, python, tasks, env)
    rows = []
    for workers in [int(n) for n in o.workers.split(",")]:
        for name, run in systems:
            say(f"{name}: {len(tasks)} tasks, {workers} at a time")
            start = time.monotonic()
            passed = run(workers)
            seconds = time.monotonic() - start
            rows.append({"system": name, "workers": workers, "tasks": len(tasks), "passed": passed,
                         "seconds": round(seconds, 2), "seconds_per_task": round(seconds / len(tasks), 3)})
    result = {"schema": SCHEMA, "date": datetime.date.today().isoformat(), "machine": machine(env),
              "versions": versions(o, python), "rows": rows}
    text = table(result)
    print(text)
    if o.out:
        out = pathlib.Path(o.out)
        out.mkdir(parents=True, exist_ok=True)
        (out / "peers.json").write_text(json.dumps(result, indent=2) + "\n")
        (out / "peers.md").write_text(text + "\n")
    if any(r["passed"] != r["tasks"] for r in rows):
        sys.exit("not every known solution passed: the times cannot be compared")


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", required=True, help="HumanEval's rows, as JSON lines")
    p.add_argument("--tasks", type=int, default=16)
    p.add_argument("--workers", default="1,2")
    p.add_argument("--engines", default="native,docker")
    p.add_argument("--systems", default="securebench,inspect,harbor-init,harbor")
    p.add_argument("--work", default="/tmp/securebench-peers")
    p.add_argument("--binary", default=str(HERE.parent.parent / "bin" / "securebench"))
    p.add_argument("--image", default="securebench-python:3")
    p.add_argument("--out", help="folder for peers.json and peers.md")
    return p.parse_args()


def say(text):
    print("peers: " + text, file=sys.stderr, flush=True)


def call(argv, **kw):
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kw)
    if done.returncode != 0:
        sys.exit(f"peers: {argv[0]} {argv[1] if argv[1:] else ''} ended with {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


def environment(work):
    """The environment of the peers: no telemetry, and docker with its plug-in."""
    env = dict(os.environ, HARBOR_TELEMETRY="off", DO_NOT_TRACK="1", SECUREBENCH_KEYS=str(work / "keys"))
    if subprocess.run(["docker", "compose", "version"], capture_output=True).returncode == 0:
        return env
    plugin = work / "docker" / "cli-plugins" / "docker-compose"
    if not plugin.exists():
        say(f"building docker's compose plug-in {COMPOSE} from its Go module")
        source = work / "compose"
        source.mkdir(exist_ok=True)
        (source / "go.mod").write_text("module compose\n\ngo 1.24\n")
        go = dict(os.environ, GOFLAGS="-mod=mod", CGO_ENABLED="0")
        call(["go", "get", "github.com/docker/compose/v2/cmd@" + COMPOSE], cwd=source, env=go)
        plugin.parent.mkdir(parents=True, exist_ok=True)
        flags = "-s -w -X github.com/docker/compose/v2/internal.Version=" + COMPOSE
        call(["go", "build", "-trimpath", "-ldflags", flags, "-o", plugin, "github.com/docker/compose/v2/cmd"], cwd=source, env=go)
    env["DOCKER_CONFIG"] = str(work / "docker")
    return env


def install(work):
    """Installs the peers; returns the virtual environment's python."""
    python = work / "venv" / "bin" / "python"
    if not (python.parent / "harbor").exists():
        found = [p for p in (sys.executable, "python3.14", "python3.13", "python3.12") if suitable(p)]
        if not found:
            sys.exit("peers: Harbor needs Python 3.12 or newer")
        say("installing the peers")
        call([found[0], "-m", "venv", work / "venv"])
        call([python, "-m", "pip", "install", "-q", "-r", HERE / "requirements.txt"])
    return python


def suitable(python):
    probe = [python, "-c", "import sys; sys.exit(sys.version_info < (3, 12))"]
    return shutil.which(python) is not None and subprocess.run(probe, capture_output=True).returncode == 0


def read(data, count):
    rows = [json.loads(line) for line in open(data) if line.strip()][:count]
    return [{
        "id": r["task_id"], "entry": r["entry_point"], "prompt": r["prompt"],
        "solution": r["prompt"] + r["canonical_solution"],
        "check": f"source = open('candidate.py').read() + '\\n' + {r['test']!r} + '\\ncheck({r['entry_point']})\\n'\nexec(source, {{'__name__': 'check'}})\n",
    } for r in rows]


def prepare(o, work, python, tasks, env):
    """Returns the systems, each with what runs it on a number of workers."""
    wanted, systems = o.systems.split(","), []
    shutil.rmtree(work / "runs", ignore_errors=True)
    if "securebench" in wanted:
        systems += securebench(o, work, tasks, env)
    if "inspect" in wanted:
        systems.append(inspect(o, work, python, tasks, env))
    for name, init in (("harbor-init", True), ("harbor", False)):
        if name in wanted:
            systems.append(harbor(o, work, python, tasks, env, init))
    return systems


def securebench(o, work, tasks, env):
    binary = pathlib.Path(o.binary).resolve()
    pack, data = work / "pack", work / "data.jsonl"
    lines = [line for line in open(o.data) if line.strip()][:len(tasks)]
    data.write_text("".join(lines))
    call([binary, "pack", "import", "humaneval", data, "-o", pack, "--image", o.image, "--force"], env=env)
    out = []
    for engine in o.engines.split(","):
        tester = work / f"securebench-{engine}.yaml"
        tester.write_text(json.dumps({
            "schema_version": "0.2",
            "run": {"id": "peers-" + engine, "output_dir": f"runs/securebench-{engine}"},
            "benchmark": {"manifest": "pack/manifest.yaml", "tasks": "pack/tasks.jsonl"},
            "harness": {"type": "command", "config": {"command": ["sh", "-c", agent(tasks)], "artifact_path": "candidate.py"}},
            "sandbox": {"engine": engine},
        }))

        def run(workers, tester=tester):
            summary = call([binary, "run", "--config", tester, "-w", workers, "-q", "--force"], env=env)
            return int(summary.split("passed=")[1].split()[0])

        out.append((f"securebench, {engine}", run))
    return out


def agent(tasks):
    """A shell script that writes the solution of the task that it finds."""
    script = ["t=$(cat task.json)", "case $t in"]
    for t in tasks:
        mark = f"def {t['entry']}("
        if sum(mark in other["prompt"] for other in tasks) > 1:
            mark = json.dumps(t["prompt"])[1:-1]
        script.append(f"*{quote(mark)}*) printf %s {quote(t['solution'])} > candidate.py ;;")
    return "\n".join(script + ["esac", ""])


def quote(text):
    return "'" + text.replace("'", "'\\''") + "'"


def inspect(o, work, python, tasks, env):
    compose, data = work / "inspect-compose.yaml", work / "inspect-tasks.json"
    # What the release writes itself for an image without a compose file.
    compose.write_text(f"services:\n  default:\n    image: {o.image}\n    command: tail -f /dev/null\n    init: true\n"
                       "    network_mode: none\n    stop_grace_period: 1s\n    working_dir: /root\n")
    data.write_text(json.dumps(tasks))
    old = ["old-engine"] if engine_version(env) < (24, 0, 6) else []

    def run(workers):
        said = call([python, HERE / "inspect_task.py", data, compose, workers, work / "runs" / "inspect"] + old, env=env)
        result = json.loads(said.strip().splitlines()[-1])
        if result["status"] != "success":
            sys.exit("peers: Inspect AI: " + result["error"])
        return result["passed"]

    return "Inspect AI", run


def harbor(o, work, python, tasks, env, init):
    name = "harbor-init" if init else "harbor"
    root = work / name
    shutil.rmtree(root, ignore_errors=True)
    for t in tasks:
        task = root / t["id"].replace("/", "-").lower()
        for folder in ("environment", "solution", "tests"):
            (task / folder).mkdir(parents=True)
        (task / "instruction.md").write_text("Complete this Python module in /root/candidate.py:\n\n" + t["prompt"])
        (task / "task.toml").write_text('schema_version = "1.4"\n[verifier]\ntimeout_sec = 60.0\n[agent]\ntimeout_sec = 60.0\n'
                                        f'[environment]\ndocker_image = "{o.image}"\n')
        if init:
            (task / "environment" / "docker-compose.yaml").write_text("services:\n  main:\n    init: true\n")
        script(task / "solution" / "solve.sh", f"printf %s {quote(t['solution'])} > /root/candidate.py")
        script(task / "tests" / "test.sh", "cd /root && python3 /tests/check.py\n[ $? = 0 ] && r=1 || r=0\necho $r > /logs/verifier/reward.txt")
        (task / "tests" / "check.py").write_text(t["check"])

    def run(workers):
        jobs = work / "runs" / f"{name}-{workers}"
        call([python.parent / "harbor", "run", "-p", root, "-a", "oracle", "-n", workers, "-o", jobs, "-q", "-y"], env=env, cwd=work)
        passed = 0
        for file in jobs.glob("*/*/result.json"):
            reward = ((json.loads(file.read_text()).get("verifier_result") or {}).get("rewards") or {}).get("reward")
            passed += reward == 1
        return passed

    return ("Harbor, init: true" if init else "Harbor"), run


def script(file, text):
    file.write_text("#!/bin/bash\n" + text + "\n")
    file.chmod(0o755)


def engine_version(env):
    text = subprocess.run(["docker", "version", "--format", "{{.Server.Version}}"], capture_output=True, text=True, env=env).stdout
    return tuple(int("".join(c for c in part if c.isdigit()) or 0) for part in text.strip().split("+")[0].split(".")[:3])


def versions(o, python):
    installed = json.loads(call([python, "-m", "pip", "list", "--format", "json"]))
    found = {p["name"].lower().replace("_", "-"): p["version"] for p in installed}
    return {"harbor": found["harbor"], "inspect-ai": found["inspect-ai"],
            "securebench": call([o.binary, "version"]).split()[1]}


def machine(env):
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    system = next((line.split("=")[1].strip().strip('"') for line in open("/etc/os-release") if line.startswith("PRETTY_NAME")), "")
    return {"cpu": cpu, "cores": os.cpu_count(), "os": system, "kernel": platform.release(),
            "docker": ".".join(map(str, engine_version(env))), "load": list(os.getloadavg())}


def table(result):
    m, v, rows = result["machine"], result["versions"], result["rows"]
    workers = sorted({r["workers"] for r in rows})
    lines = [f"{result['date']}: {m['cpu']}, {m['cores']} cores, {m['os']}, kernel {m['kernel']}, Docker {m['docker']}; "
             f"Harbor {v['harbor']}, Inspect AI {v['inspect-ai']}, securebench {v['securebench']}; {rows[0]['tasks']} tasks. Seconds per task:", "",
             "| | " + " | ".join(f"workers {n}" for n in workers) + " | passed |", "|---" * (len(workers) + 2) + "|"]
    for name in dict.fromkeys(r["system"] for r in rows):
        own = {r["workers"]: r for r in rows if r["system"] == name}
        cells = [f"{own[n]['seconds_per_task']:.2f}" if n in own else "–" for n in workers]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {min(r['passed'] for r in own.values())} of {rows[0]['tasks']} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
