#!/usr/bin/env bash
# Makes sure that a Docker engine answers.
#
# Does nothing if one does. Otherwise it says what it is about to do, installs
# docker.io of Debian or Ubuntu, and starts it; that needs root.
#
#   SECUREBENCH_ENGINE_LOG  log file of a dockerd without a service manager
#                           (default: /var/log/securebench-dockerd.log)
set -euo pipefail
cd "$(dirname "$0")"
. ./say.sh

answers() { command -v docker >/dev/null && docker info >/dev/null 2>&1; }

# wait_for_engine waits up to $1 seconds.
wait_for_engine() {
	local left=$1
	until answers; do
		[ "$left" -gt 0 ] || return 1
		left=$((left - 1))
		sleep 1
	done
}

install() {
	command -v apt-get >/dev/null ||
		die "no Docker engine answers, and this system has no apt-get: install one, see https://docs.docker.com/engine/install/"
	say "No Docker engine is installed. Installing docker.io with apt-get; this takes about half a minute."
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq >/dev/null
	apt-get install -y -qq --no-install-recommends docker.io >/dev/null
}

start() {
	if [ -d /run/systemd/system ]; then
		say "Starting the Docker engine: systemctl start docker"
		systemctl start docker || true
	else
		say "Starting the Docker engine: dockerd, in its own session, logging to $log"
		setsid nohup dockerd >"$log" 2>&1 </dev/null &
	fi
	wait_for_engine 60 || die "the Docker engine did not answer within 60 s; its log: $log (or: journalctl -u docker)"
}

log=${SECUREBENCH_ENGINE_LOG:-/var/log/securebench-dockerd.log}

if answers; then
	exit 0
fi
if [ -n "${DOCKER_HOST:-}" ]; then
	die "the Docker engine at DOCKER_HOST=$DOCKER_HOST does not answer"
fi
[ "$(uname -s)" = Linux ] || die "no Docker engine answers: start Docker Desktop, then try again"
if [ "$(id -u)" != 0 ]; then
	die "no Docker engine answers: start it, join the group docker, or run this once as root, which installs and starts it"
fi
if ! command -v dockerd >/dev/null || ! command -v docker >/dev/null; then
	install
fi
# The package may have started it already.
answers || start
say "The Docker engine answers: $(docker version --format '{{.Server.Version}}')"
