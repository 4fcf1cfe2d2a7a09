# The server of the test box. It serves row after row, each in a child that may be
# hostile: tests can run what a candidate gave them. So a child has a user and
# pipes of its own before it reads its request. The server passes bytes between
# these pipes and the parent, wrapped so that a child's output cannot be taken for
# the server's, and removes what a row leaves.
#
# No byte of a row may stay in the server's memory, which later children inherit:
# it passes through two buffers that are overwritten.

import gc
import select
import signal

FOLDER = "securebench-row"  # where a row begins; tests make no such name
ROW, DATA, DONE, GREETING = b"RDXG"  # kinds of frames
HEAD = 5  # bytes in front of a frame's content: its length and its kind
CHUNK = 64 << 10
BLANK = bytes(CHUNK)
TICK = 20  # milliseconds between checks of a silent child

# Users that no image has. Each serves one row; the server ends before one would
# serve again.
FIRST_USER, LAST_USER = 40_000, 59_999

PR_SET_DUMPABLE, PR_CAPBSET_READ, PR_CAPBSET_DROP = 4, 23, 24
CAPABILITIES_3 = 0x20080522
CAPABILITIES = 1 << 5 | 1 << 6 | 1 << 7  # KILL, SETGID, SETUID


def load_libc():
    """The C library, for calls that Python lacks, or None."""
    try:
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
        libc.capset.argtypes = [ctypes.c_char_p] * 2
        return libc
    except (ImportError, OSError, AttributeError):
        return None  # Debian's minimal Python has no ctypes


def harden(libc):
    """Keeps the capabilities that the server needs, drops all others from every
    set, and makes the process non-dumpable. The bounding set needs SETPCAP to
    shrink, so it shrinks before there is a child."""
    for number in range(64):
        held = libc.prctl(PR_CAPBSET_READ, number, 0, 0, 0)
        if held > 0 and libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0):
            raise PermissionError
    header = pack("=2I", CAPABILITIES_3, 0)
    if libc.capset(header, pack("=6I", CAPABILITIES, CAPABILITIES, 0, 0, 0, 0)):
        raise PermissionError
    if libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0):
        raise PermissionError


def leave(user, libc):
    """Becomes a user without capabilities: they go with the last user id that is
    root's."""
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    if libc is not None:
        libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # its own memory is its own


def unprivileged():
    with open("/proc/self/status") as f:
        held = [line.split()[1] for line in f if line.startswith("Cap")]
    return len(held) >= 5 and not any(int(h, 16) for h in held)


def reaches(pid):
    """Whether this process can signal, inspect or change another."""
    tries = (lambda: os.kill(pid, 0), lambda: os.listdir("/proc/%d/fd" % pid),
             lambda: os.close(os.open("/proc/%d/mem" % pid, os.O_RDWR)))
    for one in tries:
        try:
            one()
            return True
        except PermissionError:
            pass
    return False


def isolate(libc):
    """Puts the server out of reach of rows, and returns whether it is: it tries to
    reach it as a row would."""
    if libc is None or os.getpid() != 1:  # only the first process can kill all others
        return False
    try:
        harden(libc)
        pid = os.fork()
        if pid == 0:
            try:
                leave(FIRST_USER, libc)
                os._exit(0 if unprivileged() and not reaches(1) else 1)
            except BaseException:
                os._exit(1)
        return os.waitpid(pid, 0)[1] == 0
    except OSError:
        return False


def child(channel):
    os.dup2(0, 2)  # what tests print is discarded
    os.dup2(0, 1)
    request = Decoder(channel.receive())
    request.open()
    memory, seconds = request.only(int), request.only(int)
    limit(memory, seconds)
    prompt, tests, names, handles, mutates, seed = request.value()
    request.end()
    del request
    random.seed(seed)
    os.makedirs(FOLDER, exist_ok=True)
    os.chdir(FOLDER)
    row = Row(channel, handles, mutates)
    verdict, detail = run(row, prompt, tests, names)
    channel.send(message(text("verdict"), text(verdict), text(detail),
                         Encoder().value(row.answers)))


def clear(pid):
    """Kills whatever the child has left behind."""
    try:
        if os.getpid() == 1:
            os.kill(-1, signal.SIGKILL)  # all other processes of the sandbox
        else:
            os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass
    try:
        while os.waitpid(-1, 0 if os.getpid() == 1 else os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def empty(root):
    """Empties a folder without following links. Nested folders move to the top
    first, so any depth works."""
    while True:
        try:
            entries = list(os.scandir(root))
        except FileNotFoundError:
            return
        if not entries:
            return
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)
                continue
            os.chmod(entry.path, 0o700)
            for inner in list(os.scandir(entry.path)):
                if inner.is_dir(follow_symlinks=False):
                    os.chmod(inner.path, 0o700)
                    os.rename(inner.path, os.path.join(root, os.urandom(16).hex()))
                else:
                    os.unlink(inner.path)
            os.rmdir(entry.path)


def clear_top(root):
    """Removes what the owner of a folder may remove from it, and returns whether
    the folder is empty."""
    try:
        entries = list(os.scandir(root))
    except FileNotFoundError:
        return True
    except OSError:
        return False
    left = False
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                os.rmdir(entry.path)
            else:
                os.unlink(entry.path)
        except OSError:
            left = True
    return not left


def shared():
    """The System V objects, which would outlive a row."""
    found = set()
    for kind in ("shm", "sem", "msg"):
        try:
            with open("/proc/sysvipc/" + kind) as f:
                found.update((kind, *line.split()[:2]) for line in f)
        except OSError:
            pass  # the kernel has none
    return found


def writable():
    """The world-writable file systems of the sandbox: an image can declare more
    than the usual ones. None if the root is writable, as outside a sandbox."""
    found = []
    try:
        with open("/proc/self/mountinfo") as f:
            mounts = [line.split()[4:6] for line in f]
        for place, options in mounts:
            place = place.encode().decode("unicode_escape")
            if options.split(",")[0] != "rw":
                continue
            if place == "/":
                return []
            mode = os.stat(place).st_mode
            if mode & 0o40002 == 0o40002:  # a folder that everyone may write to
                found.append(place)
    except (OSError, ValueError):
        pass  # the usual ones are on the command line
    return found


class Server:
    """Serves rows over a channel to the parent."""

    def __init__(self, channel, scratch):
        self.channel = channel
        self.libc = load_libc()
        self.isolated = isolate(self.libc)
        self.scratch = sorted({*scratch, *(writable() if "/tmp" in scratch else ())})
        self.before = shared()
        self.user = FIRST_USER
        self.left = 0  # of the parent's frame that is being read
        self.down = memoryview(bytearray(CHUNK))
        self.up = memoryview(bytearray(HEAD + CHUNK))

    def serve(self):
        gc.freeze()
        self.send(GREETING, message(text("ready"), b"T" if self.isolated else b"F"))
        clean = True
        while clean:
            self.await_row()
            status = self.row()
            clean = self.restore()
            code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            self.send(DONE, message(text("done"), Encoder().value(code), Encoder().value(clean)))

    def send(self, kind, content):
        self.channel.send(b"%c" % kind + content)

    def head(self):
        """Reads the header of a frame and returns its kind."""
        head = self.channel.exactly(HEAD)
        self.left = int.from_bytes(head[:4], "big") - 1
        return head[4]

    def await_row(self):
        """Waits for the request for a child. What comes before it was meant for the
        previous one."""
        while self.left or self.head() != ROW:
            while self.left:
                self.take()

    def take(self):
        """Reads a part of the frame's content."""
        n = os.readv(self.channel.source, [self.down[:min(self.left, CHUNK)]])
        if n == 0:
            os._exit(1)  # the parent has gone
        self.left -= n
        return self.down[:n]

    def row(self):
        """Runs a child and returns its status once all its processes are dead."""
        self.down[:] = BLANK
        self.up[HEAD:] = BLANK
        requests, into = os.pipe()
        out, answers = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.setsid()
                for fd in (self.channel.source, self.channel.sink, into, out):
                    os.close(fd)
                self.become_row()
                child(Channel(requests, answers))
                os._exit(0)
            except BaseException:
                os._exit(70)
        os.close(requests)
        os.close(answers)
        status = self.relay(pid, into, out)
        clear(pid)
        os.close(into)
        while select.select([out], [], [], 0)[0] and self.pass_up(out):
            pass
        os.close(out)
        return status

    def become_row(self):
        try:
            leave(self.user, self.libc)
        except OSError:
            if self.isolated:
                raise

    def relay(self, pid, into, out):
        """Passes bytes between the parent and a child until the child has ended,
        whoever else holds its pipes. Neither side can block the other."""
        source, waiting = self.channel.source, b""
        os.set_blocking(into, False)
        while True:
            writers = [into] if waiting else []
            readers = [out] if waiting else [out, source]
            readable, ready, _ = select.select(readers, writers, [], TICK / 1000)
            if out in readable and not self.pass_up(out):
                return os.waitpid(pid, 0)[1]
            if source in readable:
                if self.left == 0 and self.head() != DATA:
                    os._exit(1)  # not the protocol
                waiting = self.take()
                ready = [into]
            if ready and waiting:
                waiting = pass_down(into, waiting)
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return status

    def pass_up(self, out):
        """Passes some bytes of a child to the parent, and returns whether there can
        be more."""
        n = os.readv(out, [self.up[HEAD:]])
        if n == 0:
            return False
        self.up[:HEAD] = (n + 1).to_bytes(4, "big") + b"%c" % DATA
        rest = self.up[:HEAD + n]
        while rest:
            rest = rest[os.write(self.channel.sink, rest):]
        return True

    def restore(self):
        """Restores the sandbox, and returns whether it is as before the row and
        there is a user for another one."""
        if not all([clear_top(root) for root in self.scratch]):
            self.clean_as_row()
        self.user += 1
        return (all([clear_top(root) for root in self.scratch]) and shared() <= self.before
                and self.user <= LAST_USER)

    def clean_as_row(self):
        """Removes what only the row's user may remove, in a process of that user."""
        pid = os.fork()
        if pid == 0:
            try:
                self.become_row()
                for root in self.scratch:
                    empty(root)
            finally:
                os._exit(0)
        os.waitpid(pid, 0)


def pass_down(into, waiting):
    """Passes bytes to a child and returns those that its pipe has no room for. A
    child that has closed its pipe gets none."""
    try:
        return waiting[os.write(into, waiting):]
    except BlockingIOError:
        return waiting
    except BrokenPipeError:
        return b""


# The arguments are the folders that a row can write to. Tests see no arguments.
places = sys.argv[1:]
del sys.argv[1:]
Server(private_channel(), places).serve()
