#!/usr/bin/env bash
# Takes the pictures of docs/pictures in a real browser: of the viewer with a run of the
# demo pack by a page of Python.
#
#   pictures.sh SECUREBENCH ENGINE
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/say.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
binary=$1
engine=$2
say "Running packs/demo for pictures of it ..."
SECUREBENCH_KEYS=$work/keys "$binary" run --config packs/demo/tester.yaml --engine "$engine" -o "$work/runs/demo" -q
mkdir -p docs/pictures
SECUREBENCH_TEST_BROWSER=require SECUREBENCH_PICTURES=$PWD/docs/pictures SECUREBENCH_PICTURE_RUNS=$work/runs \
	go test -count=1 -trimpath -vet=off ./internal/viewer -run 'TestPictures$' >/dev/null
say "docs/pictures/report.png, report-phone.png and report-attempt.png are new"
