#!/usr/bin/env bash
# Decides whether the tests with real agents run, and prints it as the value of
# SECUREBENCH_TEST_AGENTS for them.
#
#   agents.sh SECUREBENCH
#
# With SECUREBENCH_TEST_AGENTS=require or never, that is it: with the former the
# tests fetch the agents' programs, and fail if they cannot. Otherwise this script
# fetches them from the npm registry, unless they are in the cache, and the tests
# are skipped where no registry answers.
set -euo pipefail
securebench=$(realpath "$1")
cd "$(dirname "$0")"
. ./say.sh

case ${SECUREBENCH_TEST_AGENTS:-} in
require | never)
	echo "$SECUREBENCH_TEST_AGENTS"
	exit
	;;
esac

while read -r release; do
	[ "${release:0:1}" != "#" ] || break # the rest is for "make agents-test"
	for _ in 1 2; do
		if problem=$("$securebench" agent fetch "$release" 2>&1 >/dev/null); then
			continue 2
		fi
	done
	say "SKIPPED: the tests with the real agents, because $release cannot be fetched: ${problem##*$'\n'}"
	echo never
	exit
done <../internal/agent/agenttest/versions.txt
echo fetched
