#!/usr/bin/env bash
# Makes sure that images are on the engine. Without arguments, these two:
#
#   securebench-python:3  Python 3 with its standard library, and nothing that a
#                         task could cheat with
#   securebench-pytest:1  Python 3, pytest and git, for repositories
#
#   image.sh [IMAGE...]
#
# debian:bookworm-slim, which recipes of packs start from, can be named, too.
# Each is pulled, or built from what was pulled, if a registry answers; otherwise
# an equivalent image is built from Debian packages with mmdebstrap (root, about
# a minute each).
#
#   SECUREBENCH_IMAGE_PULL=never  do not pull
set -euo pipefail
cd "$(dirname "$0")"
. ./say.sh

suite=bookworm
debian=debian:$suite-slim
registry=
[ "${SECUREBENCH_IMAGE_PULL:-}" != never ] || registry=no

have() { docker image inspect "$1" >/dev/null 2>&1; }

# pull UPSTREAM IMAGE
pull() {
	[ "$registry" != no ] || return 1
	say "Pulling $1, if a registry answers."
	if ! timeout 180 docker pull -q "$1" >/dev/null 2>&1; then
		registry=no # for the next image, too
		return 1
	fi
	[ "$1" = "$2" ] || docker tag "$1" "$2"
}

install_mmdebstrap() {
	if command -v mmdebstrap >/dev/null; then
		return
	fi
	if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
		die "no registry answers, and building images needs mmdebstrap: install it, or pull or load the images"
	fi
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq >/dev/null
	apt-get install -y -qq --no-install-recommends mmdebstrap debian-archive-keyring >/dev/null
}

# bootstrap IMAGE COMMAND PACKAGES makes an image of Debian packages.
bootstrap() {
	say "No registry answers. Building $1 from Debian packages; this takes about a minute."
	install_mmdebstrap
	# The archive goes through a file: an import from a pipe would create an
	# image from whatever came before a failure.
	local tar
	tar=$(mktemp --suffix=.tar)
	# shellcheck disable=SC2064 # the name is known now
	trap "rm -f '$tar'" EXIT
	mmdebstrap --quiet --variant=minbase --include="$3" \
		--dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		"$suite" "$tar" >/dev/null
	docker import -c "CMD [\"$2\"]" "$tar" "$1" >/dev/null
	rm -f "$tar"
}

# with_pytest makes an image of Debian's own image and packages.
with_pytest() {
	have "$debian" || pull "$debian" "$debian" || return 1
	say "Building $1 from $debian and Debian packages."
	docker build -q -t "$1" - >/dev/null <<-EOF || return 1
		FROM $debian
		RUN apt-get update -qq \
		 && apt-get install -y -qq --no-install-recommends git python3 python3-pytest \
		 && rm -rf /var/lib/apt/lists/*
		CMD ["python3"]
	EOF
}

make_image() {
	case $1 in
	securebench-python:3) pull python:3.12-slim "$1" || bootstrap "$1" python3 python3 ;;
	securebench-pytest:1) with_pytest "$1" || bootstrap "$1" python3 python3,python3-pytest,git ;;
	"$debian") pull "$1" "$1" || bootstrap "$1" bash ca-certificates ;;
	*) die "unknown image $1" ;;
	esac
	have "$1" || die "the image $1 could not be built"
	say "Image $1 is there."
}

[ $# -gt 0 ] || set -- securebench-python:3 securebench-pytest:1
for image in "$@"; do
	have "$image" || make_image "$image"
done
