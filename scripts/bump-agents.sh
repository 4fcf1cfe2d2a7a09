#!/usr/bin/env bash
# Raises the pinned releases of agents to the newest of their registries, and those of
# Python with all that they need. Of an agent with several, the last is raised.
#
#   bump-agents.sh SECUREBENCH
set -euo pipefail
securebench=$(realpath "$1")
cd "$(dirname "$0")/../internal/agent/agenttest"

../../../scripts/bump-runtimes.sh
for description in $(grep -l '^  pypi:' ../catalogue/agents/*.yaml); do
	../../../scripts/lock-agent.sh "$description"
done

new=$(mktemp)
trap 'rm -f "$new"' EXIT
while read -r release; do
	name=${release%@*}
	if [ "${release:0:1}" != "#" ] && [ "$release" = "$(grep "^$name@" versions.txt | tail -1)" ]; then
		description=../catalogue/agents/$name.yaml
		project=$(sed -n 's/^  pypi: //p' "$description")
		if [ -n "$project" ]; then
			version=$(sed -n "s/^    $project==\([^ ]*\) .*/\1/p" "$description")
		else
			fetched=$("$securebench" agent fetch "$name@latest")
			read -r _ version _ <<<"$fetched"
		fi
		release=$name@$version
	fi
	echo "$release"
done <versions.txt >"$new"
cat "$new" >versions.txt
git diff --stat versions.txt
