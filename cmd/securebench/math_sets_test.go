package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"securebench/internal/datatest"
	"securebench/internal/family/mathmatch"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/textmatch/vocabulary"
)

// mathRow is a question with answers to it, and which of them the scorer there accepts.
type mathRow struct {
	id, question, gold string
	answers            []string
	theirs             []bool
}

// TestPublicMath compares the verdicts of eval.match.type math with those of others:
// Qwen2.5-Math's on a model's recorded answers, and the pairs of Math-Verify's own tests.
// Of the pairs, none passes that is not equal there, unless only the formula around it is
// not found, and each equal one that is refused is so by a rule of [mathRefusals].
// SECUREBENCH_DIFFERENCES names a folder that gets a file for each set with the
// differences, and the rule for each of them.
func TestPublicMath(t *testing.T) {
	t.Parallel()
	data := datatest.Dir(t)
	for _, set := range []struct {
		name  string
		read  func(*testing.T, string) []mathRow
		least float64 // percent of those that they accept which pass here
	}{{"qwen-math", readQwenMath, 99}, {"math-verify", readMathVerify, 75}} {
		t.Run(set.name, func(t *testing.T) {
			dir := filepath.Join(data, set.name, "public")
			if _, err := os.Stat(dir); err != nil {
				t.Skipf("there is no %s", dir)
			}
			needEngine(t)
			compareMath(t, set.name, set.read(t, dir), set.least)
		})
	}
}

// compareMath runs a pack of the rows on their answers.
func compareMath(t *testing.T, set string, rows []mathRow, least float64) {
	t.Helper()
	var differences strings.Builder
	kept, attempts := rows[:0:0], 0
	rules := map[string][]string{}
	refused := func(id, message string) {
		rules[message] = append(rules[message], id)
		if set == "math-verify" && mathRefusals[message] == "" {
			t.Errorf("%s is refused by a rule that the table has not: %s", id, message)
		}
	}
	for _, r := range rows {
		if _, err := mathmatch.NewKey([]string{r.gold}, answer.Ask(r.question, "", vocabulary.Every)); err != nil {
			fmt.Fprintf(&differences, "## %s gold %q: refused as gold\n%v\n\n", r.id, r.gold, err)
			_, message, _ := strings.Cut(err.Error(), "is no expression: ")
			refused(r.id, message)
			continue
		}
		kept, attempts = append(kept, r), max(attempts, len(r.answers))
	}
	records := readRecords(t, replayMath(t, kept, attempts))
	agree, both, ours, theirs := 0, 0, 0, 0
	for _, r := range kept {
		for _, got := range records[r.id] {
			if got.Attempt > len(r.answers) {
				continue // another row has more answers
			}
			want := r.theirs[got.Attempt-1]
			switch {
			case got.Passed == want:
				agree++
				if want {
					both++
				}
				continue
			case got.Passed:
				ours++
				if text := squash(r.answers[got.Attempt-1]); set == "math-verify" && text != squash(r.gold) {
					t.Errorf("%s: %q passes for %q, which is not equal there", r.id, text, r.gold)
				}
			default:
				theirs++
				refused(r.id, got.Message)
			}
			text := r.answers[got.Attempt-1]
			fmt.Fprintf(&differences, "## %s attempt %d, gold %q: passed %v, theirs %v\n%s\n```\n%s\n```\n\n", r.id, got.Attempt, r.gold, got.Passed, want, got.Message,
				strings.ToValidUTF8(text[max(0, len(text)-400):], ""))
		}
	}
	line := fmt.Sprintf("%d agree (%d pass), %d pass only here, %d only there; %d of %d golds are refused", agree, both, ours, theirs, len(rows)-len(kept), len(rows))
	t.Logf("%d answers, %s", agree+ours+theirs, line)
	for _, rule := range slices.Sorted(maps.Keys(rules)) {
		ids := rules[rule]
		if set == "math-verify" {
			t.Logf("%d refused, because %s (%s): %s", len(ids), rule, mathRefusals[rule], strings.Join(ids, " "))
		}
		line += fmt.Sprintf("\n- %d: %s", len(ids), rule)
	}
	if dir := os.Getenv("SECUREBENCH_DIFFERENCES"); dir != "" {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, set+".md"), line+"\n\n"+differences.String())
	}
	if passed := 100 * float64(both) / float64(both+theirs); passed < least {
		t.Errorf("%.1f %% of the answers that they accept pass, expected %g %%", passed, least)
	}
}

// mathRefusals says of each rule by which an equal pair of Math-Verify's tests is refused
// what such pairs have, and why the rule is right about them.
var mathRefusals = map[string]string{
	"the text in the expression is no unit that the question asks for": "a sentence without a mark, or behind one, whose words would be the question's: the pairs have no question",
	"the last line has a mark that leads to nothing":                   "a sentence about what solves a system, without the question whose words these would be",
	"the expression is of another kind than the expected one":          "a set for a tuple, an inequality where an interval is expected, a pair for each of several solutions; or the accepted answer is a text with several boxes, or has a decimal comma, which is a list in LaTeX",
	"the expression is a percentage, and the answer is not":            "a percent sign that the question does not ask for",
	"the expression has a sign or command that is not understood":      "an accepted answer within prose",
	"the expression is not the expected one":                           "a rounded value for an exact one; an accepted answer of two boxes, of which one is compared",
	"a word beside the form denies or doubts it":                       "approximately before a box, and between, before a box that states one of two",
	"the expression denies a value or is only about it":                "an approximation for an exact value",
	"the reply marks different answers":                                "boxes for steps of the solution, or for parts of the question with words between them",
	"the reply takes back the answer that it states":                   "behind the answer, a sentence that begins as a second thought",
	"the brackets of the expression do not match, or are too deep":     "an expression that was cut off or spoilt",
	"the expression equates values instead of stating one":             "an expression that was spoilt",
	"the expression cannot be read":                                    "a sign of plus or minus within a list",
}

// squash returns an expression without white space, the signs of a formula, and a mark.
func squash(s string) string {
	return strings.TrimPrefix(strings.NewReplacer(" ", "", "\n", "", "$", "", `\(`, "", `\)`, "").Replace(s), "Answer")
}

// replayMath runs the pack, and returns its records.
func replayMath(t *testing.T, rows []mathRow, attempts int) string {
	t.Helper()
	dir := t.TempDir()
	var tasks, replay strings.Builder
	add := func(b *strings.Builder, v any) {
		line, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	for _, r := range rows {
		add(&tasks, map[string]any{"id": r.id, "family": "short_answer", "input": map[string]any{"question": r.question},
			"eval": map[string]any{"accepted_answers": []string{r.gold}, "match": map[string]any{"type": "math"}}})
		for i, text := range r.answers {
			add(&replay, map[string]any{"task_id": r.id, "attempt": i + 1, "text": text})
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "pack"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "pack", "manifest.yaml"), "id: math\nversion: 1\ndefaults:\n  environment:\n    image: "+testImage()+"\n")
	write(t, filepath.Join(dir, "pack", "tasks.jsonl"), tasks.String())
	write(t, filepath.Join(dir, "replay.jsonl"), replay.String())
	out := filepath.Join(dir, "out")
	res := securebench(t, nil, "run", filepath.Join(dir, "pack"), "--agent", "replay:"+filepath.Join(dir, "replay.jsonl"), "--attempts", fmt.Sprint(attempts), "-o", out, "-q")
	if res.code != 0 {
		t.Fatalf("exit %d: %s", res.code, res.stderr)
	}
	return filepath.Join(out, "candidates.jsonl")
}

// readQwenMath reads answers of a model to questions of MATH, eight each.
func readQwenMath(t *testing.T, dir string) (out []mathRow) {
	t.Helper()
	for i, line := range datatest.Lines(t, filepath.Join(dir, "math_cot_100.jsonl")) {
		var r struct {
			Question string   `json:"question"`
			Answer   string   `json:"answer"`
			Code     []string `json:"code"`
			Score    []bool   `json:"score"`
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		out = append(out, mathRow{fmt.Sprintf("math-%03d", i+1), r.Question, r.Answer, r.Code, r.Score})
	}
	return out
}

// mathPair is one pair of Math-Verify's tests: two texts of Python, and whether they are
// equal.
var mathPair = regexp.MustCompile(`\(\s*(r?"(?:[^"\\]|\\.)*"|r?'(?:[^'\\]|\\.)*'),\s*(r?"(?:[^"\\]|\\.)*"|r?'(?:[^'\\]|\\.)*'),\s*([01])\s*[,)]`)

// readMathVerify reads the pairs of Math-Verify's tests that are compared as they are by
// default.
func readMathVerify(t *testing.T, dir string) (out []mathRow) {
	t.Helper()
	for _, name := range []string{"test_all", "test_boxed", "test_numina_cases", "test_open_thoughts"} {
		data, err := os.ReadFile(filepath.Join(dir, name+".py"))
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range mathPair.FindAllStringSubmatch(string(data), -1) {
			out = append(out, mathRow{fmt.Sprintf("%s-%03d", name, i+1), "What is the result?", boxed(pythonText(m[1])), []string{pythonText(m[2])}, []bool{m[3] == "1"}})
		}
	}
	return out
}

// boxed returns what the only box of a text encloses, or the text: some of the accepted
// answers there are within a solution.
func boxed(s string) string {
	before, inside, ok := strings.Cut(s, `\boxed{`)
	if !ok || strings.Contains(inside, `\boxed{`) || strings.TrimSpace(before) == "" {
		return s
	}
	depth := 1
	for i, c := range inside {
		switch c {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return inside[:i]
			}
		}
	}
	return s
}

// pythonText returns the value of a literal text of Python.
func pythonText(s string) string {
	if s[0] == 'r' {
		return s[2 : len(s)-1]
	}
	inside := s[1 : len(s)-1]
	if text, err := strconv.Unquote(`"` + strings.ReplaceAll(strings.ReplaceAll(inside, `\'`, `'`), `"`, `\"`) + `"`); err == nil {
		return text
	}
	return inside
}
