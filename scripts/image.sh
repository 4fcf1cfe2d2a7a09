#!/usr/bin/env bash
# Makes sure that an engine has images. Without names, these two:
#
#   securebench-python:3  Python 3 with its standard library, and nothing that a
#                         task could cheat with
#   securebench-pytest:1  Python 3, pytest and git, for repositories
#
# By name also these two, for tasks whose answers are files:
#
#   securebench-data:1    Python 3 with libraries for tables, statistics and plots
#   securebench-office:1  LibreOffice, without a screen, and Python 3 with openpyxl
#
#   image.sh SECUREBENCH native|docker [IMAGE...]
#
# debian:bookworm-slim, which recipes of packs start from, can also be named.
# Each is pulled, or built from what was pulled, if a registry answers; otherwise
# an equivalent image is built from Debian packages with mmdebstrap (root, about
# a minute each). For the native engine, no Docker engine is needed; an image that
# one has is taken from there.
#
#   SECUREBENCH_IMAGE_PULL=never  do not pull
set -euo pipefail
securebench=$(realpath "$1")
engine=$2
shift 2
cd "$(dirname "$0")"
. ./say.sh

suite=bookworm
debian=debian:$suite-slim
registry=
[ "${SECUREBENCH_IMAGE_PULL:-}" != never ] || registry=no

docker_has() { docker image inspect "$1" >/dev/null 2>&1; }

# have IMAGE
have() {
	case $engine in
	docker) docker_has "$1" ;;
	native) grep -qF "{\"name\":\"$1\"," <<<"$("$securebench" image list --json)" ;;
	esac
}

# pull UPSTREAM IMAGE
pull() {
	[ "$registry" != no ] || return 1
	say "Pulling $1, if a registry answers."
	case $engine in
	docker)
		if timeout 180 docker pull -q "$1" >/dev/null 2>&1; then
			[ "$1" = "$2" ] || docker tag "$1" "$2"
			return
		fi
		;;
	native) ! timeout 180 "$securebench" image pull "$1" --name "$2" >/dev/null 2>&1 || return 0 ;;
	esac
	registry=no # also for the next image
	return 1
}

install_mmdebstrap() {
	if command -v mmdebstrap >/dev/null; then
		return
	fi
	if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
		die "no registry answers, and building images needs mmdebstrap: install it, or pull or load the images"
	fi
	export DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes
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
	case $engine in
	docker) docker import -c "CMD [\"$2\"]" "$tar" "$1" >/dev/null ;;
	native) "$securebench" image import "$tar" --name "$1" >/dev/null 2>&1 ;;
	esac
	rm -f "$tar"
}

# with_packages IMAGE PACKAGES makes an image of Debian's own image and packages.
with_packages() {
	[ "$engine" = docker ] || return 1
	have "$debian" || pull "$debian" "$debian" || return 1
	say "Building $1 from $debian and Debian packages."
	docker build -q -t "$1" - >/dev/null <<-END || return 1
		FROM $debian
		RUN apt-get update -qq \
		 && apt-get install -y -qq --no-install-recommends ${2//,/ } \
		 && rm -rf /var/lib/apt/lists/*
		CMD ["python3"]
	END
}

# from_docker takes an image from a Docker engine.
from_docker() {
	if [ "$engine" != native ] || ! command -v docker >/dev/null || ! docker_has "$1"; then
		return 1
	fi
	say "Taking $1 from Docker."
	"$securebench" image import "docker:$1" >/dev/null 2>&1
}

pytest_packages=git,python3,python3-pytest
data_packages=python3,python3-numpy,python3-pandas,python3-scipy,python3-sklearn,python3-matplotlib,python3-openpyxl
office_packages=libreoffice-calc,libreoffice-writer,libreoffice-impress,fonts-dejavu-core,poppler-utils,python3,python3-openpyxl

make_image() {
	from_docker "$1" || case $1 in
	securebench-python:3) pull python:3.12-slim "$1" || bootstrap "$1" python3 python3 ;;
	securebench-pytest:1) with_packages "$1" $pytest_packages || bootstrap "$1" python3 $pytest_packages ;;
	securebench-data:1) with_packages "$1" $data_packages || bootstrap "$1" python3 $data_packages ;;
	securebench-office:1) with_packages "$1" $office_packages || bootstrap "$1" python3 $office_packages ;;
	"$debian") pull "$1" "$1" || bootstrap "$1" bash ca-certificates ;;
	*) die "unknown image $1" ;;
	esac
	have "$1" || die "the image $1 could not be built"
	say "Image $1 is there."
}

case $engine in
docker | native) ;;
*) die "unknown engine $engine: write native or docker" ;;
esac
[ $# -gt 0 ] || set -- securebench-python:3 securebench-pytest:1
for image in "$@"; do
	have "$image" || make_image "$image"
done
