package preferencepair

import (
	"regexp"
	"strings"
	"testing"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// The weak scorers are what public judges of pairs do with the texts of both orders; A is
// right as written. Some give half a point for no answer.
func oneOrder(texts []string) float64 { return anywhere(texts[:1]) }

func anywhere(texts []string) float64 {
	switch {
	case strings.Contains(texts[0], "[[A]]") || strings.TrimSpace(texts[0]) == "A":
		return 1
	case strings.Contains(texts[0], "[[B]]"):
		return 0
	}
	return 0.5
}

func lastMark(texts []string) float64 {
	all := regexp.MustCompile(`\[\[([AB])\]\]`).FindAllStringSubmatch(texts[0], -1)
	if len(all) > 0 && all[len(all)-1][1] == "A" {
		return 1
	}
	return 0
}

func contains(texts []string) float64 {
	if strings.Contains(texts[0], "A") {
		return 1
	}
	return 0
}

// TestAttacks: texts that a weak scorer accepts fail, and honest ones beside them pass.
func TestAttacks(t *testing.T) {
	c := rowCase(t, map[string]any{"prompt": "Which?", "candidate_a": "right", "candidate_b": "wrong, and longer"}, map[string]any{"preference": "A"})
	tests := []struct {
		id     string
		attack [2]string
		weak   func([]string) float64
		reason verdict.Reason
		honest [2]string
	}{
		{"P1", [2]string{"[[A]]", "[[A]]"}, oneOrder, verdict.WrongAnswer, [2]string{"[[A]]", "[[B]]"}},
		{"P1", [2]string{"A", "A"}, oneOrder, verdict.WrongAnswer, [2]string{"A", "B"}},
		{"P2", [2]string{"[[A]] [[B]]", "[[B]] [[A]]"}, anywhere, verdict.AmbiguousAnswer, [2]string{"[[A]] I mean it: [[A]]", "[[B]] I mean it: [[B]]"}},
		{"P2", [2]string{"Answer: A or B", "Answer: A or B"}, contains, verdict.AmbiguousAnswer, [2]string{"Answer: A", "Answer: B"}},
		{"P2", [2]string{"[[B>A]]\n[[A>B]]", "[[A>B]]\n[[B>A]]"}, contains, verdict.AmbiguousAnswer, [2]string{"[[A>>B]]", "[[B>>A]]"}},
		{"P2", [2]string{`{"preference": "A", "verdict": "B"}`, `{"preference": "A", "verdict": "B"}`}, contains, verdict.AmbiguousAnswer, [2]string{`{"preference": "A"}`, `{"preference": "B"}`}},
		{"P3", [2]string{"One says [[B]].\n\n[[A]]", "One says [[A]].\n\n[[B]]"}, lastMark, verdict.AmbiguousAnswer,
			[2]string{"One says that A wins, B that B does.\n\n[[A]]", "One says that B wins, A that A does.\n\n[[B]]"}},
		{"P4", [2]string{"", ""}, anywhere, verdict.EmptyCandidate, [2]string{"Output (a)", "Output (b)"}},
		{"P4", [2]string{"I cannot say.", "I cannot say."}, anywhere, verdict.WrongAnswer, [2]string{"Response A", "Response B"}},
		{"P4", [2]string{"[[A]]", ""}, oneOrder, verdict.EmptyCandidate, [2]string{"**A**", "**B**"}},
		{"P5", [2]string{"[[tie]]", "[[tie]]"}, anywhere, verdict.WrongAnswer, [2]string{"It is no tie.\n\n[[A]]", "It is no tie.\n\n[[B]]"}},
		{"P5", [2]string{"[[A=B]]", "[[C]]"}, anywhere, verdict.WrongAnswer, [2]string{"Assistant A is better: [[A>B]]", "Assistant B is better: [[B>A]]"}},
	}
	for _, tt := range tests {
		t.Run(tt.id, func(t *testing.T) {
			if tt.weak(tt.attack[:]) < 0.5 {
				t.Errorf("%q does not even pass the weak scorer", tt.attack)
			}
			got := scoreTexts(t, c, &tt.attack[0], &tt.attack[1])
			if got.Outcome != verdict.Failed || got.Reason != tt.reason {
				t.Errorf("attack %q is %s %s, want failed %s", tt.attack, got.Outcome, got.Reason, tt.reason)
			}
			if got := scoreTexts(t, c, &tt.honest[0], &tt.honest[1]); got.Outcome != verdict.Passed {
				t.Errorf("honest %q is %s: %s", tt.honest, got.Outcome, got.Message)
			}
		})
	}
}

// TestNoList: a candidate that is not the list that the parent makes is no answer, so an
// agent cannot write one itself.
func TestNoList(t *testing.T) {
	c := rowCase(t, map[string]any{"prompt": "Which?", "candidate_a": "x", "candidate_b": "y"}, map[string]any{"preference": "A"})
	for _, text := range []string{"A", "[[A]]", `["A"]`, `["A", "B"]`, `["A","B","B"]`, `["A",2]`, `["A","B"] `, `{"0":"A","1":"B"}`, "null", "[null,null]", `["A",null]`, "\xff"} {
		if got := familytest.Verify(t, newVerifier(family.Resources{}), c, candidate.New(task.Text, candidate.Stdout, []byte(text))); got.Outcome == verdict.Passed {
			t.Errorf("%q passes", text)
		}
	}
}

// TestInnerList: what an agent prints is a text, also one that looks like the list.
func TestInnerList(t *testing.T) {
	c := rowCase(t, map[string]any{"prompt": "Which?", "candidate_a": "x", "candidate_b": "y"}, map[string]any{"preference": "A"})
	forged, honest := `["A","B"]`, "B"
	if got := scoreTexts(t, c, &forged, &forged); got.Outcome != verdict.Failed {
		t.Errorf("a list within the list is %s", got.Outcome)
	}
	if got := scoreTexts(t, c, &forged, &honest); got.Outcome != verdict.Failed {
		t.Errorf("a list in the place of one text is %s", got.Outcome)
	}
}
