#!/usr/bin/env python3
"""Checks a published run of securebench without securebench: verify.py RUN (--key PUB.pem | --any-signer)

A second implementation of "securebench verify", written from docs/evidence.md and the pages that it names, so that
nobody has to trust one program. It needs Python 3.9 and nothing else. RUN is the public part of a run's directory, or
a bundle. Each problem is a line, "file:line: what". The exit code is 13 if anything is wrong, and 2 if RUN is no run."""
import argparse, base64, hashlib, itertools, json, os, re, stat, struct, sys, tarfile, zipfile, zlib
try:
    from .ed25519 import signed
except ImportError:  # run as a file
    from ed25519 import signed

MiB, BUNDLE, LINES = 1 << 20, "securebench-run/", "candidates.jsonl"
FILES = (LINES, "run.json", "statement.dsse.json", "agent-trace.log")
TYPES = ("application/vnd.in-toto+json", "https://in-toto.io/Statement/v1", "urn:securebench:run:v1")
DER = bytes.fromhex("302a300506032b6570032100")  # before the 32 bytes of a public key

sha = lambda data: "sha256:" + hashlib.sha256(data).hexdigest()
shown = lambda e: [e[k] for k in ("candidate_text", "candidate_patch", "candidate_workspace") if e[k] is not None]

def fail(what):
    raise ValueError(what)

def form(text, **parts):  # a table of fields: NAME:TYPE, NAME?:TYPE for one that may be absent
    return {name.rstrip("?"): (name.endswith("?"), parts.get(kind, kind)) for name, kind in (f.split(":") for f in text.split())}

PLANNED, COUNTS = form("tasks:i attempts:i left_out?:i judged?:i"), form("passed:i failed:i pending:i infrastructure:i")
BOUND = form("manifest:s public:s config:s pack:s assets:s verifier:s")
RECORD = form("""agent:s attempt:i basis?:s benchmark_id:s candidate_patch:t candidate_text:t candidate_workspace:t containment:s digests:D
    failure_message?:s failure_phase?:s failure_reason?:s hidden_values:s index:i judge?:J labels:S mac:s measure?:M outcome:s passed?:b prev:s
    producer_metadata:m producer_stderr:s producer_stdout:s resource_summary:V restricted:F retries:R run_id:s score?:n seq:i task_id:s task_type:s
    timings_ms:I usage:I verification_status:s verifier_metadata?:m verifier_stderr?:s verifier_stdout?:s workers?:W""",
    D=form("assets:s candidate?:s config:s extracted?:s image?:s pack:s row:s verifier:s"), M=form("name:s value:n"), S=["s"], I={"*": "i"},
    V=[form("bytes?:i digest?:s kind:s name:s redacted?:b value?:a visibility:s")], F=[form("bytes?:i digest:s path:s")],
    R=[form("candidate?:s error:s phase:s")], W=form("produce?:s verify?:s"),
    J=form("model:s api:s prompt_version:i votes:V passed_votes:i cost_microusd?:i", V=[form("passed:b met?:l stop?:s tokens:i prompt:s asked:i")]))
MANIFEST = form("""format:i run_id:s started:s agent:s pack:P planned:N selection?:m digests:B limits:m engine:a images:I labels:S programs?:l model?:s
    judge?:m schedule?:m version:s salt_sha256:s former_runs:i resumed_from:R shards?:m shard?:m workers?:W agents_failed?:b mac:s""",
    P=form("id:s version:i"), N=PLANNED, B=BOUND, I={"*": "s"}, S=["s"], R=[form("at:s records:s kept:i rerun:m digests:B", B=BOUND)],
    W=[form("id:s roles:S kernel?:s first:s last:s jobs:i", S=["s"])])
STATEMENT = form("_type:s subject:S predicateType:s predicate:P", S=[form("name:s digest:D", D={"*": "s"})], P=form("""run_id:s ended:s planned:N counts:C
    judged_counts?:C records:i merkle_root:s trace_bytes:i history:s public_key:s""", N=PLANNED, C=COUNTS))
ENVELOPE = form("payloadType:s payload:s signatures:S", S=[form("keyid:s sig:s")])

class Num(str): """A number as it was spelt."""

KINDS = {"s": lambda v: type(v) is str, "t": lambda v: v is None or type(v) is str, "b": lambda v: type(v) is bool, "n": lambda v: type(v) is Num,
         "i": lambda v: type(v) is Num and re.fullmatch("-?[0-9]+", v), "l": lambda v: type(v) is list, "m": lambda v: type(v) is dict, "a": lambda v: True}

def fits(v, spec, ordered):  # whether a value has a form, with its fields in the order of the form or in any
    if isinstance(spec, str):
        return KINDS[spec](v)
    if isinstance(spec, list):
        return type(v) is list and all(fits(x, spec[0], ordered) for x in v)
    if type(v) is not dict or "*" in spec:
        return type(v) is dict and all(fits(x, spec["*"], ordered) for x in v.values())
    there = [k for k in spec if k in v]
    return (len(there) == len(v) and all(optional or k in v for k, (optional, _) in spec.items()) and (not ordered or there == list(v))
            and all(fits(v[k], spec[k][1], ordered) for k in v))

def parse(raw, order=list):  # reads JSON strictly: no key twice, no half characters, no NaN
    pairs = lambda items: dict(order(items)) if len(dict(items)) == len(items) else fail("it has a key twice")
    value = json.loads(raw.decode(), object_pairs_hook=pairs, parse_int=Num, parse_float=Num, parse_constant=fail)
    json.dumps(value, ensure_ascii=False).encode()
    return value

def spell(v, canonical):  # as RFC 8785 does, or as in a record: in ASCII, with blanks, keys in their order
    text, colon, comma = lambda s: json.dumps(s, ensure_ascii=not canonical), ": "[:2 - canonical], ", "[:2 - canonical]
    if type(v) is Num and canonical:
        f = float(v)
        return str(int(f)) if f == int(f) and abs(f) < 1e21 else repr(f).replace("e-0", "e-")
    if type(v) is list:
        return "[" + comma.join(spell(x, canonical) for x in v) + "]"
    if type(v) is dict:
        keys = sorted(v, key=lambda k: k.encode("utf-16-be")) if canonical else v
        return "{" + comma.join(text(k) + colon + spell(v[k], canonical) for k in keys) + "}"
    return v if type(v) is Num else text(v)

def canonical(raw, spec):  # reads one line of canonical JSON
    value = parse(raw)
    return value if fits(value, spec, False) and (spell(value, True) + "\n").encode() == raw else fail("it is not in its canonical form")

def decode(raw, order=list):  # reads a record, which has one spelling, or with sorted keys what a tool spelt anew
    e = parse(raw.removeprefix(b"\xef\xbb\xbf") if order is sorted else raw, order)
    raw = spell(e, False).encode() if order is sorted else raw
    whole = lambda *names: len({n in e for n in names}) == 1
    return (e, raw) if (fits(e, RECORD, True) and spell(e, False).encode() == raw and e["hidden_values"] == "<redacted>" and len(shown(e)) <= 1
            and whole("failure_message", "failure_phase", "failure_reason") and whole("verifier_metadata", "verifier_stderr", "verifier_stdout")
            and ("passed" in e) == ("score" in e) == (e["verification_status"] != "pending") and e.get("basis", "computed") in ("computed", "judged")
            and e.get("score") == {None: None, True: "1.0", False: "0.0"}[e.get("passed")]) else fail("not a record in canonical form")

def merkle(leaves):  # the root of the tree over leaves: RFC 6962, 2.1
    if len(leaves) < 2:
        return leaves[0] if leaves else hashlib.sha256().digest()
    k = 1 << (len(leaves) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + merkle(leaves[:k]) + merkle(leaves[k:])).digest()

def strict64(text):
    raw = base64.b64decode(text)
    return raw if base64.b64encode(raw).decode() == text else fail("it has base64 in another spelling")

def read_pem(text):  # the 32 bytes of a public key
    key = base64.b64decode("".join(text.split("\n")[1:2]))[12:]
    whole = "-----BEGIN PUBLIC KEY-----\n" + base64.b64encode(DER + key).decode() + "\n-----END PUBLIC KEY-----\n"
    return key if text == whole and len(key) == 32 else fail('want one Ed25519 public key in PEM, as "securebench key export" writes it')

def open_statement(raw):  # the statement in an envelope, and the id of the key that signed it
    env = canonical(raw[:MiB], ENVELOPE)
    payload = strict64(env["payload"])
    s = canonical(payload + b"\n", STATEMENT)
    key, pae = read_pem(s["predicate"]["public_key"]), b"DSSEv1 %d %s %d %s" % (len(TYPES[0]), TYPES[0].encode(), len(payload), payload)
    if (env["payloadType"], s["_type"], s["predicateType"]) != TYPES or [x["keyid"] for x in env["signatures"]] != [sha(DER + key)]:
        fail("it is of another type, or does not have one signature by its key")
    return (s, sha(DER + key)) if signed(key, pae, strict64(env["signatures"][0]["sig"])) else fail("its signature is wrong")

def tree(f):  # the digest of a tree in its canonical archive (docs/trees.md), None for anything else
    out, last, beside, end = hashlib.sha256(b"securebench tree 2\n"), [], False, 0
    try:
        for m in tarfile.open(fileobj=f, mode="r:"):
            parts, gone, content = m.name.split("/"), m.pax_headers.get("SECUREBENCH.deleted") == "1", hashlib.sha256()
            f.seek(end)
            if f.read(m.offset_data - end) != header(m, gone) or m.mode > 0o777 or "\\" in m.name or set(parts) & {"", ".", ".."}:
                return None
            if last >= parts or beside and parts[:len(last)] == last:
                return None
            for at in range(0, m.size, MiB):
                content.update(f.read(min(MiB, m.size - at)))
            last, beside, end = parts, m.type != b"5", f.tell() if f.read(-m.size % 512).strip(b"\0") == b"" else fail("something hides")
            kind = "x" if gone else {b"0": "f", b"5": "d", b"2": "l"}[m.type]
            digest = "sha256:" + content.hexdigest() if kind == "f" else "-"
            out.update(f"{kind} {m.mode:04o} {m.uid} {m.gid} {digest}\0{m.name}\0{m.linkname}\0\n".encode())
        f.seek(end)
        return "sha256:" + out.hexdigest() if f.read(1025) == bytes(1024) else None
    except (tarfile.TarError, ValueError, LookupError):
        return None

def header(m, gone):  # the canonical header of an entry of a tree
    plain = lambda s: s.encode("ascii", "ignore")
    def block(name, numbers, kind, target="", devices=b"", prefix=""):
        numbers = b"".join(b"%0*o\0" % (w, n if n < 8**w else 0) for n, w in zip(numbers, (7, 7, 7, 11, 11)))
        b = (plain(name)[:100].ljust(100, b"\0") + numbers + b" " * 8 + kind + plain(target)[:100].ljust(100, b"\0") + b"ustar\00000" + bytes(64)
             + devices.ljust(16, b"\0") + prefix.encode().ljust(167, b"\0"))
        return b[:148] + b"%06o\0 " % sum(b) + b[156:]
    name, devices = m.name + "/" * (m.type == b"5"), b"0000000\0" * 2
    more = {k: s for k, s in (("path", name), ("linkpath", m.linkname)) if len(s.encode()) > 100 or not s.isascii()}
    more.update({k: str(n) for k, n, w in (("uid", m.uid, 7), ("gid", m.gid, 7), ("size", m.size, 11)) if n >= 8**w})
    rest, at = ((m.mode, m.uid, m.gid, m.size, 0), m.type, m.linkname, devices), name.rfind("/", 0, min(156, len(name) - name.endswith("/")))
    if not gone and (not more or set(more) == {"path"} and name.isascii() and 0 < at and 0 < len(name) - at - 1 <= 100):
        return block(name[at + 1:], *rest, name[:at]) if more else block(name, *rest)
    pax = b""
    for key, value in sorted({**more, **({"SECUREBENCH.deleted": "1"} if gone else {})}.items()):
        body = f" {key}={value}\n".encode()
        pax += next(b"%d%s" % (n, body) for n in range(len(body), len(body) + 9) if n == len(body) + len(str(n)))
    folder, _, base = name.rpartition("/")
    own, short = (plain(s)[:100].decode() for s in ("/".join(x for x in (folder, "PaxHeaders.0", base) if x), name))
    short = short.rstrip("/") if len(plain(name)) > 100 else short
    return block(own.rstrip("/"), (0, 0, 0, len(pax), 0), b"x") + pax + bytes(-len(pax) % 512) + block(short, *rest)

def excerpt(data):  # what a record shows of a text: all of it, or its beginning and its end
    text = data.decode("utf-8", "surrogateescape")
    if len(data) <= 64 << 10 and not re.search("[\udc80-\udcff]", text):
        return text
    parts = [rb"\x%02x" % (ord(c) - 0xdc00) if "\udc80" <= c <= "\udcff" else c.encode() for c in text]
    fill = lambda parts, room: sum(1 for _ in itertools.takewhile(room.__ge__, itertools.accumulate(map(len, parts))))
    if len(data) <= 8192 and fill(parts, 8192) == len(parts):
        return b"".join(parts).decode()
    note = b"\n[cut: %d bytes in all, %s]\n" % (len(data), sha(data).encode())
    n = fill(parts, 8192 - len(note) - (8192 - len(note)) // 4)
    m = fill(reversed(parts[n:]), (8192 - len(note)) // 4)
    return (b"".join(parts[:n]) + note + b"".join(parts[len(parts) - m:])).decode()

class Folder:  # the public part of a run's directory; no link is followed
    def __init__(self, path):
        self.path, self.kinds = path, {}
        for folder in ("", "candidates/"):
            for e in os.scandir(os.path.join(path, folder)) if not folder or self.kinds.get("candidates") == "d" else ():
                mode = e.stat(follow_symlinks=False).st_mode
                self.kinds[folder + e.name] = "f" if stat.S_ISREG(mode) else "d" if stat.S_ISDIR(mode) else "?"
        self.open = lambda name: open(os.open(os.path.join(path, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
        self.same = lambda: True

class Bundle:  # which is byte for byte the one that its files give
    def __init__(self, path):
        self.path, z = path, zipfile.ZipFile(path)
        self.names = sorted(i.filename[len(BUNDLE):] for i in z.infolist() if i.filename.startswith(BUNDLE) and i.compress_type == 0)
        self.kinds = {**{name.split("/")[0]: "d" for name in self.names}, **dict.fromkeys(self.names, "f")}
        self.open = lambda name: z.open(BUNDLE + name)

    def same(self):
        with open(self.path, "rb") as f:
            return all(f.read(len(part)) == part for part in self.parts()) and not f.read(1)
    def parts(self):
        directory, at, stamp, n = b"", 0, struct.pack("<HHBI", 0x5455, 5, 1, 315532800), len(self.names)
        for name in self.names:
            head, size, crc = (BUNDLE + name).encode(), 0, 0
            flags = 8 if head.isascii() else 0x808
            yield struct.pack("<IHHHHHIIIHH", 0x04034b50, 20, flags, 0, 0, 33, 0, 0, 0, len(head), 9) + head + stamp
            with self.open(name) as f:
                for data in iter(lambda: f.read(MiB), b""):
                    size, crc = size + len(data), zlib.crc32(data, crc)
                    yield data
            yield struct.pack("<IIII", 0x08074b50, crc, size, size)
            directory += struct.pack("<IHHHHHHIIIHHHHHII", 0x02014b50, 20, 20, flags, 0, 0, 33, crc, size, size, len(head), 9, 0, 0, 0, 0, at) + head + stamp
            at += 55 + len(head) + size
        many = struct.pack("<IQHHIIQQQQIIQI", 0x06064b50, 44, 45, 45, 0, 0, n, n, len(directory), at, 0x07064b50, 0, at + len(directory), 1)
        yield directory + many * (n >= 0xffff)
        yield struct.pack("<IHHHHIIH", 0x06054b50, 0, 0, *((n, n, len(directory), at) if n < 0xffff else (0xffff, 0xffff, 2**32 - 1, 2**32 - 1)), 0)

class Check:  # one verification; what is wrong is in problems, as (file, line, what)
    def __init__(self, run):
        self.run, self.problems, self.suspect, self.m, self.sums = run, [], set(), None, {}
        self.rows, self.seen, self.attempts, self.tasks, self.indexes, self.judged, self.named = [], set(), {}, {}, {}, {}, set()
        self.n, self.last, self.root, self.counts = 0, (-1, "sha256:" + 64 * "0", 0), "", {b: dict.fromkeys(COUNTS, 0) for b in ("computed", "judged")}
        kinds = {k: v for k, v in run.kinds.items() if "/" not in k}
        self.top = {k for k, v in kinds.items() if k in (*FILES, "candidates", "run.lock") and v == ("d" if k == "candidates" else "f")}
        self.finished = FILES[2] in self.top
        for name in kinds:
            if name not in self.top and (self.finished or name not in [".new-" + f for f in FILES]) or name == "run.lock" and run.open(name).read(1):
                self.problem(name, 0, "not part of a published run")
        self.s, self.signer = self.read(FILES[2], lambda f: open_statement(f.read(MiB + 1))) or (None, "")
        self.read(FILES[1], self.manifest)
        self.read(LINES, self.lines)
        self.complete()
        for name, kind in run.kinds.items():
            if name.startswith("candidates/") and (kind != "f" or name not in self.named and self.finished):
                self.problem(name, 0, "not named by any record")
        if not run.same():
            self.problem(os.path.basename(run.path), 0, "the archive differs from the bundle of its run")

    def problem(self, name, line, what):
        self.problems.append((name, line, what))

    def wrong(self, line, what):
        self.suspect.add(line)
        self.problem(LINES, line, what)

    def read(self, name, then):
        try:
            if name in self.top:
                with self.run.open(name) as f:
                    return then(f)
            elif name not in self.run.kinds and name in FILES[:2]:
                self.problem(name, 0, "missing")
        except (ValueError, OSError, LookupError, ArithmeticError, RecursionError, TypeError, zipfile.BadZipFile) as e:
            self.problem(name, 0, str(e) or "cannot be read")

    def manifest(self, f):
        raw = f.read(16 * MiB + 1)
        self.sums["run.json"] = sha(raw)
        m = canonical(raw[:16 * MiB], MANIFEST)
        n = [int(m["planned"].get(k, 0)) for k in PLANNED]
        rows = [(int(a), int(b)) for a, b in m["selection"]["rows"]] if "selection" in m else [(0, n[0] - 1)][:n[0]]
        if (m["format"] != "1" or not 0 <= n[0] < 2**31 or not 1 <= n[1] <= 2**20 or not 0 <= n[2] or not 0 <= n[3] <= n[0]
                or any(a > b for a, b in rows) or any(b + 1 >= c for (_, b), (c, _) in zip([(0, -2)] + rows, rows + [(n[0] + n[2] + 1, 0)]))
                or sum(b - a + 1 for a, b in rows) != n[0] or any(not w["id"] or not w["roles"] or set(w["roles"]) - {"produce", "verify"} for w in m.get("workers", ()))):
            fail("no run has these values")
        self.m, self.planned, self.rows = m, n, rows
        zone = bool(m.get("shards", {}).get("parts")) or any(len(w["roles"]) > 1 for w in m.get("workers", ()))
        sockets = type(m["engine"]) is dict and m["engine"].get("sockets_unbounded") is True
        if zone != ("one_trust_zone" in m["labels"]) or sockets != ("sockets_unbounded" in m["labels"]):
            self.problem("run.json", 0, "its labels are not what it says of its engine, shards and workers")

    def lines(self, f):
        whole, leaves, self.judge = hashlib.sha256(), [], (self.m or {}).get("judge", {}).get("answered", "")
        for raw in iter(lambda: f.readline(16 * MiB + 1), b""):
            whole.update(raw)
            self.n, torn, raw = self.n + 1, not raw.endswith(b"\n"), raw.rstrip(b"\n")
            leaves.append(hashlib.sha256(b"\0" + raw).digest())
            torn and self.finished and self.wrong(self.n, "cut short")
            try:
                try:
                    e = decode(raw)
                except (ValueError, RecursionError):
                    e = decode(raw, sorted)
                    self.wrong(self.n, "not a record in canonical form")
                self.record(*e)
            except (ValueError, ArithmeticError, RecursionError, TypeError) as why:
                self.finished and self.wrong(self.n, str(why))
                self.last = (self.last[0] + 1, "", self.n)
        self.sums[LINES], self.root = "sha256:" + whole.hexdigest(), "sha256:" + merkle(leaves).hex()

    def record(self, e, raw):
        n, seq, (before, prev, line) = self.n, int(e["seq"]), self.last
        follows, key, in_place = prev in ("", e["prev"]), (e["task_id"], e["attempt"]), True
        if seq == before + 1 and not follows and line:
            self.wrong(line, f"changed since line {n} was written: its digest is {prev}, and was {e['prev']}")
        elif seq <= before or seq == before + 1 and not follows:
            in_place = self.wrong(n, "the hash chain is broken: it was moved, copied or changed, or is of another run")
        elif seq > before + 1:
            self.problem(LINES, n, "the hash chain is broken: lines before it are missing")
        if in_place:
            self.last = (seq, sha(raw), n)
            if self.attempts.setdefault(key, n) != n:
                self.suspect.add(self.attempts[key])
                self.wrong(n, "its attempt has another record")
        status, basis, labels, sums = e["verification_status"], e.get("basis", "computed"), e["labels"], e["digests"]
        read, passed, names = "judge_read" in labels, status == "passed", [sums.get("candidate"), sums.get("extracted"), *(r.get("candidate") for r in e["retries"])]
        have = [self.stored(d) for d in names if d]
        by_rule = "computed" if read else basis
        for bad, what in [
                (status not in COUNTS or passed != e.get("passed", False) or passed != (e["outcome"] == "passed"), "its fields contradict each other"),
                ((basis == "judged") != ("judged" in labels), "its basis and its labels contradict each other"),
                (basis == "computed" and ("judge" in e or read), "it is computed, and has what a judge said"),
                (labels != sorted(labels), "its labels are not sorted"),
                (not names[0] and (shown(e) or passed or names[1]), "it has no digest of a candidate"),
                (None in have, "a candidate of it is missing or was changed"),
                (names[0] and have[0] is not None and shown(e) not in ([], have[:1]), "the candidate that it shows differs from the stored one"),
                *(self.of_run(e, by_rule) if self.m else ())]:
            if bad:
                self.wrong(n, what)
        for what in COUNTS:
            self.counts[by_rule][what] += what in ("failed" if read and passed else status, e["outcome"] if e["outcome"] == "infrastructure" else "")

    def of_run(self, e, basis):  # yields whether something is wrong with a record of the run, and what
        m, d, meta, at, id, has = self.m, e["digests"], e["producer_metadata"], int(e["index"]), e["task_id"], e["labels"].__contains__
        yield (e["run_id"], e["agent"], e["benchmark_id"]) != (m["run_id"], m["agent"], m["pack"]["id"]), "it is of another run than run.json"
        states = [m["digests"], *(r["digests"] for r in m["resumed_from"])]
        yield not any(all(d[k] == s[k] for k in ("pack", "assets", "config", "verifier")) for s in states), "it is bound to other inputs than run.json"
        images = [k for k, v in m["images"].items() if v == d.get("image")]
        yield "image" in d and not images, "its image is not one of the run's"
        for role, worker in e.get("workers", {}).items():
            role = "verify" if m["agent"] == "oracle" else role
            yield not any(w["id"] == worker and role in w["roles"] for w in m.get("workers", ())), "the run let in no such worker"
        judge = e.get("judge", {}).get("model", "")
        self.judge = self.judge or judge
        yield judge not in ("", self.judge), "its judge is another than before: a run has one"
        yield not any(a <= at <= b for a, b in self.rows) or not 1 <= int(e["attempt"]) <= self.planned[1], "it was not planned"
        yield (self.tasks.get(at, id), self.indexes.get(id, at)) != (id, at), "its row and its task do not belong together, by an earlier line"
        yield self.judged.get(at, basis) != basis, "its row is judged in one line and computed in another"
        self.tasks[at], self.indexes[id], self.judged[at] = id, at, basis
        self.seen.add((at, int(e["attempt"])))
        for label in ("custom_limits", "network_enabled", "private_network", "external_tools", "sockets_unbounded"):
            yield has(label) != (label in m["labels"]), f"its label {label} is not that of run.json"
        yield (meta.get("timed_out") is True and "candidate" in d) != has("scored_timeout"), "its label scored_timeout is wrong"
        yield type(meta.get("allowed_domains")) is list and meta["allowed_domains"] and not has("network_enabled"), "it lacks the label network_enabled"
        named = any("@sha256:" in k or k.startswith("hmac-sha256:") for k in images)
        yield "image" in d and images and not named and not has("unpinned_image"), "it lacks the label unpinned_image"

    def stored(self, digest):  # what a record shows of a stored candidate, None unless it is what its name says
        name = "candidates/" + digest[7:]
        if name not in self.named and re.fullmatch("sha256:[0-9a-f]{64}", digest) and self.run.kinds.get(name) == "f":
            with self.run.open(name) as f:
                head = f.read(512) + b"?" * f.seek(0)
                if (head[257:262] == b"ustar" or head == bytes(512)) and tree(f) == digest:
                    self.sums[name] = digest
                else:
                    data = f.read(256 * MiB + 1 + f.seek(0))
                    if sha(data) == digest and not data.startswith(b"securebench tree 2\n") and len(data) <= 256 * MiB:
                        self.sums[name] = excerpt(data)
        self.named.add(name)
        return self.sums.get(name)

    def complete(self):
        m, n, total = self.m, self.planned if self.m else [0] * 4, sum(b - a + 1 for a, b in self.rows)
        if m and self.finished:
            have = sum(any(a <= i <= b for a, b in self.rows) and 1 <= k <= n[1] for i, k in self.seen)
            have < total * n[1] and self.problem(LINES, 0, f"{total * n[1] - have} attempts have no record")
            list(self.judged.values()).count("judged") != n[3] and self.problem(LINES, 0, "other numbers of tasks were judged and planned to be")
        if not self.s:
            return
        p, signed_ = self.s["predicate"], {x["name"]: "sha256:" + x["digest"].get("sha256", "") for x in self.s["subject"][::-1]}
        other, lines = ({name in self.sums and signed_.get(name) != self.sums[name] for name in [x]} == {True} for x in FILES[1::-1])
        if m and other and lines and p["merkle_root"] != self.root and not self.suspect:
            return self.problem("statement.dsse.json", 0, "it is about another run: neither run.json nor the records are what it signs")
        counts = {b: {k: str(c) for k, c in of.items()} for b, of in self.counts.items()}
        last = self.n if int(p["records"]) == self.n > 0 and not self.suspect else 0
        for bad, name, line, what in [
                (m and (p["run_id"], p["planned"]) != (m["run_id"], m["planned"]), "statement.dsse.json", 0, "it is about another run than run.json"),
                (other, "run.json", 0, "changed since it was signed"),
                (int(p["records"]) != self.n, LINES, 0, f"{self.n} records, {p['records']} were signed"),
                (lines or p["merkle_root"] != self.root, LINES, last, "changed since it was signed"),
                (counts != {"computed": p["counts"], "judged": p.get("judged_counts", dict.fromkeys(COUNTS, "0"))}, "statement.dsse.json", 0, "its counts are not those of the records"),
                *((name not in self.top, name, 0, "missing, though it was signed") for name in signed_)]:
            bad and self.problem(name, line, what)
        self.read(FILES[3], lambda f: self.trace(f, hashlib.sha256(), int(p["trace_bytes"]), signed_.get(FILES[3])))

    def trace(self, f, h, size, digest):
        size -= sum(h.update(data) or len(data) for data in iter(lambda: f.read(MiB), b""))
        size == 0 and "sha256:" + h.hexdigest() == digest or self.problem(FILES[3], 0, "changed since it was signed")

def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n\n")[1], usage="verify.py RUN (--key PUB.pem | --any-signer)")
    whose = [a.add_argument("run"), a.add_mutually_exclusive_group(required=True)][1]
    whose.add_argument("--key")
    whose.add_argument("--any-signer", action="store_true")
    a = a.parse_args()
    try:
        key = sha(DER + read_pem(open(a.key).read())) if a.key else ""
        c = Check(Folder(a.run) if os.path.isdir(a.run) else Bundle(a.run))
    except (OSError, ValueError, zipfile.BadZipFile) as e:
        sys.exit(print(f"verify.py: {a.run}: {e}", file=sys.stderr) or (13 if isinstance(e, zipfile.BadZipFile) else 2))
    if c.signer and not a.any_signer and c.signer != key:
        c.problem(FILES[2], 0, f"signed by {c.signer}, not by the key of --key")
    ok, out = c.finished and not c.problems, [f"{name}:{line}: {what}" if line else f"{name}: {what}" for name, line, what in c.problems]
    out.append(f"verified: {c.n} records of run {c.m['run_id']}, signed by {c.signer}" if ok else "does not verify" if c.finished else "not finished")
    print(*(ascii(line)[1:-1] for line in out), sep="\n")
    sys.exit(0 if ok else 13)

if __name__ == "__main__":
    main()
