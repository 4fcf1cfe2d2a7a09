#!/usr/bin/env bash
# Runs every fault of docs/faults.md, as often as its table says. It takes an hour or
# more, and what is missing on this machine (an engine, qemu) is named.
#
#   faults.sh SECUREBENCH
set -euo pipefail
securebench=$(realpath "$1")
cd "$(dirname "$0")/.."

engines=$(scripts/engine.sh "$securebench" all)
tried() { grep -qx "$1" <<<"$engines" && echo require || echo never; }
SECUREBENCH_TEST_DOCKER=$(tried docker)
SECUREBENCH_TEST_NATIVE=$(tried native)
export SECUREBENCH_TEST_DOCKER SECUREBENCH_TEST_NATIVE
export SECUREBENCH_IMAGES=${SECUREBENCH_IMAGES:-${XDG_DATA_HOME:-$HOME/.local/share}/securebench/images}
export SECUREBENCH_TEST_FAULTS=1 SECUREBENCH_TEST_KILLS=300 SECUREBENCH_TEST_WHOLE=1
export SECUREBENCH_TEST_CYCLES=10000 SECUREBENCH_TEST_DOCKER_CYCLES=1000

# The tests and their packages are those of the table.
# shellcheck disable=SC2016 # these are backticks of Markdown
names=$(grep '^|' docs/faults.md | grep -oE '`(cmd|internal)/[a-z/]+ Test[A-Za-z]+`' | tr -d '`' | sort -u)
failed=
# shellcheck disable=SC2013 # a package is a word
for package in $(cut -d' ' -f1 <<<"$names" | sort -u); do
	tests=$(awk -v package="$package" '$1 == package { print $2 }' <<<"$names" | paste -sd'|')
	CGO_ENABLED=0 go test -trimpath -vet=off -count=1 -p 1 -timeout 5h -v -run "^($tests)\$" "./$package" || failed="$failed $package"
done

# The clock of this machine stays as it is: an emulated one has its own.
if command -v qemu-system-x86_64 mmdebstrap >/dev/null && [ "$SECUREBENCH_TEST_NATIVE" = require ]; then
	scripts/clock.sh "$securebench" || failed="$failed clock"
else
	echo 'skipped: clocks that jump need qemu-system-x86, mmdebstrap and the native engine' >&2
fi
[ -z "$failed" ] || { echo "failed:$failed" >&2 && exit 1; }
