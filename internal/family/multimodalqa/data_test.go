package multimodalqa

import (
	"strings"
	"testing"
	"unicode"

	"github.com/go-json-experiment/json"

	"securebench/internal/candidate"
	"securebench/internal/datatest"
	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// visionRow is a row of MATH-Vision.
type visionRow struct {
	ID       string   `json:"id"`
	Question string   `json:"question"`
	Options  []string `json:"options"`
	Answer   string   `json:"answer"`
}

// visionAnswer is what a model wrote, and the official verdict on it.
type visionAnswer struct {
	ID       string `json:"id"`
	Model    string `json:"model"`
	Response string `json:"response"`
	Correct  bool   `json:"correct"`
}

func (r visionRow) of(t testing.TB) family.Case {
	return caseOf(t, r.Question, r.Options, r.Answer, "")
}

// caseOf makes a row's case; choices and match may be empty.
func caseOf(tb testing.TB, question string, choices []string, answer any, match string) family.Case {
	tb.Helper()
	values := []task.Resource{{Name: "question", Lane: task.Public, Value: familytest.JSON(tb, question)}}
	if len(choices) > 0 {
		values = append(values, task.Resource{Name: "choices", Lane: task.Public, Value: familytest.JSON(tb, choices)})
	}
	values = append(values, task.Resource{Name: "answer", Lane: task.Hidden, Value: familytest.JSON(tb, answer)})
	if match != "" {
		values = append(values, task.Resource{Name: "match", Lane: task.Hidden, Value: []byte(match)})
	}
	return familytest.Case(tb, "multimodal_qa", values...)
}

// say scores a text.
func say(tb testing.TB, v family.Verifier, c family.Case, text string) family.Verdict {
	tb.Helper()
	return familytest.Verify(tb, v, c, candidate.New(task.Text, candidate.Stdout, []byte(text)))
}

// TestMathVision: the gold of every row passes, and of the recorded answers those that the
// official scorer calls right, or that are right and it does not read.
func TestMathVision(t *testing.T) {
	rows := map[string]visionRow{}
	v := newVerifier(family.Resources{})
	for _, line := range datatest.Lines(t, datatest.Rows(t, "mathvision")) {
		var r visionRow
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		rows[r.ID] = r
		sol, ok := reference(r.of(t).Evaluator)
		if !ok {
			t.Errorf("row %s has no reference", r.ID)
			continue
		}
		if got := familytest.Verify(t, v, r.of(t), sol.Candidate); got.Outcome != verdict.Passed {
			t.Errorf("row %s: its gold fails: %s %s", r.ID, got.Reason, got.Message)
		}
	}
	equal, more, less := 0, 0, 0
	for _, line := range datatest.Lines(t, datatest.Recorded(t, "mathvision")) {
		var a visionAnswer
		if err := json.Unmarshal(line, &a); err != nil {
			t.Fatal(err)
		}
		r, ok := rows[a.ID]
		if !ok {
			continue // the rows are another part of the data set
		}
		got := say(t, v, r.of(t), a.Response)
		switch passed := got.Outcome == verdict.Passed; {
		case passed == a.Correct:
			equal++
		case passed:
			more++
			if !r.ends(a.Response) {
				t.Errorf("row %s, %s: passes, and neither the scorer there nor its end says %s: %q", a.ID, a.Model, r.Answer, a.Response)
			}
		default:
			less++
			if !r.another(a.Response) {
				t.Errorf("row %s, %s: right, and fails here: %s %s: %q", a.ID, a.Model, got.Reason, got.Message, a.Response)
			}
		}
	}
	t.Logf("%d rows; of the recorded answers %d verdicts equal, %d pass here only, %d there only", len(rows), equal, more, less)
}

// bare is a text without what typesetting adds.
func bare(s string) string {
	return strings.Map(func(c rune) rune {
		if strings.ContainsRune(" $\\.!{},~", c) {
			return -1
		}
		return unicode.ToLower(c)
	}, strings.ReplaceAll(s, "\\mathrm", ""))
}

// ends reports whether a response ends in the right option: its label in brackets, or its
// text. It is a second reading, by other means than the rules.
func (r visionRow) ends(response string) bool {
	if len(r.Options) == 0 {
		return false
	}
	end := response[max(0, len(response)-200):]
	right := r.Options[r.Answer[0]-'A']
	return strings.Contains(end, "("+r.Answer+")") || strings.Contains(end, " "+r.Answer+")") || strings.Contains(bare(end), bare(right))
}

// another reports whether a response is another option, word for word: the official scorer
// takes 5-2-3-4-1 for 5-2-3-1-4, because it calculates.
func (r visionRow) another(response string) bool {
	for i, o := range r.Options {
		if bare(o) == bare(response) && string(rune('A'+i)) != r.Answer {
			return true
		}
	}
	return false
}
