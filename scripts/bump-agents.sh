#!/usr/bin/env bash
# Raises the pinned releases of agents to the newest of their registries. Of an agent
# with several, the last is raised.
#
#   bump-agents.sh SECUREBENCH
set -euo pipefail
securebench=$(realpath "$1")
cd "$(dirname "$0")/../internal/agent/agenttest"

new=$(mktemp)
trap 'rm -f "$new"' EXIT
while read -r release; do
	name=${release%@*}
	if [ "${release:0:1}" != "#" ] && [ "$release" = "$(grep "^$name@" versions.txt | tail -1)" ]; then
		fetched=$("$securebench" agent fetch "$name@latest")
		read -r _ version _ <<<"$fetched"
		release=$name@$version
	fi
	echo "$release"
done <versions.txt >"$new"
cat "$new" >versions.txt
git diff --stat versions.txt
