package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"securebench/internal/awaittest"
	"securebench/internal/pipeline/record"
)

// replayPack writes a pack of n tasks and answers for them, of which "it" is
// right. It returns the arguments of a run of it in dir.
func replayPack(t *testing.T, dir string, n int, answer func(i int) string) (args []string) {
	t.Helper()
	var rows, answers strings.Builder
	for i := range n {
		fmt.Fprintf(&rows, `{"id": "t%d", "input": {"question": "What is it?"}, "eval": {"accepted_answers": ["it"]}}`+"\n", i)
		fmt.Fprintf(&answers, `{"task_id": "t%d", "text": %q}`+"\n", i, answer(i))
	}
	pack := filepath.Join(dir, "replayed")
	if err := os.Mkdir(pack, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(pack, "tasks.jsonl"), rows.String())
	write(t, filepath.Join(pack, "manifest.yaml"), "id: replayed\nversion: 1\ndefaults:\n  family: short_answer\n")
	write(t, filepath.Join(dir, "answers.jsonl"), answers.String())
	return []string{"run", "replayed", "--agent", "replay:answers.jsonl"}
}

// short answers are all right, and the store has one file for all of them.
func short(int) string { return "it" }

// different answers take a file each: every third is right, the others have
// size bytes and more.
func different(size int) func(int) string {
	return func(i int) string {
		if i%3 == 0 {
			return "it" + strings.Repeat("\n", i)
		}
		return fmt.Sprintf("%d %s", i, strings.Repeat("x", size))
	}
}

// inDir runs the shipped binary in dir and waits for its end.
func inDir(t *testing.T, dir string, args ...string) outcome {
	t.Helper()
	return background(t, dir, nil, args...).ended(t, hung)
}

// disk mounts an empty file system on a new folder of dir and returns a
// function that remounts it with other flags or another size.
func disk(t *testing.T, dir, options string) (remount func(flags uintptr, options string)) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	mount := func(flags uintptr, options string) error { return syscall.Mount("tmpfs", dir, "tmpfs", flags, options) }
	err := mount(0, options)
	if errors.Is(err, os.ErrPermission) {
		t.Skipf("only root may mount what this test fills: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return func(flags uintptr, options string) {
		t.Helper()
		if err := mount(syscall.MS_REMOUNT|flags, options); err != nil {
			t.Fatal(err)
		}
	}
}

var taskEnd = regexp.MustCompile(`(?m)^securebench: (PASS|FAIL) (\S+) score=`)

// announced returns the verdicts that progress reported.
func announced(res outcome) map[string]string {
	out := map[string]string{}
	for _, m := range taskEnd.FindAllStringSubmatch(res.stderr, -1) {
		out[m[2]] = strings.ToLower(m[1]) + "ed"
	}
	return out
}

// checkAnnounced checks that every reported verdict is recorded.
func checkAnnounced(t *testing.T, announced map[string]string, lines []record.Entry) {
	t.Helper()
	got := map[string]string{}
	for _, e := range lines {
		got[e.TaskID] = string(e.Status)
	}
	for id, status := range announced {
		if got[id] != status {
			t.Errorf("%s was announced as %s and is %q", id, status, got[id])
		}
	}
}

// What is said of a disk that has no room for what may be written, before it is
// written, and of one whose room or inodes ended while something was written.
const (
	nearlyFull = "the disk is nearly full"
	noSpace    = "no space left on device"
)

// TestFullDisk: a full disk ends a run with one line that says so, and with
// more room the run can be resumed.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		tasks    int
		answer   func(int) string
		disk     string
		workers  string
		says     string
		min, max int // records when the disk is full
	}{
		{"seen before the first task", 5, short, "size=1m", "2", nearlyFull, 0, 0},
		{"seen before a later task", 30, different(900_000), "size=20m", "1", nearlyFull, 3, 29},
		{"by candidates", 30, different(4), "nr_inodes=25", "2", noSpace, 3, 29},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			remount := disk(t, filepath.Join(dir, "disk"), tt.disk)
			out := filepath.Join(dir, "disk", "out")
			args := append(replayPack(t, dir, tt.tasks, tt.answer), "-o", "disk/out", "-w", tt.workers, "--progress", "plain")
			res := inDir(t, dir, args...)
			reported := announced(res)
			message := fullDisk(t, res, tt.says)
			before, torn := wholeLines(t, out)
			if torn || len(before) < tt.min || len(before) > tt.max || exists(out, record.StatementName) {
				t.Fatalf("%d records, want %d to %d; the last torn: %v", len(before), tt.min, tt.max, torn)
			}
			checkAnnounced(t, reported, before)

			// Without more room it ends the same way, and nothing is lost.
			res = typed(t, dir, resumeLine(t, message))
			fullDisk(t, res, tt.says)
			checkMoreRoom(t, dir, resumeLine(t, message), before, tt.tasks, func() { remount(0, "size=64m,nr_inodes=1000") })
		})
	}
}

// checkMoreRoom checks that a run on a full disk has lost nothing, and that it can
// be resumed when there is more room.
func checkMoreRoom(t *testing.T, dir, resume string, before []record.Entry, tasks int, makeRoom func()) {
	t.Helper()
	out := filepath.Join(dir, "disk", "out")
	still, torn := wholeLines(t, out)
	if torn {
		t.Error("the second attempt left half a line")
	}
	nothingLost(t, before, still)
	makeRoom()
	res := typed(t, dir, resume)
	if res.code != exitDone {
		t.Fatalf("with more room: exit %d\n%s", res.code, res.stderr)
	}
	after, _ := wholeLines(t, out)
	if len(after) != tasks {
		t.Errorf("%d records, want %d", len(after), tasks)
	}
	nothingLost(t, still, after)
	verified(t, out)
}

// TestDiskFilledByOthers: a disk that others fill while a record is written ends the
// run as well. So that this is not seen before the next task, however the run and the
// others take turns, another disk with room is mounted where the run measures.
func TestDiskFilledByOthers(t *testing.T) {
	t.Parallel()
	const tasks = 300
	dir := t.TempDir()
	disk(t, filepath.Join(dir, "disk"), "size=64m")
	out, ballast := filepath.Join(dir, "disk", "out"), filepath.Join(dir, "disk", "ballast")
	args := append(replayPack(t, dir, tasks, short), "-o", "disk/out", "-w", "1", "--progress", "plain")
	run := waiting(t, dir, args...)
	if err := syscall.Mount("tmpfs", out, "tmpfs", 0, "size=64m"); err != nil {
		t.Fatal(err)
	}
	fillDisk(t, ballast)
	res := run()
	if err := syscall.Unmount(out, 0); err != nil {
		t.Fatal(err)
	}
	message := fullDisk(t, res, noSpace)
	before, torn := wholeLines(t, out)
	if torn || len(before) < 3 || len(before) == tasks || exists(out, record.StatementName) {
		t.Fatalf("%d records; the last torn: %v", len(before), torn)
	}
	checkAnnounced(t, announced(res), before)
	fullDisk(t, typed(t, dir, resumeLine(t, message)), noSpace) // not even the old records can be kept apart
	checkMoreRoom(t, dir, resumeLine(t, message), before, tasks, func() {
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	})
}

// waiting starts a run and returns once it has some records. It soon waits until its
// progress is read, and continues when its end is asked for.
func waiting(t *testing.T, dir string, args ...string) (end func() outcome) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() }) // a run that still writes ends by that
	cmd := command(t, nil, args...)
	cmd.Dir, cmd.Stderr = dir, w
	_, err = unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096)
	if err = errors.Join(err, cmd.Start(), w.Close()); err != nil {
		t.Fatal(err)
	}
	progress := make([]byte, 1024)
	if _, err := io.ReadFull(r, progress); err != nil {
		t.Fatalf("the run ended too soon: %v\n%s", err, progress)
	}
	return func() outcome {
		rest, err := io.ReadAll(r)
		_ = cmd.Wait() // checked by its exit code
		if err != nil {
			t.Fatal(err)
		}
		return outcome{code: cmd.ProcessState.ExitCode(), stderr: string(progress) + string(rest)}
	}
}

// fillDisk writes to a file until its disk is full.
func fillDisk(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

// fullDisk checks that one clear line reports the full disk.
func fullDisk(t *testing.T, res outcome, says string) (message string) {
	t.Helper()
	message = errorLine(t, res)
	if res.code != exitInfra || !strings.Contains(message, says) {
		t.Fatalf("exit %d, want %d and %q: %s", res.code, exitInfra, says, message)
	}
	return message
}

// TestFullDiskBeforeTheRun: nothing runs if not even the run manifest can be
// written, whichever file comes first.
func TestFullDiskBeforeTheRun(t *testing.T) {
	t.Parallel()
	for _, options := range []string{"size=4k", "size=8k", "size=12k", "nr_inodes=2", "nr_inodes=4", "nr_inodes=7"} {
		t.Run(options, func(t *testing.T) {
			dir := t.TempDir()
			remount := disk(t, filepath.Join(dir, "disk"), options)
			res := inDir(t, dir, append(replayPack(t, dir, 3, short), "-o", "disk/out", "--progress", "plain")...)
			message := fullDisk(t, res, noSpace)
			if exists(dir, "disk", "out", record.ManifestName) || strings.Contains(res.stderr, "[1/3]") {
				t.Errorf("the run began:\n%s", res.stderr)
			}
			remount(0, "size=64m,nr_inodes=1000")
			res = typed(t, dir, resumeLine(t, message))
			if res.code != exitDone {
				t.Fatalf("with more room: exit %d\n%s", res.code, res.stderr)
			}
			verified(t, filepath.Join(dir, "disk", "out"))
		})
	}
}

// TestReadOnlyOutput: a directory that cannot be written is detected before
// anything runs, and reported as that even if its disk is nearly full.
func TestReadOnlyOutput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	remount := disk(t, filepath.Join(dir, "disk"), "size=128m")
	args := replayPack(t, dir, 3, short)
	if res := inDir(t, dir, append(args, "-o", "disk/there")...); res.code != exitDone {
		t.Fatalf("exit %d\n%s", res.code, res.stderr)
	}
	remount(syscall.MS_RDONLY, "size=1m")
	for _, tt := range []struct {
		out  string
		flag []string
	}{{"new", nil}, {"new", []string{"--resume"}}, {"there", nil}, {"there", []string{"--resume"}}, {"there", []string{"--force"}}} {
		t.Run(tt.out+strings.Join(tt.flag, ""), func(t *testing.T) {
			res := inDir(t, dir, slices.Concat(args, []string{"-o", "disk/" + tt.out, "--progress", "json"}, tt.flag)...)
			message := errorLine(t, res)
			if res.code != exitRefused || !strings.Contains(message, "read-only file system") || !strings.Contains(message, "--output-dir") {
				t.Errorf("exit %d, want %d: %s", res.code, exitRefused, message)
			}
			if strings.Contains(res.stderr, `"task_start"`) || strings.Contains(res.stderr, `"producer_start"`) || res.stdout != "" {
				t.Errorf("something ran:\n%s%s", res.stderr, res.stdout)
			}
		})
	}
	verified(t, filepath.Join(dir, "disk", "there"))
}

// TestSecondRunner: only one process can use a directory, and it is free again
// when that process is dead.
func TestSecondRunner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := append(replayPack(t, dir, 300, different(10)), "-o", "out", "-q", "-w", "1") // it takes seconds
	out := filepath.Join(dir, "out")
	first := background(t, dir, nil, args...)
	awaittest.Until(t, "the first records", func() bool { return countLines(out) > 3 })
	// It is stopped, so that it does not end meanwhile.
	if err := first.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, first.Process.Pid, nil, unix.WSTOPPED, nil); err != nil {
		t.Fatalf("the first run ended too soon: %v", err)
	}
	before := lookAt(out)
	for _, flags := range [][]string{nil, {"--force"}, {"--resume"}} {
		res := inDir(t, dir, append(args, flags...)...)
		if message := errorLine(t, res); res.code != exitRefused || !strings.Contains(message, "another securebench process is using the output directory: out") {
			t.Errorf("%v: exit %d, want %d: %s", flags, res.code, exitRefused, message)
		}
	}
	if after := lookAt(out); after != before {
		t.Errorf("the directory was %+v and is %+v", before, after)
	}
	if err := first.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if res := first.ended(t, hung); res.code != exitDone {
		t.Errorf("the first run: exit %d\n%s", res.code, res.stderr)
	}
	if lines, _ := wholeLines(t, out); len(lines) != 300 {
		t.Errorf("%d records, want 300", len(lines))
	}
	verified(t, out)

	killed := background(t, dir, nil, append(args, "--force")...)
	awaittest.Until(t, "the next run's records", func() bool {
		s := lookAt(out)
		return s.history != "" && s.begun && !s.sealed && s.records > 3
	})
	_ = killed.Process.Signal(syscall.SIGKILL)
	killed.ended(t, hung)
	if res := inDir(t, dir, append(args, "--resume")...); res.code != exitDone {
		t.Fatalf("after the first was killed: exit %d\n%s", res.code, res.stderr)
	}
	verified(t, out)
}

// proxy is between a run and the real engine.
type proxy struct {
	host     string // what DOCKER_HOST gets
	listener net.Listener
	hangs    atomic.Bool // nothing passes through

	mu    sync.Mutex
	conns []net.Conn
	dead  bool
}

// newProxy listens on a socket and forwards to the engine.
func newProxy(t *testing.T) *proxy {
	t.Helper()
	dir, err := os.MkdirTemp("", "securebench-proxy-") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "engine.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{host: "unix://" + socket, listener: l}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() { p.die(); serving.Wait(); os.RemoveAll(dir) })
	return p
}

// serve forwards one connection in both directions.
func (p *proxy) serve(c net.Conn) {
	defer c.Close()
	if !p.keep(c) {
		return
	}
	if p.hangs.Load() {
		_, _ = io.Copy(io.Discard, c)
		return
	}
	network, address, _ := strings.Cut(realEngine(), "://")
	engine, err := net.Dial(network, address)
	if err != nil {
		return
	}
	defer engine.Close()
	if !p.keep(engine) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.forward(engine, c) })
	both.Go(func() { p.forward(c, engine) })
	both.Wait()
}

// forward copies to the end of src, which is then the end for dst. Where the
// proxy hangs, bytes and ends stay in it.
func (p *proxy) forward(dst, src net.Conn) {
	_, _ = io.Copy(gate{dst, p}, src)
	if half, ok := dst.(interface{ CloseWrite() error }); ok && !p.hangs.Load() {
		_ = half.CloseWrite()
	}
}

// gate is a connection's writing end while the proxy does not hang.
type gate struct {
	io.Writer
	p *proxy
}

func (g gate) Write(b []byte) (int, error) {
	if g.p.hangs.Load() {
		return len(b), nil
	}
	return g.Writer.Write(b)
}

// keep notes a connection; it is false once the proxy is dead.
func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, c)
	return !p.dead
}

// die ends all connections and takes no more.
func (p *proxy) die() {
	_ = p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	for _, c := range p.conns {
		_ = c.Close()
	}
}

// realEngine is the address of the engine that tests use.
func realEngine() string {
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		return host
	}
	return "unix:///var/run/docker.sock"
}

// outage is a run whose engine goes away in the middle.
type outage struct {
	t          *testing.T
	dir, runID string
	want       map[string]string
	proxy      *proxy
	run        *process
}

// newOutage starts a run behind a proxy and waits for its first records.
func newOutage(t *testing.T, runID string) *outage {
	t.Helper()
	image := needDocker(t)
	o := &outage{t: t, dir: t.TempDir(), runID: ownRun(runID), proxy: newProxy(t)}
	_, o.want = mixedPack(t, o.dir, image, o.runID, 10, 1)
	o.run = background(t, o.dir, []string{"DOCKER_HOST=" + o.proxy.host}, "run", "tester.yaml", "-o", "out", "--progress", "plain")
	awaittest.Until(t, "the first records", func() bool { return countLines(o.out()) >= 3 || !o.run.running() })
	return o
}

func (o *outage) out() string { return filepath.Join(o.dir, "out") }

// checkResumable checks that the run ended with a code and a line that says
// why and how to resume, that this works with the real engine, and that the
// next start removes what was left on it.
func (o *outage) checkResumable(res outcome, code int, words ...string) {
	o.t.Helper()
	message := errorLine(o.t, res)
	o.t.Log(message)
	for _, w := range words {
		if !strings.Contains(message, w) {
			o.t.Errorf("it does not say %q: %s", w, message)
		}
	}
	if res.code != code {
		o.t.Errorf("exit %d, want %d", res.code, code)
	}
	before, torn := wholeLines(o.t, o.out())
	if torn || len(before) < 3 || len(before) == len(o.want) {
		o.t.Errorf("%d records, the last torn: %v", len(before), torn)
	}
	checkAnnounced(o.t, announced(res), before)
	if len(leftovers(o.t, o.runID)) == 0 {
		o.t.Error("nothing is left on the engine: the test does not show that it is removed")
	}
	if res = typed(o.t, o.dir, resumeLine(o.t, message)); res.code != exitDone {
		o.t.Fatalf("with the engine back: exit %d\n%s", res.code, res.stderr)
	}
	after, _ := wholeLines(o.t, o.out())
	nothingLost(o.t, before, after)
	sameVerdicts(o.t, o.out(), o.want)
	verified(o.t, o.out())
	if there := leftovers(o.t, o.runID); len(there) != 0 {
		o.t.Errorf("on the engine are left: %v", there)
	}
}

// TestEngineDies: a run whose engine refuses connections ends immediately. The
// test does not run in parallel, because the start of any other run removes
// what is left on the engine.
func TestEngineDies(t *testing.T) {
	o := newOutage(t, "engine-dies-test")
	o.proxy.die()
	o.checkResumable(o.run.ended(t, hung), exitEngine, "the sandbox engine stopped answering", o.proxy.host)
}

// TestCtrlCAtTheStart: Ctrl-C works while the engine hangs from the start.
func TestCtrlCAtTheStart(t *testing.T) {
	t.Parallel()
	p, dir := newProxy(t), t.TempDir()
	p.hangs.Store(true)
	mixedPack(t, dir, "any-image", "start-test", 3, 0)
	run := background(t, dir, []string{"DOCKER_HOST=" + p.host}, "run", "tester.yaml", "-o", "out", "-q")
	awaittest.Until(t, "a call to the engine", func() bool { p.mu.Lock(); defer p.mu.Unlock(); return len(p.conns) > 0 })
	if err := run.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	res := run.ended(t, hung)
	if message := errorLine(t, res); res.code != exitInterrupted || message != "interrupted before the first task" {
		t.Errorf("exit %d, want %d: %s", res.code, exitInterrupted, message)
	}
}

// slow marks tests that wait for a long time.
func slow(t *testing.T) {
	t.Helper()
	if os.Getenv(envKills) == "" {
		t.Skipf("it takes minutes: set %s", envKills)
	}
	t.Parallel() // it only waits
}

// TestEngineHangs: a run notices an engine that accepts connections but does
// not answer. The package pipeline tests the same in less time.
func TestEngineHangs(t *testing.T) {
	slow(t)
	o := newOutage(t, "engine-hangs-test")
	o.proxy.hangs.Store(true)
	o.checkResumable(o.run.ended(t, hung), exitEngine, "the sandbox engine stopped answering")
}

// TestCtrlCWhileTheEngineHangs: an operator who interrupts before the run
// notices does not wait long either.
func TestCtrlCWhileTheEngineHangs(t *testing.T) {
	slow(t)
	o := newOutage(t, "ctrl-c-hangs-test")
	o.proxy.hangs.Store(true)
	if err := o.run.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	o.checkResumable(o.run.ended(t, hung), exitInterrupted, "interrupted after ", " while the engine did not answer")
}
