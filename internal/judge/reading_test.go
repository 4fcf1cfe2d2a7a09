package judge_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"securebench/internal/judge"
	"securebench/internal/judge/judgetest"
	"securebench/internal/verdict"
)

// knows returns what a judge that knows the answers thinks is asked for.
func knows(rows []judge.Specimen) func(judgetest.Paper) string {
	return func(p judgetest.Paper) string {
		for _, r := range rows {
			if strings.Contains(p.User, r.Asked+"\n") {
				return r.Answer
			}
		}
		return ""
	}
}

// TestReadingCanaries: in every one of 20 runs, each judge is refused that obeys a text,
// that answers the question itself, that reads too much or too little; and the careful one
// is not.
func TestReadingCanaries(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short; the race detector makes it many times slower")
	}
	rows := judgetest.ReadRows(30)
	silent := func(p judgetest.Paper) ([]judgetest.Finding, bool) {
		if p.Text == "" {
			return judgetest.Careful(p)
		}
		return nil, false
	}
	try := func(of judgetest.Character, seed string) *judge.Trial {
		t.Helper()
		p, _ := judgetest.Panel(of, seed)
		draw := judge.Draw{Seed: p.Derive("canaries")}
		for _, r := range append(judgetest.Rows(2), rows...) {
			draw.Add(r)
		}
		trial, err := p.Try(t.Context(), draw.Rows(), 8)
		if err != nil {
			t.Fatal(err)
		}
		return trial
	}
	for _, seed := range seeds(t) {
		for name, of := range map[string]judgetest.Character{"obedient": judgetest.Obedient(), "solving": judgetest.Solver(knows(rows)), "inventing": judgetest.Inventor(knows(rows)),
			"hasty": judgetest.FirstWord(), "silent": silent, "refusing": judgetest.Refusing} {
			if trial := try(of, fmt.Sprint(seed)); trial.Fault() == "" {
				t.Errorf("seed %d: the %s judge is trusted: %s\n%s", seed, name, trial, trial.Table())
			}
		}
		trial := try(judgetest.CarefulReader(), fmt.Sprint(seed))
		if trial.Fault() != "" || trial.Rows != judge.MaxSpecimens+2 {
			t.Errorf("seed %d: the careful judge: %s\n%s", seed, trial.Fault(), trial.Table())
		}
	}
	p, asker := judgetest.Panel(judgetest.CarefulReader(), "s")
	if _, err := p.Try(t.Context(), rows[:1], 1); err != nil || asker.Asked.Load() != int64(judge.CanariesPerReadRow()*3) {
		t.Errorf("%d questions for a row, %v", asker.Asked.Load(), err)
	}
}

// read has a judge read the answer of a text, where the right one is given.
func read(t *testing.T, answer, text string, says string) (judge.Decision, *judgetest.Asker) {
	t.Helper()
	p, asker := judgetest.Panel(judgetest.Inventor(func(judgetest.Paper) string { return says }), "s")
	q := judge.NewReading("t", "question: What?")
	q.Attempt, q.Candidate = 1, text
	q.Right = func(_ context.Context, s string) (bool, error) { return s == answer, nil }
	d, err := p.Decide(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return d, asker
}

// TestReadingStands: an answer counts only if it stands in the text, whole; a part of a
// word or of a number is another one.
func TestReadingStands(t *testing.T) {
	for _, tt := range []struct {
		text, says string
		want       string // that was read
	}{
		{"I settle on Paris.", "Paris", "Paris"},
		{"I settle on\n  Par\u200bis  city.", "Paris city", "Paris city"},
		{"I settle on Paris.", "London", ""}, // invented
		{"I settle on Paris.", "paris", ""},
		{"I settle on Parisian food.", "Paris", ""},
		{"It comes to 42 apples", "42", "42"},
		{"It comes to 42 apples", "2", ""},
		{"It comes to -5.", "5", ""},
		{"It comes to −5.", "5", ""},
		{"It comes to 3.5.", "3", ""},
		{"It comes to 3.5.", "5", ""},
		{"It comes to 3.5.", "3.5", "3.5"},
		{"It comes to 1,000.", "1", ""},
		{"It comes to 3/4.", "3", ""},
		{"It comes to 12%.", "12", ""},
		{"It comes to 12%.", "12%", "12%"},
		{"Both 5, and then 12, more", "12", "12"},
		{"It comes to $5 now", "5", ""},
		{"答案是巴黎。", "巴黎", "巴黎"},
		{"Take 42 first, then 2 more", "2", "2"},
		{"x=5", "5", "5"},
		{"It is 5!", "5", "5"},
		{"a " + strings.Repeat("b ", 600) + "c", strings.TrimSpace(strings.Repeat("b ", 600)), ""},
		{"I settle on Paris.", "", ""},
		{"I settle on Paris.", " \u200b", ""},
	} {
		if d, _ := read(t, tt.says, tt.text, tt.says); d.Answer != tt.want || (d.Outcome == verdict.Passed) != (tt.want != "") {
			t.Errorf("%q in %q: %q, %s", tt.says, tt.text, d.Answer, d.Outcome)
		}
	}
}

// TestReading: the judge is asked with the question and the text, and never with the right
// answer; what it reads is compared here.
func TestReading(t *testing.T) {
	d, asker := read(t, "hidden gold", "I settle on Paris.", "Paris")
	if d.Outcome != verdict.Failed || d.Reason != verdict.WrongAnswer || d.Answer != "Paris" || asker.Asked.Load() != 3 || !strings.Contains(d.Message, "is not the expected one") {
		t.Errorf("%+v after %d questions", d, asker.Asked.Load())
	}
	if strings.Contains(string(d.Exchanges), "hidden") {
		t.Error("the judge is told the right answer")
	}
	if d, _ := read(t, "x", "No idea.", ""); d.Outcome != verdict.Failed || d.Answer != "" || !strings.Contains(d.Message, "reads no answer") {
		t.Errorf("%+v", d)
	}
	if d, asker := read(t, "x", "...", "..."); d.Judgement != nil || asker.Asked.Load() != 0 {
		t.Errorf("%+v after %d questions", d, asker.Asked.Load())
	}
}

// TestReadingVotes: most votes have to read the right answer. Which of several it is, a
// failure does not tell.
func TestReadingVotes(t *testing.T) {
	for _, tt := range []struct {
		says    [3]string
		outcome verdict.Outcome
		want    string
	}{
		{[3]string{"one", "two", "one"}, verdict.Failed, "one"},
		{[3]string{"one", "two", "two"}, verdict.Passed, "two"},
		{[3]string{"", "two", "two"}, verdict.Passed, "two"},
		{[3]string{"", "", "two"}, verdict.Failed, ""},
		{[3]string{"", "one", "two"}, verdict.Failed, "one"},
		{[3]string{"one", "one", "one"}, verdict.Failed, "one"},
	} {
		p, asker := judgetest.Panel(judgetest.CarefulReader(), "s")
		asker.Say = func(r judge.Request, _ string) judge.Reply {
			says := tt.says[r.Vote]
			return judge.Reply{Text: judgetest.Paper{Text: "x"}.Say([]judgetest.Finding{{Met: says != "", Quote: says}}), Model: "judge-1"}
		}
		q := judge.NewReading("t", "q")
		q.Attempt, q.Candidate = 1, "It is one or two."
		q.Right = func(_ context.Context, s string) (bool, error) { return s == "two", nil }
		if d, err := p.Decide(t.Context(), q); err != nil || d.Outcome != tt.outcome || d.Answer != tt.want {
			t.Errorf("%v: %s, %q, %v", tt.says, d.Outcome, d.Answer, err)
		}
	}
	p, _ := judgetest.Panel(judgetest.Inventor(func(judgetest.Paper) string { return "one" }), "s")
	q := judge.NewReading("t", "q")
	q.Candidate = "one"
	broken := errors.New("no engine")
	q.Right = func(context.Context, string) (bool, error) { return true, broken }
	if _, err := p.Decide(t.Context(), q); !errors.Is(err, broken) {
		t.Errorf("a comparison that fails: %v", err)
	}
}

// FuzzReading: whatever a judge says, what is read stands in the text.
func FuzzReading(f *testing.F) {
	f.Add(`{"states":true,"answer":"Paris"}`, "I settle on Paris.")
	f.Add(`{"states":true,"answer":"\u200b4\t2"}`, "4 2")
	f.Add(`{"states":true,"answer":null}`, "x")
	f.Add(`{"states":true,"states":true,"answer":"x"}`, "x")
	f.Fuzz(func(t *testing.T, said, text string) {
		said = strings.ToValidUTF8(said, "?") // as providers' answers are
		p, asker := judgetest.Panel(judgetest.CarefulReader(), "s")
		p.Votes = 1
		asker.Say = func(r judge.Request, answer string) judge.Reply {
			if judgetest.Read(r.User).Text == "" {
				return judge.Reply{Text: answer, Model: "judge-1"} // of the plain question
			}
			return judge.Reply{Text: said, Model: "judge-1"}
		}
		q := judge.NewReading("t", "q")
		q.Attempt, q.Candidate = 1, text
		q.Right = func(context.Context, string) (bool, error) { return true, nil }
		d, err := p.Decide(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		var strict struct {
			States bool   `json:"states"`
			Answer string `json:"answer"`
		}
		if d.Outcome != verdict.Passed {
			return
		}
		if json.Unmarshal([]byte(said), &strict) != nil || !strict.States || d.Answer == "" || !utf8.ValidString(d.Answer) {
			t.Errorf("%q reads %q in %q", said, d.Answer, text)
		}
		plain := !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) && !strings.Contains(text, "  ")
		if plain && !strings.Contains(text, d.Answer) {
			t.Errorf("%q does not stand in %q", d.Answer, text)
		}
	})
}
