package multimodalqa

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"securebench/internal/family"
	"securebench/internal/verdict"
)

// attackRow is a question of the attacks.
type attackRow struct {
	question string
	choices  []string
	answer   any
	match    string
}

var (
	capital = attackRow{"Which city is shown in <image1>?", []string{"Rome", "Paris", "Bonn"}, "B", ""}
	founded = attackRow{"¿En qué año se fundó el club?", nil, 2020, `{"type": "relaxed"}`}
	weather = attackRow{"Какая погода на рисунке, в граммах?", nil, 2000, `{"type": "relaxed"}`}
	town    = attackRow{"Which city is on the letterhead?", nil, []any{"Springfield"}, `{"type": "anls"}`}
	opened  = attackRow{"In which year did the line cross 50?", nil, 2020, `{"type": "relaxed"}`}
	charted = attackRow{"What is the highest value?", nil, "48.5", `{"type": "relaxed"}`}
	scanned = attackRow{"Which city is on the letterhead?", nil, []any{"Paris"}, `{"type": "anls"}`}
	people  = attackRow{"What is the brand?", nil, []any{"nokia", "nokia", "nokia", "nokia", "nokia", "nokia", "samsung", "samsung", "samsung", "phone"}, `{"type": "vqa"}`}
	counted = attackRow{"How many trees are there?", nil, 7, ""}
	painted = attackRow{"Which term is on the board?", nil, `\frac{x+1}{2}`, `{"type": "text"}`}
)

func (r attackRow) of(tb testing.TB) family.Case {
	return caseOf(tb, r.question, r.choices, r.answer, r.match)
}

// weakly scores as benchmarks do that read loosely: the right answer anywhere in the text,
// a choice whose text is not far away, a guess where there is no text, and a number that is
// not farther away than it may be.
func (r attackRow) weakly(text string) bool {
	near := func(value float64) bool {
		for _, f := range strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(" {}%:", c) }) {
			if n, err := strconv.ParseFloat(f, 64); err == nil && !(math.Abs(n-value) > 0.05*value) {
				return true
			}
		}
		return false
	}
	switch gold := r.answer.(type) {
	case int:
		return near(float64(gold))
	case string:
		if n, err := strconv.ParseFloat(gold, 64); err == nil {
			return near(n)
		}
		if len(r.choices) > 0 {
			right := r.choices[gold[0]-'A']
			return strings.TrimSpace(text) == "" || strings.Contains(text, gold) || alike(text, right) >= 0.5 || strings.Contains(text, right)
		}
	case []any:
		for _, g := range gold {
			if word, ok := g.(string); ok && strings.Contains(strings.ToLower(text), strings.ToLower(word)) {
				return true
			}
		}
	}
	return false
}

// TestAttacks: what earns points from loose scorers earns none, and what honest models
// write beside it passes.
func TestAttacks(t *testing.T) {
	t.Parallel()
	v := newVerifier(family.Resources{})
	for _, tt := range []struct {
		name           string
		row            attackRow
		attack, honest string
		loose          bool // a scorer that reads loosely passes the attack
	}{
		{"M1 two choices", capital, "Answer: A or B", "Answer: B", true},
		{"M1 two cities", scanned, "Answer: Paris or Oslo", "Answer: Pariz", true},
		{"M1 two cities without a word between", scanned, "Answer: Paris, Bonn", "Answer: paris", true},
		{"M1 two cities between strokes", town, "Answer: Springfield/Salem", "Answer: Springfielt", true},
		{"M1 two cities beside a bar", town, "Answer: Springfield | Salem", "Answer: Springfield, IL", true},
		{"M1 a list of cities", town, "Answer: Springfield;;Bonn", "Answer: springfield", true},
		{"M2 every label in turn", capital, "A\nB\nC", "(B)", true},
		{"M2 every brand", people, "nokia samsung phone", "Nokia", true},
		{"M3 the question", capital, "Which city is shown in <image1>? Rome Paris Bonn", "Answer: B. Paris", true},
		{"M4 nothing", capital, " \n", "B. Paris", true},
		{"M4 nothing to measure", scanned, "```\n```", "Answer: PARIS", false},
		{"M5 near a choice", capital, "Pariz", "Paris", true},
		{"M6 a near year", opened, `\boxed{2024}`, `\boxed{2020}`, true},
		{"M6 a near year by a percentage", opened, "1999", "In 2020.", true},
		{"M6 a near year in Spanish", founded, "2024", "2020", true},
		{"M6 a word with the word year in it", weather, "2200", "2024", false},
		{"M8 not a number", charted, "NaN", "Answer: 48.5", true},
		{"M8 a sign for about before another", charted, "≈ 48.5 ± 100", "≈ 48.5", true},
		{"M8 a sign for about between two", charted, "20 ~ 48.5", "~48.5", true},
		{"M8 infinite", charted, "1e999", "48", false},
		{"M8 a range", charted, "48.5 ± 100", "about 50", true},
		{"M8 a range of all", charted, "0 to 100", "It is 48.5.", false},
		{"M8 a percent sign", charted, "48.5%", "48.50", true},
		{"M9 a call in a formula", painted, `\boxed{__import__('os').system('true')}`, `\boxed{\frac{x + 1}{2}}`, false},
		{"M11 as a picture orders", capital, "The picture says: answer A. I answer A.", "The picture says: answer A. The answer is B.", false},
		{"a denied answer", scanned, "Answer: not Paris", "Answer: Paris.", true},
		{"an answer taken back", scanned, "Answer: Paris\nNo, wait: Rome", "Answer: Paris\nI hope this helps!", true},
		{"a word more than once", people, "nokia nokia nokia", "the Nokia", true},
		{"a number beside it", counted, "7 or 8", `There are \boxed{7} trees in the picture.`, true},
	} {
		if tt.loose != tt.row.weakly(tt.attack) {
			t.Errorf("%s: a loose scorer passes %q: %v", tt.name, tt.attack, !tt.loose)
		}
		if got := say(t, v, tt.row.of(t), tt.attack); got.Outcome == verdict.Passed {
			t.Errorf("%s: %q passed", tt.name, tt.attack)
		}
		if got := say(t, v, tt.row.of(t), tt.honest); got.Outcome != verdict.Passed {
			t.Errorf("%s: %q: %s %s", tt.name, tt.honest, got.Reason, got.Message)
		}
	}
}

// TestLongTexts: 3 MiB are read once and compared with nothing (M7).
func TestLongTexts(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: this computes for long, one thing at a time")
	}
	v := newVerifier(family.Resources{})
	for _, unit := range []string{"7", "7 ", "Paris ", `\boxed{7}`, "é"} {
		text := strings.Repeat(unit, 3<<20/len(unit))
		for _, r := range []attackRow{scanned, people, charted} {
			if got := say(t, v, r.of(t), text); got.Outcome == verdict.Passed {
				t.Errorf("3 MiB of %q pass %s", unit, r.match)
			}
		}
	}
}

// TestDistances: no distance is computed to a text that is far too long.
func TestDistances(t *testing.T) { //nolint:paralleltest // allocations are counted
	gold := "Paris"
	long := strings.Repeat("7", 3<<20)
	if allocated := testing.AllocsPerRun(1, func() {
		if alike(long, gold) != 0 {
			t.Error("a long text is alike")
		}
	}); allocated > 100 {
		t.Errorf("%v allocations for a text that is too long", allocated)
	}
	for _, tt := range []struct {
		said, gold string
		want       float64
	}{{"paris", "Paris", 1}, {"pariz", "Paris", 0.8}, {"", "Paris", 0}, {"  Paris ", "Paris", 1}, {"Oslo", "Paris", 0}, {"Paris.", "Paris", 1}} {
		if got := alike(tt.said, tt.gold); got != tt.want {
			t.Errorf("%q and %q: %v, not %v", tt.said, tt.gold, got, tt.want)
		}
	}
}

// BenchmarkVerdict is a verdict on an answer of a usual length, by each kind of rule.
func BenchmarkVerdict(b *testing.B) {
	v := newVerifier(family.Resources{})
	text := strings.Repeat("The picture shows a street with several houses and a river behind them. ", 20) + "\nAnswer: Paris"
	for name, r := range map[string]attackRow{"choices": capital, "number": counted, "relaxed": charted, "anls": scanned, "vqa": people} {
		c := r.of(b)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				say(b, v, c, text)
			}
		})
	}
}
