#!/usr/bin/env bash
# Runs 2,000 attempts by a hub and three workers, each behind a network of its own, while
# everything happens that docs/faults.md names of workers: they are killed, frozen, told to
# leave, cut off, and lose a third of their packets, and the run is killed and resumed
# within a lease and after one, all at the same time. Then it checks that each attempt has
# one record, with the candidate and the verdict that one machine gives, that the run
# verifies, and that its verdicts are derived again. Each seed is a run of its own, of a few
# minutes. Needs root and iptables.
#
#   fleet-test.sh SECUREBENCH native|docker [SEED...]     (seeds 1 to 10)
#
#   ATTEMPTS  attempts at each of the 20 tasks, 100 by default
set -euo pipefail
securebench=$(realpath "$1")
engine=$2
shift 2
[ $# -gt 0 ] || set -- 1 2 3 4 5 6 7 8 9 10
cd "$(dirname "$0")/.."
. scripts/say.sh
pack=$PWD/packs/gsm8k-sample
attempts=${ATTEMPTS:-100}
lease=4
[ "$(id -u)" = 0 ] || die "networks between workers and their hub need root"
command -v ip nsenter iptables >/dev/null || die "this needs ip, nsenter and iptables (packages iproute2, util-linux, iptables)"

work=$(mktemp -d)
net=sbf$((RANDOM % 10000)) # names of interfaces are short
subnet=10.$((100 + RANDOM % 100)).$((RANDOM % 250))
hub=$subnet.1:4222
loops=()

end() {
	touch "$work/over"
	wait "${loops[@]}" 2>/dev/null || true
	for n in 1 2 3; do ip netns del "$net$n" 2>/dev/null || true; done
	ip link del "$net" 2>/dev/null || true
	if [ "$1" = 0 ]; then
		rm -rf "$work"
	else
		say "Logs are in $work."
	fi
}
trap 'end $?' EXIT
trap 'exit 1' INT TERM HUP

# network connects three machines to this one.
network() {
	local n
	ip link add "$net" type bridge
	ip addr add "$subnet.1/24" dev "$net"
	ip link set "$net" up
	for n in 1 2 3; do
		ip netns add "$net$n"
		ip link add "$net-$n" type veth peer name eth0 netns "$net$n"
		ip link set "$net-$n" master "$net" up
		on "$n" ip addr add "$subnet.1$n/24" dev eth0
		on "$n" ip link set eth0 up
		on "$n" ip link set lo up
	done
}

# on MACHINE COMMAND... runs a command in the network of a machine.
on() { nsenter --net="/run/netns/$net$1" "${@:2}"; }

# drop MACHINE [MATCH...] loses packets from and to a machine, until mend MACHINE.
drop() {
	local n=$1 chain
	shift
	for chain in INPUT OUTPUT; do on "$n" iptables -w -A "$chain" "$@" -j DROP; done
}

mend() { on "$1" iptables -w -F; }

# over reports whether the run of this seed has ended.
over() { [ -e "$work/over" ]; }

# nap TENTHS waits, but not after the end.
nap() {
	local tenths=$1
	while [ "$tenths" -gt 0 ] && ! over; do
		sleep 0.1
		tenths=$((tenths - 1))
	done
}

# shuffle WORD... prints the words in another order, by RANDOM.
shuffle() {
	local word
	for word; do echo "$RANDOM $word"; done | sort -n | cut -d' ' -f2
}

happened() { echo "$1" >>"$work/faults"; }

# ended PROCESS CODE... fails unless a process ends with one of the codes.
ended() {
	local code=0
	wait "$1" 2>/dev/null || code=$?
	case " ${*:2} " in
	*" $code "*) ;;
	*) echo "a worker ended with $code" >>"$work/wrong" ;;
	esac
}

# start starts the worker of a machine.
start() {
	nsenter --net="/run/netns/$net$machine" "$securebench" worker --hub "$hub" --credentials "$work/all.json" --engine "$engine" \
		--slots 2 --grace 1s --cache "$work/cache$machine" &>>"$work/worker$machine.log" &
	worker=$!
}

# life MACHINE is what happens to a machine until the run ends.
life() {
	local machine=$1 worker fault
	trap - EXIT
	RANDOM=$((seed * 10 + machine))
	start
	while ! over; do
		for fault in $(shuffle killed left frozen cut_off lossy); do
			nap $((20 + RANDOM % 40))
			! over || break
			$fault
			happened "$fault"
		done
	done
	kill -TERM "$worker" 2>/dev/null || true
	ended "$worker" 0 143 # 143: it was started when the run had finished, or did not hear of it
}

killed() {
	kill -KILL "$worker" 2>/dev/null || true
	ended "$worker" 137 0
	start
}

left() {
	kill -TERM "$worker" 2>/dev/null || true
	ended "$worker" 143 0
	start
}

frozen() {
	kill -STOP "$worker" 2>/dev/null || return 0
	nap $((lease * (12 + RANDOM % 15)))
	kill -CONT "$worker"
}

cut_off() {
	drop "$machine"
	nap $((lease * (3 + RANDOM % 20)))
	mend "$machine"
}

lossy() {
	drop "$machine" -m statistic --mode random --probability 0.3
	nap $((30 + RANDOM % 50))
	mend "$machine"
}

# serve runs the run until it has finished, and kills it in the meantime.
serve() {
	local run fault code resume=()
	RANDOM=$((seed * 10))
	while :; do
		for fault in within after none; do
			"$securebench" run "${arguments[@]}" --hub "$hub" --lease ${lease}s --retries 30 -o "$out" \
				--progress plain "${resume[@]}" &>>"$work/run.log" &
			run=$!
			resume=(--resume)
			wait_records "$run" $((20 * attempts / 8 + RANDOM % (20 * attempts / 8)))
			if [ "$fault" = none ] || ! kill -KILL "$run" 2>/dev/null; then
				code=0
				wait "$run" || code=$?
				[ "$code" = 0 ] || die "seed $seed: the run ended with $code: $(tail -3 "$work/run.log")"
				return
			fi
			wait "$run" 2>/dev/null || true
			happened "run_killed_$fault"
			case $fault in
			within) nap $((RANDOM % (lease * 8))) ;;
			after) nap $((lease * (11 + RANDOM % 10))) ;;
			esac
		done
	done
}

# wait_records PROCESS N waits until a run has N more records, or has ended.
wait_records() {
	local want
	want=$(($(records) + $2))
	while [ "$(records)" -lt "$want" ] && kill -0 "$1" 2>/dev/null; do sleep 0.2; done
}

records() { if [ -e "$out/candidates.jsonl" ]; then wc -l <"$out/candidates.jsonl"; else echo 0; fi; }

# found RUN prints what each attempt of a run came to.
found() {
	sed -E 's/.*"attempt": ([0-9]+),.*"candidate": "(sha256:[0-9a-f]+)".*"outcome": "([a-z_]+)".*"task_id": "([^"]+)".*"verification_status": "([a-z_]+)".*/\4 \1 \2 \3 \5/' "$1/candidates.jsonl" | sort
}

# check fails unless the run of a seed is as it would be on one machine.
check() {
	local fault
	[ ! -e "$work/wrong" ] || die "seed $seed: $(cat "$work/wrong")"
	for fault in killed left frozen cut_off lossy run_killed_within run_killed_after; do
		grep -qx "$fault" "$work/faults" || die "seed $seed: the run had ended before $fault could happen: give more ATTEMPTS"
	done
	diff <(found "$out") "$work/want" >"$work/differs" || die "seed $seed: $(wc -l <"$work/differs") lines differ from one machine's ($work/differs)"
	"$securebench" verify "$out" &>"$work/verified" || die "seed $seed: $(cat "$work/verified")"
	"$securebench" reverify "$out" --pack "$pack" --engine "$engine" --progress none &>"$work/derived" || die "seed $seed: $(cat "$work/derived")"
	grep -q ' 0 different' "$work/derived" || die "seed $seed: $(cat "$work/derived")"
}

# one runs one seed.
one() {
	local n began=$SECONDS
	out=$work/run$seed
	rm -f "$work"/{over,faults,wrong} "$work"/*.log
	loops=()
	for n in 1 2 3; do
		life "$n" &
		loops+=($!)
	done
	serve
	began=$((SECONDS - began))
	touch "$work/over"
	wait "${loops[@]}"
	check
	say "Seed $seed: $(records) attempts in $began s, each recorded once. Faults: $(sort "$work/faults" | uniq -c | awk '{ printf "%s%s %s", (NR > 1 ? ", " : ""), $1, $2 }')." \
		"Tries that were lost: $(grep -o '"retries": \[[^]]*\]' "$out/candidates.jsonl" | grep -o '"phase"' | wc -l). Jobs given out: $(grep -oE '"jobs": ?[0-9]+' "$out/run.json" | awk -F: '{ n += $2 } END { print n }')."
	rm -rf "$out"
}

export SECUREBENCH_KEYS=$work/keys XDG_CONFIG_HOME=$work/config
# The agent takes up to 180 ms, and answers with a number that its task determines.
cat >"$work/tester.yaml" <<-END
	schema_version: "0.2"
	run: {id: fleet, output_dir: run}
	benchmark: {manifest: $pack/manifest.yaml, tasks: $pack/tasks.jsonl}
	harness:
	  type: command
	  config:
	    timeout_seconds: 60
	    command: [sh, -c, 'sleep 0.\$(printf %03d \$((\$(od -An -N2 -tu2 /dev/urandom) % 181))); echo "Answer: \$((\$(cksum <task.json | cut -d" " -f1) % 20))"']
END
arguments=(--config "$work/tester.yaml" --engine "$engine" --attempts "$attempts")
"$securebench" run "${arguments[@]}" --attempts 1 -o "$work/here" --progress none
found "$work/here" | while read -r task _ rest; do
	for ((n = 1; n <= attempts; n++)); do echo "$task $n $rest"; done
done | sort >"$work/want"
[ "$(wc -l <"$work/want")" = $((20 * attempts)) ] || die "$pack is another than this script knows"
network
"$securebench" hub init
"$securebench" hub invite --name all -o "$work/all.json"
for seed; do one; done
say "All runs are complete and verify, and their verdicts are derived again: nothing was lost, and nothing is there twice."
