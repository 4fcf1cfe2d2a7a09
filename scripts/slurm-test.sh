#!/usr/bin/env bash
# Runs a benchmark on a Slurm cluster of two nodes, in shards and then with workers, kills
# a node in the middle of each, and checks the runs: complete, verified, their verdicts
# derived again. The cluster is made on this machine and removed at the end; each node has
# processes of its own, so that killing it ends them all. Needs root; Debian's Slurm is
# installed if it is missing.
#
#   slurm-test.sh SECUREBENCH native|docker
set -euo pipefail
securebench=$(realpath "$1")
engine=$2
cd "$(dirname "$0")/.."
. scripts/say.sh
pack=$PWD/packs/demo
[ "$(id -u)" = 0 ] || die "a Slurm cluster on this machine needs root"

if ! command -v slurmctld slurmd munged >/dev/null; then
	command -v apt-get >/dev/null || die "Slurm is missing, and this system has no apt-get: install slurmctld, slurmd, munge"
	say "Installing slurmctld, slurmd, slurm-client and munge with apt-get (30 MB)."
	export DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes
	apt-get update -qq >/dev/null
	apt-get install -y -qq --no-install-recommends slurmctld slurmd slurm-client munge >/dev/null
fi

work=$(mktemp -d)
end() {
	stop "${run:-}" "${n1:-}" "${n2:-}" "${controller:-}" "${munge:-}"
	if [ "$1" = 0 ]; then
		rm -rf "$work"
	else
		say "Logs are in $work."
	fi
}

# stop PROCESS... ends processes of this script, with what runs on a node.
stop() {
	local process
	for process; do
		[ -z "$process" ] || { kill -9 "$process" && wait "$process"; } 2>/dev/null || true
	done
}
trap 'end $?' EXIT
trap 'exit 1' INT TERM HUP

# wait_for SECONDS WHAT COMMAND... waits until a command succeeds.
wait_for() {
	local left=$1 what=$2
	shift 2
	until "$@"; do
		[ "$left" -gt 0 ] || die "this did not happen: $what"
		left=$((left - 1))
		sleep 1
	done
}

cluster() {
	local host
	port=$((20000 + RANDOM % 10000))
	host=$(hostname -s)
	chmod 755 "$work"
	mkdir "$work/state"
	(umask 077 && head -c 1024 /dev/urandom >"$work/munge.key")
	cat >"$work/slurm.conf" <<-END
		ClusterName=securebench
		SlurmctldHost=$host(127.0.0.1)
		SlurmctldPort=$port
		SlurmUser=root
		AuthType=auth/munge
		CredType=cred/munge
		# A job that is queued again starts after cred_expire seconds.
		AuthInfo=socket=$work/munge.socket,cred_expire=5
		StateSaveLocation=$work/state
		SlurmdSpoolDir=$work/%n.spool
		SlurmctldPidFile=$work/slurmctld.pid
		SlurmdPidFile=$work/%n.pid
		SlurmctldLogFile=$work/slurmctld.log
		SlurmdLogFile=$work/%n.log
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/none
		MpiDefault=none
		SelectType=select/cons_tres
		SelectTypeParameters=CR_CPU
		SchedulerParameters=sched_interval=2,batch_sched_delay=1
		SlurmdTimeout=10
		ReturnToService=2
		KillWait=5
		SlurmdParameters=config_overrides
		NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=1
		NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=1
		PartitionName=all Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
	END
	export SLURM_CONF=$work/slurm.conf
	munged --force --foreground --socket="$work/munge.socket" --key-file="$work/munge.key" \
		--pid-file="$work/munge.pid" --log-file="$work/munge.log" --seed-file="$work/munge.seed" &>"$work/munged.out" &
	munge=$!
	slurmctld -D &>"$work/slurmctld.out" &
	controller=$!
	node n1
	node n2
	wait_for 60 "both nodes are idle" both_idle
}

both_idle() { [ "$(sinfo -h -o %D:%t 2>/dev/null)" = 2:idle ]; }

# node NAME starts a node, and leaves its process in the variable of that name.
node() {
	unshare --pid --fork --kill-child --mount-proc slurmd -D -N "$1" &>"$work/$1.out" &
	declare -g "$1=$!"
}

ended() { [ -z "$(squeue -h)" ]; }

# check RUN fails unless a run is complete, verifies, and its verdicts are derived again.
check() {
	local total passed
	total=$(wc -l <"$1/candidates.jsonl")
	passed=$(grep -c '"passed": true' "$1/candidates.jsonl")
	[ "$total,$passed" = 14,8 ] || die "$1 has $total records, $passed passed; want 14, 8"
	"$securebench" verify "$1"
	"$securebench" reverify "$1" --pack "$pack" --engine "$engine" --progress none
}

# shards runs a run in shards, and kills a node that runs one.
shards() {
	local jobs merge state
	"$securebench" run "${arguments[@]}" --prepare 4 -o run
	jobs=$("$securebench" launch slurm run --time 30 --submit -- "${arguments[@]}")
	wait_for 120 "a shard on the second node has a record" recorded
	say "Killing the second node, which runs shard $shard."
	stop "$n2"
	wait_for 600 "all jobs end" ended
	merge=$(sed -n 's/^merge //p' <<<"$jobs")
	state=$(scontrol show job "$merge" | grep -oE '(JobState|ExitCode)=[^ ]+' | sort | tr '\n' ' ')
	[ "$state" = "ExitCode=0:0 JobState=COMPLETED " ] || die "the merge: $state"
	grep -qE "\"index\":$shard,[^{}]*\"restart\":2" run/run.json || die "shard $shard was not queued again"
	check run
}

# recorded: a shard that runs on the second node has a record.
recorded() {
	shard=$(squeue -h -r -w n2 -t running -o %K)
	[ -n "$shard" ] && [ -s "run/shards/$shard.1/candidates.jsonl" ]
}

# workers runs a run with a hub, and kills a node with a worker.
workers() {
	local hub=127.0.0.1:$((port + 10)) array
	export XDG_CONFIG_HOME=$work/config
	"$securebench" hub init
	"$securebench" hub invite --name all -o all.json
	"$securebench" run "${arguments[@]}" --hub "$hub" --lease 10s -o served --progress plain &>served.log &
	run=$!
	array=$("$securebench" launch slurm --workers 2 --time 30 --hub "$hub" --credentials all.json --submit -- --engine "$engine" --slots 1)
	wait_for 120 "both workers have a job, and there is a record" working
	say "Killing the second node, which runs a worker."
	stop "$n2"
	wait "$run" || die "the run with a hub ended with $?: $(tail -3 served.log)"
	run=
	scancel "${array#array }" # the worker of the dead node was queued again, and may have found no hub
	wait_for 120 "the workers end" ended
	check served
}

working() { [ "$(squeue -h -r -t running -o %K | wc -l)" = 2 ] && [ "$(wc -l <served/candidates.jsonl)" -ge 2 ]; }

cluster
say "A cluster of two nodes runs: $(sinfo --version)."
export SECUREBENCH_KEYS=$work/keys
# The agent of the demo, which takes a while so that the node dies in the middle.
sed -e "s|^  id: .*|  id: slurm|; s|^  output_dir: .*|  output_dir: $work/run|; s|: manifest.yaml|: $pack/manifest.yaml|; s|: tasks.jsonl|: $pack/tasks.jsonl|" \
	-e 's/^\( *import ast, .*\)/\1, time; time.sleep(4)/' "$pack/tester.yaml" >"$work/tester.yaml"
grep -q 'time.sleep(4)' "$work/tester.yaml" || die "packs/demo/tester.yaml is another than this script knows"
arguments=(--config "$work/tester.yaml" --engine "$engine")
cd "$work"
shards
node n2
wait_for 60 "both nodes are idle" both_idle
workers
say "Both runs are complete and verify, and their verdicts are derived again."
