package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// registryOf is a registry of Python with one wheel, whose module says four.
func registryOf(t *testing.T) (url, sum string, asked *atomic.Int64) {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range map[string]string{"four/__init__.py": "def say():\n    print('Answer: 4')\n# " + t.TempDir(), // no other run's
		"four-1.dist-info/entry_points.txt": "[console_scripts]\nsay-four = four:say\n", "evil.pth": "import os; os._exit(9)\n"} {
		w, err := z.Create(name)
		if err == nil {
			_, err = fmt.Fprint(w, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	sum, asked = fmt.Sprintf("%x", sha256.Sum256(b.Bytes())), &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch asked.Add(1); r.URL.Path {
		case "/simple/four/":
			fmt.Fprintf(w, `<html><a href="/four.whl#sha256=%s">four-1-py3-none-any.whl</a>`, sum)
		case "/four.whl":
			_, _ = w.Write(b.Bytes())
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/simple", sum, asked
}

// TestRequirements: the Python packages of an own agent are there, once for all its
// attempts, read-only, also on another machine, and are a part of the configuration.
func TestRequirements(t *testing.T) {
	t.Parallel()
	image := needEngine(t)
	index, sum, asked := registryOf(t)
	dir := t.TempDir()
	env := []string{"PIP_INDEX_URL=" + index, "PIP_CONFIG_FILE=/dev/null", "SECUREBENCH_WHEEL_CACHE=" + filepath.Join(dir, "wheels")}
	write(t, filepath.Join(dir, "manifest.yaml"), "id: own\nversion: 1\ndefaults: {family: short_answer, environment: {image: \""+image+"\"}}\n")
	write(t, filepath.Join(dir, "tasks.jsonl"), `{"id": "a", "input": {"question": "2+2?"}, "eval": {"accepted_answers": ["4"]}}`+"\n"+
		`{"id": "b", "input": {"question": "3+1?"}, "eval": {"accepted_answers": ["4"]}}`+"\n")
	tester := func(config string) string {
		write(t, filepath.Join(dir, "tester.yaml"), fmt.Sprintf(`schema_version: "0.2"
run: {id: %q, output_dir: out}
benchmark: {manifest: manifest.yaml, tasks: tasks.jsonl}
harness:
  type: command
  config: {requirements: requirements.txt, %s}
`, ownRun("requirements"), config))
		return filepath.Join(dir, "tester.yaml")
	}
	const program = "say-four"
	pinned := "# mine\nfour==1 --hash=sha256:" + sum + "\n"
	write(t, filepath.Join(dir, "requirements.txt"), pinned)
	if err := os.Mkdir(filepath.Join(dir, "agent"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "agent", "agent.py"), "import four, os\ntry:\n    open(four.__file__, 'a')\n    os._exit(8)\nexcept OSError:\n    four.say()\n")
	for name, config := range map[string]string{
		"module":  "files: agent, command: [python3, /opt/securebench/agent/agent.py]",
		"alone":   `command: ["python3", "-c", "import four; four.say()"]`,
		"program": "command: [" + program + "]",
	} {
		res := securebench(t, env, "run", tester(config), "-q", "--force")
		if res.code != exitDone || !strings.Contains(res.stdout, " passed=2 ") {
			t.Errorf("%s: exit %d\n%s%s%s", name, res.code, res.stdout, res.stderr, lastRecord(dir))
		}
	}
	if n := asked.Load(); n != 3 {
		t.Errorf("the registry was asked %d times, want it for the choice, the address and the wheel", n)
	}
	f, here, there := newMachines(t), filepath.Join(dir, "out"), filepath.Join(t.TempDir(), "there")
	run, addr := f.run(filepath.Join(dir, "tester.yaml"), "-o", there, "--env-file", envFile(t, env))
	worker := f.start("worker", "--hub", addr, "--credentials", f.invite("all", "produce,verify"), "--cache", t.TempDir())
	f.ends(run, exitDone)
	f.ends(worker, exitDone)
	if d := cmp.Diff(found(t, here), found(t, there)); d != "" {
		t.Errorf("records (-here +there):\n%s", d)
	}
	for name, c := range map[string]struct{ text, want string }{
		"without a hash":   {"four==1\n", `tester.yaml:6:26: harness.config.requirements: requirements.txt: line 1: "four==1" has no --hash=sha256:`},
		"another file":     {"four==1 --hash=sha256:" + strings.Repeat("0", 64) + "\n", "requirements.txt: line 1: four==1: the registry has no file with one of its digests"},
		"another registry": {"--index-url https://x.example/simple\n" + pinned, "line 1: --index-url may not be there"},
		"unknown project":  {"five==1 --hash=sha256:" + sum + "\n", "line 1: looking for five==1: "},
	} {
		write(t, filepath.Join(dir, "requirements.txt"), c.text)
		res := securebench(t, env, "run", tester("command: ["+program+"]"), "-q", "--force")
		if line := errorLine(t, res); res.code != exitConfig || !strings.Contains(line, c.want) {
			t.Errorf("%s: exit %d: %s", name, res.code, line)
		}
	}
	// The same with another spelling is the same run, and other requirements are another.
	run2 := func(text string, args ...string) outcome {
		write(t, filepath.Join(dir, "requirements.txt"), text)
		return securebench(t, env, append([]string{"run", tester("command: [" + program + "]"), "-q"}, args...)...)
	}
	if res := run2(pinned, "--force"); res.code != exitDone {
		t.Fatalf("exit %d: %s", res.code, res.stderr)
	}
	if res := run2("four == 1 \\\n  --hash=sha256:"+sum+"\n", "--resume"); res.code != exitDone {
		t.Errorf("another spelling: exit %d: %s", res.code, res.stderr)
	}
	res := run2(pinned[:len(pinned)-1]+" --hash=sha256:"+strings.Repeat("1", 64)+"\n", "--resume")
	if res.code != exitRefused || !strings.Contains(res.stderr, "setting agent_requirements: was ") {
		t.Errorf("other digests: exit %d: %s", res.code, res.stderr)
	}
}

// envFile writes variables to a file.
func envFile(t *testing.T, env []string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "env")
	write(t, name, strings.Join(env, "\n")+"\n")
	return name
}
