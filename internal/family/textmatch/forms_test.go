package textmatch_test

import (
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/multiplechoice"
	"securebench/internal/family/shortanswer"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// formsDoc is the page with the tables that TestForms runs.
const formsDoc = "../../../docs/families/text-answers.md"

// lineBreak stands for a line break in a candidate of the tables.
const lineBreak = "⏎"

// TestForms runs every row of the tables of honest answers and of sprays and
// hedges in the documentation.
func TestForms(t *testing.T) {
	doc, err := os.ReadFile(formsDoc)
	if err != nil {
		t.Fatal(err)
	}
	sessions := map[string]func(string) family.Verdict{}
	for _, row := range tableRows(t, string(doc), "Tasks of the tables", 4) {
		sessions[row[0]] = formTask(t, row)
	}
	for _, table := range []struct {
		title string
		want  verdict.Outcome
	}{{"Honest answers", verdict.Passed}, {"Sprays and hedges", verdict.Failed}} {
		rows := tableRows(t, string(doc), table.title, 3)
		if len(rows) < 60 {
			t.Errorf("%s: %d rows, want 60 or more", table.title, len(rows))
		}
		for _, row := range rows {
			score := sessions[row[0]]
			if score == nil {
				t.Errorf("%s: task %q is not described", table.title, row[0])
				continue
			}
			candidate := strings.ReplaceAll(row[1], lineBreak, "\n")
			v := score(candidate)
			if v.Outcome != table.want {
				t.Errorf("%s: %s: %q is %s %s (%s)", table.title, row[0], candidate, v.Outcome, v.Reason, v.Message)
			}
			if !strings.HasPrefix(row[2], map[verdict.Outcome]string{verdict.Passed: "passes", verdict.Failed: "fails"}[table.want]) {
				t.Errorf("%s: the verdict of %q is written %q", table.title, candidate, row[2])
			}
		}
	}
}

// TestRulesInEachLanguage runs the table with a passing and a failing example of every rule
// in every language.
func TestRulesInEachLanguage(t *testing.T) {
	doc, err := os.ReadFile(formsDoc)
	if err != nil {
		t.Fatal(err)
	}
	score := formTask(t, []string{"25", "How many?", "", "25"})
	languages := map[string]int{}
	for _, row := range tableRows(t, string(doc), "Rules in each language", 4) {
		languages[row[1]]++
		for i, want := range []verdict.Outcome{verdict.Passed, verdict.Failed} {
			if v := score(row[2+i]); v.Outcome != want {
				t.Errorf("%s, %s: %q is %s (%s)", row[1], row[0], row[2+i], v.Outcome, v.Message)
			}
		}
	}
	for language, rules := range languages {
		if rules != languages["English"] {
			t.Errorf("%s has %d of %d rules", language, rules, languages["English"])
		}
	}
	if len(languages) != 12 {
		t.Errorf("%d languages have examples", len(languages))
	}
}

// tableRows returns the cells of the rows of the Markdown table after title,
// without the marks of code.
func tableRows(t *testing.T, doc, title string, columns int) [][]string {
	t.Helper()
	_, rest, ok := strings.Cut(doc, "**"+title+"**")
	if !ok {
		t.Fatalf("%s has no table %q", formsDoc, title)
	}
	_, rest, _ = strings.Cut(rest, "|---")
	_, rest, _ = strings.Cut(rest, "\n")
	var out [][]string
	for line := range strings.Lines(rest) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			break
		}
		line = strings.ReplaceAll(strings.Trim(line, "|"), `\|`, "\x00")
		var cells []string
		for cell := range strings.SplitSeq(line, "|") {
			cell = strings.ReplaceAll(strings.TrimSpace(cell), "\x00", "|")
			if fence := cell[:len(cell)-len(strings.TrimLeft(cell, "`"))]; fence != "" && strings.HasSuffix(cell, fence) {
				cell = strings.TrimSuffix(strings.TrimPrefix(cell, fence), fence)
				if len(fence) > 1 {
					cell = strings.TrimSuffix(strings.TrimPrefix(cell, " "), " ")
				}
			}
			cells = append(cells, cell)
		}
		if len(cells) != columns {
			t.Fatalf("%s: %q has %d cells, want %d", title, line, len(cells), columns)
		}
		out = append(out, cells)
	}
	return out
}

// formTask makes the task of a row: name, question, choices between slashes or
// none, and the right answer.
func formTask(t *testing.T, row []string) func(string) family.Verdict {
	t.Helper()
	f := shortanswer.Family()
	public := map[string]any{"question": row[1]}
	hidden := map[string]any{"accepted_answers": []string{row[3]}}
	if row[2] != "" {
		f = multiplechoice.Family()
		public["choices"] = strings.Split(row[2], " / ")
		hidden = map[string]any{"answer": row[3]}
	}
	return newScorer(t, f, public, hidden)
}

// newScorer makes a row of a family and returns its verifier's verdicts.
func newScorer(t testing.TB, f family.Family, public, hidden map[string]any) func(string) family.Verdict {
	t.Helper()
	c := task.Config{ID: "t", Family: f.Name, Pack: task.Pack{ID: "p"}}
	for lane, values := range map[task.Lane]map[string]any{task.Public: public, task.Hidden: hidden} {
		for name, value := range values {
			data, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			c.Resources = append(c.Resources, task.Resource{Name: name, Lane: lane, Value: jsontext.Value(data)})
		}
	}
	made, err := task.New(c)
	if err != nil {
		t.Fatal(err)
	}
	verifier := f.NewVerifier(family.Resources{})
	return func(text string) family.Verdict {
		s := verifier.Open(t.Context(), family.Case{Evaluator: made.Evaluator(), Sandbox: made.TestSandbox()})
		v, err := s.Verify(t.Context(), candidate.New(task.Text, candidate.Given, []byte(text)))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
