package multiplechoice

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

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
	for _, line := range dataLines(t, "truthfulqa/public/rows.jsonl") {
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
		k, err := newKey(choices, jsontext.Value(fmt.Sprint(right)))
		if err != nil {
			t.Fatalf("row %d: %v", r.Row, err)
		}
		rows++
		for i, c := range choices {
			label := string(rune('A' + i))
			for _, candidate := range []string{label, c, "Final answer: " + c, "Answer: " + label, label + ") " + c} {
				if got := k.Match(candidate).Outcome == verdict.Passed; got != (i == right) {
					t.Errorf("row %d: %q passed is %v, want %v", r.Row, candidate, got, i == right)
				}
			}
		}
	}
	if rows != 504 {
		t.Errorf("%d rows were checked, want 504", rows)
	}
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

// dataLines returns the lines of a file of the data sets, which are not part of
// the project.
func dataLines(t *testing.T, name string) [][]byte {
	t.Helper()
	dir := os.Getenv("SECUREBENCH_DATA")
	if dir == "" {
		t.Skip("SECUREBENCH_DATA is not set: it names the folder with the data sets")
	}
	data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Split(bytes.TrimSpace(data), []byte("\n"))
}
