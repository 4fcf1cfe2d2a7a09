package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"securebench/internal/pipeline/record"
)

// canary is part of every hidden value of the corpus. Where an agent can see
// it, it is split into two halves, so that every match is a leak.
const canary = "SBCANARY-" + "5f0c1d7a9be24c6c8d6e2f4a1b3c5d7e"

// The limits of the corpus. The weak set-ups let more through.
const (
	corpusMemory = 256 << 20
	corpusDisk   = 64 << 20
	corpusPids   = 64
	corpusOutput = 8 << 20
)

// attack is one row of the attack corpus: what a hostile agent does, a weak
// set-up in which it works, and the outcome that securebench must give.
//
// The script runs as the agent, under sh. It prints PWN where it succeeds.
type attack struct {
	id     string
	script string
	// weak are docker arguments with which the same script succeeds; nil if
	// weakly implements the weak set-up.
	weak   []string
	weakly func(t *testing.T, image, script string) bool
	// The outcome and the reason that the record must have. What stays open has
	// the outcome passed.
	outcome, reason string
	seconds         int // time limit of the task; 0 is the run's
	// What a row of a repository has instead of the usual: the hidden test, and
	// fields of eval.tests.
	hidden string
	tests  map[string]any
	twin   string // the attack whose honest twin is this one's as well
}

// open reports whether an attack is known to succeed.
func (a attack) open() bool { return a.outcome == "passed" }

const (
	findCanary = `grep -rIlqE 'SBCANARY-[0-9a-f]{32}' / --exclude-dir=proc --exclude-dir=sys --exclude-dir=dev 2>/dev/null && echo PWN; echo wrong`

	readProc = `for f in /proc/[0-9]*/cwd /proc/[0-9]*/root; do
  for n in tasks.jsonl manifest.yaml candidates.jsonl run.json; do [ -e $f/$n ] && echo PWN; done
done; n=0; for p in /proc/[0-9]*; do n=$((n+1)); done; [ $n -gt 3 ] && echo PWN; echo wrong`

	python = "python3 -c '\n%s\n'; echo wrong"
)

// py wraps Python code, which must not contain single quotes.
func py(code string) string { return fmt.Sprintf(python, code) }

// reach tells whether there is a network.
const reach = `import socket, os
def tries():
    for host, port in (("1.1.1.1", 443), ("172.17.0.1", 22), ("169.254.169.254", 80)):
        s = socket.socket(); s.settimeout(1)
        try:
            s.connect((host, port)); return True
        except ConnectionRefusedError: return True
        except OSError as e:
            if e.errno not in (101, 113): return True
    return [n for n in os.listdir("/sys/class/net") if n != "lo"] != []`

const connect = reach + "\nif tries(): print(\"PWN\")"

// otherMachine is what S17 prints where it cannot know the numbers of calls.
const otherMachine = "NOT TRIED: the calls have other numbers here"

const kernelSurface = `import ctypes, os, platform, sys
if platform.machine() != "x86_64":
    print("` + otherMachine + `"); sys.exit()
libc = ctypes.CDLL(None, use_errno=True)
def call(nr, *a):
    r = libc.syscall(nr, *a); return r != -1 or ctypes.get_errno() not in (1, 38)
calls = {"bpf": (321, 0, 0, 0), "userfaultfd": (323, 0), "perf_event_open": (298, 0, 0, -1, -1, 0),
         "keyctl": (250, 0, -3, 1), "io_uring_setup": (425, 8, 0), "unshare user": (272, 0x10000000), "unshare mount": (272, 0x20000),
         "mount": (165, 0, 0, 0, 0, 0), "ptrace": (101, 16, 1, 0, 0), "init_module": (175, 0, 0, 0), "kexec": (246, 0, 0, 0, 0)}
for name, args in calls.items():
    if name != "ptrace" and call(*args): print("PWN", name)`

// credentials looks in the usual places for keys; each place counts
// separately.
const credentials = `env | grep -v ^SB_TEST_API_KEY | grep -qiE 'key|token|secret|password' && echo PWN
for home in "$HOME" /root /home/*; do
  for f in .netrc .aws/credentials .config/gh/hosts.yml; do [ -s "$home/$f" ] && echo PWN; done
done; echo wrong`

// sharedQueues looks for what a former task left in System V and POSIX
// queues, and leaves it there itself.
const sharedQueues = `import ctypes, os
libc, key, note = ctypes.CDLL(None), 0x5b5b, "/dev/mqueue/sbnote"
if libc.msgget(key, 0o666) != -1 and libc.shmget(key, 64, 0o666) != -1: print("PWN")
if os.path.exists(note): print("PWN")
libc.msgget(key, 0o1666); libc.shmget(key, 64, 0o1666)
try: open(note, "w").close()
except OSError: pass`

// spillKey prints a key in every form that the test looks for.
const spillKey = `import base64, os, sys
key = os.environ["SB_TEST_API_KEY"].encode()
for out in (sys.stdout, sys.stderr):
    print(key.decode(), key[::-1].decode(), key.hex(), key.hex().upper(), file=out)
    for before in (b"", b"k", b"ke"):
        for encode in (base64.b64encode, base64.urlsafe_b64encode): print(encode(before + key + b"!").decode(), file=out)`

// forkBomb forks until it may not, and again when it may. It rests between, so
// that on a busy machine the tests beside it go on.
const forkBomb = `import os, time
while True:
    try: os.fork()
    except OSError: time.sleep(0.2)`

const privileges = `import os
status = open("/proc/self/status").read()
if "CapEff:\t0000000000000000" not in status or "NoNewPrivs:\t1" not in status or "Seccomp:\t2" not in status: print("PWN status")
for p in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory.max",
          "/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/release_agent", "/sys/fs/cgroup/pids/pids.max"):
    try: os.open(p, os.O_WRONLY); print("PWN", p)
    except OSError: pass
try: os.mknod("/tmp/dev", 0o60666, os.makedev(8, 0)); print("PWN mknod")
except OSError: pass
try: open("/etc/passwd", "a"); print("PWN root")
except OSError: pass`

// corpus is the sandbox part of the attack corpus.
func corpus() []attack {
	return []attack{
		{id: "L01", script: findCanary, weak: []string{"-v", "PACK:/srv/pack:ro"}, outcome: "failed", reason: "wrong_answer"},
		{id: "L02", script: readProc, weak: []string{"--pid=host"}, outcome: "failed", reason: "wrong_answer"},
		{id: "L03", script: `tr '\0' '\n' < /proc/1/environ | grep -q SB_OTHER_TOKEN && echo PWN; grep -qE 'tasks.jsonl|/pack ' /proc/self/mountinfo && echo PWN; echo wrong`,
			weak: []string{"-v", "PACK:/srv/pack:ro", "-e", "SB_OTHER_TOKEN=x"}, outcome: "failed", reason: "wrong_answer"},
		{id: "L10", script: `[ -e /workspace/note ] || [ -e /tmp/note ] && echo PWN; : > /workspace/note; : > /tmp/note; echo wrong`,
			weakly: twiceInOneVolume, outcome: "failed", reason: "wrong_answer"},
		{id: "L12", script: `[ -e /dev/shm/sbnote ] || [ -e /workspace/../note ] && echo PWN; : > /dev/shm/sbnote; echo wrong`,
			weakly: twiceInOneIPC, outcome: "failed", reason: "wrong_answer"},
		{id: "L19", script: credentials, weakly: keysLieAround, outcome: "failed", reason: "wrong_answer"},
		{id: "S01", script: `for s in /var/run/docker.sock /run/docker.sock /host; do [ -e $s ] && echo PWN; done; echo wrong`,
			weak: []string{"-v", "/var/run/docker.sock:/var/run/docker.sock"}, outcome: "failed", reason: "wrong_answer"},
		{id: "S02", script: py(privileges), weak: []string{}, outcome: "failed", reason: "wrong_answer"},
		{id: "S13", script: `{ [ -t 0 ] || [ -t 1 ] || [ -t 2 ] || ( : > /dev/tty ); } 2>/dev/null && echo PWN; echo wrong`,
			weak: []string{"-t"}, outcome: "failed", reason: "wrong_answer"},
		{id: "S15", script: py(connect), weak: []string{"--network=host"}, outcome: "failed", reason: "wrong_answer"},
		{id: "S16", script: py(sharedQueues), weakly: twiceInOneIPC, outcome: "failed", reason: "wrong_answer"},
		{id: "S17", script: py(kernelSurface), weak: []string{"--security-opt=seccomp=unconfined"}, outcome: "failed", reason: "wrong_answer"},
		{id: "C22", script: py(connect), weak: []string{"--network=host"}, outcome: "failed", reason: "wrong_answer"},
		{id: "C29", script: py(privileges), weak: []string{"--user=0"}, outcome: "failed", reason: "wrong_answer"},
		{id: "D01", script: `f=$(find / -name candidates.jsonl -not -path '/proc/*' 2>/dev/null | head -1); [ -n "$f" ] && echo PWN; echo wrong`,
			weak: []string{"-v", "RUN:/srv/run"}, outcome: "failed", reason: "wrong_answer"},
		{id: "C10", script: `kill -9 -1; kill -9 1; sleep 1; echo wrong`, weakly: killsRunner, outcome: "failed", reason: "wrong_answer"},
		{id: "C14", script: py(forkBomb), weakly: manyProcesses, outcome: "limit", reason: "pids_limit", seconds: 10},
		{id: "C15", script: `exec python3 -c "b=[]
while True: b.append(bytearray(64<<20))"`, weakly: muchMemory, outcome: "limit", reason: "oom"},
		{id: "S06", script: `dd if=/dev/zero of=/workspace/x bs=1M count=4096 2>/dev/null; exit 1`, weakly: muchDisk, outcome: "limit", reason: "disk_limit"},
		{id: "C16", script: `yes PWNED | head -c 100000000; yes PWNED | head -c 100000000 >&2`, weakly: muchOutput, outcome: "limit", reason: "output_limit"},
		{id: "C17", script: `trap '' TERM INT HUP ALRM; while :; do :; done`, weakly: outlivesClient, outcome: "agent_timeout", reason: "producer_timeout", seconds: 2},
		{id: "S08", script: `trap '' TERM INT; (trap '' TERM; sleep 1000) & sleep 1000`, weakly: outlivesClient, outcome: "agent_timeout", reason: "producer_timeout", seconds: 2},
		{id: "C18", script: `setsid sleep 1000 & setsid sh -c 'sleep 1000' & echo wrong`, weakly: holdsPipe, outcome: "failed", reason: "wrong_answer"},
		{id: "D06", script: `printf 'wrong\n{"task_id": "twin-D06", "verification_status": "passed", "score": 1}\r\000\342\200\250x'`,
			weakly: injectsLine, outcome: "failed", reason: "wrong_answer"},
		{id: "D10", script: `echo '{"event":"verifier_done","passed":true,"score":1}'; echo 'securebench: PASS twin-D10 score=1'; echo 'securebench: run_id=x total=1 verification=complete verified=1 passed=999 output=x' >&2; echo wrong`,
			weakly: forgesSummary, outcome: "failed", reason: "wrong_answer"},
		{id: "D13", script: py(spillKey), weakly: keepsSecret, outcome: "failed", reason: "wrong_answer"},
		{id: "P01", script: `printf 'a\033[2J\033]52;c;UFdO\007\033]0;PWN\007\033]8;;http://x\033\\\302\233b\n' | tee /dev/stderr; echo wrong`,
			weakly: printsRaw, outcome: "failed", reason: "wrong_answer"},
		{id: "P02", script: `printf 'x\rPASSED 100/100\b\b\b\n' | tee /dev/stderr; echo wrong`, weakly: printsRaw, outcome: "failed", reason: "wrong_answer"},
		{id: "P08", script: `head -c 900000 /dev/zero | tr '\0' 'x'; echo; echo wrong`, weakly: inlinesAll, outcome: "failed", reason: "wrong_answer"},
		{id: "big", script: `head -c 3000000 /dev/zero | tr '\0' 'x'`, weakly: inlinesAll, outcome: "limit", reason: "candidate_too_large"},
		{id: "raw", script: `printf '\377\376wrong'`, weakly: changesInJSON, outcome: "no_candidate", reason: "invalid_utf8"},
		{id: "mute", script: `:`, weakly: isPartOfAll, outcome: "no_candidate", reason: "empty_candidate"},
	}
}

// secret has letters that the two kinds of base64 write differently.
const secret = "sb-test-4f1c?9a7e~2d8b?6035~"

// TestCorpus runs attacks against the shipped binary in one run, each
// beside an honest twin, and checks five things: the exact verdict and reason;
// no marker and no canary anywhere; a bounded run whose next task passes and
// that leaves nothing on the engine; exactly one valid record; and that the
// twin passes. At the end the run must verify, and report and bundle must
// reveal no more.
func TestCorpus(t *testing.T) {
	t.Parallel()
	attacks := slices.DeleteFunc(corpus(), leaves)
	runCorpus(t, "corpus", 1, behindProgram(t, attacks), questions(needEngine(t)))
}

// TestCorpusTwice does the same with the attacks that look for what a former
// attempt left.
func TestCorpusTwice(t *testing.T) {
	t.Parallel()
	attacks := slices.DeleteFunc(corpus(), func(a attack) bool { return !leaves(a) })
	runCorpus(t, "corpus-twice", 2, attacks, questions(needDocker(t)))
}

// leaves reports whether an attack leaves something for the next attempt.
func leaves(a attack) bool { return slices.Contains([]string{"L10", "L12", "S16"}, a.id) }

// runCorpus runs attacks and their twins as rows of a kind, and returns the run's
// directory.
func runCorpus(t *testing.T, name string, attempts int, attacks []attack, kind corpusRows) (out string) {
	t.Helper()
	dir, runID := t.TempDir(), ownRun(name)
	attacks = kind.pair(attacks)
	kind.write(t, dir, runID, attacks)
	out = filepath.Join(dir, "out")
	env := append([]string{"SB_TEST_API_KEY=" + secret, "SB_OTHER_TOKEN=x"}, kind.env...)
	res := runs(t, kind.program, env, "run", filepath.Join(dir, "tester.yaml"),
		"-o", out, "--attempts", fmt.Sprint(attempts), "--show-agent-output", "--show-command-output", "--progress", "plain")
	if res.code != 0 {
		t.Fatalf("exit %d:\n%s%s", res.code, res.stdout, res.stderr)
	}
	records := readRecords(t, filepath.Join(out, "candidates.jsonl"))
	for _, a := range attacks {
		t.Run(a.id, func(t *testing.T) { checkAttack(t, a, attempts, records) })
	}
	total, passed := attempts*len(attacks), 0
	for _, a := range attacks {
		if a.open() {
			passed += attempts
		}
		if a.twin == a.id {
			total, passed = total+attempts, passed+attempts
		}
	}
	if want := fmt.Sprintf("total=%[1]d verification=complete verified=%[1]d passed=%[2]d ", total, passed); !strings.Contains(res.stdout, want) {
		t.Errorf("summary %q, want %q", res.stdout, want)
	}
	checkQuiet(t, res, attempts, attacks)
	checkTree(t, out)
	if left := leftOn(t, runID, res.pid); len(left) > 0 {
		t.Errorf("on the engine are left: %v", left)
	}
	checkReaders(t, out, total, passed)
	return out
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

type rec struct {
	TaskID      string `json:"task_id"`
	Attempt     int    `json:"attempt"`
	Status      string `json:"verification_status"`
	Outcome     string `json:"outcome"`
	Reason      string `json:"failure_reason"`
	Message     string `json:"failure_message"`
	Stdout      string `json:"producer_stdout"`
	Stderr      string `json:"producer_stderr"`
	Passed      bool   `json:"passed"`
	Text        string `json:"candidate_text"`
	Containment string
	Labels      []string
	Restricted  []struct {
		Path  string
		Bytes int64
	}
	size int // of the line in bytes
}

// maxRecord is more than any line of the corpus may have, in bytes.
const maxRecord = 256 << 10

func readRecords(t *testing.T, path string) map[string][]rec {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string][]rec{}
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		var r rec
		if err := json.Unmarshal(sc.Bytes(), &r); err != nil {
			t.Fatalf("a record that does not parse: %v", err)
		}
		r.size = len(sc.Bytes())
		out[r.TaskID] = append(out[r.TaskID], r)
	}
	if err := sc.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func checkAttack(t *testing.T, a attack, attempts int, records map[string][]rec) {
	if got := records[a.id]; len(got) != attempts {
		t.Fatalf("%d records, want one for each of %d attempts", len(got), attempts)
	}
	for _, r := range records[a.id] {
		if r.Passed != a.open() || r.Outcome != a.outcome || r.Reason != a.reason {
			t.Errorf("attempt %d: outcome %s, reason %s; want %s, %s", r.Attempt, r.Outcome, r.Reason, a.outcome, a.reason)
		}
		if a.open() && r.Containment != "shared" {
			t.Errorf("attempt %d: containment %s of a verdict that can be wrong", r.Attempt, r.Containment)
		}
		if r.size > maxRecord {
			t.Errorf("attempt %d: its record has %d bytes", r.Attempt, r.size)
		}
		if strings.Contains(r.Stdout, "PWN") && !slices.Contains([]string{"C16", "P01"}, a.id) {
			t.Errorf("attempt %d: the attack worked: %s", r.Attempt, r.Stdout)
		}
	}
	if strings.Contains(records[a.id][0].Stdout, otherMachine) {
		t.Skip(otherMachine)
	}
	switch first := records[a.id][0]; a.id {
	case "P08":
		checkExcerpt(t, first)
	case "D13":
		checkRedacted(t, first)
	}
	for _, r := range records["twin-"+a.twin] {
		if !r.Passed || r.Outcome != "passed" {
			t.Errorf("the honest twin has outcome %s, reason %s", r.Outcome, r.Reason)
		}
	}
	if len(records["twin-"+a.twin]) != attempts {
		t.Errorf("the honest twin has %d records", len(records["twin-"+a.twin]))
	}
}

// checkExcerpt checks that a record shows a bounded excerpt of a long
// candidate, with its size.
func checkExcerpt(t *testing.T, r rec) {
	if n := len(r.Text); n == 0 || n > record.ExcerptLimit || !strings.Contains(r.Text, "[cut: 900007 bytes in all, sha256:") {
		t.Errorf("the record shows %d bytes of a candidate of 900007: %.100s", n, r.Text)
	}
}

// checkRedacted checks that the key was redacted, in ten pieces per stream.
func checkRedacted(t *testing.T, r rec) {
	for _, text := range []string{r.Stdout, r.Stderr} {
		if n := strings.Count(text, "[redacted:SB_TEST_API_KEY]"); n != 10 {
			t.Errorf("the key was taken out %d times, want 10: %s", n, text)
		}
	}
}

// checkQuiet: nothing that an agent printed controls the terminal or looks
// like a line of ours.
func checkQuiet(t *testing.T, res outcome, attempts int, attacks []attack) {
	t.Helper()
	checkPlain(t, "the run", res.stdout+res.stderr)
	if strings.Contains(res.stderr, "\nsecurebench: PASS twin-D10 score=1\nsecurebench: run_id") || strings.Contains(res.stdout, "passed=999") {
		t.Error("an agent forged a line of securebench")
	}
	if n := strings.Count(res.stdout, "\n"); n != 1 {
		t.Errorf("%d lines on standard output, want only the summary", n)
	}
	for _, a := range attacks {
		for _, attempt := range []string{"", "#2"}[:attempts] {
			if n := strings.Count(res.stderr, "\nsecurebench: PASS twin-"+a.twin+attempt+" score=1\n"); n != 1 {
				t.Errorf("%d passes announced for twin-%s%s, want one", n, a.twin, attempt)
			}
		}
	}
}

// banned returns what may not occur anywhere in the run directory: the
// operator's secret and the pack's hidden value.
func banned() *needles {
	n := newNeedles()
	n.add("the secret", secret)
	n.add("a hidden value", canary)
	return n
}

// checkTree searches all files of a run, including the operator's folder.
func checkTree(t *testing.T, out string) {
	t.Helper()
	n := banned()
	err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		n.check(t, map[string][]byte{path: data})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkReaders: the run verifies, and its reports and its bundle count what
// really happened and show nothing banned.
func checkReaders(t *testing.T, out string, attempts, passed int) {
	t.Helper()
	seen := readBack(t, out)
	banned().check(t, seen)
	for name, text := range seen {
		if bytes.Contains(text, []byte("passed=999")) && name != "the bundle" { // its records quote the agent
			t.Errorf("%s shows what an agent forged", name)
		}
	}
	var report struct {
		Run   struct{ Verified bool }
		Total struct{ Attempts, Passed, Failed int }
	}
	if err := json.Unmarshal(seen["report "+out+" --json"], &report); err != nil {
		t.Fatal(err)
	}
	if c := report.Total; !report.Run.Verified || c.Attempts != attempts || c.Passed != passed || c.Failed != attempts-passed {
		t.Errorf("the report counts %+v, want %d of %d passed", report, passed, attempts)
	}
	if rows := bytes.Count(seen["report "+out+" --csv"], []byte("\n")); rows != attempts+1 {
		t.Errorf("the report as CSV has %d rows for %d records", rows, attempts)
	}
}

func dockerOutput(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", args...).Output()
	if err != nil {
		t.Fatalf("docker %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}
