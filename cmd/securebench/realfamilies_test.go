package main

import (
	"bytes"
	"encoding/base64"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"securebench/internal/gateway/scripted"
	"securebench/internal/sampletest"
)

// TestRealAgentsPrefer: the real Codex and Claude Code work on a pair once for each order,
// and each time their model sees that order alone.
func TestRealAgentsPrefer(t *testing.T) {
	sampletest.Nightly(t, "both agents solve other tasks, and other agents compare pairs")
	t.Parallel()
	row := map[string]any{"id": "pair", "family": "preference_pair", "eval": map[string]any{"preference": "B"},
		"input": map[string]any{"prompt": "Name the capital of France.", "candidate_a": "Lyon", "candidate_b": "Paris"}}
	for name, agent := range map[string]realHarness{"codex": newCodex(plainModel), "claude": claude("sonnet")} {
		t.Run(name, func(t *testing.T) {
			orders := []string{`candidate_a\": \"Lyon`, `candidate_a\": \"Paris`}
			read := scripted.Turn{Read: "task.json"}
			b := newAgentBench(t, &scripted.Script{Turns: []scripted.Turn{read}, Conversations: []scripted.Conversation{
				{Seen: orders[0], Turns: []scripted.Turn{read, {Say: "[[B]]"}}},
				{Seen: orders[1], Turns: []scripted.Turn{read, {Say: "[[A]]"}}},
			}}, nil)
			row := maps.Clone(row)
			row["environment"] = map[string]any{"image": b.images["root"]}
			tester := b.config(name, agent, []map[string]any{row})
			res := securebench(t, b.env(), "run", tester, "-q")
			if res.code != exitDone {
				t.Fatalf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
			}
			want := map[string]string{"pair": "passed passed "}
			sameVerdicts(t, filepath.Join(filepath.Dir(tester), "out"), want)
			var seen [2]int
			for _, r := range b.provider.Requests() {
				both := 0
				for i, order := range orders {
					if bytes.Contains(r.Body, []byte(order)) {
						seen[i]++
						both++
					}
				}
				if both == 2 {
					t.Error("a request shows both orders")
				}
			}
			if seen[0] == 0 || seen[1] == 0 {
				t.Errorf("the orders were shown in %d requests", seen)
			}
			checkAgain(t, filepath.Join(filepath.Dir(tester), "out"), tester, want)
		})
	}
}

// TestRealAgentsSee: the real Codex and Claude Code look at a row's picture with the tools
// that they have for that, and their model is shown it.
func TestRealAgentsSee(t *testing.T) {
	sampletest.Nightly(t, "both agents solve other tasks, and other agents are shown pictures")
	t.Parallel()
	const name = "squares-1.png"
	picture, err := os.ReadFile(filepath.Join("..", "..", "packs", "pictures-sample", "assets", name))
	if err != nil {
		t.Fatal(err)
	}
	for agent, tt := range map[string]struct {
		realHarness
		look scripted.Turn
	}{
		"codex":  {newCodex(plainModel), scripted.Turn{Call: &scripted.Call{Name: "view_image", Arguments: map[string]any{"path": name}}}},
		"claude": {claude("sonnet"), scripted.Turn{Read: name}},
	} {
		t.Run(agent, func(t *testing.T) {
			b := newAgentBench(t, &scripted.Script{Turns: []scripted.Turn{{Read: "task.json"}, tt.look, {Say: "Answer: 4"}}}, nil)
			row := sampleRow(t, "pictures-sample", "pictures/squares")
			row["family"], row["environment"] = "multimodal_qa", map[string]any{"image": b.images["root"]}
			tester := b.config(agent, tt.realHarness, []map[string]any{row})
			dir := filepath.Dir(tester)
			if err := os.Mkdir(filepath.Join(dir, "assets"), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "assets", name), string(picture))
			res := securebench(t, b.env(), "run", tester, "-q")
			if res.code != exitDone {
				t.Fatalf("exit %d\n%s%s", res.code, res.stdout, res.stderr)
			}
			want := map[string]string{"pictures/squares": "passed passed "}
			sameVerdicts(t, filepath.Join(dir, "out"), want)
			shown := 0
			for _, r := range b.provider.Requests() {
				if r.Refused != "" {
					t.Errorf("a request that a provider would refuse: %s", r.Refused)
				}
				if bytes.Contains(r.Body, []byte(base64.StdEncoding.EncodeToString(picture))) {
					shown++
				}
			}
			if shown == 0 {
				t.Errorf("the model was not shown the picture in %d requests", len(b.provider.Requests()))
			}
			checkAgain(t, filepath.Join(dir, "out"), tester, want)
		})
	}
}
