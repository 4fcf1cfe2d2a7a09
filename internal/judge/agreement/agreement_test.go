package agreement_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"securebench/internal/judge/agreement"
)

// TestTexts: figures of a small set that were worked out by hand.
func TestTexts(t *testing.T) {
	t.Parallel()
	text := func(people, judge bool, bytes int) agreement.Text {
		return agreement.Text{Passed: people, Judged: judge, Bytes: bytes}
	}
	got := agreement.OfTexts([]agreement.Text{
		text(true, true, 1), text(true, true, 2), text(true, false, 3), text(true, true, 4), {Passed: true, Judged: true, Void: true, Bytes: 5},
		text(false, false, 10), text(false, false, 20), text(false, true, 30), text(false, true, 40), {Judged: true, Void: true, Bytes: 50},
	})
	// People pass 5 of 10, the judge 5 of 10 less the two void ones: (3,2;2,3).
	if got.Accuracy.N != 6 || got.Accuracy.Of != 10 || got.Accuracy.Rate != 0.6 || got.Kappa == nil || *got.Kappa != 0.2 {
		t.Errorf("%+v", got)
	}
	if f := got.FalsePasses; f.N != 2 || f.Of != 5 || got.FalseFails.N != 2 || got.FalseFails.Of != 5 || got.Void != 2 {
		t.Errorf("%+v", got)
	}
	if got.LongFalse.N != 1 || got.LongFalse.Of != 2 || got.ShortFalse.N != 1 || got.ShortFalse.Of != 3 {
		t.Errorf("by length: %+v, %+v", got.LongFalse, got.ShortFalse)
	}
	if in := got.Accuracy.Interval; math.Abs(in[0]-0.3127) > 1e-4 || math.Abs(in[1]-0.8318) > 1e-4 {
		t.Errorf("interval %v", in)
	}
	if one := agreement.OfTexts([]agreement.Text{text(true, true, 1)}); one.Kappa != nil || one.Accuracy.Rate != 1 {
		t.Errorf("of one text: %+v", one)
	}
	if none := agreement.OfTexts(nil); none.Kappa != nil || none.Accuracy.Rate != 0 {
		t.Errorf("of none: %+v", none)
	}
}

// TestPairs: a judge that follows the place is found, and right choices are counted over
// both orders.
func TestPairs(t *testing.T) {
	t.Parallel()
	pair := func(people, given, turned agreement.Choice) agreement.Pair {
		return agreement.Pair{Preferred: people, Given: given, Turned: turned, Bytes: [2]int{9, 5}}
	}
	const a, b, none = agreement.First, agreement.Second, agreement.Neither
	got := agreement.OfPairs([]agreement.Pair{
		pair(a, a, b), pair(b, b, a), // right in both orders
		pair(a, a, none), pair(b, none, a), // right in one, and no choice in the other
		pair(a, b, a),                               // wrong in both
		pair(a, a, a), pair(b, a, a), pair(a, b, b), // the place
		pair(none, none, none), // people as well chose neither
	})
	if got.Accuracy.N != 5 || got.Accuracy.Of != 9 || got.Position.N != 3 || got.FirstPlace != 2 || got.Ties != 4 {
		t.Errorf("%+v", got)
	}
	if got.Longer.N != 2 || got.Longer.Of != 5 || got.PeopleLonger.N != 5 || got.PeopleLonger.Of != 8 {
		t.Errorf("length: %+v, %+v", got.Longer, got.PeopleLonger)
	}
	rapid.Check(t, func(t *rapid.T) {
		choice := rapid.SampledFrom([]agreement.Choice{none, a, b})
		all := rapid.SliceOf(rapid.Custom(func(t *rapid.T) agreement.Pair {
			return pair(choice.Draw(t, "people"), choice.Draw(t, "given"), choice.Draw(t, "turned"))
		})).Draw(t, "pairs")
		turned := make([]agreement.Pair, len(all))
		for i, p := range all { // the other order of everything says the same
			turned[i] = agreement.Pair{Preferred: p.Preferred.Other(), Given: p.Turned, Turned: p.Given, Bytes: [2]int{p.Bytes[1], p.Bytes[0]}}
		}
		one, other := agreement.OfPairs(all), agreement.OfPairs(turned)
		if one.Accuracy != other.Accuracy || one.Position != other.Position || one.Longer != other.Longer || one.Ties != other.Ties {
			t.Errorf("%+v and, turned, %+v", one, other)
		}
	})
}

// TestLabels: labels are read strictly, each fault with its line.
func TestLabels(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"task_id":"a","text":"x","passed":true}` + "\n\n" + `{"task_id":"a","text":"y","passed":false}`: "",
		`{"task_id":"a","texts":["x","y"],"preferred":2}`:                                                 "",
		"":                           "has no label",
		`{"task_id":"a","text":"x"}`: ":1: want task_id with text and passed",
		`{"task_id":"a","text":"x","passed":true,"texts":["x","y"],"preferred":1}`:                            ":1: want task_id",
		`{"task_id":"a","text":"x","passed":true,"preferred":1}`:                                              ":1: want task_id",
		`{"text":"x","passed":true}`:                                                                          "task_id is missing",
		`{"task_id":"a","texts":["x"],"preferred":1}`:                                                         "want task_id",
		`{"task_id":"a","texts":["x","y"],"preferred":3}`:                                                     "preferred must be",
		`{"task_id":"a","text":"x","passed":true,"passed":false}`:                                             ":1: not a label",
		`{"task_id":"a","text":"x","passed":"yes"}`:                                                           ":1: not a label",
		`{"task_id":"a","text":"x","passed":true,"more":1}`:                                                   ":1: not a label",
		`{"task_id":"a","text":"x","passed":true}` + "\n" + `{"task_id":"a","texts":["x","y"],"preferred":2}`: ":2: the lines before are of the other kind",
		`{"task_id":"a","text":"` + strings.Repeat("x", 1<<20+1) + `","passed":true}`:                         "more than 1048576 bytes",
	} {
		path := filepath.Join(t.TempDir(), "labels.jsonl")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := agreement.ReadLabels(path)
		if want == "" && (err != nil || len(got.All) == 0) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.80s: %v, want %q", text, err, want)
		}
	}
}

// envRecorded names a folder with JudgeBench's outputs, as its repository has them.
const envRecorded = "SECUREBENCH_JUDGEBENCH"

// TestRecordedJudges: the choices that JudgeBench recorded of judges, replayed, are right
// as often as its own metric says, which is computed here by its description.
func TestRecordedJudges(t *testing.T) {
	t.Parallel()
	dir := os.Getenv(envRecorded)
	if dir == "" {
		t.Skip("SKIPPED: no recorded judgements: name a folder of JudgeBench's outputs in " + envRecorded)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no outputs in %s: %v", dir, err)
	}
	for _, name := range files {
		pairs, official := recorded(t, name)
		got := agreement.OfPairs(pairs)
		t.Logf("%s: right in %d of %d, position bias %d, longer %d of %d", filepath.Base(name), got.Accuracy.N, got.Accuracy.Of, got.Position.N, got.Longer.N, got.Longer.Of)
		if got.Accuracy.N != official {
			t.Errorf("%s: right in %d, and by its own metric in %d", name, got.Accuracy.N, official)
		}
	}
}

// envPairs names a folder with PandaLM's test set and judgements, as its repository has
// them.
const envPairs = "SECUREBENCH_PANDALM"

// TestRecordedChoices: the choices that PandaLM publishes of a model are those of most
// people in as many pairs as are counted here by hand; the longer text is theirs in more.
func TestRecordedChoices(t *testing.T) {
	t.Parallel()
	dir := os.Getenv(envPairs)
	if dir == "" {
		t.Skip("SKIPPED: no recorded choices: name the folder data of PandaLM's repository in " + envPairs)
	}
	var people []struct {
		ID         int `json:"idx"`
		First      any `json:"response1"`
		Second     any `json:"response2"`
		Annotator1 int `json:"annotator1"`
		Annotator2 int `json:"annotator2"`
		Annotator3 int `json:"annotator3"`
	}
	var model []struct {
		ID     int `json:"idx"`
		Result any `json:"gpt_result"`
	}
	for name, into := range map[string]any{"testset-v1.json": &people, "gpt-3.5-turbo-testset-v1.json": &model} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = json.Unmarshal(data, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	chosen := map[int]string{}
	for _, m := range model {
		chosen[m.ID] = fmt.Sprint(m.Result)
	}
	var all []agreement.Pair
	equal := 0
	for _, p := range people {
		most := p.Annotator1
		if p.Annotator2 == p.Annotator3 {
			most = p.Annotator2
		}
		if most == 0 {
			continue
		}
		if chosen[p.ID] == fmt.Sprint(most) {
			equal++
		}
		given := map[string]agreement.Choice{"1": agreement.First, "2": agreement.Second}[chosen[p.ID]]
		all = append(all, agreement.Pair{Preferred: agreement.Choice(most), Given: given, Bytes: [2]int{len(fmt.Sprint(p.First)), len(fmt.Sprint(p.Second))}})
	}
	got := agreement.OfPairs(all)
	t.Logf("right in %d of %d, longer %d of %d, people %d of %d", got.Accuracy.N, got.Accuracy.Of, got.Longer.N, got.Longer.Of, got.PeopleLonger.N, got.PeopleLonger.Of)
	if got.Accuracy.N != equal || got.Accuracy.Of != len(all) || len(all) == 0 {
		t.Errorf("right in %d of %d, counted by hand %d of %d", got.Accuracy.N, got.Accuracy.Of, equal, len(all))
	}
}

// recorded reads a file of outputs, and counts the pairs of which the judge's decisions
// add up to the label.
func recorded(t *testing.T, name string) (pairs []agreement.Pair, official int) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	choices := map[string]agreement.Choice{"A>B": agreement.First, "B>A": agreement.Second}
	in := bufio.NewScanner(f)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var row struct {
			A         string `json:"response_A"`
			B         string `json:"response_B"`
			Label     string `json:"label"`
			Judgments []*struct {
				Decision string `json:"decision"`
			} `json:"judgments"`
		}
		if err := json.Unmarshal(in.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		p := agreement.Pair{Preferred: choices[row.Label], Bytes: [2]int{len(row.A), len(row.B)}}
		counter := 0
		for i, j := range row.Judgments {
			if j == nil {
				continue
			}
			decision := j.Decision
			if i == 0 {
				p.Given = choices[decision]
			} else {
				p.Turned = choices[decision]
				decision = map[string]string{"A>B": "B>A", "B>A": "A>B"}[decision]
			}
			switch decision {
			case row.Label:
				counter++
			case "A>B", "B>A":
				counter--
			}
		}
		if counter > 0 {
			official++
		}
		pairs = append(pairs, p)
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
	return pairs, official
}
