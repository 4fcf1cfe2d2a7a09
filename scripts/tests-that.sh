#!/usr/bin/env bash
# Lists tests whose code matches a pattern, or that of functions, constants and variables
# of their package's test files that they name, one "PACKAGE TEST" a line. What more than
# MOST tests name counts for none of them (default: no bound).
#
#   tests-that.sh [-m MOST] PATTERN PACKAGE...    e.g. tests-that.sh 'testing[.]Short' internal/evidence
set -euo pipefail
most=1000000
if [ "$1" = -m ]; then
	most=$2
	shift 2
fi
pattern=$1
shift
for package in "$@"; do
	awk -v package="$package" -v pattern="$pattern" -v most="$most" '
	function begin(n) { sub(/[^A-Za-z0-9_].*/, "", n); name = n }
	/^func / { n = $0; sub(/^func ([(][^)]*[)] )?/, "", n); begin(n) }
	/^(var|const) [A-Za-z]/ { n = $0; sub(/^[a-z]+ /, "", n); begin(n) }
	/^(var|const) [(]/ { block = 1 }
	block && /^\t[A-Za-z]/ { n = $0; sub(/^\t/, "", n); begin(n) }
	name != "" { body[name] = body[name] "\n" $0 }
	/^[)]/ { block = 0; name = "" }
	/^}/ || (/^(var|const) [A-Za-z]/ && !/[{(`]$/) { name = "" }
	END {
		for (f in body) {
			n = split(body[f], words, /[^A-Za-z0-9_]+/)
			for (i = 1; i <= n; i++) if (words[i] in body && words[i] != f && !((f, words[i]) in names)) {
				names[f, words[i]]
				if (f ~ /^Test/) tests[words[i]]++
			}
			if (body[f] ~ pattern) has[f]
		}
		do {
			more = 0
			for (f in body) if (!(f in has)) for (g in has) if (tests[g] <= most && (f, g) in names) { has[f]; more = 1; break }
		} while (more)
		for (f in has) if (f ~ /^Test[A-Z]/ && f != "TestMain") print package, f
	}' "$package"/*_test.go | sort
done
