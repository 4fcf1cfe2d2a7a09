#!/usr/bin/env bash
# Runs the agent of examples/own-agent, with a script in the place of its model, and
# prints what it scored. "make own-agent" provides the image and the engine first.
#
#   own-agent.sh SECUREBENCH ENGINE
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/say.sh"
binary=$1
engine=$2
example=examples/own-agent

"$binary" scripted-provider --listen 127.0.0.1:7113 --script "$example/model.yaml" >/dev/null 2>&1 &
provider=$!
trap 'kill "$provider" 2>/dev/null || true' EXIT
until (: >/dev/tcp/127.0.0.1/7113) 2>/dev/null; do
	kill -0 "$provider" 2>/dev/null || die "the scripted provider cannot listen at 127.0.0.1:7113: is the port in use?"
	sleep 0.1
done

say "Running $example/agent/agent.py on 20 tasks; a script plays its model. Engine: $engine."
"$binary" run --config "$example/scripted.yaml" --engine "$engine" --force --quiet
"$binary" report runs/own-agent
