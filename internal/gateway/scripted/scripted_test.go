package scripted

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestScripts: the scripts of the project can be read.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.yaml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%d scripts: %v", len(files), err)
	}
	for _, file := range files {
		s, err := Load(file)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(s.Turns) == 0 {
			t.Errorf("%s has no turns where no conversation fits", file)
		}
	}
}

// TestBadScripts: errors say where.
func TestBadScripts(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"turns:\n  - sya: hello\n", "s.yaml:2:"},
		{"turns:\n  - delay: soon\n", "s.yaml:2:"},
		{"turns: 3\n", "s.yaml:1:"},
		{"turns:\n  - before: [{times: 2}]\n", "turn 1: a fault needs exactly one"},
		{"turns:\n  - before: [{status: 429, close: true}]\n", "exactly one"},
		{"turns:\n  - before: [{status: 42}]\n", "want 200 to 599"},
		{"turns:\n  - before: [{endless: noise}]\n", "want events, line or pings"},
		{"turns:\n  - before: [{hang: true, times: -2}]\n", "want -1 or more"},
		{"", "empty"},
	} {
		_, err := Parse("s.yaml", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
	if _, err := Parse("s.json", []byte(`{"turns": [{"say": "hello", "delay": "1s"}]}`)); err != nil {
		t.Error(err)
	}
}

// TestFaultsInOrder: a turn's faults come one after the other, and then its
// answer.
func TestFaultsInOrder(t *testing.T) {
	turn := Turn{Before: []Fault{{Status: 429, Times: 2}, {Status: 500}}}
	for n, want := range []int{429, 429, 500, 0, 0} {
		got := 0
		if f := turn.fault(n); f != nil {
			got = f.Status
		}
		if got != want {
			t.Errorf("request %d gets %d, want %d", n+1, got, want)
		}
	}
	turn.Before[1].Times = -1
	if turn.fault(1_000_000) == nil {
		t.Error("a fault for all requests has ended")
	}
}

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob(filepath.Join("testdata", "*.yaml"))
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse("s.yaml", data)
		if (s == nil) == (err == nil) {
			t.Errorf("%v, %v", s, err)
		}
		if err != nil && bytes.ContainsRune([]byte(err.Error()), 0) {
			t.Errorf("%q", err)
		}
	})
}

// TestWaysOfWorking: a script can be that of a model which ends its work with a command, or
// which only writes files.
func TestWaysOfWorking(t *testing.T) {
	t.Parallel()
	read := func() *Script {
		s, err := Parse("s.yaml", []byte("conversations: [{turns: [{run: ls}, {write: {path: /w/a.py, content: \"1\\n\"}}, {say: All done.}]}]\n"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	ended := read()
	ended.EndBy("exit")
	if turns := ended.Conversations[0].Turns; len(turns) != 3 || turns[2].Run != "exit" || turns[2].Say != "All done." {
		t.Errorf("ended by a command: %+v", turns)
	}
	written := read()
	written.WriteFiles()
	if turns := written.Conversations[0].Turns; len(turns) != 1 || turns[0].Say != "a.py\n```\n1\n```\n" {
		t.Errorf("in files: %+v", turns)
	}
}
