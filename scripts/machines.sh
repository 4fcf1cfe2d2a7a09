#!/usr/bin/env bash
# Runs the tests of control groups and of the native engine in emulated machines
# (machine.sh): two kernels, both runtimes, control groups of version 2, with and
# without root. Without KVM it takes an hour.
#
#   machines.sh SECUREBENCH
set -euo pipefail
securebench=$(realpath "$1")
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
mmdebstrap --quiet --variant=minbase --include=python3 bookworm "$folder/python.tar" >&2
cp "$securebench" "$folder/securebench"
CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o "$folder/helper" ./internal/sandbox/enginetest/helper
CGO_ENABLED=0 go test -c -trimpath -vet=off -o "$folder/suite" ./internal/sandbox/native

# A user without root has an image store of their own, and so it is made in there.
cat >"$folder/suite.sh" <<'END'
set -e
export SECUREBENCH_IMAGES=$HOME/images SECUREBENCH_ROOTLESS=1 SECUREBENCH_TEST_NATIVE=require
export SECUREBENCH_TEST_HELPER=/folder/helper SECUREBENCH_TEST_RUNTIME=$1
/folder/securebench image import /folder/python.tar --name securebench-python:3 >/dev/null
cd /src/internal/sandbox/native
exec /folder/suite -test.run 'TestSuite$' -test.timeout 25m
END

for release in bookworm trixie; do
	for user in '' --user; do
		scripts/machine.sh --release "$release" $user --env SECUREBENCH_TEST_NATIVE=require \
			--test ./internal/sandbox/cgroup -test.timeout 5m
		if [ "$release$user" = bookworm--user ]; then # the engine refuses its kernel
			scripts/machine.sh --release "$release" $user --folder "$folder" \
				bash -c 'SECUREBENCH_ROOTLESS=1 /folder/securebench doctor; test $? = 14'
			continue
		fi
		for runtime in runc crun; do
			echo "The engine's suite: $release, $runtime, ${user:-root}"
			scripts/machine.sh --release "$release" $user --folder "$folder" bash /folder/suite.sh "$runtime"
		done
	done
done
