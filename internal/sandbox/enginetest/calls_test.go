package enginetest_test

// tables is a program that makes system calls by the tables of both architectures that
// sandboxes run: call64 by that of x86-64, call32 by that of 32-bit x86, which every
// program can use. Memory that call32 names is in the first 4 GiB.
const tables = start + `
import errno, mmap, struct
if os.uname().machine != "x86_64": sys.exit()
low = lambda prot: mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40, prot)
address = lambda m: ctypes.addressof(ctypes.c_char.from_buffer(m))
code, memory, registers = low(7), low(3), low(3)
# It loads eax, ebx, ecx, edx, esi, edi and ebp from what rdi points to, and traps.
code.write(bytes.fromhex("53558b078b5f048b4f088b570c8b77108b6f188b7f14cd805d5b4898c3"))
trap = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_void_p)(address(code))
libc.syscall.restype = ctypes.c_long
def call64(nr, *args):
    r = libc.syscall(ctypes.c_long(nr), *[ctypes.c_ulong(a) for a in args])
    return -ctypes.get_errno() if r == -1 else r
def call32(nr, *args):
    registers[:28] = struct.pack("<7I", nr, *[a & 0xffffffff for a in args], *[0] * (6 - len(args)))
    return trap(address(registers))
def put(b):
    memory[:len(b)] = b
    return address(memory)
`

// muxes tries what other calls carry.
const muxes = tables + `
for family in range(64):
    for kind in 1, 2, 3, 5:
        for carried in 1, 8:
            if call32(102, carried, put(struct.pack("<4I", family, kind, 0, address(memory) + 64))) >= 0: print("PWN", family, kind, carried)
for nr, last in (102, 20), (117, 24):
    for carried in range(last + 1):
        for version in 0, 1:
            if call32(nr, version << 16 | carried, 0) != -errno.ENOSYS: print("PWN", nr, carried)
`

// families makes sockets of every family by every table and every writing of a number.
const families = tables + `
def makes(socket, pair):
    for family in range(256):
        for above in 0, 1 << 32, 1 << 63:
            for kind in 1, 2, 3, 5:
                protocols = range(0, 33) if family == 16 and kind != 1 else (0,)
                for protocol in protocols:
                    for more in (0, 1 << 32) if family == 16 else (0,):
                        fd = socket(family | above, kind, protocol | more)
                        if fd >= 0: os.close(fd)
                        inside = family in (1, 2, 10) or family == 16 and protocol in (0, 4)
                        if not inside and fd not in (-errno.EPERM, -errno.EAFNOSUPPORT, -errno.EPROTONOSUPPORT): print("PWN", family, kind, protocol, fd)
                r = pair(family | above, kind, 0, put(b""))
                if family not in (1, 2, 10) and r not in (-errno.EPERM, -errno.EAFNOSUPPORT): print("PWN pair", family, kind, r)
                if r >= 0: [os.close(fd) for fd in struct.unpack("<2i", memory[:8])]
makes(lambda *a: call64(41, *a), lambda *a: call64(53, *a))
makes(lambda *a: call32(359, *a), lambda *a: call32(360, *a))
`

// denied makes the calls that have no place in a sandbox, by both tables, and those
// that are newer than the profile (452 is fchmodat2).
const denied = tables + `
for name, numbers in {"_sysctl": (156, 149), "acct": (163, 51), "add_key": (248, 286), "afs_syscall": (183, 137), "bdflush": (0, 134),
        "bpf": (321, 357), "chroot": (161, 61), "clock_settime": (227, 264), "clone3": (435, 435), "create_module": (174, 127),
        "delete_module": (176, 129), "fanotify_init": (300, 338), "fanotify_mark": (301, 339), "finit_module": (313, 350), "fsconfig": (431, 431),
        "fsmount": (432, 432), "fsopen": (430, 430), "fspick": (433, 433), "get_mempolicy": (239, 275), "init_module": (175, 128),
        "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "io_uring_setup": (425, 425), "ioperm": (173, 101), "iopl": (172, 110),
        "kcmp": (312, 349), "kexec_file_load": (320, 0), "kexec_load": (246, 283), "keyctl": (250, 288), "lookup_dcookie": (212, 253),
        "mbind": (237, 274), "memfd_secret": (447, 447), "migrate_pages": (256, 294), "mount": (165, 21), "mount_setattr": (442, 442),
        "move_mount": (429, 429), "move_pages": (279, 317), "name_to_handle_at": (303, 341), "nfsservctl": (180, 169), "open_by_handle_at": (304, 342),
        "open_tree": (428, 428), "perf_event_open": (298, 336), "pidfd_getfd": (438, 438), "pivot_root": (155, 217), "process_madvise": (440, 440),
        "process_vm_readv": (310, 347), "process_vm_writev": (311, 348), "query_module": (178, 167), "quotactl": (179, 131), "quotactl_fd": (443, 443),
        "reboot": (169, 88), "request_key": (249, 287), "set_mempolicy": (238, 276), "set_mempolicy_home_node": (450, 450),
        "setdomainname": (171, 121), "sethostname": (170, 74), "setns": (308, 346), "settimeofday": (164, 79), "stime": (0, 25), "swapoff": (168, 115),
        "swapon": (167, 87), "sysfs": (139, 135), "syslog": (103, 103), "umount": (0, 22), "umount2": (166, 52), "unshare": (272, 310),
        "uselib": (134, 86), "userfaultfd": (323, 374), "ustat": (136, 62), "vhangup": (153, 111), "vm86": (0, 166), "vm86old": (0, 113),
        **{str(n): (n, n) for n in range(451, 548) if n != 452}}.items():
    for call, nr in zip((call64, call32), numbers):
        r = call(nr, 0, 0, 0, 0, 0, 0) if nr else -1
        if r not in (-errno.EPERM, -errno.ENOSYS): print("PWN", name, nr, call.__name__, r)
for call, nr in (call64, 56), (call32, 120):
    for space in range(7, 32):
        if 1 << space & 0x7e020000 and call(nr, 1 << space | 17, 0, 0, 0, 0) != -errno.EPERM: os.write(1, b"PWN namespace"); os._exit(0)
`

// x32 makes calls by the table that no program uses. Each ends its process.
const x32 = start + `
if os.uname().machine != "x86_64": sys.exit()
for nr in list(range(0, 548, 7)) + [41, 53, 425, 520, 547]:
    pid = os.fork()
    if pid == 0:
        libc.syscall(ctypes.c_long(0x40000000 | nr), -1, 0, 0, 0, 0, 0)
        os._exit(0)
    if os.WTERMSIG(os.waitpid(pid, 0)[1]) != 31: print("PWN", nr)
`

// honest32 is a program of 32-bit x86 that speaks to itself over loopback, as one with
// musl does: by calls that are not carried by others. One that asks for a carried call
// first, as glibc does, is told that there is none.
const honest32 = tables + `
server = call32(359, 2, 1, 0)
assert server >= 0 and call32(361, server, put(struct.pack("=HH4s8x", 2, 0, bytes((127, 0, 0, 1)))), 16) == 0 and call32(363, server, 1) == 0
put(bytes(16)); size = put(bytes(16) + struct.pack("<I", 16)) + 16
assert call32(367, server, size - 16, size) == 0
client = call32(359, 2, 1, 0)
assert call32(362, client, size - 16, 16) == 0
peer = call32(364, server, 0, 0, 0)
put(b"question" + bytes(24)); at = address(memory)
assert peer >= 0 and call32(4, client, at, 8) == 8 and call32(3, peer, at + 16, 16) == 8 and memory[16:24] == b"question"
assert call32(360, 1, 1, 0, put(bytes(8))) == 0
assert call32(395, 0, 4096, 0o1600) >= 0
assert call32(102, 1, put(struct.pack("<3I", 2, 1, 0))) == -errno.ENOSYS
sys.exit(7)
`
