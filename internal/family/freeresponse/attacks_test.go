package freeresponse

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"securebench/internal/family/familytest"
	"securebench/internal/verdict"
)

// A weak matcher is what an attack was made for: each is a mistake that a
// benchmark has made. It knows one accepted answer.
type weak func(candidate string) bool

const weakGold = "the ice melts"

func contains(candidate string) bool {
	return strings.Contains(strings.ToLower(candidate), weakGold)
}

// recall counts how many words of the answer occur, however much else does.
func recall(candidate string) bool {
	for word := range strings.FieldsSeq(weakGold) {
		if !strings.Contains(strings.ToLower(candidate), word) {
			return false
		}
	}
	return true
}

func folded(candidate string) bool {
	return strings.NewReplacer("\u200b", "", "е", "e", "с", "c").Replace(candidate) == weakGold
}

func goldContains(candidate string) bool {
	return strings.Contains(weakGold, strings.Trim(candidate, " .-"))
}

func anyOutput(candidate string) bool { return candidate != "" }

func refusal(candidate string) bool { return strings.Contains(candidate, "cannot") }

func asPattern(candidate string) bool {
	return regexp.MustCompile("^" + candidate + "$").MatchString(weakGold)
}

func asFormat(candidate string) bool {
	return strings.HasPrefix(fmt.Sprintf(candidate, weakGold), weakGold)
}

func TestAttacks(t *testing.T) {
	r := newTestRubric(t, melt)
	tests := []struct {
		row, attack string
		weak        weak
		honest      string
	}{
		{"T03", "What happens to ice in the sun? Say whether the ice melts or the ice freezes harder.", contains, "The ice melts."},
		{"T12", "The ice melts, but also the ice freezes harder", contains, "The ice melts, of course"},
		{"T12", "ice sun water heat steam cold melts freezes harder the rain snow wind drops pool vapour glass cup", recall, "the ice melts"},
		{"T12", "ice freezes harder, melts the", recall, "melts, the ice"},
		{"T12", strings.Repeat("The ice melts or not, who can say? ", 10), contains, "Surely the ice melts in the sun"},
		{"T07", "the ice\u200b melts", folded, "the ice melts"},
		{"T07", "the iсе mеlts", folded, "The ice  melts"}, // Cyrillic
		{"T08", " ", goldContains, "the ice melts"},
		{"T08", "-", goldContains, "- the ice melts"},
		{"T08", ".", goldContains, "the ice melts."},
		{"T09", "{}", anyOutput, "the ice melts"},
		{"T09", "x", anyOutput, "the ice melts"},
		{"T10", "I cannot help with that.", refusal, "the ice melts"},
		{"T17", ".*", asPattern, "the ice melts"},
		{"T17", "%s%[1]n", asFormat, "the ice melts"},
	}
	for _, tt := range tests {
		t.Run(tt.row+"/"+tt.attack[:min(len(tt.attack), 20)], func(t *testing.T) {
			if !tt.weak(tt.attack) {
				t.Errorf("%q does not even pass the weak matcher", tt.attack)
			}
			if v := r.match(tt.attack); v.Outcome != verdict.Failed {
				t.Errorf("attack %q is %s", tt.attack, familytest.Outcome(v))
			}
			if v := r.match(tt.honest); v.Outcome != verdict.Passed {
				t.Errorf("honest %q is %s", tt.honest, familytest.Outcome(v))
			}
		})
	}
}
