package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"securebench/internal/sandbox/sandboxtest"
)

// jargon lists words of the implementation, which a message must not contain.
var jargon = regexp.MustCompile(`\b[a-z]*(?:statat|openat|mkdirat|renameat|unlinkat|fstat)\b|\b(?:open|stat|lstat|mkdir|read|write) /?[^ ]+: |bufio|jsontext|[^.]json: |[^.]zip: |record\.|wire|\bEOF\b|context (?:deadline|canceled)|%!|0x[0-9a-f]{6}|\*[a-z]+\.[A-Z]|<nil>`)

// TestMessages: whatever is broken, the exit code is the documented one, and
// the message names the problem in the user's terms.
func TestMessages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	pack := textPack(t, dir)
	out := at("run")
	if res := securebench(t, nil, "run", pack, "--agent", "oracle", "-o", out); res.code != exitDone {
		t.Fatalf("exit %d: %s", res.code, res.stderr)
	}
	if res := securebench(t, nil, "bundle", out, "-o", at("run.zip")); res.code != exitDone {
		t.Fatalf("exit %d: %s", res.code, res.stderr)
	}
	// changed is a copy of the run with one file changed, or gone.
	changed := func(name string, change func([]byte) []byte) string {
		copied := filepath.Join(t.TempDir(), "copy")
		if err := os.CopyFS(copied, os.DirFS(out)); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(copied, name))
		if err != nil {
			t.Fatal(err)
		}
		if data = change(data); data == nil {
			err = os.Remove(filepath.Join(copied, name))
		} else {
			err = os.WriteFile(filepath.Join(copied, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return copied
	}
	gone := func([]byte) []byte { return nil }
	with := func(from, to string) func([]byte) []byte {
		return func(b []byte) []byte { return bytes.Replace(b, []byte(from), []byte(to), 1) }
	}
	zipped, err := os.ReadFile(at("run.zip"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, at("cut.zip"), string(zipped[:len(zipped)/2]))
	write(t, at("long.jsonl"), "\n"+strings.Repeat("x", 64<<20+1))
	write(t, at("wrong.jsonl"), `{"task_id": "a", "text": 4}`+"\n")
	write(t, at("cut.jsonl"), `{"task_id": "a", "te`)
	write(t, at("file"), "x")
	oracle := func(args ...string) []string { return append([]string{"run", pack, "--agent", "oracle"}, args...) }
	for name, c := range map[string]struct {
		code int
		say  string
		args []string
	}{
		"no run.json":         {exitIntegrity, "run.json: missing: it is unknown what was planned", []string{"verify", changed("run.json", gone)}},
		"no run.json, report": {exitIntegrity, "*** NOT VERIFIED: the run does not verify: problems found: 1; the first: ***\n*** run.json: missing", []string{"report", changed("run.json", gone)}},
		"no run.json, CSV":    {exitIntegrity, ",false,0,,,,,,,,,computed,,,,\r\n", []string{"report", "--csv", changed("run.json", gone)}},
		"no run.json, JSON":   {exitIntegrity, `"verified": false`, []string{"report", "--json", changed("run.json", gone)}},
		"no run.json, resume": {exitIntegrity, "run.json is missing or damaged", oracle("--resume", "-o", changed("run.json", gone))},
		"a list as run.json":  {exitIntegrity, "run.json: it is not a JSON object", []string{"verify", changed("run.json", func([]byte) []byte { return []byte("[]\n") })}},
		"half a run.json":     {exitIntegrity, "run.json: it is not valid JSON at byte", []string{"verify", changed("run.json", func(b []byte) []byte { return append(b[:90], '\n') })}},
		"a word in run.json":  {exitIntegrity, `run.json: "/planned/tasks" has the wrong type`, []string{"verify", changed("run.json", with(`"tasks":3`, `"tasks":"3"`))}},
		"a new field":         {exitIntegrity, `run.json: unknown field "/pack/x"`, []string{"verify", changed("run.json", with(`,"version"`, `,"x":1,"version"`))}},
		"no JSON":             {exitIntegrity, "candidates.jsonl:1: not a record: it is not valid JSON", []string{"verify", changed("candidates.jsonl", with("{", "x"))}},
		"a word in a record":  {exitIntegrity, `candidates.jsonl:1: not a record: "/attempt" has the wrong type`, []string{"verify", changed("candidates.jsonl", with(`"attempt": 1`, `"attempt": "1"`))}},
		"no records":          {exitIntegrity, "candidates.jsonl: missing", []string{"verify", changed("candidates.jsonl", gone)}},
		"no salt":             {exitIntegrity, "restricted/salt: missing or changed", []string{"verify", changed("restricted/salt", gone)}},
		"no salt, resume":     {exitIntegrity, "restricted/salt: no such file or directory (give --force", oracle("--resume", "-o", changed("restricted/salt", gone))},
		"half a statement":    {exitIntegrity, "statement.dsse.json: reading the envelope: it is not valid JSON", []string{"verify", changed("statement.dsse.json", func(b []byte) []byte { return b[:90] })}},
		"half a bundle":       {exitIntegrity, "nor an intact bundle", []string{"verify", at("cut.zip")}},
		"half a bundle, CSV":  {exitIntegrity, "nor an intact bundle", []string{"report", "--csv", at("cut.zip")}},
		"no run":              {exitUsage, "holds no run", []string{"verify", dir}},
		"nothing":             {exitUsage, "none: no such file or directory", []string{"verify", at("none")}},
		"nowhere to bundle":   {exitRefused, "x.zip cannot be written: no such file or directory", []string{"bundle", out, "-o", at("none/x.zip")}},
		"a folder to bundle":  {exitRefused, "cannot be written: it is a directory", []string{"bundle", out, "--force", "-o", dir}},
		"a bundle is there":   {exitRefused, "already exists", []string{"bundle", out, "-o", at("run.zip")}},
		"nowhere to export":   {exitRefused, "k.pem cannot be written: no such file or directory", []string{"key", "export", "-o", at("none/k.pem")}},
		"nowhere to import":   {exitRefused, "file: not a directory", []string{"pack", "import", "gsm8k", at("wrong.jsonl"), "-o", at("file/x")}},
		"nowhere to run":      {exitRefused, "file: not a directory", oracle("-o", at("file/x"))},
		"a long replay line":  {exitConfig, "long.jsonl:2: the line is longer than 67108864 bytes", []string{"run", pack, "--agent", "replay:" + at("long.jsonl")}},
		"a wrong replay line": {exitConfig, "wrong.jsonl:1:1: text must be a string", []string{"run", pack, "--agent", "replay:" + at("wrong.jsonl")}},
		"half a replay line":  {exitConfig, "cut.jsonl:1", []string{"run", pack, "--agent", "replay:" + at("cut.jsonl")}},
		"no replay file":      {exitConfig, "none: no such file or directory", []string{"run", pack, "--agent", "replay:" + at("none")}},
		"no configuration":    {exitConfig, "none: no such file or directory", []string{"run", "--config", at("none")}},
		"no env file":         {exitConfig, "none: no such file or directory", oracle("--env-file", at("none"))},
		"no key":              {exitConfig, "none: no such file or directory", []string{"verify", out, "--key", at("none")}},
		"no pack":             {exitPack, "none", []string{"run", at("none"), "--agent", "oracle"}},
		"no agent":            {exitUsage, "no agent given", []string{"run", pack}},
		"no command":          {exitUsage, "unknown command", []string{"runn"}},
		"a failed task":       {exitFailOn, "--fail-on failed: 3 failed", []string{"run", pack, "--agent", "null", "-o", at("null"), "--fail-on", "failed"}},
		"a run that is there": {exitRefused, "already holds a run", oracle("-o", out)},
	} {
		t.Run(name, func(t *testing.T) {
			checkMessage(t, []string{noDocker}, c.code, c.say, c.args...)
		})
	}
}

// noDocker is where no Docker engine answers.
const noDocker = "DOCKER_HOST=unix:///nowhere.sock"

// checkMessage checks the exit code of a command, what it says, and that it says
// so in the user's terms.
func checkMessage(t *testing.T, env []string, code int, say string, args ...string) {
	t.Helper()
	res := securebench(t, env, args...)
	text := res.stdout + res.stderr
	if res.code != code || !strings.Contains(text, say) {
		t.Errorf("exit %d, want %d and %q:\n%s", res.code, code, say, text)
	}
	if word := jargon.FindString(text); word != "" {
		t.Errorf("it says %q:\n%s", word, text)
	}
}

// TestNoEngineMessages: where no engine can run, the message says of each that was
// tried what it needs.
func TestNoEngineMessages(t *testing.T) {
	t.Parallel()
	const startDocker = "start Docker or set DOCKER_HOST"
	args := []string{"run", codePack(t), "--agent", "oracle", "-o", filepath.Join(t.TempDir(), "code")}
	on := func(engine string) []string { return append(args[:len(args):len(args)], "--engine="+engine) }
	broken := t.TempDir() // an empty PATH would not do, because runtimes are found in the usual folders too
	for _, name := range []string{"runc", "crun"} {
		if err := sandboxtest.WriteProgram(filepath.Join(broken, name), []byte("#!/bin/sh\nexit 1\n")); err != nil {
			t.Fatal(err)
		}
	}
	noRuntime := []string{noDocker, "PATH=" + broken + ":" + os.Getenv("PATH")}
	checkMessage(t, []string{noDocker}, exitEngine, startDocker, on("docker")...)
	checkMessage(t, noRuntime, exitEngine, startDocker, on("auto")...)
	checkMessage(t, noRuntime, exitEngine, "no sandbox engine can run here: native lacks ", on("auto")...)
	checkMessage(t, noRuntime, exitEngine, "see securebench doctor", on("native")...)
}

// codePack writes a pack that needs an engine.
func codePack(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "manifest.yaml"), "id: code\nversion: 1\ndefaults: {family: code_completion, environment: {image: x}}\n")
	write(t, filepath.Join(dir, "tasks.jsonl"), `{"id": "a", "input": {"prompt": "def f(): pass"}, "eval": {"tests": {"source": "inline", "code": "assert f() is None"}}}`+"\n")
	return dir
}
