# shellcheck shell=bash
# Functions for the scripts whose models a script plays; these source say.sh as well.

# play SECUREBENCH SCRIPT starts the provider that plays a script, which ends with stop_playing.
play() {
	"$1" scripted-provider --listen 127.0.0.1:7113 --script "$2" >/dev/null 2>&1 &
	provider=$!
	until (: >/dev/tcp/127.0.0.1/7113) 2>/dev/null; do
		kill -0 "$provider" 2>/dev/null || die "the scripted provider cannot listen at 127.0.0.1:7113: is the port in use?"
		sleep 0.1
	done
}

stop_playing() {
	[ -n "${provider:-}" ] || return 0
	kill "$provider" 2>/dev/null || true
	wait "$provider" 2>/dev/null || true
	provider=
}
