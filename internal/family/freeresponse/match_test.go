package freeresponse

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/family/textmatch"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

func newTestRubric(t testing.TB, text string) *rubric {
	t.Helper()
	r, err := newRubric(jsontext.Value(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const (
	passed = "passed"
	wrong  = "failed wrong_answer"
	empty  = "failed empty_candidate"
)

// melt is the rubric of most tests.
const melt = `{"accepted_answers": ["The ice melts.", "It becomes water."],
	"rejected_answers": ["The ice freezes harder."], "min_token_f1": 0.6}`

func TestMatch(t *testing.T) {
	tests := []struct{ name, rubric, candidate, want string }{
		{"span", melt, "Well, the ice melts, of course.", passed},
		{"other words, same tokens", melt, "Water it becomes", passed},
		{"rejected", melt, "The ice freezes harder", wrong},
		{"both", melt, "The ice melts. The ice freezes harder.", wrong},
		{"neither", melt, "Nobody knows", wrong},
		{"blank", melt, " .\n", empty},
		{"span inside a word", melt, "the ice meltsx", wrong},
		{"rejected span hidden", melt, "The ice melts; the ice fre\u200bezes harder", wrong},
		{"12 words more", melt, "the ice melts" + strings.Repeat(" zz", 12), passed},
		{"13 words more", melt, "the ice melts" + strings.Repeat(" zz", 13), wrong},
		{"13 words more without spaces", melt, "the ice melts," + strings.Repeat("zz,", 13), wrong},
		{"a rejected span counts at any length", melt,
			"the ice melts " + strings.Repeat("melts ", 5) + strings.Repeat("zz ", 90) + "the ice freezes harder", wrong},
		{"negation", `{"accepted_answers": ["will not be digested"]}`, "will be digested", wrong},
		{"negation kept", `{"accepted_answers": ["It will not be digested"]}`, "it won't be digested", passed},
		{"negation kept, modifier apostrophe", `{"accepted_answers": ["It will not be digested"]}`, "it wonʼt be digested", passed},
		{"negation kept, full-width apostrophe", `{"accepted_answers": ["It will not be digested"]}`, "it won＇t be digested", passed},
		{"another word with that letter", `{"accepted_answers": ["It will not be digested"]}`, "it wonʼs be digested", wrong},
		{"cannot", `{"accepted_answers": ["It can not be digested"]}`, "It cannot be digested!", passed},
		{"negation added", `{"accepted_answers": ["will be digested"]}`, "will never digested", wrong},
		{"united states", `{"accepted_answers": ["Made in the U.S."]}`, "made in the united states", passed},
		{"default threshold is 1", `{"accepted_answers": ["alpha beta gamma"]}`, "alpha beta", wrong},
		{"threshold is exact", `{"accepted_answers": ["alpha beta gamma"], "min_token_f1": 0.8}`, "alpha beta", passed},
		{"threshold is exact below", `{"accepted_answers": ["alpha beta gamma"], "min_token_f1": 0.80000000000000000001}`, "alpha beta", wrong},
		{"symbols", `{"accepted_answers": ["∞"]}`, "It is ∞", passed},
		{"unknown keys are ignored", `{"accepted_answers": ["x"], "note": 1}`, "x", passed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := newTestRubric(t, tt.rubric).match(tt.candidate)
			if got := familytest.Outcome(v); got != tt.want {
				t.Errorf("%q is %s, want %s", tt.candidate, got, tt.want)
			}
			if !slices.Contains(v.Labels, heuristic) {
				t.Errorf("the verdict is labelled %q", v.Labels)
			}
		})
	}
}

// TestReasoningIsNotRead: what a model thinks before it answers neither counts
// as words of the answer nor as the answer.
func TestReasoningIsNotRead(t *testing.T) {
	r, err := newRubric(jsontext.Value(`{"accepted_answers": ["the seeds will be digested"], "rejected_answers": ["they grow into a tree"]}`))
	if err != nil {
		t.Fatal(err)
	}
	thoughts := "<think>" + strings.Repeat("Perhaps they grow into a tree? ", 20) + "</think>\n"
	for candidate, want := range map[string]verdict.Outcome{
		thoughts + "The seeds will be digested.<|im_end|>":    verdict.Passed,
		"The seeds will be digested.</s>":                     verdict.Passed,
		"<think>The seeds will be digested.</think>":          verdict.Failed,
		"<think>The seeds will be digested.":                  verdict.Failed,
		thoughts + "They grow into a tree.":                   verdict.Failed,
		"The seeds will be digested.\nThey grow into a tree.": verdict.Failed,
	} {
		if v := r.match(candidate); v.Outcome != want {
			t.Errorf("%.80q is %s, want %s", candidate, v.Outcome, want)
		}
	}
}

func TestTokens(t *testing.T) {
	tests := []struct {
		in   string
		want []string
	}{
		{"The quick-brown FOX, 42", []string{"quick", "brown", "fox", "42"}},
		{"isn't don’t won't can't shan't cannot", []string{"not", "not", "will", "not", "can", "not", "shall", "not", "can", "not"}},
		{"no not never neither nor", []string{"no", "not", "never", "neither", "nor"}},
		{"can'tx tin'", []string{"can", "tx", "tin"}},
		{"U.S. of A.", []string{"united", "states"}},
		{"é naïve 語", []string{"naïve"}},
		{"i\u200bce meltѕ", []string{"i\u200bce", "meltѕ"}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, slices.Collect(tokens(lower(tt.in)))); diff != "" {
			t.Errorf("tokens of %q (-want +got):\n%s", tt.in, diff)
		}
	}
}

func TestNewRubricRefuses(t *testing.T) {
	tests := []struct {
		rubric string
		want   error
	}{
		{`[]`, errRubric},
		{`null`, errRubric},
		{`{"accepted_answers": ["x"], "type": "judge"}`, errType},
		{`{"accepted_answers": ["x"], "type": null}`, errType},
		{`{}`, errAccepted},
		{`{"accepted_answers": []}`, errAccepted},
		{`{"accepted_answers": ["x", 1]}`, errAccepted},
		{`{"accepted_answers": ["..."]}`, errAccepted},
		{`{"accepted_answers": ["x"], "rejected_answers": []}`, errRejected},
		{`{"accepted_answers": ["x"], "rejected_answers": [" "]}`, errRejected},
		{`{"accepted_answers": ["x"], "min_token_f1": 1.5}`, errThreshold},
		{`{"accepted_answers": ["x"], "min_token_f1": "1"}`, errThreshold},
	}
	for _, tt := range tests {
		if _, err := newRubric(jsontext.Value(tt.rubric)); !errors.Is(err, tt.want) {
			t.Errorf("%s: error %v, want %v", tt.rubric, err, tt.want)
		}
	}
}

// verify scores a candidate the way a run does.
func verify(t *testing.T, rubric, text string) (family.Verdict, error) {
	t.Helper()
	row, err := task.New(task.Config{
		ID: "t", Family: "free_response", Pack: task.Pack{ID: "p"},
		Resources: []task.Resource{
			{Name: "prompt", Lane: task.Public, Value: jsontext.Value(`"What happens to ice in the sun?"`)},
			{Name: "rubric", Lane: task.Hidden, Value: jsontext.Value(rubric)},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := NewVerifier(family.Resources{}).Open(t.Context(), family.Case{Evaluator: row.Evaluator()})
	return s.Verify(t.Context(), candidate.New(task.Text, candidate.Given, []byte(text)))
}

func TestVerifier(t *testing.T) {
	got, err := verify(t, melt, "It becomes water\n")
	if err != nil {
		t.Fatal(err)
	}
	want := family.Verdict{
		Outcome: verdict.Passed, Containment: verdict.Passive, Labels: []string{heuristic},
		Metadata: verdict.NewMetadata(map[string]any{
			"rubric_type": "contains_any", "candidate_answer": "It becomes water", "expected_answer": task.Redacted,
			"accepted_answer_count": 2, "rejected_answer_count": 1,
			"matched_answer_index": 1, "rejected_answer_index": nil,
			"accepted_token_f1": 1.0, "rejected_token_f1": 0.0, "min_token_f1": task.Redacted,
		}),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("verdict (-want +got):\n%s", diff)
	}
}

func TestStringRubricIsPending(t *testing.T) {
	for _, candidate := range []string{"", "anything", "canary", "{\"score\": 1}"} {
		got, err := verify(t, `"A canary in words."`, candidate)
		if err != nil || got.Outcome != verdict.Pending || got.Reason != verdict.NoJudge {
			t.Errorf("%q is %s, error %v", candidate, familytest.Outcome(got), err)
		}
	}
}

func TestHiddenValuesStayHidden(t *testing.T) {
	const canary = "canary-77e0"
	rubric := `{"accepted_answers": ["` + canary + ` one"], "rejected_answers": ["` + canary + ` two"], "min_token_f1": 0.4375}`
	for _, candidate := range []string{"", "one", "two", "one two three"} {
		v, err := verify(t, rubric, candidate)
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(v.Metadata)
		if published := string(data) + v.Message; err != nil ||
			strings.Contains(published, "canary") || strings.Contains(published, "0.4375") {
			t.Errorf("%q publishes a hidden value: %s, error %v", candidate, published, err)
		}
	}
}

// TestAppendedTextNeverHelps appends words that no accepted answer has, words
// of rejected answers among them, to candidates of every kind.
func TestAppendedTextNeverHelps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		good := rapid.SampledFrom([]string{"red", "green", "blue", "not", "pale"})
		bad := rapid.SampledFrom([]string{"black", "grey", "brown", "never", "dark"})
		mixed := rapid.OneOf(good, bad)
		answers := func(word *rapid.Generator[string], name string) []string {
			return rapid.SliceOfN(rapid.Map(rapid.SliceOfN(word, 1, 4), join), 1, 3).Draw(t, name)
		}
		r := &rubricJSON{
			Accepted: answers(good, "accepted"), Rejected: answers(mixed, "rejected"),
			Threshold: float64(rapid.IntRange(0, 20).Draw(t, "threshold")) / 20,
		}
		candidate := join(rapid.SliceOfN(mixed, 0, 12).Draw(t, "candidate"))
		appended := join(rapid.SliceOfN(rapid.OneOf(bad, rapid.SampledFrom([]string{"zz", "the", ".", "qq"})), 1, 30).Draw(t, "appended"))
		k := r.compile(t)
		if k.match(candidate).Outcome == verdict.Passed {
			return
		}
		if v := k.match(candidate + "\n" + appended); v.Outcome == verdict.Passed {
			t.Fatalf("%+v: %q fails, but passes with %q behind it", *r, candidate, appended)
		}
	})
}

// TestRejectedIsNotDiluted appends to a candidate that is rejected by its F1
// and holds an accepted span.
func TestRejectedIsNotDiluted(t *testing.T) {
	r := newTestRubric(t, `{"accepted_answers": ["red green"], "min_token_f1": 0.5,
		"rejected_answers": ["black grey brown dark pale", "never ever one two three four five six"]}`)
	const candidate = "red green brown grey black dark"
	for _, appended := range []string{"", " zz zz zz zz zz zz zz zz", " never never never never never never never never", " brown brown brown brown brown brown brown brown"} {
		if got := familytest.Outcome(r.match(candidate + appended)); got != wrong {
			t.Errorf("%q is %s, want %s", candidate+appended, got, wrong)
		}
	}
	if got := familytest.Outcome(r.match("red green")); got != passed {
		t.Errorf("the accepted answer alone is %s", got)
	}
}

// TestRejectedSpanNeverPasses puts a rejected answer among anything.
func TestRejectedSpanNeverPasses(t *testing.T) {
	r := newTestRubric(t, melt)
	word := rapid.SampledFrom([]string{"the", "ice", "melts", "becomes", "water", "it", "zz", ".", "not"})
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(word)
		candidate := join(words.Draw(t, "before")) + " The Ice  freezes harder. " + join(words.Draw(t, "after"))
		if v := r.match(candidate); v.Outcome == verdict.Passed {
			t.Fatalf("%q passed", candidate)
		}
	})
}

type rubricJSON struct {
	Accepted  []string `json:"accepted_answers"`
	Rejected  []string `json:"rejected_answers"`
	Threshold float64  `json:"min_token_f1"`
}

func (r *rubricJSON) compile(t *rapid.T) *rubric {
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	k, err := newRubric(data)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func join(words []string) string { return strings.Join(words, " ") }

func FuzzMatch(f *testing.F) {
	for _, s := range []string{"The ice melts", "it's water", "freezes harder ice", "u.s.", "can't", "∞ ice\u200bmelts", "water " + "becomes"} {
		f.Add(s)
	}
	r := newTestRubric(f, melt)
	f.Fuzz(func(t *testing.T, candidate string) {
		candidate = strings.ToValidUTF8(candidate, "")
		if r.match(candidate).Outcome != verdict.Passed {
			return
		}
		if counts, _ := r.count(lower(candidate)); len(counts) == 0 {
			t.Fatalf("%q passed without a word of the rubric", candidate)
		}
		if textmatch.HasPhrase(textmatch.Normalize(candidate), "the ice freezes harder") {
			t.Fatalf("%q passed with a rejected answer in it", candidate)
		}
		if v := r.match(candidate + " The ice freezes harder"); v.Outcome == verdict.Passed {
			t.Fatalf("%q passed with a rejected answer behind it", candidate)
		}
	})
}
