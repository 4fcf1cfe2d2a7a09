# shellcheck shell=bash
# Functions for the other scripts, which source this file: messages on standard
# error, and errors that end the script.

say() { printf '%s\n' "$*" >&2; }

die() {
	printf 'error: %s\n' "$*" >&2
	exit 1
}
