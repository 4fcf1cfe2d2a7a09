#!/usr/bin/env bash
# Builds the release of the checked-out revision twice, from clones at two paths, the
# second time with an empty build cache, and compares the bytes.
#
#   reproduce.sh [ARCHITECTURES]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/say.sh"
archs=${1:-amd64,arm64}

[ -z "$(git status --porcelain)" ] || {
	say "The working tree has changes: commit them first, because the clones do not have them."
	exit 1
}
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
git clone --quiet . "$dir/one"
git clone --quiet "$dir/one" "$dir/another/two" # the same revision, also if there is a new one by now

say "Building once."
(cd "$dir/one" && go run ./cmd/dist -o dist -arch "$archs" >/dev/null)
say "Building once more, without a build cache."
(cd "$dir/another/two" && GOCACHE=$dir/cache go run ./cmd/dist -o dist -arch "$archs" >/dev/null)

diff "$dir/one/dist/SHA256SUMS" "$dir/another/two/dist/SHA256SUMS" || {
	say "The builds differ."
	exit 1
}
say "Both builds have the same bytes:"
cat "$dir/one/dist/SHA256SUMS"
