#!/usr/bin/env bash
# Takes the pictures of docs/pictures in a real browser: of the viewer with a run of the
# demo pack by a page of Python, one by the agent of examples/own-agent, and the judged one of
# examples/judged, whose models a script plays.
#
#   pictures.sh SECUREBENCH ENGINE
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/say.sh"
. "$here/play.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"; stop_playing' EXIT
binary=$1
engine=$2
say "Running packs/demo for pictures of it ..."
SECUREBENCH_KEYS=$work/keys "$binary" run --config packs/demo/tester.yaml --engine "$engine" -o "$work/runs/demo" -q
# example NAME TESTER runs an example whose models a script plays.
example() {
	say "Running examples/$1 for pictures of it ..."
	play "$binary" "examples/$1/model.yaml"
	SECUREBENCH_KEYS=$work/keys "$binary" run --config "examples/$1/$2" --engine "$engine" -o "$work/runs/$1" -q
	stop_playing
}
example own-agent scripted.yaml
example judged tester.yaml
mkdir -p docs/pictures
SECUREBENCH_TEST_BROWSER=require SECUREBENCH_PICTURES=$PWD/docs/pictures SECUREBENCH_PICTURE_RUNS=$work/runs \
	go test -count=1 -trimpath -vet=off ./internal/viewer -run 'TestPictures$' >/dev/null
say "docs/pictures/report.png, report-phone.png, report-attempt.png, judged.png, steps.png, steps-phone.png and steps-wide.png are new"
