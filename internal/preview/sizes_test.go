package preview

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"securebench/internal/agent/harness"
	"securebench/internal/agent/setup"
	"securebench/internal/task"
)

// TestSizes: without records, the sizes of tasks, the price and the bounds give a range.
func TestSizes(t *testing.T) {
	t.Parallel()
	tk, err := task.New(task.Config{ID: "p/t", Family: "f", Pack: task.Pack{ID: "p"}, Extraction: task.Extraction{Mode: task.FromStdout, Kind: task.Text},
		Resources: []task.Resource{{Name: "question", Lane: task.Public, Value: jsontext.Value(`"q"`)}}})
	if err != nil {
		t.Fatal(err)
	}
	first := func(files int) func(task.AgentView) (int, int) {
		return func(task.AgentView) (int, int) { return 1000, files }
	}
	price := &harness.Price{Input: 2, Output: 10}
	for name, tt := range map[string]struct {
		asking    *setup.Asking
		remaining int
		records   bool
		want      *Sizes
		text      string
	}{
		"a model": {&setup.Asking{First: first(0), Once: true, MaxTokens: 100, Price: price}, 4, false,
			&Sizes{InputTokens: Range{800, 2000}, OutputTokens: Range{64, 400}, MicroUSD: &Range{2240, 8000}}, "0.00224 to 0.008 USD|800 to 2000 tokens of input, 64 to 400 of output"},
		"without a price": {&setup.Asking{First: first(0), Once: true}, 2, false,
			&Sizes{InputTokens: Range{400, 1000}, OutputTokens: Range{32, 8192}}, "unknown, since the model has no price|400"},
		"pictures": {&setup.Asking{First: first(2), Once: true, MaxTokens: 8}, 2, false, &Sizes{InputTokens: Range{720, 13000}, OutputTokens: Range{16, 16}}, ""},
		"an agent": {&setup.Asking{First: first(0), Price: price}, 2, false,
			&Sizes{InputTokens: Range{400, 0}, OutputTokens: Range{32, 0}, MicroUSD: &Range{1120, 0}}, "at least 0.00112 USD|at least 400 tokens of input"},
		"its budget": {&setup.Asking{First: first(0), Price: price, Most: harness.Budget{Tokens: 5000, Cost: 0.5}}, 2, false,
			&Sizes{InputTokens: Range{400, 10000}, OutputTokens: Range{32, 10000}, MicroUSD: &Range{1120, 1000000}}, "0.00112 to 1 USD"},
		"no provider":     {nil, 2, false, nil, ""},
		"nothing remains": {&setup.Asking{First: first(0), Once: true}, 0, false, nil, ""},
		"records":         {&setup.Asking{First: first(0), Once: true}, 2, true, nil, ""},
	} {
		s := &sizer{asking: tt.asking}
		s.add(tk.Agent())
		s.add(tk.Agent())
		p := &Preview{Remaining: tt.remaining}
		if tt.records {
			p.Estimate = &Estimate{}
		}
		got := s.sizes(p)
		if got != nil {
			if got.Basis == "" {
				t.Errorf("%s: on no basis", name)
			}
			if tt.want != nil {
				tt.want.Basis = got.Basis
			}
			var out []string
			got.lines(func(_, format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) })
			if !strings.HasPrefix(strings.Join(out, "|"), tt.text) || !strings.Contains(out[2], "by sizes: ") {
				t.Errorf("%s: %q", name, out)
			}
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s: -want +got\n%s", name, d)
		}
	}
}
