#!/usr/bin/env bash
# Times "make demo" on a fresh Debian 12 without Docker, runtime or image: a root file
# system of mmdebstrap's, with mounts, processes and network of its own, and a clone of
# this checkout in it. Go and the downloaded modules are this machine's. Each line of
# output begins with the seconds since the start. Everything is removed at the end.
#
# With "wheel", it times a wheel of "make dist" instead, on a Debian 12 with Python and
# nothing else, without a network: from pip to the first score, which must be there within
# 60 seconds. That score is of a row that needs no sandbox.
#
#   fresh.sh [native|docker]
#   fresh.sh wheel WHEEL
#
# It needs root, mmdebstrap, slirp4netns and access to Debian's packages.
set -euo pipefail
engine=${1:-native}
here=$(cd "$(dirname "$0")/.." && pwd)
[[ $engine =~ ^(native|docker|wheel)$ ]] || { echo "unknown engine $engine: write native, docker or wheel" >&2; exit 2; }
[ "$engine" != wheel ] || [ -f "${2:-}" ] || { echo "name the wheel: fresh.sh wheel dist/securebench-*x86_64*.whl" >&2; exit 2; }
for tool in mmdebstrap slirp4netns unshare; do
	command -v $tool >/dev/null || { echo "$tool is missing: apt-get install mmdebstrap slirp4netns util-linux" >&2; exit 2; }
done

work=$(mktemp -d)
root=$work/root
trap 'rm -rf --one-file-system "$work"' EXIT
packages=make,git,ca-certificates,iproute2
[ "$engine" != wheel ] || packages=python3-minimal,python3-venv,iproute2
mmdebstrap --quiet --variant=minbase --include=$packages bookworm "$work/root.tar"
mkdir -p "$root/usr/local/go" "$root/root/go/pkg/mod"
tar -x --numeric-owner -C "$root" -f "$work/root.tar" --exclude='./dev/*'
if [ "$engine" = wheel ]; then
	cp "$2" "$root/root/"
else
	git clone -q "$here" "$root/root/securebench"
fi

cat >"$root/root/wheel" <<'END'
set -e
cd /root
begin=${EPOCHREALTIME/./}
timed() {
	"$@" >/root/log 2>&1 || { cat /root/log; echo "failed: $*"; exit 1; }
	printf '%6d.%02d  %s\n' $(((${EPOCHREALTIME/./} - begin) / 1000000)) $(((${EPOCHREALTIME/./} - begin) / 10000 % 100)) "$*"
}
timed python3 -m venv env
PATH=/root/env/bin:$PATH
timed pip install --no-index --no-deps ./*.whl
timed securebench init hello
timed securebench run hello --family short_answer --agent oracle
tail -n 1 /root/log
took=$(((${EPOCHREALTIME/./} - begin) / 1000000))
timed securebench verify runs/hello
timed securebench bundle runs/hello -o run.zip
timed python3 -m securebench.verify run.zip --any-signer
timed python3 -c 'import securebench as s; r = s.run("hello", family="short_answer", agent="oracle", output_dir="again"); assert r.passed == r.total == len(list(r.records())) and r.verify()["ok"]'
[ $took -lt 60 ] || { echo "the first score took $took seconds"; exit 1; }
END

cat >"$root/root/demo" <<'END'
[ "$1" != wheel ] || exec bash /root/wheel
until ip -4 addr show tap0 2>/dev/null | grep -q inet; do sleep 0.1; done
cd /root/securebench
timed() {
	local begin=${EPOCHREALTIME/./} line
	while IFS= read -r line; do
		printf '%6d.%d  %s\n' $(((${EPOCHREALTIME/./} - begin) / 1000000)) $(((${EPOCHREALTIME/./} - begin) / 100000 % 10)) "$line"
	done
}
for run in first second; do
	echo "The $run time:"
	if [ "$1" = docker ]; then make ENGINE=docker demo; else make demo; fi 2>&1 | timed
done
END

# inside makes the root of a new mount namespace.
# shellcheck disable=SC2016 # it is expanded in there
inside='
	mount --make-rprivate /
	mount --bind "$1" "$1"
	mount --bind "$(go env GOROOT)" "$1/usr/local/go" && mount -o remount,bind,ro "$1/usr/local/go"
	mount --bind "$(go env GOMODCACHE)" "$1/root/go/pkg/mod" && mount -o remount,bind,ro "$1/root/go/pkg/mod"
	mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && mount --rbind /dev "$1/dev"
	mount -t tmpfs tmpfs "$1/run" && mount -t tmpfs tmpfs "$1/tmp"
	echo nameserver 10.0.2.3 >"$1/etc/resolv.conf"
	mkdir "$1/mnt/old" && cd "$1" && pivot_root . mnt/old && umount -l /mnt/old
	exec env -i HOME=/root LANG=C.UTF-8 GOPROXY=off \
		PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash /root/demo "$2"'
unshare --mount --pid --net --fork --kill-child bash -ec "$inside" inside "$root" "$engine" &
demo=$!
sleep 1
slirp4netns --configure --mtu=65520 --disable-host-loopback "$(pgrep -P $demo)" tap0 >/dev/null 2>&1 &
network=$!
code=0
wait $demo || code=$?
kill $network 2>/dev/null || true
exit $code
