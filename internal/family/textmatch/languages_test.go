package textmatch_test

import (
	"os"
	"strings"
	"testing"

	"securebench/internal/family"
	"securebench/internal/family/multiplechoice"
	"securebench/internal/family/shortanswer"
	"securebench/internal/verdict"
)

// statement is a statement of a language that a word of a class restricts, and its twin
// that none does.
type statement struct{ language, class, restricted, plain string }

// statements returns the examples of the vocabularies. Each is about the number 120.
func statements(t *testing.T) (out []statement) {
	t.Helper()
	data, err := os.ReadFile("vocabulary/testdata/restrictive.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		row := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(row) == 4 {
			out = append(out, statement{row[0], row[1], row[2], row[3]})
		}
	}
	if len(out) < 100 {
		t.Fatalf("%d examples", len(out))
	}
	return out
}

// count makes the scorer of a question whose answer is 120.
func count(t *testing.T) func(string) family.Verdict {
	t.Helper()
	return newScorer(t, shortanswer.Family(), map[string]any{"question": "How many are there?"}, map[string]any{"accepted_answers": []any{120}})
}

// TestStatementsOfLanguages: in each language, a statement that a word denies, doubts,
// bounds or multiplies fails, and its twin passes.
func TestStatementsOfLanguages(t *testing.T) {
	score := count(t)
	for _, s := range statements(t) {
		if v := score(s.restricted); v.Outcome != verdict.Failed {
			t.Errorf("%s %s: %q is %s", s.language, s.class, s.restricted, v.Outcome)
		}
		if v := score(s.plain); v.Outcome != verdict.Passed {
			t.Errorf("%s %s: %q is %s: %s", s.language, s.class, s.plain, v.Outcome, v.Message)
		}
	}
}

// TestMarksOfLanguages: every noun of every language that announces an answer marks a
// choice and a number; one that a word denies marks none.
func TestMarksOfLanguages(t *testing.T) {
	number := count(t)
	choice := newScorer(t, multiplechoice.Family(), map[string]any{"question": "Which planet is the largest?", "choices": []string{"Mars", "Jupiter", "Venus", "Saturn"}},
		map[string]any{"answer": "B"})
	marks := 0
	for _, tag := range []string{"en", "zh", "de", "fr", "es", "pt", "ru", "ja", "ko", "ar", "hi", "id"} {
		for word, negator := range marksOf(t, tag) {
			marks++
			for text, passes := range map[string]bool{
				word + ": B": true, word + "：Ｂ": true, "**" + word + ": B**": true, "【" + word + "】B": true,
				word + ": " + negator + " B": false, word + ": A, B": false, word + ": C": false,
			} {
				if v := choice(text); (v.Outcome == verdict.Passed) != passes {
					t.Errorf("%s: %q is %s: %s", tag, text, v.Outcome, v.Message)
				}
			}
			for text, passes := range map[string]bool{
				word + ": 120": true, word + "：１２０": true, word + ": \\boxed{120}": true,
				word + ": " + negator + " 120": false, word + ": 120, 121": false, word + ": 12": false,
			} {
				if v := number(text); (v.Outcome == verdict.Passed) != passes {
					t.Errorf("%s: %q is %s: %s", tag, text, v.Outcome, v.Message)
				}
			}
		}
	}
	if marks < 100 {
		t.Errorf("%d marks", marks)
	}
}

// marksOf returns the nouns of a language that announce an answer, each with a word of the
// language that denies.
func marksOf(t *testing.T, tag string) map[string]string {
	t.Helper()
	data, err := os.ReadFile("vocabulary/data/" + tag + ".tsv")
	if err != nil {
		t.Fatal(err)
	}
	marks, negator := map[string]string{}, ""
	for line := range strings.Lines(string(data)) {
		row := strings.Split(strings.TrimRight(line, "\n"), "\t")
		switch {
		case len(row) < 2:
		case row[1] == "answer":
			marks[row[0]] = ""
		case row[1] == "negator" && negator == "":
			negator = row[0]
		}
	}
	for word := range marks {
		marks[word] = negator
	}
	return marks
}

// TestJoinedLabels: two labels that a word of any language joins name no choice.
func TestJoinedLabels(t *testing.T) {
	public := map[string]any{"question": "Which planet is the largest?", "choices": []string{"Mars", "Jupiter", "Venus", "Saturn"}}
	first := newScorer(t, multiplechoice.Family(), public, map[string]any{"answer": "A"})
	second := newScorer(t, multiplechoice.Family(), public, map[string]any{"answer": "B"})
	joins := 0
	for _, tag := range []string{"en", "zh", "de", "fr", "es", "pt", "ru", "ja", "ko", "ar", "hi", "id"} {
		data, err := os.ReadFile("vocabulary/data/" + tag + ".tsv")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			row := strings.Split(strings.TrimRight(line, "\n"), "\t")
			if len(row) < 2 || !strings.HasPrefix(row[1], "or") && row[1] != "and" || row[1] == "ordinary" || row[1] == "ordinal" {
				continue
			}
			joins++
			for _, text := range []string{"A " + row[0] + " B", "A" + row[0] + "B.", "Answer: A " + row[0] + " B"} {
				if first(text).Outcome == verdict.Passed || second(text).Outcome == verdict.Passed {
					t.Errorf("%s: %q passed", tag, text)
				}
			}
		}
	}
	if joins < 50 {
		t.Errorf("%d words that join", joins)
	}
}
