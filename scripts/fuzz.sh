#!/usr/bin/env bash
# Runs every fuzz target of the module for TIME each; stops at the first failure.
#
#   fuzz.sh TIME    e.g. 10s
set -euo pipefail
time=$1

packages=$(grep -rlE '^func Fuzz' --include='*_test.go' cmd internal | xargs -r -n1 dirname | sort -u)
for package in $packages; do
	targets=$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/p' "$package"/*_test.go | sort)
	for target in $targets; do
		echo "$package $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 100x "./$package"
	done
done
