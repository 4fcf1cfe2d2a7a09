package validate_test

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"securebench/internal/family"
	"securebench/internal/family/freeresponse"
	"securebench/internal/family/multiplechoice"
	"securebench/internal/family/shortanswer"
	"securebench/internal/task"
	"securebench/internal/validate"
)

// beaten returns the baselines that beat chance on tasks, and the best one.
func beaten(t *testing.T, tasks []task.Task) (names []string, best validate.BaselineResult) {
	t.Helper()
	reg := family.NewRegistry(shortanswer.Family(), multiplechoice.Family(), freeresponse.Family())
	verifiers := map[string]family.Verifier{}
	for name, f := range reg {
		verifiers[name] = f.NewVerifier(family.Resources{}) // without an engine: nothing may start a sandbox
	}
	collected := validate.Baselines{Families: reg}
	err := validate.Run(t.Context(), validate.Config{
		Families: reg, Tasks: each(tasks), Verifiers: verifiers, Workers: 2, Done: collected.Add,
	})
	if err != nil {
		t.Fatal(err)
	}
	results := collected.Results()
	if len(results) != 1 || results[0].Rows != len(tasks) {
		t.Fatalf("%+v", results)
	}
	for _, r := range results[0].Results {
		if r.Beats {
			names = append(names, r.Name)
		}
	}
	return names, results[0].Results[0]
}

func each(tasks []task.Task) iter.Seq2[task.Task, error] {
	return func(yield func(task.Task, error) bool) {
		for _, t := range tasks {
			if !yield(t, nil) {
				return
			}
		}
	}
}

// question makes a short_answer task.
func question(t *testing.T, id int, gold string) task.Task {
	t.Helper()
	tk, err := task.New(task.Config{ID: fmt.Sprint("q", id), Family: "short_answer", Pack: task.Pack{ID: "p"}, Row: []byte("x"),
		Extraction: task.Extraction{Mode: task.FromStdout, Kind: task.Text},
		Resources: []task.Resource{
			{Name: "question", Lane: task.Public, Value: []byte(`"What is it?"`)},
			{Name: "accepted_answers", Lane: task.Hidden, Value: []byte("[" + gold + "]")},
		}})
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

// choose makes a multiple_choice task whose right choice is at gold.
func choose(t *testing.T, id int, gold int, choices ...string) task.Task {
	t.Helper()
	quoted := make([]string, len(choices))
	for i, c := range choices {
		quoted[i] = strconv.Quote(c)
	}
	tk, err := task.New(task.Config{ID: fmt.Sprint("q", id), Family: "multiple_choice", Pack: task.Pack{ID: "p"}, Row: []byte("x"),
		Extraction: task.Extraction{Mode: task.FromStdout, Kind: task.Text},
		Resources: []task.Resource{
			{Name: "question", Lane: task.Public, Value: []byte(fmt.Sprintf(`"question %d?"`, id))},
			{Name: "choices", Lane: task.Public, Value: []byte("[" + strings.Join(quoted, ",") + "]")},
			{Name: "answer", Lane: task.Hidden, Value: []byte(strconv.Itoa(gold))},
		}})
	if err != nil {
		t.Fatal(err)
	}
	return tk
}

// TestBaselines: packs that can be answered without being read are
// distinguished from fair ones. The weak set-up is a validation without
// baselines, which finds every one of these packs valid.
func TestBaselines(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	word := func() string { return strings.Repeat("x", 3+random.IntN(20)) + strconv.Itoa(random.IntN(1e9)) }
	words := func(n int) (out []string) {
		for range n {
			out = append(out, word())
		}
		return out
	}
	short := func(n int, gold func(int) string) (out []task.Task) {
		for i := range n {
			out = append(out, question(t, i, gold(i)))
		}
		return out
	}
	choices := func(n int, row func(i int) task.Task) (out []task.Task) {
		for i := range n {
			out = append(out, row(i))
		}
		return out
	}
	tests := []struct {
		name  string
		tasks []task.Task
		want  []string
	}{
		{"always B", choices(12, func(i int) task.Task { return choose(t, i, 1, words(4)...) }), []string{"always B"}},
		{"the last", choices(30, func(i int) task.Task { return choose(t, i, 3, words(4)...) }),
			[]string{"always D", "the last choice's text", "the last label"}},
		{"the longest", choices(15, func(i int) task.Task {
			c := words(4)
			c[i%4] = strings.Repeat("y", 40) + strconv.Itoa(i)
			return choose(t, i, i%4, c...)
		}), []string{"the longest choice"}},
		{"seven of four choices", choices(7, func(i int) task.Task { return choose(t, i, 2, words(4)...) }), []string{"always C"}},
		{"three rows", choices(3, func(i int) task.Task { return choose(t, i, 1, words(4)...) }), nil},
		{"in turn", choices(200, func(i int) task.Task { return choose(t, i, i%4, words(4)...) }), nil},
		{"always 0", short(10, func(int) string { return `"0"` }), []string{"always 0"}},
		{"always true", short(12, func(int) string { return `"true"` }), []string{"always true"}},
		{"yes and no", short(400, func(i int) string { return []string{`"yes"`, `"no"`}[random.IntN(2)] }), nil},
		{"1 and 2", short(400, func(i int) string { return strconv.Itoa(1 + random.IntN(2)) }), nil},
		{"numbers", short(400, func(i int) string { return strconv.Itoa(random.IntN(100)) }), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, best := beaten(t, tt.tasks)
			slices.Sort(got)
			if !slices.Equal(got, tt.want) {
				t.Errorf("%v beat chance, want %v; the best is %+v", got, tt.want, best)
			}
		})
	}
}

// TestFairPacksAreNotBlamed: of packs whose right choice is drawn by chance
// hardly any is blamed.
func TestFairPacksAreNotBlamed(t *testing.T) {
	random, blamed := rand.New(rand.NewPCG(3, 4)), 0
	packs := 150
	if testing.Short() {
		packs = 20
	}
	for range packs {
		var tasks []task.Task
		for i := range 5 + random.IntN(60) {
			n := 2 + random.IntN(4)
			var c []string
			for range n {
				c = append(c, strings.Repeat("x", 1+random.IntN(30))+strconv.Itoa(random.IntN(1e9)))
			}
			tasks = append(tasks, choose(t, i, random.IntN(n), c...))
		}
		if names, _ := beaten(t, tasks); len(names) > 0 {
			blamed++
		}
	}
	if blamed > 1 { // one in a thousand at most, so two of these are less likely than one in a hundred
		t.Errorf("%d of %d fair packs are blamed", blamed, packs)
	}
}

// TestPoissonBinomial compares with the sum over all outcomes, and with the
// binomial where all chances are one.
func TestPoissonBinomial(t *testing.T) {
	chances := []float64{0.5, 0.25, 1, 0.1, 0, 0.9, 1.0 / 3}
	want := make([]float64, len(chances)+1)
	for outcome := range 1 << len(chances) {
		p, passes := 1.0, 0
		for i, c := range chances {
			if outcome>>i&1 == 1 {
				p, passes = p*c, passes+1
			} else {
				p *= 1 - c
			}
		}
		want[passes] += p
	}
	got := validate.PassesByChance(chances)
	for k, w := range want {
		g := 0.0
		if k < len(got) {
			g = got[k]
		}
		if math.Abs(g-w) > 1e-15 {
			t.Errorf("%d passes: %v, want %v", k, g, w)
		}
	}

	const n = 3000
	half := make([]float64, n)
	for i := range half {
		half[i] = 0.5
	}
	got = validate.PassesByChance(half)
	lg := func(x float64) float64 { v, _ := math.Lgamma(x + 1); return v }
	for _, k := range []int{1300, 1500, 1600, 1700} {
		w := math.Exp(lg(n) - lg(float64(k)) - lg(float64(n-k)) - n*math.Ln2)
		if math.Abs(got[k]-w) > 1e-9*w {
			t.Errorf("%d of %d: %v, want %v", k, n, got[k], w)
		}
	}
}
