package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"securebench/internal/console"
)

// Usage is what attempts asked of their provider, as their records count it.
type Usage struct {
	// Attempts is how many records count requests.
	Attempts        int   `json:"attempts"`
	Requests        int64 `json:"requests"`
	InputTokens     int64 `json:"input_tokens"`
	CachedTokens    int64 `json:"cached_input_tokens"` // part of the input
	OutputTokens    int64 `json:"output_tokens"`
	ReasoningTokens int64 `json:"reasoning_tokens,omitzero"` // part of the output
	ToolCalls       int64 `json:"tool_calls"`
	// Priced is how many records have a cost, and MicroUSD the sum of those. It is
	// absent without one.
	Priced   int    `json:"priced_attempts"`
	MicroUSD *int64 `json:"cost_microusd,omitzero"`
}

// NewUsage reads the usage of one record, whose names are those of docs/records.md.
// Of an attempt that asked no provider it is zero.
func NewUsage(counts map[string]int64) Usage {
	requests, ok := counts["requests"]
	if !ok {
		return Usage{}
	}
	u := Usage{
		Attempts: 1, Requests: max(requests, 0), InputTokens: max(counts["input_tokens"], 0), CachedTokens: max(counts["cached_input_tokens"], 0),
		OutputTokens: max(counts["output_tokens"], 0), ReasoningTokens: max(counts["reasoning_tokens"], 0), ToolCalls: max(counts["tool_calls"], 0),
	}
	if cost, ok := counts["cost_microusd"]; ok {
		cost = max(cost, 0)
		u.Priced, u.MicroUSD = 1, &cost
	}
	return u
}

// usage adds up what the attempts used. A record that repeats another counts once.
func usage(attempts []Attempt) (sum Usage) {
	cost := int64(0)
	for _, a := range attempts {
		u := a.Usage
		if u.Attempts == 0 || a.Outcome == repeated {
			continue
		}
		sum.Attempts += u.Attempts
		sum.Requests = plus(sum.Requests, u.Requests)
		sum.InputTokens, sum.CachedTokens = plus(sum.InputTokens, u.InputTokens), plus(sum.CachedTokens, u.CachedTokens)
		sum.OutputTokens, sum.ReasoningTokens = plus(sum.OutputTokens, u.OutputTokens), plus(sum.ReasoningTokens, u.ReasoningTokens)
		sum.ToolCalls = plus(sum.ToolCalls, u.ToolCalls)
		if u.MicroUSD != nil {
			sum.Priced += u.Priced
			cost = plus(cost, *u.MicroUSD)
		}
	}
	if sum.Priced > 0 {
		sum.MicroUSD = &cost
	}
	return sum
}

// plus adds two numbers that are not negative. Records are from outside: their sum
// stays at the largest number rather than begin anew below zero.
func plus(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// Tokens says in words how many tokens were used.
func (u Usage) Tokens() string {
	in, out := fmt.Sprintf("%s input", grouped(u.InputTokens)), fmt.Sprintf("%s output", grouped(u.OutputTokens))
	if u.CachedTokens > 0 {
		in += fmt.Sprintf(" (%s cached)", grouped(u.CachedTokens))
	}
	if u.ReasoningTokens > 0 {
		out += fmt.Sprintf(" (%s reasoning)", grouped(u.ReasoningTokens))
	}
	return in + ", " + out
}

// Cost says in words what that cost, "" if no prices are known.
func (u Usage) Cost() string {
	if u.MicroUSD == nil {
		return ""
	}
	usd := float64(*u.MicroUSD) / 1e6
	text := fmt.Sprintf("%.2f USD", usd)
	if usd > 0 && usd < 0.1 {
		text = fmt.Sprintf("%.6f USD", usd)
	}
	if u.Priced < u.Attempts {
		return fmt.Sprintf("at least %s: %d of %s have a price", text, u.Priced, console.Plural(u.Attempts, "attempt"))
	}
	return text
}

// grouped writes a number with its thousands apart.
func grouped(n int64) string {
	digits := fmt.Sprint(n)
	var parts []string
	for len(digits) > 3 {
		parts = append([]string{digits[len(digits)-3:]}, parts...)
		digits = digits[:len(digits)-3]
	}
	return strings.Join(append([]string{digits}, parts...), ",")
}

// Requested says in words how many requests there were.
func (u Usage) Requested() string {
	text := grouped(u.Requests)
	if u.ToolCalls > 0 {
		text += fmt.Sprintf(", %s tool calls", grouped(u.ToolCalls))
	}
	return text
}

// When says in words when the run began and ended, "" if that is unknown.
func (r Run) When() string {
	began, err := time.Parse(time.RFC3339, r.Started)
	if err != nil {
		return ""
	}
	const form = "2006-01-02 15:04:05 UTC"
	text := "from " + began.UTC().Format(form)
	ended, err := time.Parse(time.RFC3339, r.Ended)
	if err != nil {
		return text
	}
	text += " to " + ended.UTC().Format(form)
	if took := ended.Sub(began); took >= 0 {
		text += fmt.Sprintf(", %s", took.Round(time.Second))
	}
	return text
}

func (t *table) usage() {
	u := t.r.Usage
	if u.Attempts == 0 {
		return
	}
	t.Line("\nUSAGE")
	t.Line("  requests\t%s", u.Requested())
	t.Line("  tokens\t%s", u.Tokens())
	if cost := u.Cost(); cost != "" {
		t.Line("  cost\t%s", cost)
	}
	for _, c := range t.r.Answers.Unusual() {
		t.Line("  answers\t%d of %s %s", c.N, console.Plural(t.r.Answers.Asked, "attempt"), c.What)
	}
}
