package launch_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"securebench/internal/awaittest"
	"securebench/internal/fault"
	"securebench/internal/launch"
	"securebench/internal/sandbox/sandboxtest"
)

// program prints its arguments, one a line, into the file $OUT.
const program = "#!/bin/sh\nprintf '%s\\n' \"$@\" >>\"$OUT\"\n"

// sbatch keeps its arguments and the script that it reads, and prints the number of a
// job in a cluster.
const sbatch = `#!/bin/sh
n=$(ls "$JOBS" | wc -l)
printf '%s\n' "$@" >"$JOBS/$n.args"
cat >"$JOBS/$n.script"
echo "4$n;here"
`

func shards() launch.Shards {
	return launch.Shards{Run: "/data/runs/demo", Work: "/data", ID: "demo", Version: "0123456789abcdef", Count: 3, Args: []string{"packs/demo", "--agent", "oracle"}}
}

// hostile are words that are code to a shell that reads them unquoted.
func hostile(marker string) []string {
	return []string{"$(touch " + marker + ")", "`touch " + marker + "`", "'; touch " + marker + "; '", `"; touch ` + marker + `; "`, "a b", "*", "~", "#c", "--", "SHARD", "MERGE", "$HOME", `\`}
}

// TestSlurmQuotes runs the printed script and the scripts of its jobs: each word arrives
// as it was given, and none runs as code. The weak twin joins the same words without
// quotes, and there they run.
func TestSlurmQuotes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	jobs, marker := filepath.Join(dir, "jobs"), filepath.Join(dir, "marker")
	if err := os.Mkdir(jobs, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "sbatch"), sbatch)
	bench := filepath.Join(dir, "$(touch marker) 'bench'")
	write(t, bench, program)

	of := shards()
	of.Args = hostile(marker)
	of.Run = "/runs/$(touch " + marker + ")"
	s := launch.Slurm{Program: bench, Time: "1:00", Options: []string{"--comment=$(touch " + marker + ")"}}
	script, err := s.Script(of)
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "JOBS=" + jobs}
	shell(t, dir, script, env...)
	if got, want := lines(t, filepath.Join(jobs, "0.args")), []string{"--parsable", "--job-name=securebench-demo", "--chdir=/data", "--array=0-2",
		"--requeue", "--open-mode=append", "--signal=B:TERM@300", s.Options[0], "--time=1:00"}; !slices.Equal(sorted(got), sorted(want)) {
		t.Errorf("the array's options are %q, want %q", got, want)
	}
	if got, want := lines(t, filepath.Join(jobs, "2.args")), []string{"--parsable", "--job-name=securebench-demo-merge", "--chdir=/data",
		"--dependency=afterany:40", s.Options[0]}; !slices.Equal(sorted(got), sorted(want)) {
		t.Errorf("the options of the merge are %q, want %q", got, want)
	}

	out := filepath.Join(dir, "out")
	shell(t, dir, read(t, filepath.Join(jobs, "0.script")), "OUT="+out, "SLURM_ARRAY_TASK_ID=2")
	if got, want := lines(t, out), append([]string{"run", "--shard", "2", "-o", of.Run}, of.Args...); !slices.Equal(got, want) {
		t.Errorf("a shard got %q, want %q", got, want)
	}
	merged := filepath.Join(dir, "merged")
	shell(t, dir, read(t, filepath.Join(jobs, "2.script")), "OUT="+merged)
	if got, want := lines(t, merged), []string{"merge", of.Run}; !slices.Equal(got, want) {
		t.Errorf("the merge got %q, want %q", got, want)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("a word ran as code")
	}
	shell(t, dir, "true "+of.Args[0])
	if _, err := os.Stat(marker); err != nil {
		t.Error("without quotes, no word runs as code either")
	}
}

// TestSlurmRefuses: nothing is written that would begin a new line, or cannot be seen.
func TestSlurmRefuses(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*launch.Shards, *launch.Slurm){
		"a line break in an argument":   func(of *launch.Shards, _ *launch.Slurm) { of.Args = []string{"a\nSHARD\ntouch /marker"} },
		"a line break in the run":       func(of *launch.Shards, _ *launch.Slurm) { of.Run = "/data/a\nb" },
		"an escape in the folder":       func(of *launch.Shards, _ *launch.Slurm) { of.Work = "/data/\x1b[2J" },
		"a line break in the id":        func(of *launch.Shards, _ *launch.Slurm) { of.ID = "a\nb" },
		"a byte that is not UTF-8":      func(of *launch.Shards, _ *launch.Slurm) { of.Args = []string{"\xff"} },
		"a line break in the program":   func(_ *launch.Shards, s *launch.Slurm) { s.Program = "a\nb" },
		"a line break in the time":      func(_ *launch.Shards, s *launch.Slurm) { s.Time = "1\n2" },
		"a line break in an option":     func(_ *launch.Shards, s *launch.Slurm) { s.Options = []string{"--x=\n"} },
		"less than one shard at a time": func(of *launch.Shards, _ *launch.Slurm) { of.AtOnce = -1 },
	} {
		of, s := shards(), launch.Slurm{Program: "securebench"}
		change(&of, &s)
		if script, err := s.Script(of); fault.KindOf(err) != fault.Usage || script != "" {
			t.Errorf("%s: got %q and %v", name, script, err)
		}
	}
}

// TestSlurmArray: the number of tasks follows the shards, and a throttle bounds how many
// run at the same time.
func TestSlurmArray(t *testing.T) {
	t.Parallel()
	for want, of := range map[string]launch.Shards{
		"--array=0-0": {Count: 1}, "--array=0-999": {Count: 1000}, "--array=0-99%7": {Count: 100, AtOnce: 7},
	} {
		job, err := launch.Slurm{Program: "securebench"}.Array(of)
		if err != nil || !slices.Contains(job.Options, want) {
			t.Errorf("%d shards, %d at a time: %v, options %q, want %s", of.Count, of.AtOnce, err, job.Options, want)
		}
	}
}

// TestSlurmSignal: a job's script becomes the program, so that Slurm's signals reach it
// and its exit code is the job's.
func TestSlurmSignal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bench, ready := filepath.Join(dir, "bench"), filepath.Join(dir, "ready")
	write(t, bench, "#!/bin/sh\ntrap 'exit 42' TERM\necho $$ >"+ready+".new\nmv "+ready+".new "+ready+"\nread line\n")
	job, err := launch.Slurm{Program: bench}.Array(shards())
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "script")
	write(t, script, job.Script)
	c := exec.Command(script)
	c.Env = []string{"SLURM_ARRAY_TASK_ID=0"}
	in, err := c.StdinPipe() // the program reads it until the signal comes
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	awaittest.Until(t, "the program reads", func() bool { _, err := os.Stat(ready); return err == nil })
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if failed := (*exec.ExitError)(nil); !errors.As(c.Wait(), &failed) || failed.ExitCode() != 42 {
		t.Errorf("the job ended with %v, want the program's 42", c.ProcessState)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := sandboxtest.WriteProgram(name, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func lines(t *testing.T, name string) []string {
	t.Helper()
	return strings.Split(strings.TrimSuffix(read(t, name), "\n"), "\n")
}

func sorted(words []string) []string { return slices.Sorted(slices.Values(words)) }

// shell runs a script.
func shell(t *testing.T, dir, script string, env ...string) {
	t.Helper()
	c := exec.Command("sh")
	c.Dir, c.Env, c.Stdin = dir, append([]string{"PATH=" + os.Getenv("PATH")}, env...), strings.NewReader(script)
	var said bytes.Buffer
	c.Stdout, c.Stderr = &said, &said
	if err := c.Run(); err != nil {
		t.Fatalf("%v: %s", err, said.String())
	}
}
