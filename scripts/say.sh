# shellcheck shell=bash
# Helpers that the other scripts source: one line to the terminal, and errors
# that end the script. Nothing here is run by itself.

say() { printf '%s\n' "$*" >&2; }

die() {
	printf 'error: %s\n' "$*" >&2
	exit 1
}
