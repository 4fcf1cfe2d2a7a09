#!/bin/bash
# The first process of the machine that machine.sh starts: it mounts what a
# system has, runs the command that it is given, and switches the machine
# off. Control groups are of version 2 alone.
set -u
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH HOME=/root LANG=C.UTF-8

mountpoint -q /proc || mount -t proc -o nosuid,nodev,noexec proc /proc
mountpoint -q /sys || mount -t sysfs -o nosuid,nodev,noexec sysfs /sys
mountpoint -q /dev || mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm /dev/mqueue /run /in
mountpoint -q /dev/pts || mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
mount -t tmpfs -o nosuid,nodev tmpfs /dev/shm
mount -t mqueue -o nosuid,nodev,noexec mqueue /dev/mqueue
mount -t tmpfs -o nosuid,nodev,mode=1777 tmpfs /tmp
mount -t cgroup2 -o nosuid,nodev,noexec,nsdelegate cgroup2 /sys/fs/cgroup
ln -sfn /proc/self/fd /dev/fd
hostname machine
busybox ip link set lo up
modprobe -q -a virtio_console overlay fuse

# port prints the device of a named channel to the outside.
port() {
	local dir
	for _ in {1..100}; do
		for dir in /sys/class/virtio-ports/*; do
			[ "$(cat "$dir/name" 2>/dev/null)" = "$1" ] && echo "/dev/${dir##*/}" && return
		done
		sleep 0.1
	done
	echo /dev/console
}
output=$(port output)

# What is shared comes as an archive: these kernels lack network file systems.
mount -t tmpfs -o mode=755 tmpfs /in
tar -x -C /in -f /dev/vdb
ln -sfn /in/src /src
[ ! -b /dev/vdc ] || { mkdir -p /folder && mount /dev/vdc /folder; }

# A user to whom a group is delegated as systemd does it: the user may hand out
# what is in it, and no process is in it but in the group of the session below.
become_user() {
	useradd --create-home --shell /bin/bash --uid 1000 user
	mkdir -p /run/user/1000 && chown user:user /run/user/1000
	local top=/sys/fs/cgroup/user.slice
	echo '+cpu +memory +pids' >/sys/fs/cgroup/cgroup.subtree_control
	mkdir -p "$top/user-1000.service/session.scope"
	echo '+cpu +memory +pids' >"$top/cgroup.subtree_control"
	top=$top/user-1000.service
	local dir
	for dir in "$top" "$top/session.scope"; do
		chown user:user "$dir" "$dir"/cgroup.{procs,subtree_control,threads}
	done
	echo '+cpu +memory +pids' >"$top/cgroup.subtree_control"
	echo $$ >"$top/session.scope/cgroup.procs"
	export HOME=/home/user USER=user XDG_RUNTIME_DIR=/run/user/1000
	as_user=(setpriv --reuid=1000 --regid=1000 --init-groups --)
}

as_user=()
[ -e /in/as-user ] && become_user >"$output" 2>&1
"${as_user[@]}" setsid --wait bash /in/command </dev/null >"$output" 2>&1
echo $? >"$(port exit)"
sync
echo o >/proc/sysrq-trigger
while :; do sleep 1; done
