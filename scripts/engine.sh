#!/usr/bin/env bash
# Makes sure that a sandbox engine runs, and prints its name.
#
#   engine.sh SECUREBENCH [auto|native|docker|all|runtimes]
#
# auto (the default) is native where it runs, else Docker. Where neither does, root
# on Debian or Ubuntu gets crun, or runc if there is none, which is all that the native
# engine needs there, and if that is not enough, docker.io, started. A message says so
# before. all is the same, but prints every engine that runs, Docker first. runtimes
# installs both runtimes, which the tests run with, where packages can be installed.
#
#   SECUREBENCH_ENGINE_LOG  log file of a dockerd without a service manager
#                           (default: /var/log/securebench-dockerd.log)
set -euo pipefail
securebench=$(realpath "$1")
want=${2:-auto}
cd "$(dirname "$0")"
. ./say.sh

native_runs() {
	local found
	found=$("$securebench" doctor --json 2>/dev/null) || true
	grep -q '^{"engine":"native","runs":true,' <<<"$found"
}

docker_answers() { command -v docker >/dev/null && docker info >/dev/null 2>&1; }

# can_install reports whether packages can be installed.
can_install() { [ "$(uname -s)" = Linux ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

# add PACKAGE SIZE installs a package.
add() {
	say "Installing $1 with apt-get ($2)."
	export DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes
	apt-get update -qq >/dev/null || return 1
	apt-get install -y -qq --no-install-recommends "$1" >/dev/null
}

# runtime installs an OCI runtime.
runtime() { add "$1" "an OCI runtime, a few megabytes"; }

# native makes sure that the native engine runs, if a package is all it needs.
native() {
	native_runs && return
	{ command -v crun || command -v runc; } >/dev/null && return 1
	can_install || return 1
	runtime crun && native_runs && return
	runtime runc && native_runs
}

# wait_for_docker waits up to $1 seconds.
wait_for_docker() {
	local left=$1
	until docker_answers; do
		[ "$left" -gt 0 ] || return 1
		left=$((left - 1))
		sleep 1
	done
}

start_docker() {
	local log=${SECUREBENCH_ENGINE_LOG:-/var/log/securebench-dockerd.log}
	if [ -d /run/systemd/system ]; then
		say "Starting the Docker engine: systemctl start docker"
		systemctl start docker || true
	else
		say "Starting the Docker engine: dockerd, in its own session, logging to $log"
		# It starts itself anew twice for each container: with less collection of garbage,
		# that takes half the time.
		GOGC=400 setsid nohup dockerd >"$log" 2>&1 </dev/null &
	fi
	wait_for_docker 60 || die "the Docker engine did not answer within 60 s; its log: $log (or: journalctl -u docker)"
}

# docker_engine makes sure that a Docker engine answers.
docker_engine() {
	docker_answers && return
	if [ -n "${DOCKER_HOST:-}" ]; then
		die "the Docker engine at DOCKER_HOST=$DOCKER_HOST does not answer"
	fi
	[ "$(uname -s)" = Linux ] || die "no Docker engine answers: start Docker Desktop, then try again"
	if [ "$(id -u)" != 0 ]; then
		die "no sandbox engine runs: start Docker, join the group docker, or run this once as root, which installs what is missing ($securebench doctor says what that is)"
	fi
	if ! command -v dockerd >/dev/null || ! command -v docker >/dev/null; then
		command -v apt-get >/dev/null ||
			die "no Docker engine answers, and this system has no apt-get: install one, see https://docs.docker.com/engine/install/"
		add docker.io "the Docker engine; this takes about half a minute"
	fi
	# The package may have started it already.
	docker_answers || start_docker
	say "The Docker engine answers: $(docker version --format '{{.Server.Version}}')"
}

case $want in
native)
	native || die "the native engine does not run here: $securebench doctor says what is missing"
	echo native
	;;
docker)
	docker_engine
	echo docker
	;;
auto)
	if native_runs || { ! docker_answers && native; }; then
		echo native
	else
		docker_engine
		echo docker
	fi
	;;
all)
	first=$("$PWD/engine.sh" "$securebench" auto)
	if [ "$first" = docker ] || docker_answers; then
		echo docker
	fi
	if [ "$first" = native ]; then
		echo native
	fi
	;;
runtimes)
	for name in crun runc; do
		command -v "$name" >/dev/null || ! can_install || runtime "$name" || say "The tests run without $name."
	done
	;;
*) die "unknown engine $want: write auto, native, docker, all or runtimes" ;;
esac
