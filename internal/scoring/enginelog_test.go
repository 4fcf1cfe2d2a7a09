package scoring_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"securebench/internal/scoring"
)

// TestEngineLog: events are appended as ASCII JSON lines to a file that only
// its owner can read, whatever they quote.
func TestEngineLog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "engine.log")
	hostile := "a\x1b[2J\u009b31m\n{\"level\":\"FORGED\"}\u202e\xff"
	for range 2 {
		log, err := scoring.OpenLog(name)
		if err != nil {
			t.Fatal(err)
		}
		log.Info("an event", slog.String("name", hostile))
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	if len(lines) != 2 {
		t.Fatalf("%d lines, want one per event: %q", len(lines), data)
	}
	for _, line := range lines {
		var event struct{ Level, Msg, Name string }
		if err := json.Unmarshal(line, &event); err != nil || event.Level != "INFO" || event.Msg != "an event" {
			t.Errorf("%q: %+v, %v", line, event, err)
		}
		for _, b := range line {
			if b < ' ' || b > '~' {
				t.Errorf("byte %#x in %q", b, line)
			}
		}
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
}

// TestEngineLogRefusesSpecialFiles: only a regular file can be the log, and a
// named pipe without a reader is refused immediately.
func TestEngineLogRefusesSpecialFiles(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{pipe, t.TempDir(), "/dev/null", filepath.Join(t.TempDir(), "missing", "log")} {
		if _, err := scoring.OpenLog(name); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	reader, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if _, err := scoring.OpenLog(pipe); err == nil {
		t.Error("a named pipe with a reader was accepted")
	}
}
