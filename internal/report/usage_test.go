package report_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"securebench/internal/report"
)

// TestUsage: the report says what the records counted, and what of that has a price.
func TestUsage(t *testing.T) {
	t.Parallel()
	use := func(i int, counts map[string]int64) report.Attempt {
		a := pass(i, 1)
		a.Usage = report.NewUsage(counts)
		return a
	}
	priced := map[string]int64{"requests": 3, "input_tokens": 1_200_000, "cached_input_tokens": 1000, "output_tokens": 40, "reasoning_tokens": 8, "tool_calls": 2, "cost_microusd": 1_250_000}
	free := map[string]int64{"requests": 1, "input_tokens": 10, "output_tokens": 5}
	for name, c := range map[string]struct {
		attempts []report.Attempt
		want     []string // in the table
		not      string
	}{
		"a price for all":  {[]report.Attempt{use(0, priced), use(1, priced)}, []string{"requests  6, 4 tool calls", "tokens    2,400,000 input (2,000 cached), 80 output (16 reasoning)", "cost      2.50 USD\n"}, "at least"},
		"a price for some": {[]report.Attempt{use(0, priced), use(1, free)}, []string{"cost      at least 1.25 USD: 1 of 2 attempts have a price"}, ""},
		"no prices":        {[]report.Attempt{use(0, free)}, []string{"tokens    10 input, 5 output"}, "cost"},
		"a small cost":     {[]report.Attempt{use(0, map[string]int64{"requests": 1, "cost_microusd": 42})}, []string{"cost      0.000042 USD"}, ""},
		"no provider":      {[]report.Attempt{use(0, map[string]int64{"commands_allowed": 1})}, nil, "USAGE"},
		"a record twice":   {[]report.Attempt{use(0, priced), use(0, priced)}, []string{"requests  3,"}, ""},
		"hostile records": {[]report.Attempt{use(0, map[string]int64{"requests": math.MaxInt64, "cost_microusd": math.MaxInt64, "input_tokens": -5}),
			use(1, map[string]int64{"requests": math.MaxInt64, "cost_microusd": 9, "output_tokens": math.MinInt64})}, []string{"requests  9,223,372,036,854,775,807\n", "tokens    0 input, 0 output"}, "-9"},
	} {
		var out bytes.Buffer
		if err := build(plan(len(c.attempts), 1), c.attempts...).WriteTable(&out); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%s", name, want, &out)
			}
		}
		if c.not != "" && strings.Contains(out.String(), c.not) {
			t.Errorf("%s: %q in\n%s", name, c.not, &out)
		}
	}
}

// TestWhen: when a run began and how long it took.
func TestWhen(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"2026-01-02T03:04:05.9Z", "2026-01-02T05:04:06.9Z", "from 2026-01-02 03:04:05 UTC to 2026-01-02 05:04:06 UTC, 2h0m1s"},
		{"2026-01-02T03:04:05Z", "", "from 2026-01-02 03:04:05 UTC"},
		{"", "2026-01-02T03:04:05Z", ""},
		{"2026-01-02T03:04:05Z", "2025-01-02T03:04:05Z", "from 2026-01-02 03:04:05 UTC to 2025-01-02 03:04:05 UTC"},
		{"\x1b[2J", "x", ""},
	} {
		if got := (report.Run{Started: c[0], Ended: c[1]}).When(); got != c[2] {
			t.Errorf("%q to %q: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
