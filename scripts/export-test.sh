#!/usr/bin/env bash
# Exports a run with the steps of its model, and opens it with those it is meant for:
# Inspect's reader, pandas and Harbor's models of a trajectory. They are installed, for this
# only, from the registry that pip is configured for.
#
#   export-test.sh SECUREBENCH
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/say.sh"
binary=$(realpath "$1")
work=$(mktemp -d)
trap 'kill "${provider:-}" 2>/dev/null || true; rm -rf "$work"' EXIT

say "Installing inspect_ai, pandas, pyarrow and harbor."
python3 -m venv "$work/env"
"$work/env/bin/pip" install --quiet --disable-pip-version-check inspect_ai==0.3.285 pandas pyarrow
# Only its models are used, which need pydantic; the rest of it wants a newer Python.
"$work/env/bin/pip" download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.13 -d "$work" harbor==0.26.0
"$work/env/bin/python" -m zipfile -e "$work"/harbor-*.whl "$work/harbor"

"$binary" scripted-provider --listen 127.0.0.1:7115 --script "$here/../examples/gsm8k-model/model.yaml" >/dev/null 2>&1 &
provider=$!
until (: >/dev/tcp/127.0.0.1/7115) 2>/dev/null; do
	kill -0 "$provider" 2>/dev/null || die "the scripted provider cannot listen at 127.0.0.1:7115: is the port in use?"
	sleep 0.1
done
"$binary" run "$here/../packs/gsm8k-sample" --model scripted --base-url http://127.0.0.1:7115 --output-dir "$work/run" --quiet
for format in parquet csv jsonl; do
	"$binary" export "$work/run" --to $format -o "$work/run.$format"
done
"$binary" export "$work/run" --to inspect -o "$work/run.eval" --steps
"$binary" export "$work/run" --to atif -o "$work/steps" --steps
"$binary" export "$work/run" --to atif -o "$work/published"

cat >"$work/read.py" <<'END'
import glob, importlib.util, json, sys, types

work = sys.argv[1]
from inspect_ai.log import read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries

log = read_eval_log(f"{work}/run.eval")
records = [json.loads(line) for line in open(f"{work}/run/candidates.jsonl")]
passed = {r["task_id"] for r in records if r["passed"]}
assert log.status == "success" and len(log.samples) == log.results.total_samples == len(records)
assert {s.id for s in log.samples if s.scores["computed"].value == "C"} == passed
assert log.results.scores[0].metrics["accuracy"].value == len(passed) / len(records)
assert sum(u.input_tokens for u in log.stats.model_usage.values()) == sum(r["usage"]["input_tokens"] for r in records)
assert len(read_eval_log_sample_summaries(f"{work}/run.eval")) == len(records)
one = read_eval_log_sample(f"{work}/run.eval", records[0]["task_id"], 1)
assert one.messages[-1].role == "assistant" and one.messages[-1].source == "generate" and one.output.completion == records[0]["candidate_text"]
print("Inspect:", len(log.samples), "samples,", log.results.scores[0].metrics["accuracy"].value)

import pandas

table = pandas.read_parquet(f"{work}/run.parquet")
assert len(table) == len(records) and set(table[table.passed].task_id) == passed
assert table.input_tokens.sum() == sum(r["usage"]["input_tokens"] for r in records)
for other in pandas.read_json(f"{work}/run.jsonl", lines=True), pandas.read_csv(f"{work}/run.csv"):
    assert list(other.columns) == list(table.columns) and (other.task_id == table.task_id).all() and (other.score == table.score).all()
print("pandas:", table.shape)

# Harbor's models, without the rest of its package.
for name in "harbor", "harbor.models":
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [f"{work}/harbor/{name.replace('.', '/')}"]
from harbor.models.trajectories import Trajectory

steps = 0
for name in glob.glob(f"{work}/steps/*.json") + glob.glob(f"{work}/published/*.json"):
    t = Trajectory.model_validate_json(open(name).read())
    assert t.extra["securebench"]["status"] in ("passed", "failed") and t.final_metrics.total_steps == len(t.steps)
    steps += len(t.steps)
print("Harbor:", steps, "steps")
END
"$work/env/bin/python" "$work/read.py" "$work"
