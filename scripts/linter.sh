#!/usr/bin/env bash
# Puts the linter that tools/go.mod pins at a path. It takes minutes to build, once for
# a version of it and of Go: it is kept in the user's cache.
#
#   linter.sh PATH
set -euo pipefail
to=$(realpath -m "$1")
cd "$(dirname "$0")/../tools"
key=$({ cat go.mod go.sum; go env GOVERSION GOOS GOARCH; } | sha256sum | cut -c 1-32)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/securebench-tools
if [ ! -x "$cache/golangci-lint-$key" ]; then
	mkdir -p "$cache"
	new=$(mktemp -d "$cache/.new-XXXXXX")
	trap 'rm -rf "$new"' EXIT
	go build -o "$new/linter" github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	mv "$new/linter" "$cache/golangci-lint-$key"
fi
mkdir -p "$(dirname "$to")"
cp -f "$cache/golangci-lint-$key" "$to"
