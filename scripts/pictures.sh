#!/usr/bin/env bash
# Takes the pictures of docs/pictures in a real browser: of the report of a run of
# the demo pack by a page of Python.
#
#   pictures.sh SECUREBENCH ENGINE
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/say.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
binary=$1
engine=$2
say "Running packs/demo for a picture of its report ..."
SECUREBENCH_KEYS=$work/keys "$binary" run --config packs/demo/tester.yaml --engine "$engine" -o "$work/run" -q
SECUREBENCH_KEYS=$work/keys "$binary" report "$work/run" --pack packs/demo --html "$work/report.html" >/dev/null
mkdir -p docs/pictures
SECUREBENCH_TEST_BROWSER=require SECUREBENCH_PICTURES=$PWD/docs/pictures SECUREBENCH_PICTURE_PAGE=$work/report.html \
	go test -count=1 -trimpath -vet=off ./internal/report -run 'TestPictures$' >/dev/null
say "docs/pictures/report.png and report-attempt.png are new"
