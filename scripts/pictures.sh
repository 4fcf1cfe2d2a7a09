#!/usr/bin/env bash
# Takes the pictures of docs/pictures in a real browser: of the viewer with a run of the
# demo pack by a page of Python, one by the agent of examples/own-agent, and the judged one of
# examples/judged, whose models a script plays.
#
#   pictures.sh SECUREBENCH ENGINE
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/say.sh"
work=$(mktemp -d)
provider=
trap 'rm -rf "$work"; [ -z "$provider" ] || kill "$provider" 2>/dev/null || true' EXIT
binary=$1
engine=$2
say "Running packs/demo for pictures of it ..."
SECUREBENCH_KEYS=$work/keys "$binary" run --config packs/demo/tester.yaml --engine "$engine" -o "$work/runs/demo" -q
# example NAME TESTER runs an example whose models a script plays.
example() {
	say "Running examples/$1 for pictures of it ..."
	"$binary" scripted-provider --listen 127.0.0.1:7113 --script "examples/$1/model.yaml" >/dev/null 2>&1 &
	provider=$!
	until (: >/dev/tcp/127.0.0.1/7113) 2>/dev/null; do
		kill -0 "$provider" 2>/dev/null || die "the scripted provider cannot listen at 127.0.0.1:7113: is the port in use?"
		sleep 0.1
	done
	SECUREBENCH_KEYS=$work/keys "$binary" run --config "examples/$1/$2" --engine "$engine" -o "$work/runs/$1" -q
	kill "$provider"
	wait "$provider" 2>/dev/null || true
	provider=
}
example own-agent scripted.yaml
example judged tester.yaml
mkdir -p docs/pictures
SECUREBENCH_TEST_BROWSER=require SECUREBENCH_PICTURES=$PWD/docs/pictures SECUREBENCH_PICTURE_RUNS=$work/runs \
	go test -count=1 -trimpath -vet=off ./internal/viewer -run 'TestPictures$' >/dev/null
say "docs/pictures/report.png, report-phone.png, report-attempt.png, judged.png, steps.png, steps-phone.png and steps-wide.png are new"
