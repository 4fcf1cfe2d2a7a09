package preferencepair

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/candidate"
	"securebench/internal/datatest"
	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// recorded is a pair of JudgeBench with a judge's words on both orders.
type recorded struct {
	ID        string `json:"pair_id"`
	Question  string `json:"question"`
	A         string `json:"response_A"`
	B         string `json:"response_B"`
	Label     string `json:"label"`
	Judgments []*struct {
		Decision *string `json:"decision"`
		Judgment struct {
			Response string `json:"response"`
		} `json:"judgment"`
	} `json:"judgments"`
}

// official returns the sum of a pair's decisions as the data set computes it, and whether
// both name the same place.
func (r recorded) official() (sum int, place bool) {
	turned := map[string]string{"A>B": "B>A", "B>A": "A>B"}
	var said []string
	for i, j := range r.Judgments {
		decision := ""
		if j != nil && j.Decision != nil {
			decision = *j.Decision
		}
		said = append(said, decision)
		if i == 1 && turned[decision] != "" {
			decision = turned[decision]
		}
		switch decision {
		case r.Label:
			sum++
		case turned[r.Label]:
			sum--
		}
	}
	return sum, said[0] == said[1] && turned[said[0]] != ""
}

// TestRecordedJudgements replays what judges said of JudgeBench's pairs, and wants the
// official verdict on each and as many that the position decided.
func TestRecordedJudgements(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(datatest.Dir(t), "judgebench", "outputs", "*judge_name=arena_hard*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("SECUREBENCH_DATA has no judgebench/outputs")
	}
	for _, file := range files {
		pairs, right, places, wrong := 0, 0, [2]int{}, 0
		for _, line := range datatest.Lines(t, file) {
			var r recorded
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatal(err)
			}
			sum, place := r.official()
			got := r.replay(t)
			pairs++
			if sum > 0 {
				right++
			}
			if place {
				places[0]++
			}
			var biases map[string]bool
			if err := json.Unmarshal(got.Metadata[verdict.BiasesKey], &biases); err != nil {
				t.Fatal(err)
			}
			if biases["position"] {
				places[1]++
			}
			if (got.Outcome == verdict.Passed) != (sum > 0) {
				wrong++
				t.Errorf("%s: %s: %s, and the official sum is %d", r.ID, got.Outcome, got.Message, sum)
			}
		}
		t.Logf("%s: %d of %d verdicts equal the official ones; %d are right; the position decided %d", filepath.Base(file), pairs-wrong, pairs, right, places[1])
		if places[0] != places[1] {
			t.Errorf("%s: the position decided %d pairs, officially %d", filepath.Base(file), places[1], places[0])
		}
	}
}

// replay scores what a judge said of a pair.
func (r recorded) replay(t *testing.T) family.Verdict {
	t.Helper()
	var texts []*string
	for _, j := range r.Judgments {
		said := ""
		if j != nil {
			said = j.Judgment.Response
		}
		texts = append(texts, &said)
	}
	c := rowCase(t, map[string]any{"prompt": r.Question, "candidate_a": r.A, "candidate_b": r.B}, map[string]any{"preference": r.Label[:1], "decide": "sum"})
	return scoreTexts(t, c, texts...)
}

// rowCase is a row as the verifier gets it.
func rowCase(tb testing.TB, input, eval map[string]any) family.Case {
	tb.Helper()
	var resources []task.Resource
	for name, v := range input {
		resources = append(resources, task.Resource{Name: name, Lane: task.Public, Value: familytest.JSON(tb, v)})
	}
	for name, v := range eval {
		resources = append(resources, task.Resource{Name: name, Lane: Family().Lanes[name], Value: familytest.JSON(tb, v)})
	}
	return familytest.Case(tb, Family().Name, resources...)
}

// scoreTexts scores texts, of which nil is a presentation that was not made.
func scoreTexts(tb testing.TB, c family.Case, texts ...*string) family.Verdict {
	tb.Helper()
	list, err := candidate.JoinTexts(texts...)
	if err != nil {
		tb.Fatal(err)
	}
	return familytest.Verify(tb, newVerifier(family.Resources{}), c, candidate.New(task.Text, candidate.Replay, list))
}

// judged is a pair of PandaLM's test set.
type judged struct {
	Index       int `json:"idx"`
	Instruction string
	Response1   jsontext.Value
	Response2   jsontext.Value
	A1          int    `json:"annotator1"`
	A2          int    `json:"annotator2"`
	A3          int    `json:"annotator3"`
	GPTResult   string `json:"gpt_result"`
}

// TestPublishedJudgements replays the judgements that PandaLM publishes of another model,
// one order each, and wants every verdict to be that of the people's majority.
func TestPublishedJudgements(t *testing.T) {
	folder := filepath.Join(datatest.Dir(t), "pandalm", "data")
	var rows, said []judged
	for file, into := range map[string]*[]judged{"testset-v1.json": &rows, "gpt-3.5-turbo-testset-v1.json": &said} {
		data, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Skipf("SECUREBENCH_DATA has no pandalm/data/%s", file)
		}
		if err := json.Unmarshal(data, into, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
	}
	word := map[string]string{"Tie": "tie", "1": "A", "2": "B"}
	published := map[int]string{}
	for _, s := range said {
		published[s.Index] = cmp.Or(word[s.GPTResult], s.GPTResult)
	}
	agree, decided, ties, tieAgree := 0, 0, 0, 0
	for _, r := range rows {
		counts := [3]int{}
		for _, a := range []int{r.A1, r.A2, r.A3} {
			counts[a]++
		}
		text := published[r.Index]
		c := rowCase(t, map[string]any{"prompt": r.Instruction, "candidate_a": string(r.Response1), "candidate_b": string(r.Response2), "allow_tie": true},
			map[string]any{"orders": "one", "preference": map[string]any{"votes": map[string]int{"tie": counts[0], "A": counts[1], "B": counts[2]}}})
		passed := scoreTexts(t, c, &text, nil).Outcome == verdict.Passed
		want := counts[0] > 1 && text == "tie" || counts[1] > 1 && text == "A" || counts[2] > 1 && text == "B"
		if passed != want {
			t.Errorf("row %d: the judgement %q on votes %v passes: %v", r.Index, text, counts, passed)
		}
		if counts[0] > 1 {
			ties++
			tieAgree += btoi(passed)
		} else {
			decided++
			agree += btoi(passed)
		}
	}
	t.Logf("published judgements agree with %d of %d majorities that are no tie, and with %d of %d ties", agree, decided, tieAgree, ties)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestLengths scores the longer candidate of every public row, and wants as many passes as
// the data set has rows in which it is preferred.
func TestLengths(t *testing.T) {
	type row struct {
		A     jsontext.Value `json:"output_1"`
		B     jsontext.Value `json:"output_2"`
		Label int            `json:"label"`
	}
	passed, want, rows := 0, 0, 0
	for _, line := range datatest.Lines(t, datatest.Rows(t, "llmbar")) {
		var r row
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		rows++
		c := rowCase(t, map[string]any{"prompt": "Which?", "candidate_a": r.A, "candidate_b": r.B}, map[string]any{"preference": "AB"[r.Label-1 : r.Label]})
		written, ok := verdicts(longest(pair(c.Sandbox)), exchanged(longest(pair(c.Sandbox))))
		if !ok {
			t.Fatal("the baseline has no answer")
		}
		got := familytest.Verify(t, newVerifier(family.Resources{}), c, candidate.New(task.Text, candidate.Replay, []byte(written)))
		passed += btoi(got.Outcome == verdict.Passed)
		var a, b string
		if json.Unmarshal(r.A, &a) != nil || json.Unmarshal(r.B, &b) != nil {
			t.Fatal("a candidate is no text")
		}
		longerIs := 2
		if len([]rune(a)) > len([]rune(b)) {
			longerIs = 1
		}
		want += btoi(longerIs == r.Label)
	}
	t.Logf("%d of %d rows prefer the longer candidate", passed, rows)
	if passed != want {
		t.Errorf("the longer candidate passes %d rows, and %d prefer it", passed, want)
	}
}
