"""Search a sandbox for two values, and print where each was found.

The values are arguments, in hex with every bit pattern changed, so that the
command itself does not hold them. The first is the one that should be nowhere.
The second is put into an environment, an argument and files, to show that the
search finds what is there.
"""
import base64
import json
import os
import re
import subprocess
import sys

SKIPPED = {"/proc", "/sys", "/dev"}
WINDOW = 16 << 20


def decode(text):
    return bytes(b ^ 0x5A for b in bytes.fromhex(text))


def forms(value):
    out = {"plain": value, "reversed": value[::-1], "hex": value.hex().encode(), "upper-case hex": value.hex().upper().encode()}
    for name, encode in ("base64", base64.standard_b64encode), ("url-safe base64", base64.urlsafe_b64encode):
        for shift in range(3):
            text = encode(bytes(shift) + value)
            out["%s after %d bytes" % (name, shift)] = text[(8 * shift + 5) // 6:8 * (shift + len(value)) // 6]
    return out


needles = {"key": forms(decode(sys.argv[1])), "control": forms(decode(sys.argv[2]))}
found = {what: {} for what in needles}
seen = {}


def look(place, data):
    seen[place] = seen.get(place, 0) + 1
    for what, values in needles.items():
        for form, value in values.items():
            if value in data:
                found[what].setdefault(place, set()).add(form)


def contents(path, place, start=0, end=None):
    try:
        with open(path, "rb", 0) as f:
            f.seek(start)
            tail = b""
            while end is None or start < end:
                data = f.read(WINDOW if end is None else min(WINDOW, end - start))
                if not data:
                    break
                start += len(data)
                look(place, tail + data)
                tail = data[-256:]
    except (OSError, ValueError, OverflowError):
        pass


def memory(pid):
    try:
        maps = open("/proc/%s/maps" % pid).read()
    except OSError:
        return
    for start, end in re.findall(r"^([0-9a-f]+)-([0-9a-f]+) rw", maps, re.M):
        if int(end, 16) - int(start, 16) <= 1 << 30:
            contents("/proc/%s/mem" % pid, "memory", int(start, 16), int(end, 16))


plain = needles["control"]["plain"].decode()
os.environ["CONTROL"] = plain
child = subprocess.Popen(["sleep", "600"])
other = subprocess.Popen(["sh", "-c", "sleep 600; exit", needles["control"]["hex"].decode()])
for i, form in enumerate(needles["control"].values()):
    with open("/tmp/control-%d" % i, "wb") as f:
        f.write(b"before " + form + b" after")

look("environment", "\n".join(os.environ.values()).encode(errors="surrogateescape"))
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) == os.getpid():
        continue
    for name in "environ", "cmdline":
        contents("/proc/%s/%s" % (pid, name), name)
    if int(pid) not in (child.pid, other.pid):
        memory(pid)
for top, dirs, files in os.walk("/"):
    dirs[:] = [d for d in dirs if os.path.join(top, d) not in SKIPPED]
    for name in files:
        path = os.path.join(top, name)
        if os.path.isfile(path) and not os.path.islink(path):
            contents(path, "files")

for process in child, other:
    process.kill()
for i in range(len(needles["control"])):
    os.remove("/tmp/control-%d" % i)
report = {what: {place: sorted(forms) for place, forms in places.items()} for what, places in found.items()}
print("SEARCHED=" + base64.b16encode(json.dumps({"found": report, "seen": seen}).encode()).decode() + "=")
