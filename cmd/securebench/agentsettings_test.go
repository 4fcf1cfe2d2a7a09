package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/sampletest"
)

// TestAgentSettings: the real Claude Code keeps to the turns of a configuration, and its
// provider reads the text that is added to its system prompt.
func TestAgentSettings(t *testing.T) {
	sampletest.Nightly(t, "the arguments of the agent are tested with programs in its place")
	t.Parallel()
	const text = "Mind the garden's third gate."
	for name, tt := range map[string]struct {
		config, row, want string
		asked             bool
	}{
		"system_prompt": {"system_prompt: " + text, "term/tester", "passed passed ", true},
		"max_turns":     {"max_turns: 3", "term/tester", "passed passed ", false},
		"no candidate":  {"max_turns: 1", "repo/tester", "failed limit turn_limit", false},
	} {
		t.Run(name, func(t *testing.T) {
			b, h := newAgentBench(t, solvingScript(t), nil), claude("sonnet")
			rows := []map[string]any{b.solvableRows()[tt.row]}
			tester := b.config(strings.NewReplacer("_", "-", " ", "-").Replace(name), h, rows)
			yaml, err := os.ReadFile(tester)
			if err != nil {
				t.Fatal(err)
			}
			write(t, tester, strings.Replace(string(yaml), "config: {", "config: {"+tt.config+", ", 1))
			if res := securebench(t, b.env(), "run", tester, "-q"); res.code != exitDone {
				t.Fatalf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
			}
			out := filepath.Join(filepath.Dir(tester), "out")
			sameVerdicts(t, out, map[string]string{tt.row: tt.want})
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
