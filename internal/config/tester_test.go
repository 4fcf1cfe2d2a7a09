package config_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"securebench/internal/config"
	"securebench/internal/source"
)

// load writes text as tester.yaml and loads it; the directory's name is cut
// out of the error.
func load(t *testing.T, text string, checks ...config.Check) (*config.Tester, string, string) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "tester.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := config.LoadTester(path, checks...)
	if err != nil {
		return nil, dir, strings.ReplaceAll(err.Error(), dir+"/", "")
	}
	return got, dir, ""
}

const minimal = `schema_version: "0.2"
run: {id: r, output_dir: out}
benchmark: {manifest: m.yaml, tasks: t.jsonl}
harness: {type: command, config: {command: [a]}}
`

func TestLoadTesterDefaults(t *testing.T) {
	got, dir, problem := load(t, minimal)
	if problem != "" {
		t.Fatal(problem)
	}
	want := config.Default()
	want.Path = filepath.Join(dir, "tester.yaml")
	want.RunID = "r"
	want.OutputDir = filepath.Join(dir, "out")
	want.Manifest = filepath.Join(dir, "m.yaml")
	want.Tasks = filepath.Join(dir, "t.jsonl")
	want.Harness.Type = "command"
	ignore := cmpopts.IgnoreFields(config.Harness{}, "Config", "Pos", "TypePos", "EnvPos")
	if d := cmp.Diff(want, got, ignore, cmpopts.IgnoreFields(config.Tester{}, "ManifestPos", "TasksPos")); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if s := string(got.Harness.Config.JSON()); s != `{"command":["a"]}` {
		t.Errorf("config = %s", s)
	}
	if got.Harness.Pos.Line != 4 {
		t.Errorf("position of harness = %v", got.Harness.Pos)
	}
}

func TestLoadTesterEverything(t *testing.T) {
	got, dir, problem := load(t, `schema_version: "0.2"
run: {id: r 1, output_dir: /abs//out, max_workers: 3, attempts: 5, retries: 0, score_timeouts: true}
benchmark: {manifest: ../p/m.yaml, tasks: t.jsonl}
harness: {type: codex, env: [A, B, A]}
verification: {disallow_dangerous_commands: false, deny_commands: [chroot, " chroot "]}
limits:
  memory: 512MiB
  disk: 1GiB
  files: 1000
  output: 64KiB
  candidate: 100B
  cpus: 0.5
  pids: 32
  produce_seconds: 1.5
  verify_seconds: 1e-9
sandbox: {engine: docker, runtime: runsc, commands: {allow: [ls], deny: ["*"]}}
`)
	if problem != "" {
		t.Fatal(problem)
	}
	want := &config.Tester{
		Path: filepath.Join(dir, "tester.yaml"), RunID: "r 1", OutputDir: "/abs/out",
		Manifest: filepath.Join(filepath.Dir(dir), "p/m.yaml"), Tasks: filepath.Join(dir, "t.jsonl"),
		Harness:      config.Harness{Type: "codex", Env: []string{"A", "B"}},
		Verification: config.Verification{Deny: []string{"chroot"}},
		MaxWorkers:   3, Attempts: 5, Retries: 0, ScoreTimeouts: true,
		Limits: config.Limits{
			Memory: 512 << 20, Disk: 1 << 30, Files: 1000, Output: 64 << 10, Candidate: 100, CPUs: 0.5, Pids: 32,
			Produce: 1500 * time.Millisecond, Verify: time.Millisecond,
		},
		Sandbox: config.Sandbox{Engine: "docker", Runtime: "runsc", Allow: []string{"ls"}, Deny: []string{"*"}},
	}
	ignore := cmpopts.IgnoreFields(config.Harness{}, "Config", "Pos", "TypePos", "EnvPos")
	if d := cmp.Diff(want, got, ignore, cmpopts.IgnoreFields(config.Tester{}, "ManifestPos", "TasksPos")); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if got.ManifestPos.Line != 3 || got.ManifestPos.Col != 23 || got.TasksPos.Col != 43 {
		t.Errorf("the pack is named at %v and %v", got.ManifestPos, got.TasksPos)
	}
	if at := got.Harness.EnvPos; len(at) != 2 || at[0].Line != 4 || at[0].Col != 30 || at[1].Col != 33 {
		t.Errorf("positions of harness.env = %v", at)
	}
	if got.Harness.Config == nil || got.Harness.Config.Kind != source.Map {
		t.Errorf("a missing harness.config is %v, want an empty object", got.Harness.Config)
	}
}

// TestLoadTesterProblems gives the whole error, so that places, order and
// completeness are checked.
func TestLoadTesterProblems(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"root": {"- a\n", `tester.yaml:1:1: the tester config root must be an object, not a list`},
		"version as number": {
			strings.Replace(minimal, `"0.2"`, `0.2`, 1),
			`tester.yaml:1:17: root.schema_version must be a non-empty string, not a number (write schema_version: "0.2")`,
		},
		"version": {
			strings.Replace(minimal, `"0.2"`, `"0.3"`, 1),
			`tester.yaml:1:17: unsupported tester schema_version "0.3" (write schema_version: "0.2")`,
		},
		"nothing": {"{}\n", `tester.yaml:1:1: root.schema_version is required (write schema_version: "0.2")
tester.yaml:1:1: root.run is required
tester.yaml:1:1: root.benchmark is required
tester.yaml:1:1: root.harness is required`},
		"many at once, in file order": {`schema_version: "0.2"
limits: {memory: 512, cpus: 0, pids: 0, disk: 5MB, produce_seconds: -1, memry: 1}
run: {id: " ", Output_dir: x, max_workers: 0, attempts: 1.0}
benchmark: [a]
harness: {type: 12345, env: ["A=secretvalue"], config: no}
verification: {deny_commands: [rm], disallow_dangerous_commands: "yes"}
sandbox: {engine: podman, runtime: "-x", commands: {Allow: [], deny: x}}
extra: 1
`, `tester.yaml:2:18: limits.memory must be a size with a unit, not a number (write a whole number and B, KiB, MiB, GiB or TiB, such as 512MiB)
tester.yaml:2:29: limits.cpus must be above 0
tester.yaml:2:38: limits.pids must be from 1 to 4194304
tester.yaml:2:47: limits.disk: invalid size "5MB": write a whole number and B, KiB, MiB, GiB or TiB, such as 512MiB
tester.yaml:2:69: limits.produce_seconds must be above 0
tester.yaml:2:73: limits contains unsupported field "memry" (did you mean "memory"?)
tester.yaml:3:6: run.output_dir is required
tester.yaml:3:11: run.id must be a non-empty string
tester.yaml:3:16: run has field "Output_dir" in the wrong case (write output_dir)
tester.yaml:3:44: run.max_workers must be from 1 to 1024
tester.yaml:3:57: run.attempts must be an integer, not 1.0
tester.yaml:4:12: root.benchmark must be an object, not a list
tester.yaml:5:17: harness.type must be a non-empty string, not a number (quote it: "12345")
tester.yaml:5:30: harness.env[0] contains "=" (list only the name; its value comes from the environment)
tester.yaml:5:56: harness.config must be an object, not a string
tester.yaml:6:32: verification.deny_commands[0] must be one of: chroot
tester.yaml:6:66: verification.disallow_dangerous_commands must be true or false, not a string
tester.yaml:7:19: sandbox.engine must be one of: auto, docker, native
tester.yaml:7:36: sandbox.runtime must be the name of a runtime, such as runc or runsc
tester.yaml:7:53: sandbox.commands has field "Allow" in the wrong case (write allow)
tester.yaml:7:70: sandbox.commands.deny must be a list, not a string
tester.yaml:8:1: root contains unsupported field "extra" (known: schema_version, run, benchmark, harness, judge, verification, limits, sandbox)`},
		"duplicate key": {minimal + "run: {id: x, output_dir: y}\n",
			`tester.yaml:5:1: duplicate key "run"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, got := load(t, tc.text)
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if strings.Contains(got, "secretvalue") {
				t.Error("the error repeats what may be a value")
			}
		})
	}
}

func TestLoadTesterChecks(t *testing.T) {
	called := 0
	check := func(c *config.Tester) source.Problems {
		called++
		return source.Problems{source.Problemf(c.Harness.Config.Get("command").Pos, "from the check")}
	}
	_, _, got := load(t, minimal+"zzz: 1\n", check)
	want := `tester.yaml:4:44: from the check
tester.yaml:5:1: root contains unsupported field "zzz" (known: schema_version, run, benchmark, harness, judge, verification, limits, sandbox)`
	if d := cmp.Diff(want, got); d != "" || called != 1 {
		t.Errorf("called %d times; -want +got:\n%s", called, d)
	}
	if _, _, got := load(t, strings.Replace(minimal, "command,", "\" \",", 1), check); called != 1 {
		t.Errorf("the check ran on a broken harness section: %s", got)
	}
}

func TestEmptySectionsAreAbsent(t *testing.T) {
	if _, _, problem := load(t, minimal+"limits:\nsandbox: {commands: }\nverification:\n"); problem != "" {
		t.Error(problem)
	}
}

func TestLoadTesterFiles(t *testing.T) {
	if _, err := config.LoadTester(filepath.Join(t.TempDir(), "no.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	_, _, got := load(t, "a: "+strings.Repeat("x", 1<<20))
	if !strings.Contains(got, "larger than") {
		t.Errorf("huge file: %s", got)
	}
}

func TestSamples(t *testing.T) {
	files, err := filepath.Glob("testdata/samples/*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatalf("own samples: %v, %v", files, err)
	}
	dir := os.Getenv("SECUREBENCH_SAMPLES")
	if dir == "" {
		t.Log("SECUREBENCH_SAMPLES is not set: own copies only")
	} else {
		err := filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
			if filepath.Base(p) == "tester.yaml" {
				files = append(files, p)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range files {
		if _, err := config.LoadTester(f); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
}

func FuzzLoadTester(f *testing.F) {
	f.Add([]byte(minimal))
	f.Add([]byte("schema_version: \"0.2\"\nrun: &a {id: x, output_dir: *a}\n"))
	f.Add([]byte("limits: {memory: 99999999999999999999TiB, produce_seconds: 1e308}\n"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(dir, "tester.yaml")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := config.LoadTester(path)
		if err != nil {
			return
		}
		l := got.Limits
		if got.RunID == "" || got.Manifest == "" || got.Tasks == "" || got.OutputDir == "" ||
			got.Harness.Config == nil || got.MaxWorkers < 0 || got.Attempts < 1 || got.Retries < 0 ||
			l.Memory <= 0 || l.Disk <= 0 || l.Output <= 0 || l.Candidate <= 0 || !(l.CPUs > 0) ||
			l.Pids <= 0 || l.Produce < 0 || l.Verify < 0 {
			t.Errorf("accepted an unusable configuration: %+v", got)
		}
	})
}
