#!/usr/bin/env bash
# Runs the tests of the classes that CONTRIBUTING.md describes under "No test needs luck"
# TIMES times, package by package, beside busy loops, and says at the end which packages
# failed. The tests are found by what their code calls, also through functions of their
# package that few tests call. BUSY is the number of busy loops, 2 if unset.
#
#   luck.sh TIMES [PACKAGE]...    e.g. luck.sh 50 ./internal/durable
#   luck.sh list [PACKAGE]...
set -euo pipefail
times=$1
shift
busy_loops=${BUSY:-2}

# Prints CLASS TEST for the tests of the files of one package.
# shellcheck disable=SC2016 # it is a program of awk
classes='
BEGIN {
	mark["memory"] = "memtest[.]|GOMEMLIMIT|RLIMIT_AS|Maxrss|memory[.](peak|max_usage)"
	mark["time"] = "time[.](Since|After)[(]|synctest[.]"
	mark["descriptors"] = "/proc/self/fd|WriteProgram[(]|enginetest[.]Built[(]|unix[.]Dup"
	mark["processes"] = "[Pp]idfd|[.]Pid[^a-z]|cgroup[.](events|procs)"
	mark["engine"] = "[.]Owned[(]|enginetest[.](Run|Derive|DeriveLayer|Script)[(]"
}
/^func / { name = $0; sub(/^func ([(][^)]*[)] )?/, "", name); sub(/[^A-Za-z0-9_].*/, "", name) }
name != "" { body[name] = body[name] "\n" $0 }
/^}/ { name = "" }
END {
	for (f in body) { # who calls what
		n = split(body[f], words, /[^A-Za-z0-9_(]+|[(]/)
		for (i = 1; i <= n; i++) if (words[i] in body && words[i] != f) calls[f, words[i]]
	}
	for (g in body) { tests[g] = 0; for (f in body) if (f ~ /^Test/ && (f, g) in calls) tests[g]++ }
	for (class in mark) {
		split("", has)
		for (f in body) if (body[f] ~ mark[class]) has[f]
		do {
			more = 0
			for (f in body) if (!(f in has)) for (g in has) if (tests[g] <= 4 && (f, g) in calls) { has[f]; more = 1; break }
		} while (more)
		for (f in has) if (f ~ /^Test[A-Z]/ && f != "TestMain") print class, f
	}
}'

packages=("$@")
[ ${#packages[@]} -gt 0 ] || mapfile -t packages < <(find ./cmd ./internal -name '*_test.go' -printf '%h\n' | sort -u)

if [ "$times" = list ]; then
	for package in "${packages[@]}"; do awk "$classes" "$package"/*_test.go | sort | sed "s,^,$package ,"; done
	exit
fi

busy=()
trap 'kill "${busy[@]}" 2>/dev/null || true' EXIT
for ((i = 0; i < busy_loops; i++)); do
	while :; do :; done &
	busy+=($!)
done
failed=()
for package in "${packages[@]}"; do
	names=$(awk "$classes" "$package"/*_test.go | cut -d ' ' -f 2 | sort -u | paste -sd '|')
	[ -n "$names" ] || continue
	CGO_ENABLED=0 go test -trimpath -vet=off -timeout 10h -count "$times" -run "^($names)\$" "$package" || failed+=("$package")
done
[ ${#failed[@]} -eq 0 ] || { printf 'FAILED %s\n' "${failed[@]}" >&2; exit 1; }
