package packs

import (
	"os"
	"path/filepath"
	"testing"
)

// TestAppendRow: rows stay, byte for byte, and a last line without an end gets one.
// If a file of the row is there, nothing changes.
func TestAppendRow(t *testing.T) {
	for before, want := range map[string]string{"": "{}\n", "{\"a\":1}": "{\"a\":1}\n{}\n", "\n{}\r\n": "\n{}\r\n{}\n"} {
		dir := t.TempDir()
		tasks := filepath.Join(dir, "tasks.jsonl")
		if err := os.WriteFile(tasks, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		row := starterRow{Line: []byte("{}\n"), Files: []starterFile{{Path: "assets/a/b", Data: []byte("x")}}}
		for _, again := range []bool{false, true} {
			if err := appendRow(tasks, dir, row); (err != nil) != again {
				t.Errorf("again %v: %v", again, err)
			}
			if got, err := os.ReadFile(tasks); err != nil || string(got) != want {
				t.Errorf("%q became %q, want %q (%v)", before, got, want, err)
			}
		}
	}
}
