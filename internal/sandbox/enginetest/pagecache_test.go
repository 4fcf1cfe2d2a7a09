package enginetest_test

// cachedPages is a program that has the pages of a file of the image in memory, and
// calls to ask for them and to drop them, by the tables of both architectures. fetched
// counts the bytes that came from the disk, which no filter hides.
const cachedPages = tables + `
import sysconfig
path = max((os.path.join(d, f) for d, _, files in os.walk(sysconfig.get_paths()["stdlib"]) for f in files if not os.path.islink(os.path.join(d, f))), key=os.path.getsize)
fd, size = os.open(path, os.O_RDONLY), os.path.getsize(path) & -4096
address32 = call32(192, 0, size, 1, 1, fd, 0) # mmap2
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
address64 = libc.mmap(None, size, 1, 1, fd, 0)
assert size > 1 << 16 and address64 > 0 and address32 != -1
address32 &= 0xffffffff
def load(): os.pread(fd, size, 0)
def fetched(): return int(open("/proc/self/io").read().split("read_bytes: ")[1].split()[0])
large, small = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), low(3)
vector64 = struct.pack("<2Q", address(large), size)
answer = address(small)
load()
`

// askPages asks which pages of a layer are in memory.
const askPages = cachedPages + `
def asks(name, r):
    if r >= 0: print("PWN", name)
asks("mincore", call64(27, address64, size, address(large)))
asks("mincore of 32 bits", call32(218, address32, 4096, answer))
asks("cachestat", call64(451, fd, put(struct.pack("<2Q", 0, size)), answer, 0))
asks("cachestat of 32 bits", call32(451, fd, put(struct.pack("<2Q", 0, size)), answer, 0))
for above in 0, 1 << 32, 1 << 63:
    for flags in 0x08, 0x09, 0x48:
        if call64(327, fd, put(vector64), 1, 0, 0, flags | above) not in (-errno.EOPNOTSUPP, -errno.EPERM): print("PWN preadv2", flags)
        if call32(378, fd, put(struct.pack("<2I", answer, 8)), 1, 0, 0, flags) not in (-errno.EOPNOTSUPP, -errno.EPERM): print("PWN preadv2 of 32 bits", flags)
asks("aio", call64(206, 1, put(bytes(8))))
asks("aio of 32 bits", call32(245, 1, put(bytes(8))))
`

// dropPages drops pages of a layer from memory. What comes from the disk again was
// gone; if once only, a machine short of memory may have dropped it.
const dropPages = cachedPages + `
def dropped(mapped, tries):
    load()
    for at in address64, address32: call64(28, at, size, 4) # nobody maps them
    if mapped: ctypes.string_at(mapped, size)
    before = fetched()
    for t in tries: t()
    load()
    return fetched() != before
def drops(name, mapped, *tries):
    if all(dropped(mapped, tries) for _ in range(3)): print("PWN", name)
for above in 0, 1 << 32, 1 << 63:
    drops("fadvise", 0, lambda: call64(221, fd | above, 0, size, 4 | above))
    drops("pageout", address64, lambda: call64(28, address64, size, 20 | above), lambda: call64(28, address64, size, 21 | above))
drops("fadvise of 32 bits", 0, lambda: call32(250, fd, 0, 0, 0, 4))
drops("fadvise64 of 32 bits", 0, lambda: call32(272, fd, 0, 0, 0, 0, 4))
drops("pageout of 32 bits", address32, lambda: call32(219, address32, size, 21))
for flags in 0x80, 0x88, 0x81:
    drops("reading past it", 0, lambda: call64(327, fd, put(vector64), 1, 0, 0, flags), lambda: call32(378, fd, put(struct.pack("<2I", answer, 4096)), 1, 0, 0, flags))
`

// honestPages is what databases and tools say about their pages.
const honestPages = start + `
import mmap
with open("/tmp/f", "wb+") as f:
    f.write(b"x" * 65536); f.flush()
    for advice in range(6): os.posix_fadvise(f.fileno(), 0, 65536, advice)
    libc.sync_file_range(f.fileno(), ctypes.c_long(0), ctypes.c_long(65536), 7)
    libc.readahead(f.fileno(), ctypes.c_long(0), ctypes.c_long(65536))
    room = [bytearray(8)]
    assert os.preadv(f.fileno(), room, 0) == 8 and os.preadv(f.fileno(), room, 8, os.RWF_HIPRI) == 8 and os.pwritev(f.fileno(), room, 0, os.RWF_DSYNC) == 8
    try: os.preadv(f.fileno(), room, 0, os.RWF_NOWAIT)
    except OSError as e: assert e.errno == 95
    m = mmap.mmap(f.fileno(), 65536)
    for advice in (0, 1, 2, 3, 4, 14, 15, 16, 17, 20, 21): m.madvise(advice)
    assert m[65535] == ord("x")
m = mmap.mmap(-1, 1 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
m.write(b"x" * (1 << 20))
for advice in (8, 10, 11, 14, 20, 21, 22, 23): m.madvise(advice)
m.madvise(4)
assert m[0] == 0
sys.exit(7)
`
