#!/usr/bin/env bash
# Raises the pinned packages of the Pythons that run agents to those that their release of
# Debian has now, as apt has checked them. It needs apt, its keys of Debian's archive and a
# mirror, which SECUREBENCH_DEBIAN_MIRROR names.
#
#   bump-runtimes.sh
#
# The packages are those that the files name. Only the main archive of a release is asked:
# what it has stays there until the next point release, and that of an old release for good.
set -euo pipefail
cd "$(dirname "$0")/../internal/agent/catalogue/runtimes"

mirror=${SECUREBENCH_DEBIAN_MIRROR:-http://deb.debian.org/debian}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# packages SUITE ARCH: reads names, and prints them with their files and digests.
packages() {
	local at=$work/$1-$2
	mkdir -p "$at/state/lists/partial" "$at/cache/archives/partial" "$at/etc"
	: >"$at/status"
	echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $1 main" >"$at/sources.list"
	local o=(-o "Dir::State=$at/state" -o "Dir::State::status=$at/status" -o "Dir::Cache=$at/cache" -o "Dir::Etc::sourcelist=$at/sources.list"
		-o Dir::Etc::sourceparts=- -o "APT::Architecture=$2" -o "APT::Architectures=$2" -o APT::Sandbox::User=)
	apt-get "${o[@]}" -qq update >&2
	local name
	while read -r name; do
		apt-cache "${o[@]}" show --no-all-versions "$name" |
			awk '/^Filename: / { file = $2 } /^SHA256: / { sum = $2 } END { if (file == "" || sum == "") exit 1; printf "    - {file: \"%s\", sha256: \"%s\"}\n", file, sum }'
	done
}

for runtime in *.yaml; do
	suite=$(sed -n 's/^# suite: //p' "$runtime")
	sed '/^debian:/q' "$runtime" >"$work/new"
	for arch in amd64 arm64; do
		echo "  $arch:" >>"$work/new"
		# A name is what comes before the version in the name of a file.
		sed -n 's/^    - {file: ".*\/\([^_/]*\)_.*/\1/p' "$runtime" | LC_ALL=C sort -u | packages "$suite" "$arch" >>"$work/new"
	done
	cat "$work/new" >"$runtime"
done
git diff --stat .
