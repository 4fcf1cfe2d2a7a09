package contract

// probeCapabilityUse tries, each in a process of its own, what root can do only
// with a capability, and prints the names of those that worked. The workspace
// belongs to another user. Binding a low port is missing: engines allow it to
// everybody in a network namespace of its own.
const probeCapabilityUse = `
import os, signal, time

def other():
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setuid(1)
        os.write(w, b"x")
        time.sleep(600)
    os.close(w)
    assert os.read(r, 1) # that is, it has become somebody else
    os.kill(pid, signal.SIGKILL)

def setgid_bit():
    os.chmod("/workspace/other", 0o2750)
    assert os.stat("/workspace/other").st_mode & 0o2000

for name, use in {
    "CHOWN": lambda: os.chown("/workspace/mine", 1, 1),
    "DAC_OVERRIDE": lambda: open("/workspace/other").read(),
    "FOWNER": lambda: os.utime("/workspace/other", (1, 1)),
    "FSETID": setgid_bit,
    "SETUID": lambda: os.setuid(1),
    "SETGID": lambda: os.setgid(1),
    "KILL": other,
    "SYS_CHROOT": lambda: os.chroot("/tmp"),
}.items():
    pid = os.fork()
    if pid == 0:
        try:
            use()
        except BaseException:
            os._exit(1)
        os._exit(0)
    if os.waitpid(pid, 0)[1] == 0:
        print(name)
`

// probeReach uses every capability that can be granted against what is not the
// sandbox's own: a read-only mount, the helper, the kernel's settings, devices.
// Each line that it prints is something that it could change.
const probeReach = `
import ctypes, os, stat, sys
libc = ctypes.CDLL(None, use_errno=True)
def tries(what, f):
    pid = os.fork()
    if pid == 0:
        try:
            r = f()
        except (OSError, AttributeError):
            os._exit(1)
        os._exit(1 if r == -1 else 0)
    if os.waitpid(pid, 0)[1] == 0: print(what)
def write(path, data="x"):
    fd = os.open(path, os.O_WRONLY)
    os.write(fd, data.encode())
def as_user(uid, f):
    def g():
        os.setgroups([]); os.setgid(uid); os.setuid(uid)
        return f()
    return g
for uid in (0, 1, 65534):
    at = " as %d" % uid
    for path in sys.argv[1:]:
        file = os.path.join(path, next(iter(sorted(os.listdir(path))), "none"))
        tries("write " + file + at, as_user(uid, lambda: write(file)))
        tries("truncate " + file + at, as_user(uid, lambda: os.truncate(file, 0)))
        tries("mode of " + file + at, as_user(uid, lambda: os.chmod(file, 0o777)))
        tries("owner of " + file + at, as_user(uid, lambda: os.chown(file, uid, uid)))
        tries("time of " + file + at, as_user(uid, lambda: os.utime(file, (1, 1))))
        tries("attribute of " + file + at, as_user(uid, lambda: os.setxattr(file, "user.x", b"x")))
        tries("name in " + path + at, as_user(uid, lambda: os.rename(file, file + ".x")))
        tries("link in " + path + at, as_user(uid, lambda: os.link(file, os.path.join(path, "hard"))))
        tries("link from " + path + at, as_user(uid, lambda: os.link(file, "/tmp/hard")))
        tries("new in " + path + at, as_user(uid, lambda: os.mkdir(os.path.join(path, "new"))))
        tries("descriptor of " + file + at, as_user(uid, lambda: write("/proc/self/fd/%d" % os.open(file, os.O_RDONLY))))
        tries("replace " + path + at, as_user(uid, lambda: os.rename(path, path + ".x")))
        MS_REMOUNT, MS_BIND = 32, 4096
        tries("remount " + path + at, as_user(uid, lambda: libc.mount(b"none", path.encode(), None, MS_REMOUNT | MS_BIND, None)))
        tries("unmount " + path + at, as_user(uid, lambda: libc.umount2(path.encode(), 2)))
for path in ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches", "/proc/sys/fs/file-max",
        "/proc/sysrq-trigger", "/proc/irq/default_smp_affinity", "/sys/kernel/uevent_helper", "/sys/power/state",
        "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/pids/pids.max", "/sys/fs/cgroup/release_agent", "/etc/hosts", "/etc/resolv.conf", "/etc/hostname"]:
    tries("write " + path, lambda: write(path, "0"))
tries("memory of the machine", lambda: os.open("/proc/kcore", os.O_RDONLY) if os.stat("/proc/kcore").st_size else -1)
tries("limits of the first process", lambda: write("/proc/1/oom_score_adj", "-1000"))
for kind in (stat.S_IFBLK, stat.S_IFCHR):
    for major, minor in ((8, 0), (1, 1), (259, 0)):
        tries("device", lambda: os.mknod("/tmp/d%d.%d" % (major, minor), kind | 0o600, os.makedev(major, minor)))
tries("namespace", lambda: libc.unshare(0x10000000))
tries("mount", lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, None))
tries("hostname", lambda: libc.sethostname(b"x", 1))
tries("raw socket", lambda: __import__("socket").socket(2, 3, 1))
tries("root beyond chroot", lambda: (os.mkdir("/tmp/c"), os.chroot("/tmp/c"), [os.chdir("..") for _ in range(64)], os.chroot("."), write("/proc/sys/kernel/hostname")))
`

// probeClosed makes a folder of another user's that is closed to everybody else.
const probeClosed = `
import os
os.mkdir("/workspace/shut")
open("/workspace/shut/f", "w").write("x")
os.chmod("/workspace/shut/f", 0o600)
os.chown("/workspace/shut/f", 1000, 1000)
os.chmod("/workspace/shut", 0o700)
os.chown("/workspace/shut", 1000, 1000)
`
