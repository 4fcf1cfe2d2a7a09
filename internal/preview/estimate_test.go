package preview

import (
	"testing"

	"securebench/internal/pipeline/record"
	"securebench/internal/verdict"
)

// entry is a record of an attempt: its time, of which the verifier's is published
// for a pass only, and its cost, negative for none.
func entry(id, family string, outcome verdict.Outcome, total, verifier, cost int64) record.Entry {
	l := &record.Line{TaskID: id, TaskType: family, Outcome: outcome, Passed: outcome == verdict.Passed,
		Timings: map[verdict.Phase]int64{"total": total}, Usage: map[string]int64{}}
	if l.Passed {
		l.Timings[verdict.PhaseVerify] = verifier
	}
	if cost >= 0 {
		l.Usage["cost_microusd"], l.Usage["input_tokens"], l.Usage["output_tokens"] = cost, 100, 10
	}
	return record.Entry{Line: l}
}

func TestEstimate(t *testing.T) {
	t.Parallel()
	p := &past{name: "before", verified: true, tasks: map[string]*sum{}, families: map[string]*sum{}}
	for _, e := range []record.Entry{
		entry("a", "f", verdict.Passed, 10000, 2000, 500),
		entry("b", "f", verdict.Failed, 4000, 0, 300),
		entry("c", "g", verdict.Passed, 1000, 100, 100),
		entry("d", "g", verdict.Infrastructure, 900000, 0, 900),
	} {
		p.add(e)
	}
	cost := func(n int64) *int64 { return &n }
	for name, c := range map[string]struct {
		tasks     [][2]string // id, family
		remaining int
		workers   int
		want      Estimate
	}{
		// b failed: its verification took as long as those of its family that passed.
		"its own records":   {[][2]string{{"a", "f"}, {"b", "f"}}, 2, 1, Estimate{Known: 2, Seconds: 16, MicroUSD: cost(800), InputTokens: 200, OutputTokens: 20}},
		"two at a time":     {[][2]string{{"a", "f"}, {"b", "f"}, {"a", "f"}, {"b", "f"}}, 4, 2, Estimate{Known: 4, Seconds: 16, MicroUSD: cost(1600), InputTokens: 400, OutputTokens: 40}},
		"the longest":       {[][2]string{{"a", "f"}, {"b", "f"}}, 2, 8, Estimate{Known: 2, Seconds: 10, MicroUSD: cost(800), InputTokens: 200, OutputTokens: 20}},
		"its family":        {[][2]string{{"new", "f"}}, 1, 1, Estimate{Seconds: 8, MicroUSD: cost(400), InputTokens: 100, OutputTokens: 10}},
		"any family":        {[][2]string{{"new", "h"}}, 1, 1, Estimate{Seconds: (15.0 + 1.05) / 3, MicroUSD: cost(300), InputTokens: 100, OutputTokens: 10}},
		"three attempts":    {[][2]string{{"a", "f"}}, 3, 1, Estimate{Known: 1, Seconds: 30, MicroUSD: cost(1500), InputTokens: 300, OutputTokens: 30}},
		"half is recorded":  {[][2]string{{"a", "f"}, {"a", "f"}}, 1, 1, Estimate{Known: 2, Seconds: 10, MicroUSD: cost(500), InputTokens: 100, OutputTokens: 10}},
		"nothing remains":   {[][2]string{{"a", "f"}}, 0, 1, Estimate{Known: 1, MicroUSD: cost(0)}},
		"only infra errors": {[][2]string{{"d", "g"}}, 1, 1, Estimate{Seconds: 1, MicroUSD: cost(100), InputTokens: 100, OutputTokens: 10}},
	} {
		t.Run(name, func(t *testing.T) {
			g := p.guesser()
			for _, task := range c.tasks {
				g.add(task[0], task[1])
			}
			got := g.estimate(&Preview{Remaining: c.remaining, Workers: c.workers + 5, atOnce: c.workers})
			if got == nil || got.MicroUSD == nil || got.Records != 3 || !got.Verified || got.From != "before" {
				t.Fatalf("%+v", got)
			}
			if got.Known != c.want.Known || got.Seconds-c.want.Seconds > 1e-9 || c.want.Seconds-got.Seconds > 1e-9 || *got.MicroUSD != *c.want.MicroUSD ||
				got.InputTokens != c.want.InputTokens || got.OutputTokens != c.want.OutputTokens {
				t.Errorf("%+v with cost %d, want %+v with %d", *got, *got.MicroUSD, c.want, *c.want.MicroUSD)
			}
		})
	}
	var none *past
	g := none.guesser()
	g.add("a", "f")
	if e := g.estimate(&Preview{Remaining: 1, Workers: 1}); e != nil {
		t.Errorf("without records: %+v", e)
	}
	p.add(entry("e", "g", verdict.Failed, 1, 0, -1))
	g = p.guesser()
	g.add("e", "g")
	if e := g.estimate(&Preview{Remaining: 1, Workers: 1}); e.MicroUSD != nil {
		t.Errorf("a cost without prices: %d", *e.MicroUSD)
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[float64]string{0.2: "less than a second", 0.6: "1 s", 59.4: "59 s", 60: "1 min 0 s", 3599: "59 min 59 s", 7380: "2 h 3 min"} {
		if got := duration(seconds); got != want {
			t.Errorf("%v is %s, want %s", seconds, got, want)
		}
	}
}
