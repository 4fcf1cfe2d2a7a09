package initproc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/enginetest"
)

func TestLookAsks(t *testing.T) {
	for text, want := range map[string]string{
		"python3 agent.py":                 "python3",
		"  agent":                          "agent",
		"python3.12 -m agent --n=1 'a b'":  "python3.12",
		"nice-to-have || python3 agent.py": "sh", // an honest one can go on without the first
		"A=1 python3 agent.py":             "sh",
		"if true; then a; fi":              "sh",
		"apt-get update\npython3 agent.py": "sh",
		"$AGENT":                           "sh",
		"./agent.sh":                       "sh",
		"/opt/agent/run":                   "sh",
		"\"my agent\"":                     "sh",
		"exit 3":                           "exit",
		"echo $(date)":                     "sh",
	} {
		name, argv := Lookup{Argv: []string{"sh", "-lc", text}}.look()
		if name != want || (want == "sh") != (len(argv) == 3) {
			t.Errorf("%q: %q by %q, want %q", text, name, argv, want)
		}
	}
	for name, want := range map[string]string{"python3": "python3", "/usr/bin/python3": "/usr/bin/python3", "./agent": "", "bin/agent": ""} {
		if got, _ := (Lookup{Argv: []string{name, "x"}}).look(); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"program": 0o755, "text": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := "/nowhere:" + dir
	for name, want := range map[string]string{"program": lookupThere, "text": lookupAbsent, "folder": lookupAbsent, "other": lookupAbsent,
		filepath.Join(dir, "program"): lookupThere, filepath.Join(dir, "text"): lookupAbsent} {
		var said strings.Builder
		if err := AnswerLookup(&said, name, path); err != nil || said.String() != want+"\n" {
			t.Errorf("%s: %q, %v; want %s", name, said.String(), err, want)
		}
	}
}

func TestLookup(t *testing.T) { enginetest.Each(t, lookups) }

func lookups(t *testing.T, e enginetest.Engine) {
	img := enginetest.Image(t, e)
	for _, tt := range []struct {
		argv []string
		env  []string
		want string
	}{
		{argv: []string{"python3", "-c", "0"}},
		{argv: []string{"nosuch"}, want: "nosuch"},
		{argv: []string{"sh"}, env: []string{"PATH=/nowhere"}, want: "sh"},
		{argv: []string{"sh", "-lc", "python3 -c 0"}},
		{argv: []string{"sh", "-lc", "nosuch --help"}, want: "nosuch"},
		{argv: []string{"exit"}, want: "exit"}, // what the shell alone has is no command
	} {
		got, err := Missing(t.Context(), e, Lookup{Image: img, User: &sandbox.Nobody, Argv: tt.argv, Env: tt.env, Labels: sandbox.Labels{Role: "preflight"}})
		if err != nil || got != tt.want {
			t.Errorf("%q with %q: %q, %v; want %q", tt.argv, tt.env, got, err, tt.want)
		}
	}
	q := Lookup{Image: img, User: &sandbox.Nobody, Labels: sandbox.Labels{Role: "preflight"}}
	for name, want := range map[string]string{"python3": "", "/etc/passwd": "/etc/passwd"} {
		if got, err := q.helper(t.Context(), e, name); err != nil || got != want {
			t.Errorf("the helper on %s: %q, %v; want %q", name, got, err, want)
		}
	}
}

// TestLookRow: the command of a row is looked for where nothing is mounted later.
func TestLookRow(t *testing.T) {
	mounted := func(path string) bool { return strings.HasPrefix(path, "/app/") }
	for text, want := range map[string]string{"check --all": "check", "/opt/check --all": "/opt/check", "/app/check": "/bin/sh", "./check": "/bin/sh", "a | b": "/bin/sh"} {
		if name, _ := (Lookup{Argv: []string{"/bin/sh", "-c", text}, Elsewhere: mounted}).look(); name != want {
			t.Errorf("%q: %q, want %q", text, name, want)
		}
	}
	for name, want := range map[string]string{"check": "check", "/opt/check": "/opt/check", "/app/check": "", "./check": ""} {
		if got, _ := (Lookup{Argv: []string{name, "x"}, Elsewhere: mounted}).look(); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
