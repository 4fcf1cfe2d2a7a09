#!/usr/bin/env bash
# Says how the tests of the module are divided, so that each runs once in "make test".
#
#   packages.sh raced    packages that run under the race detector, without an engine
#   packages.sh whole    the other packages
#   packages.sh left     "PACKAGE TEST" for the tests of raced packages that cannot run so:
#                        they need an engine or more, or are left out by -short
#
# Without a C compiler, which the race detector needs, no package is raced.
set -euo pipefail
cd "$(dirname "$0")/.."

# They drive sandboxes; the race detector would slow them down for little of their own.
driving='^\./internal/(sandbox/docker|sandbox/native|family/codecompletion)$'

# The race detector finds nothing in a package that neither starts goroutines nor has state
# that is meant for several; what it only waits for, such as a process, is no such thing.
concurrent='^[[:space:]]*go [a-z]|\.Go\(|\bchan |sync\.(RW)?Mutex|sync\.(Map|Cond)|"sync/atomic"|synctest\.'

# Nor where neither a package nor its tests start any: those of its callers do.
starting='^[[:space:]]*go [a-z]|\.Go\(|synctest\.'

tested() { find ./internal -name testdata -prune -o -name '*_test.go' -printf '%h\n' | sort -u; }

raced() {
	command -v "${CC:-gcc}" >/dev/null || return 0
	tested | grep -Ev "$driving" | while read -r package; do
		if grep -qE "$starting" "$package"/*.go && find "$package" -maxdepth 1 -name '*.go' ! -name '*_test.go' -exec grep -qE "$concurrent" {} +; then echo "$package"; fi
	done
}

case $1 in
raced) raced ;;
whole)
	echo ./cmd/securebench
	# Those that wait for the engine longest come first: "go test" starts packages in this order.
	printf '%s\n' ./internal/family/codecompletion ./internal/sandbox/docker ./internal/sandbox/native
	find ./cmd -mindepth 3 -name '*_test.go' -printf '%h\n' | sort -u
	comm -23 <(tested) <(raced) | grep -Ev "$driving" || true
	;;
left)
	raced | xargs -r scripts/tests-that.sh 'testing[.]Short[(]|SECUREBENCH_TEST_|enginetest[.]'
	;;
esac
