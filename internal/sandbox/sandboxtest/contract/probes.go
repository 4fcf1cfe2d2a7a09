package contract

// probe is a Python program that prints what a sandbox failed to deny.
type probe struct{ Name, Code string }

// denied is what the probes share: it tries something that has to fail.
const denied = `
import errno, os, socket, subprocess, sys, time
def denied(what, f, *codes):
    try:
        r = f()
    except OSError as e:
        if codes and e.errno not in codes: print(what, "fails with", e)
        return
    except AttributeError:
        return
    print(what, "succeeds:", r)
def command(*argv):
    try:
        p = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20)
    except FileNotFoundError:
        return
    if p.returncode == 0: print(argv, "succeeds:", p.stdout)
def write(path):
    with open(path, "w") as f: f.write("x")
`

// probes returns the probes that any sandbox has to pass.
func probes() []probe {
	return []probe{
		{"network", denied + probeNetwork},
		{"privileges", denied + probePrivileges},
		{"capabilities", denied + probeCapabilities},
		{"setuid", denied + probeSetuid},
		{"root", denied + probeRoot},
		{"processes", denied + probeProcesses},
		{"engine", denied + probeEngine},
		{"memory file systems", denied + probeTmpfs},
	}
}

const probeNetwork = `
names = [l.split(":")[0].strip() for l in open("/proc/net/dev").readlines()[2:]]
if names != ["lo"]: print("interfaces", names)
if len(open("/proc/net/route").readlines()) > 1: print("there is a route")
for addr in [("1.1.1.1", 443), ("172.17.0.1", 2375), ("10.0.0.1", 80), ("169.254.169.254", 80)]:
    s = socket.socket(); s.settimeout(5)
    denied(addr, lambda: s.connect(addr), errno.ENETUNREACH)
    u = socket.socket(type=socket.SOCK_DGRAM)
    denied(addr, lambda: u.sendto(b"data", addr), errno.ENETUNREACH)
denied("a raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
denied("a packet socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
denied("a name server", lambda: socket.getaddrinfo("example.com", 443))
l = socket.socket(); l.bind(("127.0.0.1", 0)); l.listen()
socket.create_connection(l.getsockname(), 5)
`

const probePrivileges = `
status = dict(l.rstrip("\n").split(":\t", 1) for l in open("/proc/self/status") if ":\t" in l)
for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]:
    if int(status[name], 16) != 0: print(name, status[name])
if status["NoNewPrivs"] != "1": print("NoNewPrivs", status["NoNewPrivs"])
if status["Seccomp"] != "2": print("Seccomp", status["Seccomp"])
for l in open("/proc/self/limits"):
    if l.startswith("Max core file size") and l.split()[4:6] != ["0", "0"]: print(l)
`

const probeCapabilities = `
command("mount", "-t", "tmpfs", "none", "/mnt")
command("mount", "-o", "remount,rw", "/")
command("umount", "/proc/sys")
command("unshare", "-Ur", "true")
command("unshare", "-m", "true")
command("mknod", "/tmp/null", "c", "1", "3")
command("mknod", "/tmp/disk", "b", "254", "0")
command("chroot", "/tmp", "true")
command("date", "-s", "2000-01-01")
command("hostname", "other")
command("dmesg")
denied("nice", lambda: os.nice(-5))
for p in ["/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/kernel/uevent_helper", "/proc/sys/vm/overcommit_memory"]:
    denied(p, lambda: write(p))
for base, dirs, files in os.walk("/sys/fs/cgroup"):
    for f in files:
        if f in ("release_agent", "notify_on_release", "memory.limit_in_bytes", "pids.max", "memory.max", "cgroup.procs"):
            denied(os.path.join(base, f), lambda: write(os.path.join(base, f)))
`

const probeSetuid = `
uid = os.getuid()
if uid != 0:
    denied("setuid", lambda: os.setuid(0))
    denied("setgid", lambda: os.setgid(0))
else:
    # A root without capabilities owns its files and is nobody else.
    open("/tmp/mine", "w").close()
    denied("chown", lambda: os.chown("/tmp/mine", 1, 1))
    denied("setuid", lambda: os.setuid(1))
for d in ["/bin", "/usr/bin", "/sbin", "/usr/sbin"]:
    for name in os.listdir(d) if os.path.isdir(d) else []:
        path = os.path.join(d, name)
        try:
            if not os.stat(path).st_mode & 0o4000: continue
        except OSError:
            continue
        r, w = os.pipe()
        p = subprocess.Popen([path], stdin=r, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(0.05)
        for l in open("/proc/%d/status" % p.pid):
            if l.startswith("Uid:") and set(l.split()[1:]) != {str(uid)}: print(path, "runs with", l)
        p.kill(); p.wait()
        os.close(r); os.close(w)
`

const probeRoot = `
for p in ["/x", "/etc/x", "/usr/bin/x", "/etc/passwd", "/var/tmp/x", "/root/x"]:
    denied(p, lambda: write(p), errno.EROFS, errno.EACCES, errno.EPERM)
for l in open("/proc/self/mountinfo"):
    f = l.split()
    if f[4] == "/" and "ro" not in f[5].split(","): print("the root is mounted", f[5])
    if f[4] == "/tmp" and not {"nosuid", "nodev"} <= set(f[5].split(",")): print("/tmp is mounted", f[5])
with open("/tmp/tool", "w") as f: f.write("#!/bin/sh\nexit 7\n")
os.chmod("/tmp/tool", 0o755)
if subprocess.run(["/tmp/tool"]).returncode != 7: print("/tmp runs nothing")
`

const probeProcesses = `
if os.getpid() != 1: print("the command is process", os.getpid())
pids = [p for p in os.listdir("/proc") if p.isdigit()]
if pids != ["1"]: print("there are processes", pids)
if b"denied" not in open("/proc/1/cmdline", "rb").read(): print("process 1 is another")
if os.stat("/proc/1/root/etc").st_ino != os.stat("/etc").st_ino: print("process 1 has another root")
with open("/proc/1/environ") as f:
    for v in f.read().split("\0"):
        if v and v.split("=")[0] not in ("HOME", "PATH", "HOSTNAME", "PWD", "LANG", "GPG_KEY") and not v.startswith("PYTHON"): print(v)
`

const probeEngine = `
for p in ["/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock", "/host"]:
    if os.path.exists(p): print(p)
for l in open("/proc/net/unix").readlines()[1:]:
    print("a socket shows:", l)
devices = set(os.listdir("/dev")) - {"core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"}
if devices: print("devices", devices)
for p in ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware/dmi/tables/DMI"]:
    try:
        with open(p, "rb") as f:
            if f.read(1): print(p, "can be read")
    except OSError:
        pass
`

const probeTmpfs = `
for d, limit in [("/tmp", 16 << 20), ("/dev/shm", 64 << 20)]:
    n = 0
    try:
        with open(d + "/fill", "wb", buffering=0) as f:
            while n <= limit: n += f.write(b"x" * 65536)
    except OSError as e:
        if e.errno != errno.ENOSPC: print(d, e)
    os.unlink(d + "/fill")
    if n > limit: print(d, "takes", n, "bytes")
`

// probeTracing reports whether it can attach to its own child.
const probeTracing = `
import ctypes, os, signal
child = os.fork()
if child == 0:
    signal.pause()
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
if libc.ptrace(0x4206, child, 0, 0) == 0: print("traced")  # PTRACE_SEIZE
os.kill(child, 9)
os.waitpid(child, 0)
`

// probeForkBomb makes processes until it can make no more.
const probeForkBomb = `
import os, sys, time
try:
    while True:
        if os.fork() == 0:
            time.sleep(600); os._exit(0)
except OSError:
    pass
`

// lockable are files that every sandbox has. Some can be the same one.
const lockable = `
import os, sys
lockable = ["/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/passwd", sys.executable, "/", "/dev", "/dev/shm", "/dev/mqueue", "/dev/pts",
    "/proc/cpuinfo", "/proc/sys/kernel/hostname", "/proc/acpi", "/proc/scsi", "/sys", "/sys/kernel"] + globals().get("devices", [])
lockable = [p for p in lockable if os.access(p, os.R_OK)]
`

// probeDevices makes probeNeighbour and probeNeighbourSearch, which follow it, also use devices, and
// files that are hidden behind one.
const probeDevices = `
devices = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/pts/ptmx", "/proc/interrupts", "/proc/keys", "/proc/timer_list"]
`

// probeNeighbour leaves traces in every place that two sandboxes could share.
const probeNeighbour = lockable + `
import fcntl, os, socket, time
for d in ["/tmp", "/dev/shm"]: open(d + "/note", "w").close()
s = socket.socket(socket.AF_UNIX); s.bind("\0note"); s.listen()
t = socket.socket(); t.bind(("127.0.0.1", 7007)); t.listen()
locks = [os.open(p, os.O_RDONLY | os.O_NOCTTY) for p in lockable]
for f in locks:
    try: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError: pass
print("ready", flush=True)
`

// probeNeighbourSearch looks for the traces of probeNeighbour.
const probeNeighbourSearch = denied + lockable + `
import fcntl
for p in lockable:
    fd = os.open(p, os.O_RDONLY | os.O_NOCTTY)
    try: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as e: print("a lock on", p, "shows:", e)
    os.close(fd)
for d in ["/tmp", "/dev/shm", "/dev/mqueue"]:
    if os.listdir(d): print(d, os.listdir(d))
denied("an abstract socket", lambda: socket.socket(socket.AF_UNIX).connect("\0note"), errno.ECONNREFUSED)
denied("a local port", lambda: socket.socket().connect(("127.0.0.1", 7007)), errno.ECONNREFUSED)
if len(open("/proc/sysvipc/shm").readlines()) > 1: print("shared memory shows")
`

// probeHostSearch looks for the strings of its arguments wherever the kernel could
// reveal the host.
const probeHostSearch = `
import sys
for p in ["mountinfo", "mounts", "environ", "cgroup"]:
    text = open("/proc/self/" + p).read()
    for word in sys.argv[1:]:
        if word in text: print(p, "names", word)
`
