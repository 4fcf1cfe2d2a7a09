#!/usr/bin/env bash
# Runs the tests of control groups and of the native engine in emulated machines
# (machine.sh): two kernels, both runtimes, control groups of version 2, with and
# without root. Without KVM it takes half an hour.
#
#   machines.sh SECUREBENCH
set -euo pipefail
securebench=$(realpath "$1")
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
SECUREBENCH_IMAGES=$folder/images scripts/image.sh "$securebench" native securebench-python:3
CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o "$folder/helper" ./internal/sandbox/dockertest/helper

for release in bookworm trixie; do
	for user in '' --user; do
		scripts/machine.sh --release "$release" $user --env SECUREBENCH_TEST_NATIVE=require \
			--test ./internal/sandbox/cgroup -test.timeout 5m
	done
	for runtime in runc crun; do
		scripts/machine.sh --release "$release" --folder "$folder" --env SECUREBENCH_IMAGES=/folder/images \
			--env SECUREBENCH_TEST_HELPER=/folder/helper --env SECUREBENCH_TEST_RUNTIME=$runtime \
			--env SECUREBENCH_TEST_NATIVE=require --test ./internal/sandbox/native -test.run TestSuite -test.timeout 20m
	done
done
