package preferencepair

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/family"
	"securebench/internal/family/familytest"
	"securebench/internal/family/textmatch/compare"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// TestReading reads what judges write.
func TestReading(t *testing.T) {
	r, err := newReader()
	if err != nil {
		t.Fatal(err)
	}
	for want, texts := range map[string][]string{
		"A": {"A", "(A)", "**A**", "[[A]]", "[[ a ]]", "[[A>B]]", "[[A>>B]]", "[[A > B]]", "[[B<A]]", "Output (a)", "Response A", `{"preference": "A"}`, `\boxed{A}`,
			"Answer: A", "My final verdict is: A", "**Final Verdict:** A", "Winner: A", "Response A is better.", "Response A is significantly better than Response B.",
			"I prefer Response A.", "I prefer A over B.", "Candidate A is better overall.", "Assistant A wins.", "candidate_a is better", "The better answer is A.",
			"A is better than B: [[A>B]]", "A\n\nBecause it is short.", "Output (a) is better because it is short.", "Response A is not long. [[A]]",
			`The first says \boxed{e^x}, the second \boxed{B}.` + "\n\n[[A>>B]]", "<think>[[B]]</think>\n[[A]]", "```json\n{\"reason\": \"it is right\", \"verdict\": \"A\"}\n```",
			`{"verdict": "[[A]]"}`, `{"reason": "it is right", "preference": "[[A>>B]]"}`, "One says [[A]].\n\nFinal verdict: A", "My final verdict is: [[A]]",
			"A > B", "B < A", "Response A > Response B", "**Final verdict:** A >> B", "A is slightly better", "A is a bit better than B.", "A is better",
			"<verdict>A</verdict>", "It is short.\n<verdict>\nA > B\n</verdict>"},
		"B": {"B", "[[B]]", "[[A<B]]", "[[B>>A]]", "Output (b)", "Answer: B", "B is better", "Therefore, Output (b) is better.", "It is not A. [[B]]",
			"A quotes [B], and B quotes (A).\n\n[[B]]", "<verdict>[[B]]</verdict>", "Without a doubt [[B]]", "Beyond any doubt: [[B]]", "In length A > B.\nAnswer: B",
			"A is slightly better in style.\n\nVerdict: B"},
		"tie": {"tie", "Tie", "[[C]]", "[[A=B]]", "[[tie]]", "It is a tie.", "Verdict: tie", "It's a draw", "Draw.", "Verdict: draw", "A = B"},
		"": {"", "D", "A or B", "A and B", "[[A]] [[B]]", "[[A>B]] [[A>>B]]", "[[A>A>B]]", "[[D]]", "[[AB]]", "The verdict is not [[A]].", "[[A]]\nActually, B is better.",
			"The first quotes [[B]].\n\nFinal verdict: A", "Winner: Response A. It ends in [[B]].\n\nVerdict: Response A", `{"verdict": "[[A]]", "winner": "[[B]]"}`,
			"Response A is worse.", "Response A is not better.", "Neither is better.", "A] [B", "An answer", "\\boxed{A} \\boxed{B}", "Response A is better. Response B is better.",
			"not A > B", "A > B is wrong", "A > B\nB > A", "A > B or B > A", "A > B > C", "A > A", "If A > B then no", "Is A > B?", "In length:\nA > B\nIn worth:\nB > A",
			"A is not slightly better", "A is slightly worse", "I doubt that A is slightly better", "A is better.\nB is better.", "A is better\nNo, B is.",
			"It's not a draw", "It is a draw, or A wins", "It would be a lie that it's a draw.", "I withdraw",
			"<verdict>not [[B]]</verdict>", "<verdict>[[B]]</verdict> is wrong", "<verdict>A</verdict>\n<verdict>B</verdict>", "<verdict>A</verdict>\nOr rather B.", "<verdict>A or B</verdict>",
			"Not without a doubt [[B]]", "I cannot say without a doubt [[B]]", "Without a doubt not [[B]]", "Without [[B]]", "I doubt [[B]]"},
	} {
		for _, text := range texts {
			got, reason, message := r.verdict(text, false)
			if label(got) != want || (reason == "") != (want != "") {
				t.Errorf("%q reads as %q, want %q: %s %s", text, label(got), want, reason, message)
			}
		}
	}
}

// TestCutOff: of texts that were cut off, only marks count.
func TestCutOff(t *testing.T) {
	r, err := newReader()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"Response A is better.": "", "[[A]]": "A", "Answer: B": "B"} {
		if got, _, _ := r.verdict(text, true); label(got) != want {
			t.Errorf("%q that was cut off reads as %q", text, label(got))
		}
	}
}

// TestDecide: two verdicts, and what each way to decide makes of them where A is right.
func TestDecide(t *testing.T) {
	tests := []struct {
		texts                  [2]string
		consistent, sum, first bool
		position               bool
	}{
		{[2]string{"A", "B"}, true, true, true, false},
		{[2]string{"A", "A"}, false, false, true, true},
		{[2]string{"B", "B"}, false, false, false, true},
		{[2]string{"B", "A"}, false, false, false, false},
		{[2]string{"A", "tie"}, false, true, true, false},
		{[2]string{"tie", "B"}, false, true, false, false},
		{[2]string{"tie", "tie"}, false, false, false, false},
		{[2]string{"A", "no idea"}, false, true, true, false},
		{[2]string{"", "B"}, false, true, false, false},
		{[2]string{"", "A"}, false, false, false, false},
	}
	for _, tt := range tests {
		for decide, want := range map[string]bool{consistent: tt.consistent, bySum: tt.sum, byFirst: tt.first} {
			c := rowCase(t, map[string]any{"prompt": "Which?", "candidate_a": "longer", "candidate_b": "y"}, map[string]any{"preference": "A", "decide": decide})
			got := scoreTexts(t, c, &tt.texts[0], &tt.texts[1])
			if (got.Outcome == verdict.Passed) != want || got.Containment != verdict.Passive {
				t.Errorf("%q by %s: %s, %s", tt.texts, decide, got.Outcome, got.Message)
			}
			var biases map[string]bool
			if err := json.Unmarshal(got.Metadata[verdict.BiasesKey], &biases); err != nil || biases["position"] != tt.position {
				t.Errorf("%q: the biases are %v, %v", tt.texts, biases, err)
			}
			if length, ok := biases["length"]; ok != (tt.consistent || tt.texts == [2]string{"B", "A"}) || length != tt.consistent {
				t.Errorf("%q: the length decided: %v, %v", tt.texts, length, ok)
			}
		}
	}
}

// TestOneOrder: the attempt's secret says which order is made, and a verdict on it counts
// in its own order.
func TestOneOrder(t *testing.T) {
	made := [2]int{}
	for i := range 40 {
		c := rowCase(t, map[string]any{"prompt": "Which?", "candidate_a": "x", "candidate_b": "y"}, map[string]any{"preference": "A", "orders": "one"})
		c.Seed = [32]byte{byte(i)}
		tk := agentView(t, c)
		shown := present(tk, c)
		at := chosen(c.Seed)
		if len(shown) != 2 || shown[at] == nil || shown[1-at] != nil {
			t.Fatalf("shown is %v", shown)
		}
		made[at]++
		for _, x := range []struct {
			text  string
			right bool
		}{{"A", at == 0}, {"B", at == 1}} {
			texts := [2]*string{}
			texts[at] = &x.text
			if got := scoreTexts(t, c, texts[:]...); (got.Outcome == verdict.Passed) != x.right {
				t.Errorf("%s on order %d is %s", x.text, at, got.Outcome)
			}
		}
		a, b := "A", "B"
		if got := scoreTexts(t, c, &a, &b); got.Outcome != verdict.Passed {
			t.Errorf("right on both orders is %s: %s", got.Outcome, got.Message)
		}
		if got := scoreTexts(t, c, &a, &a); (got.Outcome == verdict.Passed) != (at == 0) {
			t.Errorf("always A on order %d is %s", at, got.Outcome)
		}
	}
	if made[0] < 5 || made[1] < 5 { // the seeds are fixed
		t.Errorf("the orders are made %v times", made)
	}
}

// agentView is the agent's view of a case's public values.
func agentView(t *testing.T, c family.Case) task.AgentView {
	t.Helper()
	var public []task.Resource
	for _, r := range c.Sandbox.Payload() {
		if r.Lane == task.Public {
			public = append(public, r)
		}
	}
	tk, err := task.New(task.Config{ID: "task", Family: Family().Name, Pack: task.Pack{ID: "p"}, Resources: public})
	if err != nil {
		t.Fatal(err)
	}
	return tk.Agent()
}

// TestPresent: both orders hold the same texts, each with a mark of its own that none of
// them has.
func TestPresent(t *testing.T) {
	c := rowCase(t, map[string]any{"prompt": "Which?", "candidate_a": "one", "candidate_b": []map[string]string{{"role": "user", "content": "two"}}, "criteria": "truth"}, map[string]any{"preference": "A"})
	view := agentView(t, c)
	shown := present(view, c)
	if len(shown) != 2 {
		t.Fatalf("%d presentations", len(shown))
	}
	for i, v := range shown {
		a, _ := v.Get("candidate_a")
		b, _ := v.Get("candidate_b")
		want := []jsontext.Value{jsontext.Value(`"one"`), jsontext.Value(`[{"content":"two","role":"user"}]`)}
		if i == 1 {
			slices.Reverse(want)
		}
		if string(a.Value) != string(want[0]) || string(b.Value) != string(want[1]) {
			t.Errorf("presentation %d shows %s and %s", i+1, a.Value, b.Value)
		}
	}
	if first, second := shown[0].Mark(), shown[1].Mark(); len(first) != 32 || first == second {
		t.Errorf("the marks are %q and %q", first, second)
	}
	again := present(view, c)
	if again[0].Mark() != shown[0].Mark() {
		t.Error("a resumed run marks in another way")
	}
	known := rowCase(t, map[string]any{"prompt": "Which?", "candidate_a": "it is " + shown[0].Mark(), "candidate_b": "y"}, map[string]any{"preference": "A"})
	if got := present(agentView(t, known), known)[0].Mark(); got == shown[0].Mark() {
		t.Error("a mark is in a candidate")
	}
}

// TestVotes: the majority of people is right.
func TestVotes(t *testing.T) {
	for votes, want := range map[string]compare.Set{
		`{"votes":{"A":2,"B":1}}`: first, `{"votes":{"B":1}}`: second, `{"votes":{"A":1,"B":1}}`: tie, `{"votes":{"A":1,"B":1,"tie":1}}`: tie,
		`{"votes":{"A":1,"tie":2}}`: tie, `{"votes":{"A":2,"B":2,"tie":1}}`: tie, `{"votes":{"A":0}}`: 0, `"B"`: second, `"tie"`: tie,
	} {
		if got, _ := preferred(jsontext.Value(votes)); got != want {
			t.Errorf("%s prefers %s, want %s", votes, label(got), label(want))
		}
	}
}

// TestRows: what a row may not say, and what it leaves open.
func TestRows(t *testing.T) {
	tests := map[string]struct {
		input, eval string
		problem     string
		pending     verdict.Reason
	}{
		"a preference":          {`{}`, `{"preference":"A"}`, "", ""},
		"nothing":               {`{}`, `{}`, "needs a preference", ""},
		"a rubric":              {`{}`, `{"rubric":"be short"}`, "", ""},
		"no rubric of a judge":  {`{}`, `{"rubric":{"type":"other"}}`, "", verdict.PackFault},
		"both":                  {`{}`, `{"rubric":"be short","preference":"B"}`, "", ""},
		"a tie":                 {`{}`, `{"preference":"tie"}`, "is a tie", ""},
		"a tie that is allowed": {`{"allow_tie":true}`, `{"preference":"tie"}`, "", ""},
		"no votes":              {`{}`, `{"preference":{"votes":{"A":0,"B":0}}}`, "has no votes", ""},
		"people disagree":       {`{}`, `{"preference":{"votes":{"A":1,"B":1}}}`, "", verdict.PackFault},
		"and may":               {`{"allow_tie":true}`, `{"preference":{"votes":{"A":1,"B":1}}}`, "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			row := family.Row{Input: map[string]jsontext.Value{"candidate_a": jsontext.Value(`"x"`), "candidate_b": jsontext.Value(`"y"`)}, Eval: map[string]jsontext.Value{}}
			if err := json.Unmarshal([]byte(tt.input), &row.Input); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(tt.eval), &row.Eval); err != nil {
				t.Fatal(err)
			}
			got := check(row)
			if tt.problem == "" && len(got) > 0 || tt.problem != "" && (len(got) != 1 || !strings.Contains(got[0].Message, tt.problem)) {
				t.Fatalf("the problems are %v", got)
			}
			if tt.problem != "" {
				return
			}
			input, eval := map[string]any{}, map[string]any{}
			for k, v := range row.Input {
				input[k] = v
			}
			for k, v := range row.Eval {
				eval[k] = v
			}
			c := rowCase(t, input, eval)
			if reason, _ := pending(c.Sandbox, c.Evaluator); reason != tt.pending {
				t.Errorf("it is pending for %q, want %q", reason, tt.pending)
			}
		})
	}
}

// TestEqualCandidates: nobody can prefer one of two that are equal.
func TestEqualCandidates(t *testing.T) {
	row := func(b, preference string) family.Row {
		return family.Row{Input: map[string]jsontext.Value{"candidate_a": jsontext.Value(`"x"`), "candidate_b": jsontext.Value(b)},
			Eval: map[string]jsontext.Value{"preference": jsontext.Value(preference)}}
	}
	if len(doubtful(row(`"\u0078"`, `"A"`))) != 1 || len(doubtful(row(`"y"`, `"A"`))) != 0 || len(doubtful(row(`"x"`, `"tie"`))) != 0 {
		t.Error("a preference between equal candidates is not doubted, or another is")
	}
}

// TestReference: the row's own solution passes, whatever is right.
func TestReference(t *testing.T) {
	for _, preference := range []string{"A", "B", "tie"} {
		for _, orders := range []string{"both", "one"} {
			c := rowCase(t, map[string]any{"prompt": "Which?", "candidate_a": "x", "candidate_b": "y", "allow_tie": true}, map[string]any{"preference": preference, "orders": orders})
			sol, ok := reference(c.Evaluator)
			if !ok {
				t.Fatal("there is none")
			}
			if got := familytest.Verify(t, newVerifier(family.Resources{}), c, sol.Candidate); got.Outcome != verdict.Passed {
				t.Errorf("%s in %s: %s, %s", preference, orders, got.Outcome, got.Message)
			}
		}
	}
}

// FuzzReading: no text makes the reader fail, and no text reads as a verdict and its
// opposite; a text that is one mark reads as that mark whatever stands around it on other
// lines, as long as nothing there is a mark or takes it back.
func FuzzReading(f *testing.F) {
	for _, s := range []string{"[[A]]", "[[A>B]] [[", "\ue010mark{B}", `\boxed{A}`, `{"verdict":"B"}`, "Response A is better than Option (B).", "<think>", "[[A]]\u202e[[B]]"} {
		f.Add(s)
	}
	r, err := newReader()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, reason, _ := r.verdict(text, false)
		if (reason == "") != (got == first || got == second || got == tie) {
			t.Errorf("%q reads as %b for %q", text, got, reason)
		}
		marked, _, _ := r.verdict(text+"\n[[A]]\n[[B]]\n", false)
		if marked != 0 && !strings.Contains(strings.ToLower(text), "<") && !strings.Contains(text, "[") && !strings.Contains(text, "◁") {
			t.Errorf("%q with both marks reads as %s", text, label(marked))
		}
	})
}

// TestBaselines: what each answers, and how likely such a guess passes.
func TestBaselines(t *testing.T) {
	c := rowCase(t, map[string]any{"prompt": "Which?", "candidate_a": "zz", "candidate_b": []map[string]string{{"role": "x", "content": "aaa"}}}, map[string]any{"preference": "A"})
	want := map[string]string{"always A": `["A","A"] 0.25`, "always B": `["B","B"] 0.25`, "always tie": `["tie","tie"] 0.25`, "the longer candidate": `["B","A"] 0.5`,
		"the shorter candidate": `["A","B"] 0.5`, "the first by the alphabet": `["B","A"] 0.5`}
	for _, b := range baselines() {
		answer, ok := b.Answer(agentView(t, c))
		if got := fmt.Sprintf("%s %.4g", answer, b.Chance(c)); !ok || got != want[b.Name] {
			t.Errorf("%s answers %s, want %s", b.Name, got, want[b.Name])
		}
	}
	for _, tt := range []struct {
		input map[string]any
		eval  map[string]any
		want  [2]float64 // by place, by content
	}{
		{map[string]any{}, map[string]any{"preference": "A", "orders": "one"}, [2]float64{1.0 / 2, 1.0 / 2}},
		{map[string]any{"allow_tie": true}, map[string]any{"preference": "A", "orders": "one"}, [2]float64{1.0 / 3, 1.0 / 2}},
		{map[string]any{"allow_tie": true}, map[string]any{"preference": "tie"}, [2]float64{1.0 / 9, 0}},
	} {
		c := rowCase(t, tt.input, tt.eval)
		if got := [2]float64{byPlaceChance(c), byContentChance(c)}; got != tt.want {
			t.Errorf("%v %v: chance passes %v, want %v", tt.input, tt.eval, got, tt.want)
		}
	}
	equal := rowCase(t, map[string]any{"prompt": "Which?", "candidate_a": "x", "candidate_b": "x"}, map[string]any{"preference": "tie", "allow_tie": true})
	if _, ok := baselines()[5].Answer(agentView(t, equal)); ok {
		t.Error("one of two equal candidates comes first by the alphabet")
	}
}
