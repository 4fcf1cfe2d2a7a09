package contract

// probeService answers on loopback for ever.
const probeService = `
import os, socket
s = socket.create_server(("127.0.0.1", 7777))
open("/tmp/own", "w").close()
print("ready", flush=True)
while True:
    c, _ = s.accept()
    c.sendall(b"hello")
    c.close()
`

// probePeer prints what it reaches of a service: its answers, and then what must
// stay out of reach, though its user is the same.
const probePeer = `
import os, socket
def ask():
    try:
        return socket.create_connection(("127.0.0.1", 7777), 30).recv(99).decode()
    except OSError:
        return "nothing"
print(ask())
if os.path.exists("/tmp/own"): print("its files")
others = [p for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()]
if others: print("its processes", others)
try:
    os.kill(-1, 9)
    print("its processes, by a signal to all")
except OSError:
    pass
print(ask())
`
