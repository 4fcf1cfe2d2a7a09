package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"securebench/internal/awaittest"
	"securebench/internal/pipeline/record"
	"securebench/internal/sampletest"
	"securebench/internal/sandbox/native/require"
	"securebench/internal/sandbox/sandboxtest"
)

// envFaults enables faults that take minutes.
const envFaults = "SECUREBENCH_TEST_FAULTS"

// sleepersPack is mixedPack with sandboxes so small that a machine holds many, and
// agents that sleep, all but the first.
func sleepersPack(t *testing.T, dir, image, runID string, n int) (tester string) {
	t.Helper()
	tester, _ = mixedPack(t, dir, image, runID, n, 600)
	text, err1 := os.ReadFile(tester)
	rows, err2 := os.ReadFile(filepath.Join(dir, "tasks.jsonl"))
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	write(t, tester, string(text)+"limits: {memory: 32MiB, disk: 4MiB, files: 1000, pids: 16}\n")
	first, rest, _ := strings.Cut(string(rows), "\n")
	write(t, filepath.Join(dir, "tasks.jsonl"), first+"\n"+strings.ReplaceAll(rest, `"context": "`, `"context": "nap `))
	return tester
}

// TestCtrlCWithManySandboxes: an interrupt ends many sandboxes, 50 where all tests run, and
// nothing of them is left.
func TestCtrlCWithManySandboxes(t *testing.T) {
	t.Parallel()
	most := 16
	if sampletest.Whole() {
		most = 50
	}
	where, dir := needNative(t), t.TempDir()
	tester := sleepersPack(t, dir, where.image, ownRun("many"), most+1)
	cmd := command(t, where.env, "run", tester, "--engine=native", "--workers", strconv.Itoa(most), "--progress", "plain")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p := launch(t, dir, cmd)
	pids := []int{p.Process.Pid}
	awaittest.Until(t, "all agents that sleep", func() bool {
		return countLines(filepath.Join(dir, "out")) == 1 && busy(nativeGroups(t, pids...)) >= most || !p.running()
	})
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	res := p.ended(t, hung) // the agents sleep for longer
	message := errorLine(t, res)
	if res.code != exitInterrupted || !strings.Contains(message, fmt.Sprintf("interrupted after 1 of %d", most+1)) {
		t.Errorf("exit %d, want %d: %s", res.code, exitInterrupted, message)
	}
	if there := where.left(t, "", pids); len(there) > 0 {
		t.Errorf("%d things are left, such as %s", len(there), there[0])
	}
	checkAnnounced(t, announced(res), entries(t, filepath.Join(dir, "out")))
}

// entries are the records of a run, whose last line may be torn.
func entries(t *testing.T, out string) []record.Entry {
	t.Helper()
	lines, _ := wholeLines(t, out)
	return lines
}

// busy counts the sandboxes that have processes.
func busy(g groups) (n int) {
	for name, processes := range g {
		if strings.Contains(name, "/") && processes > 0 {
			n++
		}
	}
	return n
}

// fakeRuntime puts a runtime first in PATH that runs a script for all but its version.
func fakeRuntime(t *testing.T, script string) (env string) {
	t.Helper()
	runtime, err := require.FindRuntime("", os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text := "#!/bin/sh\ncase \"$*\" in *--version*) exec " + runtime.Path + " --version;; esac\n" + strings.ReplaceAll(script, "RUNTIME", runtime.Path) + "\n"
	if err := sandboxtest.WriteProgram(filepath.Join(dir, runtime.Name), []byte(text)); err != nil {
		t.Fatal(err)
	}
	return "PATH=" + dir + ":" + os.Getenv("PATH")
}

// TestCtrlCWhileTheRuntimeHangs: a runtime that never returns does not keep a run
// from being interrupted, and with one that works the run can be resumed.
func TestCtrlCWhileTheRuntimeHangs(t *testing.T) {
	t.Parallel()
	where, dir := needNative(t), t.TempDir()
	tester, want := mixedPack(t, dir, where.image, ownRun("hung-runtime"), 4, 0)
	out := filepath.Join(dir, "out")
	hang := fakeRuntime(t, "sleep 100000")
	cmd := command(t, append(where.env, hang), "run", tester, "--engine=native", "--progress", "plain")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p := launch(t, dir, cmd)
	pids := []int{p.Process.Pid}
	awaittest.Until(t, "the runtime", func() bool { return len(sessions(t, pids)) >= 3 || !p.running() }) // the run, a script and its sleep
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	res := p.ended(t, hung)
	if message := errorLine(t, res); res.code != exitInterrupted {
		t.Errorf("exit %d, want %d: %s", res.code, exitInterrupted, message)
	}
	if there := where.left(t, "", pids); len(there) > 0 {
		t.Errorf("left: %v", there)
	}
	args := []string{"run", tester, "--engine=native", "-q", "-o", out}
	if exists(out) {
		args = append(args, "--resume")
	}
	if res := securebench(t, where.env, args...); res.code != exitDone {
		t.Fatalf("with a runtime that works: exit %d\n%s", res.code, res.stderr)
	}
	sameVerdicts(t, out, want)
	verified(t, out)
}

// TestRuntimeDies: runtimes that are killed while they start sandboxes cost a retry,
// and no verdict.
func TestRuntimeDies(t *testing.T) {
	t.Parallel()
	where, dir := needNative(t), t.TempDir()
	tester, want := mixedPack(t, dir, where.image, ownRun("dead-runtime"), 12, 0)
	count := filepath.Join(t.TempDir(), "count")
	// Every fourth is killed, after so many milliseconds.
	dies := fakeRuntime(t, `echo >> `+count+`; n=$(grep -c '' `+count+`)
[ $((n % 4)) = 3 ] || exec RUNTIME "$@"
exec timeout --foreground -s KILL 0.00$((n % 10)) RUNTIME "$@"`)
	res := securebench(t, append(where.env, dies), "run", tester, "--engine=native", "-o", filepath.Join(dir, "out"), "--progress", "plain", "--workers", "1")
	if res.code != exitDone && res.code != exitInfra {
		t.Errorf("exit %d\n%s", res.code, res.stderr)
	}
	if !strings.Contains(res.stderr, "RETRY") {
		t.Errorf("no attempt was retried, so that the test shows nothing:\n%s", res.stderr)
	}
	if res.code == exitInfra {
		res = securebench(t, where.env, "run", tester, "--engine=native", "-o", filepath.Join(dir, "out"), "-q", "--resume")
	}
	if res.code != exitDone {
		t.Fatalf("exit %d\n%s", res.code, res.stderr)
	}
	sameVerdicts(t, filepath.Join(dir, "out"), want)
	verified(t, filepath.Join(dir, "out"))
	if there := where.left(t, "", nil); len(there) > 0 {
		t.Errorf("left: %v", there)
	}
}

// TestExhaustedParent: a run in a control group that is too small for it ends, if it
// cannot work; what it recorded is right, the next start removes what it left, and
// with more room it can be resumed.
func TestExhaustedParent(t *testing.T) {
	t.Parallel()
	where := needNative(t)
	for controller, limits := range map[string]struct {
		file   string
		values []string
	}{
		"pids":   {"pids.max", []string{"8", "12", "16", "20"}},
		"memory": {"memory.limit_in_bytes", []string{"12M", "20M", "28M", "40M"}},
	} {
		for i, value := range limits.values {
			if i%2 == 0 && os.Getenv(envFaults) == "" {
				continue
			}
			t.Run(controller+" "+value, func(t *testing.T) {
				exhaust(t, where, controller, limits.file, value)
			})
		}
	}
}

func exhaust(t *testing.T, where place, controller, file, value string) {
	group := filepath.Join("/sys/fs/cgroup", controller, fmt.Sprintf("fault-%d-%s", os.Getpid(), value))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("only with control groups of version 1: %v", err)
	}
	t.Cleanup(func() {
		for end := time.Now().Add(time.Minute); os.Remove(group) != nil && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond) // its processes are about to end
		}
	})
	write(t, filepath.Join(group, file), value)
	dir := t.TempDir()
	tester, want := mixedPack(t, dir, where.image, ownRun("exhausted-"+controller+value), 6, 0)
	out := filepath.Join(dir, "out")
	limited := command(t, where.env, "run", tester, "--engine=native", "-o", out, "--progress", "plain")
	// It enters the group and then becomes the run.
	limited.Args = append([]string{"sh", "-c", `echo $$ > "$0"/cgroup.procs && exec "$@"`, group, limited.Path}, limited.Args[1:]...)
	limited.Path = "/bin/sh"
	limited.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p := launch(t, dir, limited)
	res := p.ended(t, hung)
	t.Logf("exit %d, %d records: %.300s", res.code, countLines(out), lastLine(res.stderr))
	for _, e := range entries(t, out) {
		if got := string(e.Status) + " " + string(e.Outcome) + " " + string(e.FailureReason); got != want[e.TaskID] && e.Status != "pending" {
			t.Errorf("%s is %q, undisturbed it is %q", e.TaskID, got, want[e.TaskID])
		}
	}
	args := []string{"run", tester, "--engine=native", "-q", "-o", out}
	if exists(out) {
		args = append(args, "--resume")
	}
	if res := securebench(t, where.env, args...); res.code != exitDone {
		t.Fatalf("with more room: exit %d\n%s", res.code, res.stderr)
	}
	sameVerdicts(t, out, want)
	verified(t, out)
	if there := where.left(t, "", []int{p.Process.Pid}); len(there) > 0 {
		t.Errorf("left: %v", there)
	}
}

// lastLine is the last line of a text.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// TestFullImageStore: an import that fills the disk says so and leaves the store as it
// was; with more room it works.
func TestFullImageStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root := filepath.Join(dir, "root", "data")
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 40 { // for one file more than there is room, and for inodes
		write(t, filepath.Join(root, fmt.Sprint(i)), strings.Repeat("x", 100_000))
	}
	for _, options := range []string{"size=2m", "nr_inodes=30"} {
		t.Run(options, func(t *testing.T) {
			store := filepath.Join(t.TempDir(), "disk")
			remount := disk(t, store, options+",mode=700")
			env := []string{"SECUREBENCH_IMAGES=" + filepath.Join(store, "images")}
			res := securebench(t, env, "image", "import", filepath.Join(dir, "root"), "--name", "data:1")
			if res.code == exitDone || !strings.Contains(res.stderr, "no space left on device") {
				t.Fatalf("exit %d: %s", res.code, res.stderr)
			}
			if res := securebench(t, env, "image", "list"); res.code != exitDone || strings.Contains(res.stdout, "data:1") {
				t.Errorf("exit %d: %s%s", res.code, res.stdout, res.stderr)
			}
			if there := unfinished(t, filepath.Join(store, "images"), t.TempDir()); len(there) > 0 {
				t.Errorf("left: %v", there)
			}
			remount(0, "size=64m,nr_inodes=1000")
			if res := securebench(t, env, "image", "import", filepath.Join(dir, "root"), "--name", "data:1"); res.code != exitDone {
				t.Errorf("with more room: exit %d: %s", res.code, res.stderr)
			}
			if res := securebench(t, env, "image", "list"); !strings.Contains(res.stdout, "data:1") {
				t.Errorf("the image is not listed: %s%s", res.stdout, res.stderr)
			}
		})
	}
}

// TestRunsShareAnImageStore: runs that use an image at the same time, and a user who
// prunes meanwhile, do not disturb each other.
func TestRunsShareAnImageStore(t *testing.T) {
	t.Parallel()
	where := needNative(t)
	var all []*process
	var outs []string
	var want map[string]string
	for i := range 2 {
		dir := t.TempDir()
		var tester string
		tester, want = mixedPack(t, dir, where.image, ownRun(fmt.Sprint("share-", i)), 20, 0)
		outs = append(outs, filepath.Join(dir, "out"))
		all = append(all, background(t, dir, where.env, "run", tester, "--engine=native", "-q", "-o", outs[i]))
	}
	pruned := 0
	for all[0].running() || all[1].running() {
		time.Sleep(50 * time.Millisecond)
		if !exists(outs[0], "candidates.jsonl") || !exists(outs[1], "candidates.jsonl") {
			continue // nobody uses the image yet
		}
		if res := securebench(t, where.env, "image", "prune", "--all"); res.code != exitDone {
			t.Errorf("prune: exit %d\n%s", res.code, res.stderr)
		}
		pruned++
	}
	for i, p := range all {
		if res := p.ended(t, hung); res.code != exitDone {
			t.Fatalf("exit %d\n%s", res.code, res.stderr)
		}
		sameVerdicts(t, outs[i], want)
		verified(t, outs[i])
	}
	if pruned == 0 {
		t.Error("nobody pruned while they ran")
	}
}

// TestSandboxKilled: sandboxes of a verification whose first process is killed
// from outside, before or while they are needed, are replaced or cost a retry, and no verdict.
func TestSandboxKilled(t *testing.T) {
	t.Parallel()
	where, dir := needNative(t), t.TempDir()
	disturbedPack(t, dir, where.image, ownRun("killed-sandbox"), "def add(a, b):\n    return a + b\n")
	p := background(t, dir, where.env, "run", "tester.yaml", "--engine=native", "-o", "out", "--progress", "plain")
	looks, killed := map[int]int{}, 0
	awaittest.Until(t, "the sandboxes of the verification", func() bool {
		for _, first := range pythons(p.Process.Pid) {
			// Right after its start it can be the runtime's end that killed it.
			if looks[first]++; looks[first] >= 6 && syscall.Kill(first, syscall.SIGKILL) == nil {
				killed++
			}
		}
		return killed > 0 || !p.running()
	})
	if res := p.ended(t, hung); res.code != exitDone {
		t.Errorf("exit %d\n%s", res.code, res.stderr)
	}
	lines := entries(t, filepath.Join(dir, "out"))
	if killed == 0 || len(lines) != 1 || lines[0].Outcome != "passed" {
		t.Fatalf("killed %d; records: %+v", killed, lines)
	}
	for _, r := range lines[0].Retries {
		if !strings.Contains(r.Error, "disturbed from outside") {
			t.Errorf("a retry says %q", r.Error)
		}
	}
	verified(t, filepath.Join(dir, "out"))
	if there := where.left(t, "", []int{p.Process.Pid}); len(there) > 0 {
		t.Errorf("left: %v", there)
	}
}

// pythons lists the first processes of sandboxes of a process that are Python.
func pythons(parent int) (pids []int) {
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	for _, name := range children {
		text, _ := os.ReadFile(name)
		for _, field := range strings.Fields(string(text)) {
			pid, _ := strconv.Atoi(field)
			group, _ := os.ReadFile("/proc/" + field + "/cgroup")
			comm, _ := os.ReadFile("/proc/" + field + "/comm")
			if strings.Contains(string(group), "/securebench/") && strings.HasPrefix(string(comm), "python3") {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}
