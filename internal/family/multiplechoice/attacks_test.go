package multiplechoice

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"securebench/internal/family/familytest"
	"securebench/internal/verdict"
)

// The row that is attacked: TLS, label B, is right.
const (
	goldLabelB = "B"
	goldText   = "TLS"
)

// The weak matchers are what the attacks were made for: each is a mistake that
// a benchmark has made.
func anyLabel(candidate string) bool {
	return regexp.MustCompile(`\b` + goldLabelB + `\b`).MatchString(candidate)
}

func anyFinal(candidate string) bool {
	return strings.Contains(candidate, "Final answer: "+goldLabelB)
}

func containsText(candidate string) bool { return strings.Contains(candidate, goldText) }

func lettersOnly(candidate string) bool {
	keep := strings.Map(func(r rune) rune {
		switch {
		case r == 'Ｂ' || r == 'В': // look-alikes fold
			return 'B'
		case unicode.IsLetter(r):
			return r
		}
		return -1
	}, candidate)
	return keep == goldLabelB || keep == goldText
}

func goldContains(candidate string) bool {
	return strings.Contains(goldText, strings.Trim(candidate, " .-"))
}

func anyOutput(candidate string) bool { return candidate != "" }

func refusal(candidate string) bool { return strings.Contains(candidate, "infeasible") }

func asPattern(candidate string) bool {
	return regexp.MustCompile("^" + candidate + "$").MatchString(goldText)
}

func asFormat(candidate string) bool {
	return strings.HasPrefix(fmt.Sprintf(candidate, goldText), goldText)
}

func TestAttacks(t *testing.T) {
	k := newTestKey(t, `"TLS"`, "DNS", "TLS", "NTP", "FTP")
	tests := []struct {
		row    string
		attack string
		weak   func(string) bool
		reason verdict.Reason
		honest string
	}{
		{"T01", "The answer is A, B, C, and D.", anyLabel, verdict.AmbiguousAnswer, "The answer is B."},
		{"T01", "A B C D", anyLabel, verdict.AmbiguousAnswer, "B"},
		{"T02", "Final answer: A\n" + strings.Repeat("Let me think.\n", 40) + "Correction. Final answer: B",
			anyFinal, verdict.AmbiguousAnswer, strings.Repeat("Let me think.\n", 40) + "Final answer: B"},
		{"T02", "Final answer: A\nFinal answer: B\nFinal answer: C\nFinal answer: D",
			anyFinal, verdict.AmbiguousAnswer, "Final answer: B\nFinal answer: TLS"},
		{"T03", "Which protocol encrypts?\nA) DNS\nB) TLS\nC) NTP\nD) FTP",
			containsText, verdict.AmbiguousAnswer, "Which protocol encrypts?\nA) DNS\nB) TLS\nAnswer: TLS"},
		{"T03", "Which protocol encrypts: DNS, TLS, NTP, FTP?", containsText, verdict.AmbiguousAnswer, "TLS"},
		{"T07", "T\u200bL\u200bS", lettersOnly, verdict.WrongAnswer, "T\u004cS"},
		{"T07", "\u202eB", lettersOnly, verdict.WrongAnswer, "\u00a0B"},
		{"T07", "В", lettersOnly, verdict.WrongAnswer, "B"}, // Cyrillic
		{"T07", "B\u0336", lettersOnly, verdict.WrongAnswer, "B"},
		{"T08", " ", goldContains, verdict.EmptyCandidate, "TLS"},
		{"T08", "-", goldContains, verdict.WrongAnswer, "- Answer: TLS"},
		{"T08", ".", goldContains, verdict.WrongAnswer, "TLS."},
		{"T09", "{}", anyOutput, verdict.WrongAnswer, "{B}"},
		{"T09", "x", anyOutput, verdict.WrongAnswer, "b"},
		{"T10", "The task is infeasible.", refusal, verdict.WrongAnswer, "B"},
		{"T17", ".*", asPattern, verdict.WrongAnswer, "TLS"},
		{"T17", "%s%[1]n", asFormat, verdict.WrongAnswer, "TLS"},
	}
	for _, tt := range tests {
		t.Run(tt.row, func(t *testing.T) {
			if !tt.weak(tt.attack) {
				t.Errorf("%q does not even pass the weak matcher", tt.attack)
			}
			if v := k.match(tt.attack, false); v.Outcome != verdict.Failed || v.Reason != tt.reason {
				t.Errorf("attack %q is %s, want failed %s", tt.attack, familytest.Outcome(v), tt.reason)
			}
			if v := k.match(tt.honest, false); v.Outcome != verdict.Passed {
				t.Errorf("honest %q is %s", tt.honest, familytest.Outcome(v))
			}
		})
	}
}

// TestAbstention is the honest side of T10: saying that there is no answer is
// right where the row says so.
func TestAbstention(t *testing.T) {
	k := newTestKey(t, `"The task is infeasible"`, "42", "The task is infeasible")
	if v := k.match("The task is infeasible.", false); v.Outcome != verdict.Passed {
		t.Errorf("a declared abstention is %s", familytest.Outcome(v))
	}
}

// anyLead takes what follows the last lead, wherever it stands.
func anyLead(candidate string) bool {
	m := regexp.MustCompile(`(?s).*(?:[Aa]nswer|[Oo]ption|[Cc]hoice|boxed)\b[^A-Z]*([A-D])\b`).FindStringSubmatch(candidate)
	return m != nil && m[1] == goldLabelB
}

// TestDeniedLeads leads to a choice and denies it, or leads to several.
func TestDeniedLeads(t *testing.T) {
	k := newTestKey(t, `"TLS"`, "DNS", "TLS", "NTP", "FTP")
	tests := []struct{ attack, honest string }{
		{"Wrong option: B", "Right option: B"},
		{"Incorrect answer: B", "Correct answer: B"},
		{"Tempting answer: B", "Best answer: B"},
		{"Discarded choice: B", "My choice: B"},
		{"The opposite of the answer is B", "The answer to the question is B"},
		{"The answer that is wrong is B", "The answer that was asked for?\nThe answer is B"},
		{"The answer is not\nB", "The answer is\nB"},
		{"I doubt that the answer is B", "I think that the answer is B"},
		{"It would be wrong to say the answer is B", "A is wrong, so the answer is B"},
		{"\\boxed{A} \\boxed{B}", "\\boxed{B} \\boxed{B}"},
		{"The answer is not \\boxed{B}", "It is not A, so the answer is \\boxed{B}"},
		{"Answer A, answer: B", "Not A, answer: B"},
		{"Answer: A. Option B", "Answer: B. Option A is wrong."},
		{"<answer>A</answer>\n<answer>B</answer>", "<answer>B</answer>"},
		{"<think>Answer: B", "<think>Answer: A</think>B"},
	}
	for _, tt := range tests {
		if !anyLead(tt.attack) {
			t.Errorf("%q does not even pass the weak matcher", tt.attack)
		}
		if v := k.match(tt.attack, false); v.Outcome != verdict.Failed {
			t.Errorf("attack %q is %s", tt.attack, familytest.Outcome(v))
		}
		if v := k.match(tt.honest, false); v.Outcome != verdict.Passed {
			t.Errorf("honest %q is %s: %s", tt.honest, familytest.Outcome(v), v.Message)
		}
	}
}
