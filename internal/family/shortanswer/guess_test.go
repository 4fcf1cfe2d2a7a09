package shortanswer

import (
	"fmt"
	"testing"

	"securebench/internal/verdict"
)

// TestTwoAnswersPassForOneAtMost reads texts with two answers, each of which would be
// right for another row: at most one may pass. What the question, its format or
// the frame words hold must not hide the other.
func TestTwoAnswersPassForOneAtMost(t *testing.T) {
	tests := []struct {
		name, question, format string
		answers                []string
		candidates             []string
	}{
		{"the format names them", "Which way does the boat go?", "left, right or straight on", []string{"left", "straight on", "right"},
			[]string{"%[1]s %[2]s", "Answer: %[1]s %[2]s", "%[1]s. It is %[2]s.", "Answer: %[1]s. It is %[2]s."}},
		{"frame words", "She sits __ the chair.", "", []string{"on", "in", "at", "by"},
			[]string{"%[1]s %[2]s", "%[2]s, %[1]s", "Answer: %[1]s %[2]s", "Answer: %[1]s. It is %[2]s.", "The answer is %[1]s (%[2]s)"}},
		{"pronouns", "Was it he or she?", "", []string{"he", "she", "they"},
			[]string{"%[1]s %[2]s", "Answer: %[1]s = %[2]s", "%[1]s. It is %[2]s."}},
		{"one is the question's", "What is not (True and True)?", "", []string{"True", "False"},
			[]string{"Answer: %[1]s. The value of not is %[2]s.", "A: %[1]s Answer: %[2]s", "A: %[2]s; Answer: %[1]s", "Answer: %[2]s. Not: %[1]s", "#### %[2]s; the answer is %[1]s"}},
		{"polar", "Is it so? Answer yes or no.", "", []string{"Yes", "No", "True", "False"},
			[]string{"%[1]s, %[2]s", "%[1]s. %[2]s", "%[1]s - it is %[2]s", "Answer: %[1]s, it is so. %[2]s, it is so.", "%[1]s, so. Is it %[2]s?"}},
		{"an explanation", "What is the capital of France?", "", []string{"Paris", "Lyon"},
			[]string{"The capital is %[1]s. The old capital by the river is %[2]s.", "%[1]s. It lies in the south of %[2]s.", "%[1]s, it is by %[2]s"}},
		{"two marks in a line", "What is the capital of France?", "", []string{"Paris", "Lyon"},
			[]string{"A: %[1]s. The capital of France is %[2]s - answer %[2]s", "A: %[1]s Answer: %[2]s"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, form := range tt.candidates {
				for _, first := range tt.answers {
					for _, second := range tt.answers {
						if first == second {
							continue
						}
						candidate := fmt.Sprintf(form, first, second)
						if matches(t, tt.question, tt.format, first, candidate) && matches(t, tt.question, tt.format, second, candidate) {
							t.Errorf("%q answers both %q and %q", candidate, first, second)
						}
					}
				}
			}
			for _, answer := range tt.answers {
				for _, form := range []string{"%s", "**%s**", "Answer: %s", "The answer is %s.", "So the answer is %s."} {
					if candidate := fmt.Sprintf(form, answer); !matches(t, tt.question, tt.format, answer, candidate) {
						t.Errorf("%q does not match the answer %q", candidate, answer)
					}
				}
			}
		})
	}
}

func matches(t *testing.T, question, format, answer, candidate string) bool {
	t.Helper()
	k, err := newKey([]byte(fmt.Sprintf("[%q]", answer)), nil, nil, question, format)
	if err != nil {
		t.Fatal(err)
	}
	return k.match(candidate, false).Outcome == verdict.Passed
}
