package terminal

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"securebench/internal/importer/packdir"
)

// write lays out files in a new folder.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// imported imports a folder and returns its rows by their ids.
func imported(t *testing.T, format, dir, start string) (string, Result, map[string]row, error) {
	t.Helper()
	out := t.TempDir()
	sum, err := Import(context.Background(), format, dir, out, Options{ID: "p", Start: start, Force: true, Manifest: "id: p\n", Licence: "none\n"})
	rows := map[string]row{}
	data, _ := os.ReadFile(filepath.Join(out, "tasks.jsonl")) // missing after an error
	for line := range strings.Lines(string(data)) {
		var r row
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		rows[r.ID] = r
	}
	return out, sum, rows, err
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

const debianJSON = `{"id": "x/NAME", "name": "NAME", "source": {"license": "Apache-2.0"}, "instruction": "Do it.", "difficulty": "easy", "category": "c",
 "tags": ["t"], "author_name": "A", "max_agent_timeout_sec": 360.0, "max_test_timeout_sec": 60.0,
 "environment": {"base": "debian", "upstream_from": "u", "apt_packages": ["jq"], "workdir": "/app", "env": {"A": "b"}, "network": "none",
  "steps": [{"workdir": "/app"}, {"copy": {"from": "prog.sh", "to": "."}}, {"run": "mkdir -p /data && chmod 000 /data"},
   {"run": "echo a\necho b"}, {"write": {"to": "/app/x", "text": "hi\n"}}, {"cmd": "[\"bash\"]"}],
  "upstream_install_lines_replaced_by_apt_packages": []},
 "verify": {"files": ["test_outputs.py"], "command": "TEST_DIR=/tests python3 -m pytest /tests/test_outputs.py -rA", "cwd": "/app",
  "needs_live_processes_of_the_agent_phase": false},
 "oracle": {"script": "solution.sh", "upstream_form": "solution.sh", "changes_made_for_offline_use": []}, "verified_here": {}}`

// debianFiles is a folder with one task of that form.
func debianFiles(edit ...string) map[string]string {
	text := strings.NewReplacer(append(edit, "NAME", "one")...).Replace(debianJSON)
	return map[string]string{"one/task.json": text, "one/files/prog.sh": "#!/bin/sh\n", "one/solution.sh": "#!/bin/bash\nchmod 755 /data\n",
		"one/tests/test_outputs.py": "import os\ndef test(): os.stat('/data')\n"}
}

func TestDebian(t *testing.T) {
	out, sum, rows, err := imported(t, "terminal-bench", write(t, debianFiles()), "")
	if err != nil || sum.Rows != 1 || sum.Images != 2 || len(sum.LeftOut) > 0 {
		t.Fatalf("%+v, %v", sum, err)
	}
	r := rows["one"]
	want := row{ID: "one", Input: input{"Do it."}, Metadata: r.Metadata,
		Eval: eval{Checker: rowChecker{Source: "pytest", Path: "one/tests/test_outputs.py", Timeout: 60},
			Capture: &rowCapture{Roots: []string{"/app", "/data"}}, Solution: &rowPath{"one/solution"}},
		Environment: environment{Image: "localhost/p/one:1", Workdir: "/app", Materialize: true, Timeout: 360, Env: map[string]string{"A": "b"}}}
	if got, wanted := encode(t, r), encode(t, want); got != wanted {
		t.Errorf("got  %s\nwant %s", got, wanted)
	}
	docker := read(t, out, "images/one/Dockerfile")
	for _, line := range []string{"FROM localhost/p/base-1:1\n", " jq ", "WORKDIR /app\n", "COPY [\"files/prog.sh\",\".\"]\n", "RUN mkdir -p /data && chmod 000 /data\n",
		`RUN ["/bin/sh","-c","echo a\necho b"]` + "\n", "COPY [\"write/4\",\"/app/x\"]\n"} {
		if !strings.Contains(docker, line) {
			t.Errorf("the recipe lacks %q:\n%s", line, docker)
		}
	}
	if strings.Contains(docker, "bash\"]") {
		t.Error("the recipe has the command of the container")
	}
	info, err := os.Stat(filepath.Join(out, "images/one/files/prog.sh"))
	if err != nil || info.Mode()&0o111 == 0 {
		t.Errorf("a program is none in the pack: %v, %v", info, err)
	}
	if got := read(t, out, "eval/one/solution/solution.sh"); !strings.Contains(got, "chmod 755") {
		t.Errorf("the solution is %q", got)
	}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestLive: tests that need what the agent started are left out, unless the
// operator says what is started; then the instruction and the solution say so.
func TestLive(t *testing.T) {
	dir := write(t, debianFiles(`_phase": false`, `_phase": true`))
	if _, _, _, err := imported(t, "terminal-bench", dir, ""); err == nil || !strings.Contains(err.Error(), "--start FILE") {
		t.Errorf("without a start file: %v", err)
	}
	start := filepath.Join(write(t, map[string]string{"start.yaml": "one:\n  filesystem: true\n  capabilities: [KILL]\n" +
		"  start: {file: /app/start.sh, script: \"#!/bin/sh\\nexec serve\\n\", ready: {port: 80}}\n"}), "start.yaml")
	out, _, rows, err := imported(t, "terminal-bench", dir, start)
	if err != nil {
		t.Fatal(err)
	}
	r := rows["one"]
	if r.Eval.Start == nil || !slices.Equal(r.Eval.Start.Command, []string{"sh", "/app/start.sh"}) || r.Eval.Start.Timeout != 30 || string(r.Eval.Start.Ready) != `{"port":80}` {
		t.Errorf("the service is %+v", r.Eval.Start)
	}
	if r.Metadata["adapted"] != true || !strings.Contains(r.Input.Instructions, "`sh /app/start.sh`") || !r.Eval.Capture.Filesystem ||
		!slices.Equal(r.Environment.Capabilities, []string{"KILL"}) {
		t.Errorf("the row is %+v", r)
	}
	solve := read(t, out, "eval/one/solution/solve.sh")
	if !strings.Contains(solve, "solution.sh") || !strings.Contains(solve, "exec serve\n") {
		t.Errorf("the solution is %q", solve)
	}
}

func TestBadStartFile(t *testing.T) {
	dir := write(t, debianFiles())
	for name, text := range map[string]string{"list": "[]", "unknown": "one: {stat: 1}", "no script": "one: {start: {file: /a, ready: {port: 1}}}",
		"relative": "one: {start: {file: a, script: x, ready: {port: 1}}}", "not ready": "one: {start: {file: /a, script: x}}",
		"quote": `one: {start: {file: "/a'b", script: x, ready: {port: 1}}}`} {
		file := filepath.Join(write(t, map[string]string{"s.yaml": text}), "s.yaml")
		if _, _, _, err := imported(t, "terminal-bench", dir, file); err == nil || !strings.Contains(err.Error(), "s.yaml:1") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSettingsRoot: a file among the system's settings goes where a verification
// expects it, and the place that the tests look at leads there.
func TestSettingsRoot(t *testing.T) {
	files := debianFiles("mkdir -p /data", "touch /etc/old.ini")
	files["one/tests/test_outputs.py"] = "def test(): open('/etc/old.ini'); open('/usr/bin/x'); open('/protected/key')\n"
	files["one/solution.sh"] = "rm /etc/old.ini /usr/bin/x\n"
	out, sum, rows, err := imported(t, "terminal-bench", write(t, files), "")
	if err != nil || sum.Images != 3 {
		t.Fatalf("%+v, %v", sum, err)
	}
	if r := rows["one"]; r.Eval.Checker.Image != "localhost/p/one-tests:1" || !slices.Equal(r.Eval.Capture.Roots, []string{"/app", "/etc/old.ini"}) {
		t.Errorf("the row is %s", encode(t, r))
	}
	want := "FROM localhost/p/one:1\nRUN mkdir -p /opt/securebench/candidate/etc \\\n" +
		" && if [ -e /etc/old.ini ]; then mv /etc/old.ini /opt/securebench/candidate/etc/old.ini; fi \\\n" +
		" && ln -s /opt/securebench/candidate/etc/old.ini /etc/old.ini\n"
	if got := read(t, out, "images/one-tests/Dockerfile"); got != want {
		t.Errorf("the checker's image is\n%s", got)
	}
}

// TestWorkspaceModules: tests find modules of the working folder, behind all
// others.
func TestWorkspaceModules(t *testing.T) {
	for text, want := range map[string]bool{"from mine.sub import x\n": true, "def test():\n    import mine\n": true, "import mined\n": false, "import os\n": false} {
		files := debianFiles()
		files["one/files/mine/__init__.py"], files["one/tests/test_outputs.py"] = "", text
		out, _, _, err := imported(t, "terminal-bench", write(t, files), "")
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(out, "eval/one/tests/conftest.py"))
		if (err == nil) != want || want && !strings.Contains(string(data), `sys.path.append("/app")`) {
			t.Errorf("%q: %q, %v", text, data, err)
		}
	}
}

// TestLeftOut: whatever cannot be run as it was meant is named with its reason.
func TestLeftOut(t *testing.T) {
	const toml = "[environment]\n"
	harbor := func(edit map[string]string) map[string]string {
		files := map[string]string{"one/task.toml": toml, "one/instruction.md": "Do it.", "one/environment/Dockerfile": "FROM debian\nWORKDIR /app\n",
			"one/tests/test.sh": "pytest /tests/test_x.py\n", "one/tests/test_x.py": "def test(): pass\n"}
		maps.Copy(files, edit)
		return files
	}
	for reason, files := range map[string]map[string]string{
		"":                            harbor(nil),
		"several steps":               harbor(map[string]string{"one/task.toml": "[[steps]]\nname = 'a'\n"}),
		"GPU":                         harbor(map[string]string{"one/task.toml": "[environment]\ngpus = 1\n"}),
		"windows":                     harbor(map[string]string{"one/task.toml": "[environment]\nos = 'windows'\n"}),
		"several containers":          harbor(map[string]string{"one/environment/docker-compose.yaml": "services: {main: {}, db: {}}\n"}),
		"/novel, which is not known":  harbor(map[string]string{"one/task.toml": "novel = 1\n"}),
		"task.toml":                   harbor(map[string]string{"one/task.toml": "["}),
		"test script downloads":       harbor(map[string]string{"one/tests/test.sh": "curl https://example.com/x | sh\n./check\n"}),
		"solution downloads":          harbor(map[string]string{"one/solution/solve.sh": "apt-get install -y jq\n"}),
		"no WORKDIR":                  harbor(map[string]string{"one/environment/Dockerfile": "FROM debian\n"}),
		"working folder /etc/x":       harbor(map[string]string{"one/environment/Dockerfile": "FROM debian\nWORKDIR /etc/x\n"}),
		"no instruction":              harbor(map[string]string{"one/instruction.md": " "}),
		"variables of their own, KEY": harbor(map[string]string{"one/task.toml": "[verifier.env]\nKEY = 'x'\n"}),
		"no environment/Dockerfile":   harbor(map[string]string{"one/environment/Dockerfile": ""}),
		"gets nothing":                harbor(map[string]string{"one/task.toml": "[verifier]\nenvironment_mode = 'separate'\n"}),
		"contains the tests":          harbor(map[string]string{"one/task.toml": "[verifier]\nenvironment_mode = 'separate'\n", "one/tests/Dockerfile": "FROM x\n"}),
		"not a plain package":         harbor(map[string]string{"one/tests/test.sh": "pip install 'git+https://x'\npytest /tests/test_x.py\n"}),
		"part of an image's":          {"One/task.toml": toml},
		"some hosts of the network":   harbor(map[string]string{"one/task.toml": "[environment]\nallowed_hosts = ['x']\n"}),
		"a health check":              harbor(map[string]string{"one/task.toml": "[environment.healthcheck]\ncommand = 'x'\n"}),
		"solution needs variables":    harbor(map[string]string{"one/task.toml": "[solution.env]\nKEY = 'x'\n"}),
		"without an image":            harbor(map[string]string{"one/task.toml": "[verifier.environment]\ncpus = 1\n"}),
		"lies elsewhere":              harbor(map[string]string{"one/task.toml": "artifacts = [{source = '/a', destination = '/b'}]\n[verifier.environment]\ndocker_image = 'x'\n"}),
		"artifacts is not of a known": harbor(map[string]string{"one/task.toml": "artifacts = ['a']\n[verifier.environment]\ndocker_image = 'x'\n"}),
		"collects the state":          harbor(map[string]string{"one/task.toml": "[[verifier.collect]]\ncommand = 'x'\n"}),
		"user is not of a known form": harbor(map[string]string{"one/task.toml": "[agent]\nuser = true\n"}),
		"/agent/timeout_sec is not":   harbor(map[string]string{"one/task.toml": "[agent]\ntimeout_sec = 'x'\n"}),
		"it has no tests":             {"one/task.toml": toml, "one/instruction.md": "x", "one/environment/Dockerfile": "FROM debian\nWORKDIR /app\n"},
		"talk to a server":            harbor(map[string]string{"one/tests/test_x.py": "def test(): requests.get('http://localhost:3000/x')\n"}),
		"started in /srv":             harbor(map[string]string{"one/tests/test.sh": "cd /srv\npytest /tests/test_x.py\n"}),
		"folder with a task.toml":     {"one/README": ""},
	} {
		files["two/task.toml"], files["two/instruction.md"], files["two/environment/Dockerfile"] = toml, "x", "FROM debian\nWORKDIR /app\n"
		files["two/tests/test.sh"], files["two/tests/test_x.py"] = "pytest /tests/test_x.py\n", "def test(): pass\n"
		if reason == "folder with a task.toml" {
			files = map[string]string{"one/README": ""}
		}
		_, sum, rows, err := imported(t, "harbor", write(t, files), "")
		switch {
		case reason == "folder with a task.toml":
			if err == nil || !strings.Contains(err.Error(), reason) {
				t.Errorf("nothing to import: %v", err)
			}
		case err != nil:
			t.Errorf("%q: %v", reason, err)
		case reason == "" && (len(sum.LeftOut) > 0 || len(rows) != 2):
			t.Errorf("the honest twin is left out: %q", sum.LeftOut)
		case reason != "" && (len(rows) != 1 || len(sum.LeftOut) != 1 || !strings.Contains(sum.LeftOut[0], reason)):
			t.Errorf("want %q, got %q and %d rows", reason, sum.LeftOut, len(rows))
		}
	}
}

// TestHarbor: what a task.toml says reaches the row.
func TestHarbor(t *testing.T) {
	dir := write(t, map[string]string{
		"task.toml": `version = "1.0"
artifacts = ["/app/out", {source = "/srv/x", exclude = ["cache"]}]
[metadata]
difficulty = "hard"
[verifier]
timeout_sec = 90.5
environment_mode = "separate"
[verifier.environment]
docker_image = "localhost/own:1"
[agent]
timeout_sec = 100.0
user = 1000
[environment]
build_timeout_sec = 600.0
cpus = 2
memory = "2G"
[environment.env]
A = "b"
`, "instruction.md": "Do it.", "environment/Dockerfile": "FROM debian:12\nWORKDIR /app\nCOPY data .\n", "environment/data": "x",
		"tests/test.sh": "#!/bin/bash\n/tests/check && echo 1 > /logs/verifier/reward.txt\n", "tests/check": "#!/bin/sh\n", "solution/solve.sh": "#!/bin/sh\ntrue\n"})
	out, _, rows, err := imported(t, "harbor", dir, "")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(dir)
	r := rows[name]
	want := row{ID: name, Input: input{"Do it."}, Metadata: r.Metadata,
		Eval: eval{Checker: rowChecker{Source: "script", Path: name + "/tests/test.sh", Timeout: 90.5, Image: "localhost/p/" + name + "-tests:1", Reward: rewardFile},
			Capture: &rowCapture{Roots: []string{"/app/out", "/srv/x"}, Exclude: []string{"/srv/x/cache"}}, Solution: &rowPath{name + "/solution"}},
		Environment: environment{Image: "localhost/p/" + name + ":1", Workdir: "/app", Materialize: true, User: "1000", Timeout: 100, Env: map[string]string{"A": "b"}}}
	if got, wanted := encode(t, r), encode(t, want); got != wanted {
		t.Errorf("got  %s\nwant %s", got, wanted)
	}
	if got := encode(t, r.Metadata); got != `{"resources":{"cpus":2,"memory":"2G"},"task_metadata":{"difficulty":"hard"}}` {
		t.Errorf("the metadata is %s", got)
	}
	if got, want := read(t, out, "images", name+"-tests", "Dockerfile"), "FROM localhost/own:1\nRUN ln -s /securebench-evaluator/"+name+"/tests /tests\n"; got != want {
		t.Errorf("the checker's image is\n%s", got)
	}
	if got := read(t, out, "images", name, "Dockerfile"); got != "FROM debian:12\nWORKDIR /app\nCOPY data .\n" || read(t, out, "images", name, "data") != "x" {
		t.Errorf("the recipe is\n%s", got)
	}
}

const usualTest = `#!/bin/bash
# comment
apt-get update
apt-get install -y curl jq
curl -LsSf https://astral.sh/uv/0.9.5/install.sh | sh
source $HOME/.local/bin/env
if [ "$PWD" = "/" ]; then
    echo "Error: No working directory set."
    exit 1
fi
uvx \
  -p 3.13 \
  -w pytest==8.4.1 \
  -w pytest-json-ctrf==0.3.5 \
  -w numpy==2.3.1 \
  pytest --ctrf /logs/verifier/ctrf.json /tests/test_outputs.py -rA
if [ $? -eq 0 ]; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
`

func TestUsualScript(t *testing.T) {
	c, ok := usualScript(usualTest)
	if !ok || c.pytest != "test_outputs.py" || !slices.Equal(c.apt, []string{"jq"}) || !slices.Equal(c.pip, []string{"numpy==2.3.1"}) {
		t.Errorf("got %+v, %v", c, ok)
	}
	c, ok = usualScript("uv init\nuv add pytest==8.4.1\nuv run pytest $TEST_DIR/test_outputs.py -rA\n")
	if !ok || c.pytest != "test_outputs.py" || len(c.pip) > 0 {
		t.Errorf("got %+v, %v", c, ok)
	}
	c, ok = usualScript("set -uo pipefail\ncurl -LsSf https://astral.sh/uv/0.9.5/install.sh | sh >/dev/null 2>&1\nsource \"$HOME/.local/bin/env\"\n" +
		"uvx -p 3.13 -w pytest==8.4.1 pytest /tests/test_outputs.py -rA\nstatus=$?\n" +
		"if [ $status -eq 0 ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi\nexit $status\n")
	if !ok || c.pytest != "test_outputs.py" || len(c.pip) > 0 {
		t.Errorf("got %+v, %v", c, ok)
	}
	for _, other := range []string{"./prepare\npytest /tests/x.py\n", "pytest /tests/x.py -k fast\n", "pytest /tests/a.py\npytest /tests/b.py\n", "pytest x.py\n",
		"echo 1 > /logs/verifier/reward.txt\n", "pytest /tests/x.py --ignore=/tests/y\n", "pytest /tests/x.py; ./after\n"} {
		if c, ok := usualScript(other); ok {
			t.Errorf("%q is taken for no more than %+v", other, c)
		}
	}
}

func TestDownloads(t *testing.T) {
	for line, want := range map[string]bool{"apt-get install -y x": true, "sudo apt -y install x": true, "pip install x": true, "python3 -m pip install x": true,
		"uv run x": false, "git clone https://example.com/x": true, "git clone git@localhost:/git/project": false, "curl -sk https://localhost:8443/x": false,
		"curl -sS https://example.com": true, "a && wget http://example.com/x": true, "# apt-get install x": false, "apt-cache search x": false, "go install ./x": true} {
		if _, got := downloads(line + "\n"); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}

// TestTerminalBench: a task.yaml with its usual script, and with a solution that
// was typed.
func TestTerminalBench(t *testing.T) {
	files := map[string]string{
		"one/task.yaml":             "instruction: |-\n  Do it.\nauthor_name: A\ndifficulty: easy\nparser_name: pytest\nmax_agent_timeout_sec: 180.0\nmax_test_timeout_sec: 30.0\nrun_tests_in_same_shell: false\n",
		"one/Dockerfile":            "FROM ghcr.io/laude-institute/t-bench/python-3-13:20250620\nCOPY data.txt ./\n",
		"one/docker-compose.yaml":   "services:\n  client:\n    command: [sh]\n",
		"one/run-tests.sh":          usualTest,
		"one/solution.yaml":         "- command: echo hi > /app/x\n  min_timeout_sec: 1.0\n  append_enter: true\n",
		"one/data.txt":              "x",
		"one/tests/test_outputs.py": "def test(): open('/tests/expected')\n",
	}
	out, sum, rows, err := imported(t, "terminal-bench", write(t, files), "")
	if err != nil || sum.Rows != 1 {
		t.Fatalf("%+v, %v", sum, err)
	}
	if r := rows["one"]; r.Environment.Workdir != "/app" || r.Environment.Timeout != 180 || r.Eval.Checker.Timeout != 30 || r.Eval.Checker.Image == "" {
		t.Errorf("the row is %s", encode(t, r))
	}
	got := read(t, out, "images/one-tests/Dockerfile")
	if !strings.HasPrefix(got, "FROM localhost/p/one:1\nRUN python3 -m pytest --version") || !strings.Contains(got, " jq ") ||
		!strings.Contains(got, "'numpy==2.3.1'") || !strings.Contains(got, "ln -s /securebench-evaluator/one/tests /tests") {
		t.Errorf("the checker's image is\n%s", got)
	}
	if got := read(t, out, "eval/one/solution/solution.sh"); got != "#!/bin/bash\necho hi > /app/x\n" {
		t.Errorf("the solution is %q", got)
	}
	for _, name := range []string{"tests/test_outputs.py", "solution.yaml", "run-tests.sh", "task.yaml"} {
		if _, err := os.Stat(filepath.Join(out, "images/one", name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the image's folder has %s: %v", name, err)
		}
	}
	for reason, text := range map[string]string{"parser x": "instruction: a\nparser_name: x\n", "own shell": "instruction: a\nrun_tests_in_same_shell: true\n",
		"several descriptions": "descriptions: [{key: a}]\n"} {
		files["one/task.yaml"] = text
		if _, _, _, err := imported(t, "terminal-bench", write(t, files), ""); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

// TestLinks: a task's folder cannot lead out of itself.
func TestLinks(t *testing.T) {
	dir := write(t, debianFiles())
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "one/files/link")); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := imported(t, "terminal-bench", dir, ""); err == nil || !strings.Contains(err.Error(), "files/link is a link") {
		t.Errorf("got %v", err)
	}
}

// TestImageNames: no task's image takes the name of another's.
func TestImageNames(t *testing.T) {
	files := map[string]string{}
	for _, name := range []string{"one", "one-tests", "base-1"} {
		for file, text := range debianFiles("NAME", name) {
			files[strings.Replace(file, "one/", name+"/", 1)] = text
		}
	}
	_, sum, rows, err := imported(t, "terminal-bench", write(t, files), "")
	if err != nil || len(rows) != 1 || len(sum.LeftOut) != 2 || !strings.Contains(sum.LeftOut[0], "the name base-1") || !strings.Contains(sum.LeftOut[1], "the name one-tests") {
		t.Errorf("%v, %+v", err, sum)
	}
}

func TestNeedsServer(t *testing.T) {
	for text, want := range map[string]bool{"get('http://localhost:80/')": true, "git clone git@localhost:/git/x": true, "connect(('127.0.0.1', 22))": true,
		"Popen(['serve']); get('http://localhost:80/')": false, "get('http://example.com/localhost')": false, "# localhost": false} {
		task := task{tests: folder{"test_x.py": {data: []byte(text)}}}
		if got := task.needsServer(); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestExisting: nothing is replaced unless that is asked for.
func TestExisting(t *testing.T) {
	dir, out := write(t, debianFiles()), t.TempDir()
	for i := range 2 {
		_, err := Import(context.Background(), "terminal-bench", dir, out, Options{ID: "p"})
		if (i == 0) != (err == nil) || i == 1 && !errors.Is(err, packdir.ErrExists) {
			t.Errorf("import %d: %v", i+1, err)
		}
	}
	if _, err := Import(context.Background(), "terminal-bench", dir, out, Options{ID: "No Name"}); err == nil {
		t.Error("an id that no image can have is accepted")
	}
}

// FuzzScripts: no script is taken for one that only runs pytest unless it has one
// line that does, and no reader of scripts fails.
func FuzzScripts(f *testing.F) {
	f.Add(usualTest)
	f.Add("pytest \"$TEST_DIR/x.py\" &&\\\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := usualScript(text)
		if ok && (c.pytest == "" || strings.Count(text, "pytest") == 0 || strings.HasPrefix(c.pytest, "/")) {
			t.Errorf("%q: %+v", text, c)
		}
		downloads(text)
		pathsIn(text)
		lastWorkdir(text)
	})
}

// FuzzTasks: whatever a task's files hold, it is read or left out with a reason.
func FuzzTasks(f *testing.F) {
	f.Add(debianJSON)
	f.Add("artifacts = ['/a']\n[verifier.environment]\ndocker_image = 'x'\n")
	f.Add("instruction: a\nparser_name: pytest\n")
	f.Fuzz(func(t *testing.T, text string) {
		data := file{data: []byte(text)}
		files := folder{"task.json": data, "task.toml": data, "task.yaml": data, "solution.yaml": data, "docker-compose.yaml": {data: []byte("services: {a: {}}")},
			"Dockerfile": {data: []byte("FROM x\nWORKDIR /app\n")}, "environment/Dockerfile": {data: []byte("FROM x\nWORKDIR /app\n")},
			"instruction.md": {data: []byte("x")}, "run-tests.sh": {data: []byte("pytest /tests/a.py\n")}, "tests/test.sh": {data: []byte("pytest /tests/a.py\n")}}
		for _, read := range []func(folder, string) (*task, error){readDebian, readHarbor, readTerminalBench} {
			task, err := read(files, "NAME")
			if err == nil {
				err = task.adapt(change{})
			}
			var left *leftOut
			if err != nil && !errors.As(err, &left) {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}

// TestHarborReward: the file that the tests write is the row's, also where a helper
// writes it; with both, the plain number counts, as in Harbor.
func TestHarborReward(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		want  string
	}{
		"text":   {map[string]string{"test.sh": "./check > /logs/verifier/reward.txt\n"}, "/logs/verifier/reward.txt"},
		"object": {map[string]string{"test.sh": "echo '{\"reward\": 1}' > /logs/verifier/reward.json\n"}, "/logs/verifier/reward.json"},
		"helper": {map[string]string{"test.sh": "python3 /tests/grade.py\n", "grade.py": "open('/logs/verifier/reward.json', 'w')\n"}, "/logs/verifier/reward.json"},
		"both":   {map[string]string{"test.sh": "./check > /logs/verifier/reward.json; ./check > /logs/verifier/reward.txt\n"}, "/logs/verifier/reward.txt"},
		"none":   {map[string]string{"test.sh": "/tests/check\n"}, "/logs/verifier/reward.txt"},
	} {
		in := folder{}
		for file, text := range tt.files {
			in[file] = fileOf(text)
		}
		if got := rewardOf(in); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

func fileOf(text string) file { return file{data: []byte(text)} }

// TestWhatTestsAskFor: tests that build in their own folder get one that they can write
// to, and those that have Python find the candidate's module find it.
func TestWhatTestsAskFor(t *testing.T) {
	const builds = "cd /tests && python setup.py build_ext --inplace && python check.py\n"
	for name, tt := range map[string]struct {
		files           folder
		script          string
		writes, modules bool
	}{
		"builds":               {folder{"test.sh": fileOf(builds)}, "test.sh", true, false},
		"builds, by variable":  {folder{"test.sh": fileOf("cd \"$TEST_DIR\"\nmake -s\n")}, "test.sh", true, false},
		"writes there":         {folder{"test.sh": fileOf("gcc -o /tests/helper helper.c\n")}, "test.sh", true, false},
		"in Python":            {folder{"test_x.py": fileOf("subprocess.run(['make'], cwd='/tests')\n")}, "", true, false},
		"a script not run":     {folder{"test.sh": fileOf(builds), "test_x.py": fileOf("x = 1\n")}, "", false, false},
		"elsewhere":            {folder{"test.sh": fileOf("cd /app && make && mkdir -p /logs/verifier\n")}, "test.sh", false, false},
		"its module":           {folder{"test_x.py": fileOf("run(['python3', '-m', 'solver', 'x'])\n")}, "", false, true},
		"its module, in code":  {folder{"test_x.py": fileOf("run([sys.executable, '-c', 'from solver import f; f()'])\n")}, "", false, true},
		"a module of Python's": {folder{"test_x.py": fileOf("run(['python3', '-m', 'json.tool', 'x'])\nrun('python3 -c \"import csv\"')\n")}, "", false, false},
		"a program":            {folder{"test_x.py": fileOf("run(['python3', 'solver.py', '-m'])\n")}, "", false, false},
	} {
		task := task{instruction: "Write solver.py.", tests: tt.files, checker: checker{script: tt.script}}
		if task.writesTests() != tt.writes || task.startsModules() != tt.modules {
			t.Errorf("%s: writes %t, starts modules %t", name, task.writesTests(), task.startsModules())
		}
	}
}
