package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFailedWrites: a command that cannot print its result does not succeed.
func TestFailedWrites(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("this system has no /dev/full")
	}
	defer full.Close()
	dir := t.TempDir()
	pack := textPack(t, dir)
	out := filepath.Join(dir, "run")
	if res := securebench(t, nil, "run", pack, "--agent", "oracle", "-o", out); res.code != exitDone {
		t.Fatalf("exit %d: %s", res.code, res.stderr)
	}
	broken := filepath.Join(dir, "broken")
	if err := os.CopyFS(broken, os.DirFS(out)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(broken, "run.json")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"run", pack, "--agent", "oracle", "-o", filepath.Join(dir, "new")}, {"run", "--help"}, {"version"}, {"completion", "bash"},
		{"verify", out}, {"verify", out, "--json"}, {"report", out}, {"report", out, "--json"}, {"report", out, "--csv"},
		{"reverify", out, "--pack", pack}, {"validate", pack}, {"validate", pack, "--json"},
		{"pack", "check", pack}, {"pack", "show", pack, "a"}, {"key", "list"}, {"key", "export"},
	} {
		cmd := command(t, nil, args...)
		var stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = full, &stderr
		_ = cmd.Run() // the exit code is checked
		if code := cmd.ProcessState.ExitCode(); code != exitInternal {
			t.Errorf("%v: exit %d, want %d\n%s", args, code, exitInternal, stderr.String())
		}
		if !strings.Contains(stderr.String(), "standard output could not be written: no space left on device\n") {
			t.Errorf("%v: it does not say what went wrong:\n%s", args, stderr.String())
		}
	}
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"run", pack, "--agent", "oracle", "-o", filepath.Join(dir, "mute"), "--progress", "plain"}, exitInternal},
		{[]string{"verify", broken}, exitIntegrity}, // a worse code stays
		{[]string{"verify", filepath.Join(dir, "none")}, exitUsage},
		{[]string{"verify", out}, exitDone}, // it has nothing to say there
	} {
		cmd := command(t, nil, c.args...)
		cmd.Stderr = full
		_ = cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != c.code {
			t.Errorf("%v: exit %d, want %d", c.args, code, c.code)
		}
	}
	if res := securebench(t, nil, "verify", filepath.Join(dir, "mute")); res.code != exitDone {
		t.Errorf("the run whose progress could not be shown: %s%s", res.stdout, res.stderr)
	}
}

// textPack writes a pack of three rows that needs no engine, and returns it.
func textPack(t *testing.T, dir string) string {
	t.Helper()
	pack := filepath.Join(dir, "pack")
	if err := os.MkdirAll(pack, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(pack, "manifest.yaml"), "id: text\nversion: 1\ndefaults: {family: short_answer}\n")
	write(t, filepath.Join(pack, "tasks.jsonl"), `{"id": "a", "input": {"question": "2+2?"}, "eval": {"accepted_answers": ["4"]}}
{"id": "b", "input": {"question": "3+3?"}, "eval": {"accepted_answers": ["6"]}}
{"id": "c", "input": {"question": "4+4?"}, "eval": {"accepted_answers": ["8"]}}
`)
	return pack
}
