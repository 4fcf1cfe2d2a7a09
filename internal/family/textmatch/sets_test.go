package textmatch_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"securebench/internal/datatest"
	"securebench/internal/family"
	"securebench/internal/family/multiplechoice"
	"securebench/internal/family/shortanswer"
	"securebench/internal/verdict"
)

// A recorded answer is what a model wrote to a question of a public set, and whether the
// scorer there accepts it.
type recorded struct {
	part     string // of the set
	id       string
	question string
	choices  []string
	gold     string
	text     string
	theirs   bool
}

// TestPublicSets replays recorded answers and counts where our verdicts and theirs are
// the same. SECUREBENCH_DIFFERENCES names a folder that gets a file for each set with the
// others, to be read.
func TestPublicSets(t *testing.T) {
	sets := []struct {
		name string
		read func(*testing.T, string) []recorded
		// The least share of the answers that they accept which pass here, and the most
		// that pass here beyond them, in percent.
		least, most float64
	}{
		{"gaokao", readGaokao, 99, 0},
		{"mmlu-pro", readMMLUPro, 99, 1},
		{"zero-shot-cot", readZeroShot, 90, 5},
	}
	for _, set := range sets {
		t.Run(set.name, func(t *testing.T) {
			dir := filepath.Join(datatest.Dir(t), set.name, "public")
			if _, err := os.Stat(dir); err != nil {
				t.Skipf("there is no %s", dir)
			}
			var table strings.Builder
			total := &tally{}
			parts := map[string]*tally{}
			for _, r := range set.read(t, dir) {
				v := r.scorer(t)(r.text)
				if parts[r.part] == nil {
					parts[r.part] = &tally{}
				}
				for _, c := range []*tally{total, parts[r.part]} {
					c.count(v.Outcome == verdict.Passed, r.theirs)
				}
				if (v.Outcome == verdict.Passed) != r.theirs {
					r.write(&table, v)
				}
			}
			for part, c := range parts {
				t.Logf("%s: %v", part, c)
			}
			t.Logf("%d answers, %v", total.agree+total.ours+total.theirs, total)
			writeDifferences(t, set.name, total.String()+"\n\n"+table.String())
			if passed := 100 * float64(total.both) / float64(total.both+total.theirs); passed < set.least {
				t.Errorf("%.1f %% of the answers that they accept pass, expected %g %%", passed, set.least)
			}
			if beyond := 100 * float64(total.ours) / float64(total.ours+total.agree+total.theirs); beyond > set.most {
				t.Errorf("%.1f %% pass that they do not accept, expected at most %g %%", beyond, set.most)
			}
		})
	}
}

// A tally counts verdicts: the same, and of these passed; passed only here; accepted only
// there.
type tally struct{ agree, both, ours, theirs int }

func (c *tally) count(ours, theirs bool) {
	switch {
	case ours == theirs:
		c.agree++
		if ours {
			c.both++
		}
	case ours:
		c.ours++
	default:
		c.theirs++
	}
}

func (c *tally) String() string {
	return fmt.Sprintf("%d agree (%d pass), %d pass only here, %d only there", c.agree, c.both, c.ours, c.theirs)
}

// writeDifferences writes the list of a set where the environment names a folder.
func writeDifferences(t *testing.T, set, text string) {
	t.Helper()
	dir := os.Getenv("SECUREBENCH_DIFFERENCES")
	if dir == "" {
		return
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, set+".md"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// write writes one difference: what the answer is and ends with, and why it fails here.
func (r recorded) write(w io.Writer, v family.Verdict) {
	side := "only there"
	if !r.theirs {
		side = "only here"
	}
	fmt.Fprintf(w, "## %s %s, gold %q: %s\n%s %s\nchoices: %q\n```\n%s\n```\n\n", r.part, r.id, r.gold, side, v.Reason, v.Message, r.choices, strings.ToValidUTF8(r.text[max(0, len(r.text)-700):], ""))
}

// scorer makes the scorer of a question: of choices, or of a text or number.
func (r recorded) scorer(t *testing.T) func(string) family.Verdict {
	t.Helper()
	public := map[string]any{"question": r.question}
	if r.choices != nil {
		public["choices"] = r.choices
		return newScorer(t, multiplechoice.Family(), public, map[string]any{"answer": r.gold})
	}
	return newScorer(t, shortanswer.Family(), public, map[string]any{"accepted_answers": []string{r.gold}})
}

// gaokaoChoice finds the beginnings of the choices in a question.
var gaokaoChoice = regexp.MustCompile(`(?:^|[\s　）)])([A-D])\s*[．.、：:]\s*`)

// readGaokao reads the answers of a model to questions of GAOKAO-Bench that have one
// right choice. The scorer there takes the last label of the text; where its mark does not
// state one label, no answer is right.
func readGaokao(t *testing.T, dir string) (out []recorded) {
	t.Helper()
	for _, subject := range []string{
		"2010-2013_English_MCQs", "2010-2022_Biology_MCQs", "2010-2022_Chemistry_MCQs", "2010-2022_Chinese_Lang_and_Usage_MCQs",
		"2010-2022_History_MCQs", "2010-2022_Math_II_MCQs", "2010-2022_Math_I_MCQs", "2010-2022_Political_Science_MCQs",
	} {
		var file struct {
			Example []struct {
				Index    int      `json:"index"`
				Question string   `json:"question"`
				Standard []string `json:"standard_answer"`
				Theirs   []string `json:"model_answer"`
				Text     string   `json:"model_output"`
			} `json:"example"`
		}
		readJSON(t, filepath.Join(dir, "gpt-4-0314_"+subject+".json"), &file)
		for _, e := range file.Example {
			out = append(out, recorded{
				part: subject, id: fmt.Sprint(e.Index), question: e.Question, choices: gaokaoChoices(e.Question),
				gold: e.Standard[0], text: e.Text, theirs: gaokaoRight(e.Text, e.Standard[0], slices.Equal(e.Standard, e.Theirs)),
			})
		}
	}
	return out
}

// gaokaoRight reports whether the label after the last mark is the right one, and the only
// one; without a mark it is what the scorer there says.
func gaokaoRight(text, gold string, theirs bool) bool {
	i := strings.LastIndex(text, "【答案】")
	if i < 0 {
		return theirs
	}
	labels := strings.FieldsFunc(text[i:], func(r rune) bool { return r < 'A' || r > 'D' })
	return len(labels) == 1 && labels[0] == gold
}

// gaokaoChoices returns the texts of the four choices of a question, or their labels where
// they are pictures or cannot be told apart.
func gaokaoChoices(question string) []string {
	labels := []string{"A", "B", "C", "D"}
	found := gaokaoChoice.FindAllStringSubmatchIndex(question, -1)
	if len(found) < len(labels) {
		return labels
	}
	found = found[len(found)-len(labels):]
	texts := make([]string, len(labels))
	for i, at := range found {
		end := len(question)
		if i+1 < len(found) {
			end = found[i+1][0]
		}
		texts[i] = strings.TrimSpace(question[at[1]:end])
		if question[at[2]:at[3]] != labels[i] || texts[i] == "" || slices.Contains(texts[:i], texts[i]) {
			return labels
		}
	}
	return texts
}

func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// mmluMark is a mark that the scorer of MMLU-Pro takes an answer from: the first one.
var mmluMark = regexp.MustCompile(`answer is \(?([A-J])\)?(?:,? (?:and|or) \(?[A-J]\)?)?`)

// mmluRight reports whether every mark of a text states the same one choice.
func mmluRight(text string) bool {
	marks := mmluMark.FindAllStringSubmatch(text, -1)
	for _, m := range marks {
		if m[1] != marks[0][1] || strings.Contains(m[0], " and ") || strings.Contains(m[0], " or ") {
			return false
		}
	}
	return true
}

// readMMLUPro reads the answers of two models to MMLU-Pro. Where its marks differ, none is
// right.
func readMMLUPro(t *testing.T, dir string) (out []recorded) {
	t.Helper()
	for _, model := range []string{"jamba-1.5-large", "Phi-3-mini-4k-instruct"} {
		archive, err := zip.OpenReader(filepath.Join(dir, model+".zip"))
		if err != nil {
			t.Fatal(err)
		}
		defer archive.Close()
		f, err := archive.File[0].Open()
		if err != nil {
			t.Fatal(err)
		}
		var rows []struct {
			ID        int      `json:"question_id"`
			Question  string   `json:"question"`
			Options   []string `json:"options"`
			Answer    string   `json:"answer"`
			Theirs    string   `json:"pred"`
			Outputs   string   `json:"model_outputs"`
			Generated string   `json:"generated_text"`
		}
		if err := json.UnmarshalRead(f, &rows); err != nil {
			t.Fatalf("%s: %v", model, err)
		}
		for _, r := range rows {
			out = append(out, recorded{
				part: model, id: fmt.Sprint(r.ID), question: r.Question, choices: r.Options, gold: r.Answer,
				text: r.Outputs + r.Generated, theirs: r.Theirs == r.Answer && mmluRight(r.Outputs+r.Generated),
			})
		}
	}
	return out
}

// zeroShotChoice is a choice of CommonsenseQA in a question.
var zeroShotChoice = regexp.MustCompile(`\(([A-E])\) `)

// readZeroShot reads the logs of zero-shot prompts. A record has the question, the answer,
// what the scorer there read in it, and the truth.
func readZeroShot(t *testing.T, dir string) (out []recorded) {
	t.Helper()
	for _, part := range []string{"commonsensqa", "addsub", "svamp", "multiarith", "last_letters"} {
		for _, kind := range []string{"zero_shot", "zero_shot_cot"} {
			name := part + "_" + kind
			data, err := os.ReadFile(filepath.Join(dir, name+".log"))
			if err != nil {
				t.Fatal(err)
			}
			for n, record := range bytes.Split(data, []byte("\nQ: "))[1:] {
				if r, ok := zeroShot(string(record)); ok {
					r.part, r.id = name, fmt.Sprint(n+1)
					out = append(out, r)
				}
			}
		}
	}
	return out
}

// zeroShot reads one record of a log.
func zeroShot(s string) (recorded, bool) {
	question, rest, ok := strings.Cut(s, "\nA: ")
	text, rest, found := strings.Cut(rest, "\npred_before : ")
	_, rest, mode := strings.Cut(rest, "\npred_mode : ")
	theirs, rest, truth := strings.Cut(rest, "\nGT : ")
	if !ok || !found || !mode || !truth {
		return recorded{}, false
	}
	gold, _, _ := strings.Cut(rest, "\n")
	r := recorded{question: question, text: text, gold: strings.TrimSpace(gold), theirs: strings.TrimSpace(theirs) == strings.TrimSpace(gold)}
	if asked, choices, ok := strings.Cut(question, " Answer Choices: "); ok {
		r.question = asked
		for i, at := range zeroShotChoice.FindAllStringIndex(choices, -1) {
			text, _, _ := strings.Cut(choices[at[1]:], fmt.Sprintf(" (%c) ", 'B'+i))
			r.choices = append(r.choices, text)
		}
	}
	return r, true
}
