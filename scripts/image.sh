#!/usr/bin/env bash
# Makes sure that the image securebench-python:3 is on the engine: Python 3
# with its standard library, and nothing that a task could cheat with.
#
# Pulls python:3.12-slim if a registry answers; otherwise builds an equivalent
# image from Debian packages with mmdebstrap (root, about a minute).
#
#   SECUREBENCH_IMAGE_PULL=never  do not pull
set -euo pipefail
cd "$(dirname "$0")"
. ./say.sh

image=securebench-python:3
upstream=python:3.12-slim
suite=bookworm

have() { docker image inspect "$1" >/dev/null 2>&1; }

pull() {
	[ "${SECUREBENCH_IMAGE_PULL:-}" != never ] || return 1
	say "Pulling $upstream, if a registry answers."
	timeout 180 docker pull -q "$upstream" >/dev/null 2>&1 || return 1
	docker tag "$upstream" "$image"
}

install_mmdebstrap() {
	if command -v mmdebstrap >/dev/null; then
		return
	fi
	if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
		die "no registry answers, and building the image needs mmdebstrap: install it, or pull $upstream and tag it $image"
	fi
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq >/dev/null
	apt-get install -y -qq --no-install-recommends mmdebstrap debian-archive-keyring >/dev/null
}

build() {
	say "No registry answers. Building $image from Debian packages; this takes about a minute."
	install_mmdebstrap
	# The archive goes through a file: an import from a pipe would create an
	# image from whatever came before a failure.
	local tar
	tar=$(mktemp --suffix=.tar)
	# shellcheck disable=SC2064 # the name is known now
	trap "rm -f '$tar'" EXIT
	mmdebstrap --quiet --variant=minbase --include=python3 \
		--dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		"$suite" "$tar" >/dev/null
	docker import -c 'CMD ["python3"]' "$tar" "$image" >/dev/null
}

if have "$image"; then
	exit 0
fi
if pull; then
	say "Image $image: pulled $upstream"
	exit 0
fi
build
have "$image" || die "the image $image could not be built"
say "Image $image: built from Debian $suite"
