#!/usr/bin/env bash
# Decides whether the tests in a browser run, and prints it as the value of
# SECUREBENCH_TEST_BROWSER for them.
#
# With SECUREBENCH_TEST_BROWSER=require or never, that is it. Otherwise they run
# where there is Chromium. Root on Debian or Ubuntu gets it, if a package can be had.
set -euo pipefail
cd "$(dirname "$0")"
. ./say.sh

found() {
	local name
	for name in ${SECUREBENCH_BROWSER:-} chromium-headless-shell chromium chromium-browser google-chrome chrome; do
		if command -v "$name" >/dev/null; then return; fi
	done
	return 1
}

case ${SECUREBENCH_TEST_BROWSER:-} in
require | never)
	echo "$SECUREBENCH_TEST_BROWSER"
	exit
	;;
esac

if ! found && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	say "installing chromium for the tests of the viewer"
	get() { timeout 300 env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$1"; }
	{ timeout 120 apt-get update && { get chromium-headless-shell || get chromium; }; } >/dev/null 2>&1 || true
fi
if found; then
	echo require
else
	say "SKIPPED: the tests in a browser, because there is no Chromium and it cannot be installed"
	echo never
fi
