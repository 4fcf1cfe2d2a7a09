package multiplechoice

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/datatest"
	"securebench/internal/verdict"
)

type truthRow struct {
	Row     int            `json:"row"`
	Targets jsontext.Value `json:"mc1_targets"`
}

// TestTruthfulQA gives every choice of every row as an answer, in three forms.
func TestTruthfulQA(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	rows := 0
	for _, line := range datatest.Lines(t, datatest.Rows(t, "truthfulqa")) {
		var r truthRow
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		var targets map[string]int
		if err := json.Unmarshal(r.Targets, &targets); err != nil {
			t.Fatal(err)
		}
		choices, right := shuffled(targets, random)
		if right < 0 {
			t.Errorf("row %d has no right choice", r.Row)
			continue
		}
		k, err := newKey(choices, jsontext.Value(fmt.Sprint(right)), nil, "")
		if err != nil {
			t.Fatalf("row %d: %v", r.Row, err)
		}
		rows++
		for i, c := range choices {
			label := string(rune('A' + i))
			for _, candidate := range []string{label, c, "Final answer: " + c, "Answer: " + label, label + ") " + c} {
				if got := k.match(candidate, false).Outcome == verdict.Passed; got != (i == right) {
					t.Errorf("row %d: %q passed is %v, want %v", r.Row, candidate, got, i == right)
				}
			}
		}
	}
	t.Logf("%d rows", rows)
}

// shuffled returns the choices that are not blank in a random order, and where
// the right one is.
func shuffled(targets map[string]int, random *rand.Rand) (choices []string, right int) {
	right = -1
	for _, c := range slices.Sorted(maps.Keys(targets)) {
		if strings.TrimSpace(c) != "" {
			choices = append(choices, c)
		}
	}
	random.Shuffle(len(choices), func(i, j int) { choices[i], choices[j] = choices[j], choices[i] })
	for i, c := range choices {
		if targets[c] == 1 {
			right = i
		}
	}
	return choices, right
}
