package workload

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"securebench/internal/families"
	"securebench/internal/pipeline/pack"
	"securebench/internal/task"
)

// examplePack writes a pack of rows.
func examplePack(t *testing.T, rows ...string) pack.Location {
	t.Helper()
	dir := t.TempDir()
	loc := pack.Location{Manifest: filepath.Join(dir, "manifest.yaml"), Tasks: filepath.Join(dir, "tasks.jsonl")}
	for name, text := range map[string]string{loc.Manifest: "id: p\nversion: 1\n", loc.Tasks: strings.Join(rows, "\n") + "\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return loc
}

// short is a row of short_answer.
func short(id, question, gold string) string {
	return fmt.Sprintf(`{"id": %q, "family": "short_answer", "input": {"question": %q}, "eval": {"accepted_answers": [%q, "hidden besides"]}}`, id, question, gold)
}

func anyTask(task.AgentView) bool { return true }

// parrot is a model that knows nothing: it says what a question was answered with that is
// like its own.
func parrot(shown []Example, question string) string {
	for _, x := range shown {
		q, _ := x.View.Get("question")
		text, _ := q.Text()
		if strings.EqualFold(strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(question), " ")) {
			return x.Solution
		}
	}
	return "I do not know"
}

// TestExamplesLeak: of a row that asks the same as an example, the answer is shown. Where
// only the examples themselves are left out, a parrot passes it.
func TestExamplesLeak(t *testing.T) {
	rows := []string{short("other", "What is the capital of Italy?", "Rome")}
	for i := range 6 {
		rows = append(rows, short(fmt.Sprintf("row-%d", i), fmt.Sprintf("What  is %d?", i), fmt.Sprintf("gold-%d", i)),
			short(fmt.Sprintf("twin-%d", i), fmt.Sprintf("what is %d?", i), fmt.Sprintf("gold-%d", i)))
	}
	e, err := ChooseExamples(t.Context(), examplePack(t, rows...), families.All(), Shots{Count: 2, Fits: anyTask})
	if err != nil {
		t.Fatal(err)
	}
	shown := e.Of("short_answer")
	attacks, honest := 0, 0
	for i := range 6 {
		for k, id := range []string{fmt.Sprintf("row-%d", i), fmt.Sprintf("twin-%d", i)} {
			itself := slices.ContainsFunc(shown, func(x Example) bool { return x.View.ID() == id })
			said := parrot(shown, fmt.Sprintf("What is %d?", i))
			switch out := e.LeavesOut(1 + 2*i + k); {
			case said == fmt.Sprintf("gold-%d", i) && !out:
				t.Errorf("%s is run, and a parrot passes it", id)
			case said == fmt.Sprintf("gold-%d", i) && !itself:
				attacks++ // which passes where only the examples are left out
			case said == "I do not know" && out:
				t.Errorf("%s is left out, and nothing of it is shown", id)
			case said == "I do not know":
				honest++
			}
		}
	}
	if attacks == 0 || honest == 0 || e.LeavesOut(0) {
		t.Errorf("%d attacks, %d honest rows: the test shows nothing", attacks, honest)
	}
}

// TestChooseExamples: the same rows are shown wherever they lie in the pack, fewer are the
// first of more, and what has no text as its solution, or files, is not shown.
func TestChooseExamples(t *testing.T) {
	var rows []string
	for i := range 20 {
		rows = append(rows, short(fmt.Sprintf("s/%d", i), fmt.Sprintf("What is %d?", i), fmt.Sprint(i)))
		rows = append(rows, fmt.Sprintf(`{"id": "c/%d", "family": "multiple_choice", "input": {"question": "Which is %d?", "choices": ["a", "%d"]}, "eval": {"answer": 1}}`, i, i, i))
	}
	rows = append(rows, `{"id": "code", "family": "code_completion", "input": {"prompt": "def f():", "language": "python"}, "eval": {"tests": {"source": "inline", "code": "assert f() == 1"}, "reference": "    return 1\n"}}`)
	names := func(count int, fits func(task.AgentView) bool, rows []string) (out []string) {
		e, err := ChooseExamples(t.Context(), examplePack(t, rows...), families.All(), Shots{Count: count, Fits: fits})
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range []string{"short_answer", "multiple_choice", "code_completion"} {
			for _, x := range e.Of(family) {
				out = append(out, x.View.ID()+"="+x.Solution)
			}
		}
		return out
	}
	three := names(3, anyTask, rows)
	if len(three) != 6 || !slices.ContainsFunc(three, func(s string) bool { return strings.HasPrefix(s, "c/") && strings.HasSuffix(s, "=B") }) {
		t.Errorf("shown are %q", three)
	}
	slices.Reverse(rows)
	if got := names(3, anyTask, rows); !slices.Equal(got, three) {
		t.Errorf("in another order of the pack, %q are shown and not %q", got, three)
	}
	if got := names(1, anyTask, rows); !slices.Equal(got, []string{three[0], three[3]}) {
		t.Errorf("one of each family is %q, of three %q", got, three)
	}
	not := func(v task.AgentView) bool { return v.ID()+"="+strings.TrimPrefix(v.ID(), "s/") != three[0] }
	if got := names(2, not, rows); !slices.Equal(got[:2], three[1:3]) {
		t.Errorf("without the first, %q are shown", got)
	}
}

// TestTooFewExamples: a family of a row that is run has as many examples as are asked for.
func TestTooFewExamples(t *testing.T) {
	loc := examplePack(t, short("a", "What is 1?", "1"), short("b", "What is 2?", "2"))
	e, err := ChooseExamples(t.Context(), loc, families.All(), Shots{Count: 3, Fits: anyTask})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Load(t.Context(), loc, families.All(), All, Demands{Examples: e})
	if err == nil || !strings.Contains(err.Error(), "the pack has 2 rows of short_answer that can be shown as solved examples") || strings.Count(err.Error(), "want 3") != 1 {
		t.Errorf("error is %v", err)
	}
}
