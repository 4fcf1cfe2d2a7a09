#!/usr/bin/env bash
# Runs the demo pack four times in real sandboxes and prints a table. "make demo"
# provides the image and the engine first.
#
#   demo.sh SECUREBENCH ENGINE
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/say.sh"
. "$here/summary.sh"
binary=$1
engine=$2
pack=packs/demo
out=runs/demo
wrong=0

say "Scoring four agents on $pack; each task runs in its own sandboxes. Engine: $engine."
table=$(printf '%-9s %-58s %6s %7s' agent 'what it does' tasks passed)

# row NAME TEXT ARGUMENT... runs one agent and adds its line to the table.
row() {
	local name=$1 text=$2
	shift 2
	say "  $name ..."
	score "$binary" "$@" --engine "$engine" --output-dir "$out-$name"
	table+=$'\n'$(printf '%-9s %-58s %6d %7d' "$name" "$text" "$total" "$passed")
}

row oracle "submits the pack's reference solutions" "$pack" --agent oracle
expect "the oracle's score" "$passed" "$total"
row null "submits nothing" "$pack" --agent null
expect "the null agent's score" "$passed" 0
row small "an honest page of Python, no model" --config "$pack/tester.yaml"
expect "the small agent's score" "$passed" 8
row cheater "searches for answers, sprays them, games the tests" --config "$pack/cheater.yaml"
expect "the cheater's score" "$passed" 0

printf '\n%s\n\n' "$table"
say "Records, one line per task: $out-<agent>/candidates.jsonl"
for name in oracle null small cheater; do
	"$binary" verify "$out-$name" >/dev/null || die "the run in $out-$name does not verify"
done
say "All four runs are signed and verify: securebench verify $out-<agent>"
[ "$wrong" = 0 ] || die "$wrong of the four scores are not as expected"
