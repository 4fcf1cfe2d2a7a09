#!/usr/bin/env bash
# Builds the release of the checked-out revision twice, the second time from a clone
# at another path with an empty build cache, and compares the bytes.
#
#   reproduce.sh [ARCHITECTURES]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/say.sh"
archs=${1:-amd64,arm64}

[ -z "$(git status --porcelain)" ] || {
	say "The working tree has changes: commit them first, because a clone does not have them."
	exit 1
}
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
git clone --quiet . "$dir/clone"

say "Building once."
go run ./cmd/dist -o "$dir/one" -arch "$archs" >/dev/null
say "Building once more, from a clone, without a build cache."
(cd "$dir/clone" && GOCACHE=$dir/cache go run ./cmd/dist -o "$dir/two" -arch "$archs" >/dev/null)

diff "$dir/one/SHA256SUMS" "$dir/two/SHA256SUMS" || {
	say "The builds differ."
	exit 1
}
say "Both builds have the same bytes:"
cat "$dir/one/SHA256SUMS"
