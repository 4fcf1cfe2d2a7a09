#!/bin/bash
# Runs a command in an emulated machine, prints its output and ends with its exit
# code. The machine has the kernel and the runtimes of a Debian release, control
# groups of version 2 alone, no network, and a copy of this repository at /src.
#
#   scripts/machine.sh [OPTION]... COMMAND [ARGUMENT]...
#   scripts/machine.sh [OPTION]... --test PACKAGE [ARGUMENT]...
#
#   --release NAME   bookworm (the default; Linux 6.1) or trixie (Linux 6.12)
#   --user           as a user who is not root, with a delegated control group
#   --env NAME=VALUE an environment variable of the command
#   --folder DIR     a copy of a folder, with owners, at /folder
#   --test PACKAGE   compiles the tests of a package here and runs them there, in
#                    the package's folder; the arguments are theirs
#
# It needs qemu-system-x86, mmdebstrap and e2fsprogs, and uses KVM if a kernel
# starts with it, which takes one second; without it, the machine starts in 15
# seconds and is some ten times slower. MACHINE_ACCEL=kvm or tcg skips the trial.
# The disks are kept in $XDG_CACHE_HOME/securebench-machine, 0.5 GB for a release;
# what a command writes to them is lost.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/securebench-machine
mirror=${MACHINE_MIRROR:-http://deb.debian.org/debian}
memory=${MACHINE_MEMORY:-3072}
limit=${MACHINE_TIMEOUT:-30m}
release=bookworm
package=
user=
folder=
environment=()

fail() {
	echo "machine: $*" >&2
	exit 125
}

while [ $# -gt 0 ]; do
	case $1 in
	--release) release=${2:?} && shift 2 ;;
	--env) environment+=("${2:?}") && shift 2 ;;
	--test) package=${2:?} && shift 2 && break ;;
	--folder) folder=${2:?} && shift 2 ;;
	--user) user=1 && shift ;;
	--) shift && break ;;
	-*) fail "unknown option $1" ;;
	*) break ;;
	esac
done
[ -n "$package" ] || [ $# -gt 0 ] || fail "no command; the head of $0 says how it is used"
[[ $release =~ ^(bookworm|trixie)$ ]] || fail "unknown release $release"
for tool in qemu-system-x86_64 mmdebstrap mke2fs; do
	command -v "$tool" >/dev/null || fail "$tool is missing: apt-get install qemu-system-x86 mmdebstrap e2fsprogs"
done

# disk makes the folder of a release's disk, kernel and initial file system.
disk() {
	local made=$1 packages=linux-image-cloud-amd64,initramfs-tools,kmod,procps,busybox-static
	local work
	[ -d "$made" ] && return
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/making.XXXXXX")
	# shellcheck disable=SC2064 # the folder's name is known now
	trap "rm -rf '$work'" EXIT
	echo "machine: making the disk of $release (once, some minutes)" >&2
	mmdebstrap --quiet --variant=minbase --include="$packages,runc,crun,uidmap,python3" \
		--customize-hook="copy-in $root/scripts/machine-init.sh /usr/sbin" \
		"$release" "$work/root.tar" "$mirror" >&2
	mkdir "$work/root" "$work/made"
	local as_root=()
	[ "$(id -u)" = 0 ] || as_root=(fakeroot --)
	# shellcheck disable=SC2016 # it is expanded in there
	"${as_root[@]}" bash -ec '
		tar -x --numeric-owner --xattrs --xattrs-include="*" -C "$1/root" -f "$1/root.tar" --exclude="./dev/*"
		cp "$1"/root/boot/vmlinuz-* "$1/made/kernel"
		cp "$1"/root/boot/initrd.img-* "$1/made/initial"
		rm -rf "$1"/root/boot/*
		mke2fs -q -t ext4 -d "$1/root" "$1/made/disk" 6G' disk "$work"
	mv -T "$work/made" "$made" 2>/dev/null || [ -d "$made" ] # another may have been quicker
	rm -rf "$work"
	trap - EXIT
}

# acceleration says whether KVM works: on a virtual machine /dev/kvm can be there
# and hang.
acceleration() {
	local answer=tcg
	if [ -w /dev/kvm ]; then
		timeout 10 qemu-system-x86_64 -accel kvm -cpu max -m 512 -nodefaults -no-user-config -display none -no-reboot \
			-kernel "$made/kernel" -append 'console=ttyS0 earlyprintk=ttyS0 panic=-1' -serial stdio 2>/dev/null </dev/null |
			grep -q 'Kernel panic' && answer=kvm
	fi
	echo "$answer"
}

made=$cache/$release-$({ declare -f disk && cat "$root/scripts/machine-init.sh"; } | sha256sum | head -c 12)
disk "$made"

accel=${MACHINE_ACCEL:-$(cat "$made/accel" 2>/dev/null || acceleration | tee "$made/accel")}

cpu=max
# Debian 12's qemu gets instructions wrong: one that newer kernels use on the newest
# processor, now and then cmpxchg16b, and on two threads those that another processor
# has just changed, as a kernel does when a first group has a limit on processors.
[ "$accel" = kvm ] || { cpu=Nehalem,-cx16 && accel=tcg,thread=single; }

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
mkdir "$out/in"
{
	[ ${#environment[@]} -eq 0 ] || printf 'export %q\n' "${environment[@]}"
	if [ -n "$package" ]; then
		(cd "$root" && CGO_ENABLED=0 go test -c -trimpath -vet=off -o "$out/in/tests" "$package" >&2)
		[ -x "$out/in/tests" ] || fail "$package has no tests"
		dir=$(cd "$root" && go list -f '{{.Dir}}' "$package")
		printf 'cd %q && exec /in/tests' "/src${dir#"$root"}"
	else
		printf 'cd /src && exec'
	fi
	[ $# -eq 0 ] || printf ' %q' "$@"
	echo
} >"$out/in/command"
[ -z "$user" ] || touch "$out/in/as-user"
# Of the repository, what git knows: not the programs and data beside it.
# shellcheck disable=SC2016 # as above
git -C "$root" ls-files -z | (cd "$root" && xargs -0 sh -c 'for f; do [ ! -e "$f" ] || printf "%s\0" "$f"; done' sh) |
	tar -c --owner=0 --group=0 -f "$out/shared" -C "$root" --null -T - --transform='s,^,src/,S'
tar -r --owner=0 --group=0 -f "$out/shared" -C "$out/in" .

disks=()
if [ -n "$folder" ]; then
	size=$(($(du -sm "$folder" | cut -f1) * 2 + 1024))M # with room for as much again
	mke2fs -q -t ext4 -d "$folder" "$out/folder" "$size" >/dev/null
	disks+=(-drive "file=$out/folder,format=raw,if=virtio,snapshot=on")
fi

# Not qemu's own standard output: it closes the channel when its input ends.
mkfifo "$out/output"
cat "$out/output" &
reader=$!
code=0
timeout "$limit" qemu-system-x86_64 \
	-accel "$accel" -cpu "$cpu" -smp 2 -m "$memory" -nodefaults -no-user-config -display none -no-reboot \
	-kernel "$made/kernel" -initrd "$made/initial" \
	-append 'root=/dev/vda rw init=/usr/sbin/machine-init.sh console=ttyS0 panic=-1' \
	-drive "file=$made/disk,format=raw,if=virtio,snapshot=on" \
	-drive "file=$out/shared,format=raw,if=virtio,readonly=on" "${disks[@]}" \
	-serial "file:$out/console" \
	-device virtio-serial -chardev "file,path=$out/output,id=output" -device virtserialport,chardev=output,name=output \
	-chardev "file,path=$out/exit,id=exit" -device virtserialport,chardev=exit,name=exit \
	2> >(grep -v 'warning: ' >&2) </dev/null || code=$?
: <>"$out/output" # if qemu did not open it
wait "$reader"
[ "$code" = 124 ] && tail -n 20 "$out/console" >&2 && fail "it did not end within $limit"
[ -s "$out/exit" ] || { tail -n 50 "$out/console" >&2 && fail "it ended without an exit code (qemu's is $code)"; }
exit "$(cat "$out/exit")"
