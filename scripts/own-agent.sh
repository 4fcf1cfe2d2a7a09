#!/usr/bin/env bash
# Runs the agent of examples/own-agent, with a script in the place of its model, and
# prints what it scored. "make own-agent" provides the image and the engine first.
#
#   own-agent.sh SECUREBENCH ENGINE
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/say.sh"
. "$here/play.sh"
binary=$1
engine=$2
example=examples/own-agent
trap stop_playing EXIT
play "$binary" "$example/model.yaml"

say "Running $example/agent/agent.py on 20 tasks; a script plays its model. Engine: $engine."
"$binary" run --config "$example/scripted.yaml" --engine "$engine" --force --quiet
"$binary" report runs/own-agent
