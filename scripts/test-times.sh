#!/usr/bin/env bash
# Shows where the time of tests goes: of "go test -json" on standard input, the slowest
# packages and tests, and what failed, which ends it with 1. Lines may begin with the
# name of their run, such as "race: ".
#
#   test-times.sh [HOW MANY]
set -euo pipefail
exec awk -v most="${1:-30}" '
function field(name,   at, rest) {
	at = index($0, "\"" name "\":")
	if (!at) return ""
	rest = substr($0, at + length(name) + 3)
	if (rest ~ /^"/) { rest = substr(rest, 2); sub(/".*/, "", rest) } else sub(/[,}].*/, "", rest)
	return rest
}
/"Action":"(pass|fail)"/ {
	run = index($0, "{") > 1 ? substr($0, 1, index($0, "{") - 1) : ""
	name = field("Package")
	sub(/^[^\/]*\//, "", name)
	what = run name " " field("Test")
	seconds = field("Elapsed") + 0
	if (field("Action") == "fail") failed[what]
	if (field("Test") == "") { packages[what] = seconds; all += seconds } else tests[what] = seconds
	next
}
/"Action":"build-fail"/ { failed["build " field("ImportPath")]; next }
!/"Action":/ { print } # of what is not a test
function show(title, list,   order, what) {
	printf "\n%s\n", title
	order = "sort -rn | head -n " most
	for (what in list) printf "%9.1f s  %s\n", list[what], what | order
	close(order)
}
END {
	show("The slowest packages, of " sprintf("%.0f", all) " s in all:", packages)
	show("The slowest tests, each with its parts, and with its wait for others that run beside it:", tests)
	for (what in failed) { print "FAILED " what; bad = 1 }
	exit bad
}'
