package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pipe replaces a file by a named pipe without a writer.
func pipe(t *testing.T, name string) {
	t.Helper()
	if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(name, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestNamedPipes: opening a named pipe without a writer blocks forever.
// Wherever a user names a file, and wherever a run's directory has one, a pipe
// is refused immediately and by name; a regular file is read.
func TestNamedPipes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	pack, fifo := textPack(t, dir), at("fifo")
	tester := at("tester.yaml")
	pipe(t, fifo)
	write(t, tester, `schema_version: "0.2"
run: {id: r, output_dir: out}
benchmark: {manifest: pack/manifest.yaml, tasks: pack/tasks.jsonl}
harness: {type: command, config: {command: "true"}}
`)
	if code, err := readsForEver(fifo); err == nil { // the weak set-up
		t.Fatalf("a program that just opens the pipe ends with %d", code)
	}
	var env []string
	named := func(name string, code int, args ...string) {
		t.Helper()
		p := background(t, dir, env, args...)
		res := p.ended(t, hung)
		if res.code != code || !strings.Contains(res.stdout+res.stderr, name) {
			t.Errorf("%v: exit %d, want %d and the name %q:\n%s%s", args, res.code, code, name, res.stdout, res.stderr)
		}
	}
	for name, args := range map[string][]string{
		"the configuration": {"run", "--config", fifo, "--agent", "oracle"},
		"the env file":      {"run", tester, "--agent", "oracle", "--env-file", fifo},
		"the replay file":   {"run", pack, "--agent", "replay:" + fifo},
		"the key to import": {"key", "import", fifo},
		"the key to trust":  {"key", "trust", fifo, "--name", "x"},
	} {
		t.Run(name, func(t *testing.T) {
			named(fifo+" is a named pipe, not a regular file (write its output to a file first)", exitConfig, args...)
		})
	}
	named(fifo, exitPack, "run", fifo, "--agent", "oracle")
	named(fifo, exitPack, "pack", "import", "humaneval", fifo, "-o", at("imported"))
	for _, command := range [][]string{{"verify"}, {"report"}, {"bundle", "-o", at("x.zip")}, {"reverify", "--pack", pack}} {
		named(fifo, exitUsage, append(command, fifo)...)
	}

	out := at("run")
	if res := securebench(t, nil, "run", pack, "--agent", "oracle", "-o", out, "--show-agent-output"); res.code != 0 {
		t.Fatalf("exit %d: %s", res.code, res.stderr)
	}
	env = []string{"SECUREBENCH_KEYS=" + fifo}
	named(fifo, exitConfig, "key", "list")
	named(fifo, exitConfig, "run", pack, "--agent", "oracle", "-o", at("other"))
	env = []string{"SECUREBENCH_HELPER=" + fifo}
	named(fifo, exitConfig, "run", codePack(t), "--agent", "oracle", "-o", at("other"))
	env = nil
	named(fifo, exitConfig, "verify", out, "--key", fifo)
	named(fifo, exitConfig, "reverify", out, "--pack", pack, "--salt", fifo)
	stored, err := os.ReadDir(filepath.Join(out, "candidates"))
	if err != nil || len(stored) == 0 {
		t.Fatalf("no candidate is stored: %v", err)
	}
	for _, name := range []string{
		"candidates.jsonl", "run.json", "statement.dsse.json", "agent-trace.log", "run.lock", "candidates/" + stored[0].Name(),
		"restricted/salt", "restricted/pack.json", "restricted/config.json", ".new-run.json", ".new-candidates.jsonl", "restricted/.new-salt",
	} {
		t.Run(name, func(t *testing.T) {
			copied := filepath.Join(t.TempDir(), "copy")
			if err := os.CopyFS(copied, os.DirFS(out)); err != nil {
				t.Fatal(err)
			}
			pipe(t, filepath.Join(copied, name))
			named(name, exitIntegrity, "verify", copied)
			named("", exitIntegrity, "report", copied)
			for _, flag := range []string{"--resume", "--force"} {
				named(name+" is a named pipe", exitRefused, "run", pack, "--agent", "oracle", "-o", copied, flag, "--show-agent-output")
			}
		})
	}
}

// readsForEver opens a pipe as a careless program would, and returns an error
// if that does not end soon.
func readsForEver(fifo string) (int, error) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f, err := os.Open(fifo)
		if err == nil {
			f.Close()
		}
	}()
	select {
	case <-ended:
		return 0, nil
	case <-time.After(500 * time.Millisecond):
	}
	w, err := os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0) // lets it go
	for errors.Is(err, syscall.ENXIO) {                            // it is not there yet
		time.Sleep(10 * time.Millisecond)
		w, err = os.OpenFile(fifo, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	}
	if err != nil {
		return 0, err
	}
	<-ended
	w.Close()
	return 0, os.ErrDeadlineExceeded
}
