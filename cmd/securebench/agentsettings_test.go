package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAgentSettings: the real Claude Code keeps to the turns of a configuration, and its
// provider reads the text that is added to its system prompt.
func TestAgentSettings(t *testing.T) {
	t.Parallel()
	const text = "Mind the garden's third gate."
	for name, tt := range map[string]struct {
		config, want string
		asked        bool
	}{
		"system_prompt": {"system_prompt: " + text, "passed passed ", true},
		"max_turns":     {"max_turns: 3", "passed passed ", false},
	} {
		t.Run(name, func(t *testing.T) {
			b, h := newAgentBench(t, solvingScript(t), nil), claude("sonnet")
			rows := []map[string]any{b.solvableRows()["term/tester"]}
			tester := b.config(strings.ReplaceAll(name, "_", "-"), h, rows)
			yaml, err := os.ReadFile(tester)
			if err != nil {
				t.Fatal(err)
			}
			write(t, tester, strings.Replace(string(yaml), "config: {", "config: {"+tt.config+", ", 1))
			if res := securebench(t, b.env(), "run", tester, "-q"); res.code != exitDone {
				t.Fatalf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
			}
			out := filepath.Join(filepath.Dir(tester), "out")
			sameVerdicts(t, out, map[string]string{"term/tester": tt.want})
			turns, asked := 0, false
			for _, r := range b.provider.Requests() {
				turns = max(turns, r.Turn)
				asked = asked || bytes.Contains(r.Body, []byte(text))
			}
			if asked != tt.asked || (turns > 3) != tt.asked {
				t.Errorf("%d turns, the system prompt has the text: %t", turns, asked)
			}
		})
	}
}
