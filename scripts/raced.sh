#!/usr/bin/env bash
# Shortens what "go test -v" says on standard input to what "go test" says, and fails if a
# test is skipped for want of an engine, in whole or in part, that is not in LEFT, the
# tests that run elsewhere: lines of "PACKAGE TEST" (scripts/packages.sh left). JSON passes
# as it is.
#
#   raced.sh LEFT
set -euo pipefail
exec awk '
NR == FNR { elsewhere[$2]; next }
/^[{]/ { print; fflush(); next }
/=never/ { never = 1 }
/^ *--- SKIP: / {
	test = $3
	sub(/\/.*/, "", test)
	if (never && !(test in elsewhere)) lost[++n] = test
}
/^ *--- / { never = 0 }
/^(ok|\?)[ \t]/ { print; said = ""; fflush(); next }
/^FAIL[ \t]/ { printf "%s%s\n", said, $0; said = ""; bad = 1; fflush(); next }
/^=== |^PASS$|^ *--- (PASS|SKIP): / { next }
{ said = said $0 "\n" }
END {
	printf "%s", said
	for (i = 1; i <= n; i++) print "skipped here, and run nowhere: " lost[i] ": let scripts/packages.sh see that it needs an engine"
	exit bad || n > 0
}' "$1" -
