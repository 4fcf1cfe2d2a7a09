package kinds

import (
	"testing"

	"securebench/internal/config"
	"securebench/internal/source"
)

func TestUnknownType(t *testing.T) {
	_, ps := Configured(config.Harness{Type: "shell", TypePos: source.Pos{File: "h.yaml", Line: 9}})
	const want = "h.yaml:9: harness.type must be one of: agent, claude_code, codex, command, model"
	if err := ps.Err(); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

func TestSandboxed(t *testing.T) {
	for name, want := range map[string]bool{"codex": true, "command": true, "model": false, "oracle": false, "null": false, "replay": false, "of another build": true} {
		if Sandboxed(name) != want {
			t.Errorf("%s: want %t", name, want)
		}
	}
}
