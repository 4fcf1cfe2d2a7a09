#!/usr/bin/env bash
# Runs sandboxes of the native engine in an emulated machine (machine.sh) whose clock
# jumps: on this one it would disturb everybody.
#
#   clock.sh SECUREBENCH
set -euo pipefail
securebench=$(realpath "$1")
cd "$(dirname "$0")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
SECUREBENCH_IMAGES=$folder/images scripts/image.sh "$securebench" native securebench-python:3
CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o "$folder/helper" ./internal/sandbox/enginetest/helper
scripts/machine.sh --release trixie --folder "$folder" --env SECUREBENCH_IMAGES=/folder/images \
	--env SECUREBENCH_TEST_HELPER=/folder/helper --env SECUREBENCH_TEST_CLOCK=1 \
	--env SECUREBENCH_TEST_NATIVE=require --test ./internal/sandbox/native -test.v -test.run TestClockJumps -test.timeout 10m
