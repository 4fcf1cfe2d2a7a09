package main

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"securebench/internal/awaittest"
	"securebench/internal/pipeline/record"
	"securebench/internal/sampletest"
	"securebench/internal/sandbox/enginetest"
	"securebench/internal/sandbox/owner"
)

// The environment variables of the tests that kill runs: the number of kills,
// which also enables the tests that wait for a hanging engine, and the seed of
// their random times.
const (
	envKills = "SECUREBENCH_TEST_KILLS"
	envSeed  = "SECUREBENCH_TEST_SEED"
)

// fewKills is the number for an ordinary test run: one kill at each moment.
const fewKills = 9

// mixedPack writes a pack of n tasks: most pass, some have a wrong answer and
// a few have none. Every third agent sleeps for so many seconds.
func mixedPack(t *testing.T, dir, image, runID string, n, seconds int) (tester string, want map[string]string) {
	t.Helper()
	var rows strings.Builder
	want = map[string]string{}
	for i := range n {
		id, context, verdict := fmt.Sprintf("t%d", i), "say:4", "passed passed "
		switch {
		case i%25 == 7:
			context, verdict = "hush", "failed no_candidate empty_candidate"
		case i%10 == 3:
			context, verdict = "say:5", "failed failed wrong_answer"
		}
		if i%3 == 2 {
			context += " nap"
		}
		want[id] = verdict
		fmt.Fprintf(&rows, `{"id": %q, "input": {"question": "2+2?", "context": %q}, "eval": {"accepted_answers": ["4"]}}`+"\n", id, context)
	}
	write(t, filepath.Join(dir, "tasks.jsonl"), rows.String())
	write(t, filepath.Join(dir, "manifest.yaml"), "id: mixed\nversion: 1\ndefaults:\n  family: short_answer\n  environment:\n    image: "+image+"\n")
	tester = filepath.Join(dir, "tester.yaml")
	write(t, tester, fmt.Sprintf(`schema_version: "0.2"
run: {id: %s, output_dir: out, max_workers: 2}
benchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}
harness:
  type: command
  config:
    command: ["sh", "-c", "if grep -q nap task.json; then sleep %d; fi; grep -o 'say:[0-9]*' task.json | cut -d: -f2"]
`, runID, seconds))
	return tester, want
}

// ownRun is a run id that no other test process uses.
func ownRun(name string) string { return enginetest.Run(name) }

// leftovers lists a run's objects on the engine.
func leftovers(t *testing.T, runID string) []string {
	t.Helper()
	label := "label=securebench.run=" + runID
	return strings.Fields(dockerOutput(t, "ps", "-aq", "--no-trunc", "--filter", label) + "\n" +
		dockerOutput(t, "volume", "ls", "-q", "--filter", label) + "\n" +
		dockerOutput(t, "network", "ls", "-q", "--filter", label))
}

// leftOn lists what a run, or a process that has ended, has on the test's engine.
func leftOn(t *testing.T, runID string, pid int) []string {
	t.Helper()
	if engineOf(t) == "docker" {
		return leftovers(t, runID)
	}
	return slices.Sorted(nativeGroups(t, gone([]int{pid})...).all)
}

// bystander creates a container and a volume of a live owner and returns a
// function that inspects them.
func bystander(t *testing.T, image string) (look func() string) {
	t.Helper()
	name := ownRun("securebench-bystander")
	label := func(key, value string) string { return "--label=securebench." + key + "=" + value }
	owner, run := label("owner", owner.Current().String()), label("run", name)
	t.Cleanup(func() {
		_ = exec.Command("docker", "rm", "-fv", name).Run()
		_ = exec.Command("docker", "volume", "rm", name).Run()
	})
	dockerOutput(t, "volume", "create", owner, run, name)
	dockerOutput(t, "run", "-d", "--name", name, owner, run, "--network=none", "-v", name+":/data", image, "sleep", "100000")
	return func() string {
		return dockerOutput(t, "inspect", "-f", "{{.Id}} {{.State.Running}} {{.State.Pid}} {{.State.StartedAt}}", name) + "\n" +
			dockerOutput(t, "volume", "inspect", "-f", "{{.Name}} {{.CreatedAt}}", name)
	}
}

// process is a run of the shipped binary in the background.
type process struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer // read them after done
	done           chan struct{}
}

// background starts the shipped binary in dir.
func background(t *testing.T, dir string, env []string, args ...string) *process {
	t.Helper()
	return launch(t, dir, command(t, env, args...))
}

// launch starts a command in dir.
func launch(t *testing.T, dir string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{Cmd: cmd, done: make(chan struct{})}
	p.Dir, p.Stdout, p.Stderr = dir, &p.stdout, &p.stderr
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(p.done); _ = p.Wait() }() // checked by its exit code
	t.Cleanup(func() { _ = p.Process.Kill(); <-p.done })
	return p
}

// hung is longer than anything takes that ends on its own, on a machine with
// much else to do.
const hung = awaittest.Hung

// ended waits for the process, but not for ever.
func (p *process) ended(t *testing.T, bound time.Duration) outcome {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(bound):
		_ = p.Process.Kill()
		<-p.done
		t.Fatalf("it did not end within %v:\n%s", bound, p.stderr.String())
	}
	return outcome{p.ProcessState.ExitCode(), p.stdout.String(), p.stderr.String(), p.Process.Pid}
}

// typed runs a command line as an operator would, with the shipped binary
// first in the path.
func typed(t *testing.T, dir, line string) outcome {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	cmd := command(t, []string{"PATH=" + filepath.Dir(path) + ":" + os.Getenv("PATH")})
	cmd.Path, cmd.Args, cmd.Dir = "/bin/sh", []string{"sh", "-c", line}, dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // checked by its exit code
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String(), cmd.Process.Pid}
}

// errorLine returns the line that says why a run ended.
func errorLine(t *testing.T, res outcome) string {
	t.Helper()
	var found []string
	for line := range strings.Lines(res.stderr) {
		if text, ok := strings.CutPrefix(line, "securebench: error: "); ok {
			found = append(found, strings.TrimSuffix(text, "\n"))
		}
	}
	if len(found) != 1 {
		t.Fatalf("exit %d with %d error lines, want one:\n%s", res.code, len(found), res.stderr)
	}
	return found[0]
}

// resumeLine returns the command for resuming that an error line contains.
func resumeLine(t *testing.T, message string) string {
	t.Helper()
	said := regexp.MustCompile(`: (/\S+/securebench run .*)$`).FindStringSubmatch(message) // as the tests call it
	if said == nil {
		t.Fatalf("%q does not say how to resume", message)
	}
	return said[1]
}

// verdicts returns the verdicts of a finished run, by task. Every task has one
// line.
func verdicts(t *testing.T, out string) map[string]string {
	t.Helper()
	got := map[string]string{}
	lines, torn := wholeLines(t, out)
	if torn {
		t.Error("the last line is torn")
	}
	for _, e := range lines {
		if _, twice := got[e.TaskID]; twice {
			t.Errorf("%s has more than one line", e.TaskID)
		}
		got[e.TaskID] = string(e.Status) + " " + string(e.Outcome) + " " + string(e.FailureReason)
	}
	return got
}

// sameVerdicts compares a run with an undisturbed one.
func sameVerdicts(t *testing.T, out string, want map[string]string) {
	t.Helper()
	got := verdicts(t, out)
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if got[id] != want[id] {
			t.Errorf("%s is %q, undisturbed it was %q", id, got[id], want[id])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d tasks have a record, want %d", len(got), len(want))
	}
}

// verified checks that a finished run is complete and signed.
func verified(t *testing.T, out string) {
	t.Helper()
	if res := securebench(t, nil, "verify", out); res.code != exitDone {
		t.Errorf("verify: exit %d\n%s%s", res.code, res.stdout, res.stderr)
	}
}

// wholeLines reads the records of a run that may have been cut short. Only the
// last line may be torn; the others are whole and chained.
func wholeLines(t *testing.T, out string) (lines []record.Entry, torn bool) {
	t.Helper()
	f, err := os.Open(filepath.Join(out, record.LinesName))
	if os.IsNotExist(err) {
		return nil, false
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	prev := record.Genesis
	for raw, err := range record.Lines(f) {
		if err != nil {
			t.Fatal(err)
		}
		if raw.Torn {
			return lines, true
		}
		e, err := record.Decode(raw.Bytes)
		if err != nil || e.Seq != int64(raw.Number-1) || e.Prev != prev {
			t.Fatalf("line %d is not whole or not in its place: %v\n%s", raw.Number, err, raw.Bytes)
		}
		prev = e.Digest
		lines = append(lines, e)
	}
	return lines, false
}

// nothingLost checks that every record of before still exists, unchanged but
// for its position in the chain.
func nothingLost(t *testing.T, before, after []record.Entry) {
	t.Helper()
	there := map[string]*record.Line{}
	for _, e := range after {
		there[e.TaskID] = e.Line
	}
	for _, e := range before {
		if !reflect.DeepEqual(there[e.TaskID], e.Line) {
			t.Errorf("the record of %s was on disk and is lost or changed: %+v, now %+v", e.TaskID, e.Line, there[e.TaskID])
		}
	}
}

// sight is the visible state of a run's directory.
type sight struct {
	there, begun, rewriting, sealing, sealed bool
	history                                  string // the newest folder of it
	records                                  int
}

func exists(path ...string) bool {
	_, err := os.Lstat(filepath.Join(path...))
	return err == nil
}

func lookAt(out string) sight {
	return sight{
		there: exists(out), begun: exists(out, record.ManifestName), rewriting: exists(out, ".new-"+record.LinesName),
		sealed: exists(out, record.StatementName), sealing: sealing(out), records: countLines(out),
		history: newestFolder(filepath.Join(out, record.HistoryName)),
	}
}

// sealing reports whether the signed end is being written, or is there.
func sealing(out string) bool {
	return exists(out, ".new-"+record.StatementName) || exists(out, record.HistoryName, ".new-index.json") ||
		exists(out, record.StatementName)
}

// newestFolder is the last by name in a directory that need not be there.
func newestFolder(dir string) (name string) {
	list, _ := os.ReadDir(dir)
	for _, e := range list {
		if e.IsDir() {
			name = e.Name()
		}
	}
	return name
}

// countLines counts the complete records.
func countLines(out string) int {
	data, _ := os.ReadFile(filepath.Join(out, record.LinesName))
	return bytes.Count(data, []byte("\n"))
}

// state names the state that a kill left.
func (s sight) state(tasks int) string {
	switch {
	case s.sealed:
		return "sealed"
	case s.sealing:
		return "while sealing"
	case s.rewriting:
		return "while rewriting"
	case !s.begun:
		return "before run.json"
	case s.records == tasks:
		return "all recorded"
	case s.records == 0:
		return "none recorded"
	}
	return "some recorded"
}

// moment is the time of a kill: a random delay after something becomes
// visible.
type moment struct {
	name string
	seen func(v *victim, before sight) func() bool
	wait time.Duration // the longest while
	look time.Duration // how often it is looked for
}

// moments returns the moments of one round. Together they cover a run's start,
// its first records, its middle, its end, and the beginning of a resume.
func moments() []moment {
	start := moment{"start-up", func(v *victim, _ sight) func() bool {
		at := time.Now().Add(50*time.Millisecond + time.Duration(v.rng.Int64N(int64(700*time.Millisecond))))
		return func() bool { return time.Now().After(at) }
	}, 0, time.Millisecond}
	records := moment{"records", func(v *victim, before sight) func() bool {
		n := before.records + 1 + v.rng.IntN(v.tasks/3)
		return func() bool { return countLines(v.out) >= min(n, v.tasks) && v.taken(before) }
	}, 40 * time.Millisecond, time.Millisecond}
	taken := moment{"taking over", func(v *victim, before sight) func() bool {
		return func() bool { return v.taken(before) }
	}, 5 * time.Millisecond, 20 * time.Microsecond}
	end := moment{"end", func(v *victim, before sight) func() bool {
		return func() bool { return v.taken(before) && countLines(v.out) == v.tasks }
	}, 15 * time.Millisecond, time.Millisecond}
	seal := moment{"sealing", func(v *victim, before sight) func() bool {
		return func() bool {
			if !v.taken(before) || countLines(v.out) < v.tasks {
				return false
			}
			// It takes less than a millisecond: look without a pause.
			for end := time.Now().Add(10 * time.Second); !sealing(v.out) && time.Now().Before(end); {
			}
			return true
		}
	}, time.Millisecond, time.Millisecond}
	return []moment{start, start, taken, records, start, taken, records, end, seal}
}

// victim is a run that is killed and resumed repeatedly.
type victim struct {
	t             *testing.T
	rng           *rand.Rand
	place         place
	tester, runID string
	tasks         int
	out           string         // of the run that is under way
	known         []record.Entry // records that a kill found on disk
	left          map[string]int // what the kills left, by moment and state
	torn          int
	starts        []int // the processes of all starts
}

// renew switches to a new run.
func (v *victim) renew() { v.out, v.known = filepath.Join(v.t.TempDir(), "out"), nil }

// taken reports whether a start has begun to change the directory.
func (v *victim) taken(before sight) bool {
	if !before.there {
		return exists(v.out)
	}
	return newestFolder(filepath.Join(v.out, record.HistoryName)) > before.history || !before.begun && exists(v.out, record.ManifestName)
}

func (v *victim) start() *process {
	args := []string{"run", v.tester, "-o", v.out, "--progress", "none", "--engine=" + v.place.engine}
	switch {
	case exists(v.out):
		args = append(args, "--resume")
	case v.place.auto && v.rng.IntN(2) == 0:
		args[len(args)-1] = "--engine=auto" // which tries more of the machine
	}
	cmd := command(v.t, v.place.env, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // what it starts can be told from all else
	p := launch(v.t, v.t.TempDir(), cmd)
	v.starts = append(v.starts, p.Process.Pid)
	return p
}

// kill starts the run and kills it at a moment. It returns false if the run
// ended first.
func (v *victim) kill(m moment) bool {
	v.t.Helper()
	before := lookAt(v.out)
	seen := m.seen(v, before)
	p := v.start()
	for end := time.Now().Add(5 * time.Minute); !seen() && p.running() && time.Now().Before(end); {
		time.Sleep(m.look)
	}
	u := v.rng.Float64()
	time.Sleep(time.Duration(u * u * u * float64(m.wait))) // what comes first is done first
	_ = p.Process.Signal(syscall.SIGKILL)                  // it may have ended
	res := p.ended(v.t, time.Minute)
	if status, ok := p.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
		v.finished(res)
		return false
	}
	v.left[m.name+": "+lookAt(v.out).state(v.tasks)]++
	v.remember()
	return true
}

// running reports whether the process is still running.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// remember checks that no record that was ever on disk is lost or changed.
func (v *victim) remember() {
	v.t.Helper()
	now, torn := wholeLines(v.t, v.out)
	if torn {
		v.torn++
	}
	nothingLost(v.t, v.known, now)
	v.known = now
}

// finished checks a run that has ended.
func (v *victim) finished(res outcome) {
	v.t.Helper()
	if res.code != exitDone {
		v.t.Fatalf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
	}
	v.remember()
	verified(v.t, v.out)
	if there := v.place.left(v.t, v.runID, v.starts); len(there) != 0 {
		v.t.Errorf("on the machine are left: %v", there)
	}
}

// TestKilledRunsResume kills runs at random moments and resumes them: they end
// complete, with the verdicts of an undisturbed run, and leave nothing behind.
func TestKilledRunsResume(t *testing.T) {
	t.Parallel()
	var places []place
	for _, find := range []func(t *testing.T) place{dockerPlace, nativePlace} {
		if p := find(t); p.engine != "" {
			places = append(places, p)
		}
	}
	for i, p := range places {
		t.Run(p.engine, func(t *testing.T) {
			t.Parallel()
			if i+1 < len(places) && os.Getenv(envKills) == "" {
				sampletest.Nightly(t, "runs of the next engine are killed, and TestKilledRunnerIsCleanedUpAfter kills one of this")
			}
			killAndResume(t, p)
		})
	}
}

func killAndResume(t *testing.T, where place) {
	look := where.bystander(t)
	before := look()
	kills, seed := killsAndSeed(t)
	t.Logf("%d kills, seed %d", kills, seed)
	runID := ownRun("kill-test")
	tasks := 110
	if os.Getenv(envKills) == "" {
		tasks = 16 // sandboxes take their time
	}
	v := &victim{t: t, rng: rand.New(rand.NewPCG(seed, 0)), place: where, runID: runID, tasks: tasks, left: map[string]int{}}
	var want map[string]string
	v.tester, want = mixedPack(t, t.TempDir(), where.image, runID, tasks, 0)
	v.renew()
	start := time.Now()
	v.finished(v.start().ended(t, 10*time.Minute))
	sameVerdicts(t, v.out, want)
	t.Logf("an undisturbed run takes %v", time.Since(start).Round(time.Millisecond))

	v.renew()
	runs, round := 0, moments()
	for i, killed := 0, 0; killed < kills; i++ {
		if v.kill(round[i%len(round)]) {
			killed++
			continue
		}
		runs++
		sameVerdicts(t, v.out, want)
		v.renew()
	}
	v.finished(v.start().ended(t, 10*time.Minute))
	sameVerdicts(t, v.out, want)
	if after := look(); after != before {
		t.Errorf("a living run's sandbox was\n%s\nand is\n%s", before, after)
	}
	t.Logf("%d runs in %v; %d kills tore a line", runs+1, time.Since(start).Round(time.Second), v.torn)
	for _, what := range slices.Sorted(maps.Keys(v.left)) {
		t.Logf("%3d kills at %s", v.left[what], what)
	}
}

func killsAndSeed(t *testing.T) (kills int, seed uint64) {
	t.Helper()
	kills, seed = fewKills, uint64(time.Now().UnixNano())
	var err error
	if s := os.Getenv(envKills); s != "" {
		if kills, err = strconv.Atoi(s); err != nil {
			t.Fatalf("%s: %v", envKills, err)
		}
	}
	if s := os.Getenv(envSeed); s != "" {
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("%s: %v", envSeed, err)
		}
	}
	return kills, seed
}

// TestRareCuts creates the states that a kill leaves at moments too short to
// be hit often: each can be resumed, and then verifies.
func TestRareCuts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := append(replayPack(t, dir, 5, short), "-q")
	run := func(out string, flags ...string) {
		t.Helper()
		if res := inDir(t, dir, slices.Concat(args, []string{"-o", out}, flags)...); res.code != exitDone {
			t.Fatalf("exit %d\n%s", res.code, res.stderr)
		}
	}
	// One that was resumed has all files that a run can have.
	done, plain := filepath.Join(dir, "done"), filepath.Join(dir, "plain")
	run("plain")
	run("done", "--limit", "3")
	run("done", "--resume=rerun-changed")
	move := func(from, to string) func(*testing.T, string) {
		return func(t *testing.T, out string) {
			if err := os.Rename(filepath.Join(out, from), filepath.Join(out, to)); err != nil {
				t.Fatal(err)
			}
		}
	}
	folder := func(name string) func(*testing.T, string) {
		return func(t *testing.T, out string) {
			if err := os.MkdirAll(filepath.Join(out, name), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	empty := func(name string) func(*testing.T, string) {
		return func(t *testing.T, out string) { write(t, filepath.Join(out, name), "") }
	}
	for _, tt := range []struct {
		name string
		keep []string // of a run that is done; nil is all
		then func(t *testing.T, out string)
	}{
		{"folders", []string{"candidates/", "restricted/"}, nil},
		{"half a salt", []string{"candidates/", "restricted/"}, empty("restricted/.new-salt")},
		{"a salt", []string{"candidates/", record.SaltName}, nil},
		{"an empty file of records", []string{"candidates/", record.SaltName}, empty(record.LinesName)},
		{"half a run manifest", []string{"candidates/", record.SaltName, record.PackName, record.ConfigName, record.ManifestName},
			move(record.ManifestName, ".new-"+record.ManifestName)},
		{"no record", []string{"candidates/", record.SaltName, record.PackName, record.ConfigName, record.ManifestName}, empty(record.LinesName)},
		{"half of the rewritten records", nil, func(t *testing.T, out string) {
			write(t, filepath.Join(out, ".new-"+record.LinesName), `{"agent": `)
			remove(t, out, record.StatementName)
		}},
		{"half a list of history", nil, func(t *testing.T, out string) {
			move(record.IndexName, record.HistoryName+"/.new-index.json")(t, out)
			remove(t, out, record.StatementName)
		}},
		{"a list of history", nil, func(t *testing.T, out string) { remove(t, out, record.StatementName) }},
		{"half a statement", nil, move(record.StatementName, ".new-"+record.StatementName)},
		{"another folder of history", nil, folder(record.HistoryName + "/20260101T000000Z")},
		{"the first folder of history", []string{}, func(t *testing.T, out string) {
			keep(t, plain, out, nil)
			folder(record.HistoryName+"/20260101T000000Z")(t, out)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out")
			keep(t, done, out, tt.keep)
			if tt.then != nil {
				tt.then(t, out)
			}
			run(out, "--resume")
			if lines, _ := wholeLines(t, out); len(lines) != 5 {
				t.Errorf("%d records, want 5", len(lines))
			}
			verified(t, out)
		})
	}
}

// keep copies a run's directory: all of it, or some files and folders.
func keep(t *testing.T, from, to string, names []string) {
	t.Helper()
	if names == nil {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, name := range names {
		dir, file := filepath.Split(name)
		if err := os.MkdirAll(filepath.Join(to, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if file == "" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(to, name), string(data))
	}
}

func remove(t *testing.T, path ...string) {
	t.Helper()
	if err := os.Remove(filepath.Join(path...)); err != nil {
		t.Fatal(err)
	}
}

// TestInterruptedRunResumes: the command that is printed after Ctrl-C resumes
// the run, even if names need quotes.
func TestInterruptedRunResumes(t *testing.T) {
	t.Parallel()
	image := needDocker(t)
	runID, cwd := ownRun("go-on-test"), t.TempDir()
	pack := filepath.Join(cwd, "it's a pack")
	if err := os.Mkdir(pack, 0o755); err != nil {
		t.Fatal(err)
	}
	mixedPack(t, pack, image, runID, 12, 1)
	out := filepath.Join(cwd, "out; here")
	p := background(t, cwd, nil, "run", "it's a pack/tester.yaml", "-o", "out; here", "--progress", "plain")
	awaittest.Until(t, "the first records", func() bool { return countLines(out) >= 2 })
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	res := p.ended(t, hung)
	if res.code != exitInterrupted {
		t.Fatalf("exit %d, want %d\n%s", res.code, exitInterrupted, res.stderr)
	}
	line := resumeLine(t, errorLine(t, res))
	before, _ := wholeLines(t, out)
	res = typed(t, cwd, line)
	if res.code != exitDone {
		t.Fatalf("%s: exit %d\n%s", line, res.code, res.stderr)
	}
	after, _ := wholeLines(t, out)
	if len(after) != 12 {
		t.Errorf("%d tasks have a record, want 12", len(after))
	}
	nothingLost(t, before, after)
	verified(t, out)
	if there := leftovers(t, runID); len(there) != 0 {
		t.Errorf("on the engine are left: %v", there)
	}
}
