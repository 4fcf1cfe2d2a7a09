# An agent that has the token of the one beside it, and looks for its relay.
begun = meets("begin")
other = re.search(rb"token (\S+?)[\"\\ ]", says("hear"))
other = other[1].decode() if other else ""
if not other or other == TOKEN: begun = False
tried("N23", "another token", b"hello from" in ask(request(body(), token=other)))
def abstract():
    with open("/proc/net/unix") as f: return "@securebench" in f.read()
tried("N23", "abstract sockets", can(abstract))
tried("N23", "shared memory", os.path.exists("/dev/shm/securebench-keeper"))
def listening():
    with open("/proc/net/tcp") as f: return {int(line.split()[1].split(":")[1], 16) for line in f.readlines()[1:] if line.split()[3] == "0A"}
tried("N23", "ports", listening() - {61081} != set())
def stream(n):
    def opens():
        with open("/proc/1/fd/%d" % n, "wb" if n else "rb"): return True
    return opens
for n in 0, 1, 2: tried("N23", "stream %d of init" % n, can(stream(n)))
if begun and meets("end"): print("HONEST")
print("wrong")
