# shellcheck shell=bash
# Functions for demo.sh and accept.sh, which source this file: start a run and
# read its summary.

# score BINARY ARGUMENT... runs "securebench run" with the arguments and sets
# total and passed from the summary line. The run's own messages are shown.
score() {
	local binary=$1 line
	shift
	if ! line=$("$binary" run --force --progress none "$@"); then
		die "the run ended with an error: securebench run $*"
	fi
	total=$(field total "$line")
	passed=$(field passed "$line")
	[[ $total =~ ^[0-9]+$ && $passed =~ ^[0-9]+$ ]] || die "no summary in: $line"
}

# field NAME LINE prints the value of name=value in a summary line.
field() { sed -n "s/^securebench: .*\b$1=\([^ ]*\).*/\1/p" <<<"$2"; }

# expect WHAT GOT WANT counts and reports a mismatch.
expect() {
	if [ "$2" != "$3" ]; then
		say "  wrong: $1 is $2, not $3"
		wrong=$((wrong + 1))
	fi
}
