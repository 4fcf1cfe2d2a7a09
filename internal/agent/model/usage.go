package model

import (
	"strings"

	"securebench/internal/verdict"
)

// Usage is what answers used, in tokens.
type Usage struct {
	Input     int64 `json:"input_tokens"` // with what was read from a cache, and written to one
	Cached    int64 `json:"cached_input_tokens"`
	Written   int64 `json:"cache_write_input_tokens,omitzero"`
	Output    int64 `json:"output_tokens"` // with the reasoning
	Reasoning int64 `json:"reasoning_tokens"`
	// Guessed says that the provider did not say all of it.
	Guessed bool `json:"guessed,omitzero"`
}

// maxCount bounds a number of tokens: a larger one is a mistake.
const maxCount = 1_000_000_000

// sane returns a usage in which no number is impossible. One that is counts as
// not given.
func (u Usage) sane() Usage {
	for _, n := range []*int64{&u.Input, &u.Cached, &u.Written, &u.Output, &u.Reasoning} {
		if *n < 0 || *n > maxCount {
			*n, u.Guessed = 0, true
		}
	}
	u.Cached = min(u.Cached, u.Input)
	u.Written = min(u.Written, u.Input-u.Cached)
	u.Reasoning = min(u.Reasoning, u.Output)
	return u
}

// guess fills in what the provider did not say, from the length of the texts.
func (u Usage) guess(asked, answered int) Usage {
	if u.Input == 0 {
		u.Input, u.Guessed = int64(asked+3)/4, true
	}
	if u.Output == 0 && answered > 0 {
		u.Output, u.Guessed = int64(answered+3)/4, true
	}
	return u
}

func (u *Usage) add(v Usage) {
	u.Input += v.Input
	u.Cached += v.Cached
	u.Written += v.Written
	u.Output += v.Output
	u.Reasoning += v.Reasoning
	u.Guessed = u.Guessed || v.Guessed
}

// Plus returns the sum of two usages.
func (u Usage) Plus(v Usage) Usage {
	u.add(v)
	return u
}

// price returns what a usage costs, in USD.
func (c *Client) price(u Usage) float64 {
	p := c.set.Prices[c.set.Model]
	return (float64(u.Input-u.Cached-u.Written)*p.Input + float64(u.Cached)*p.CachedInput +
		float64(u.Written)*p.CacheWrite + float64(u.Output)*p.Output) / 1e6
}

// countAnswer counts what came of the question, by the names of the record's usage.
func (r Result) countAnswer(to map[string]int64) {
	to["answers"] = 0
	if !r.whole {
		return
	}
	to["answers"] = 1
	for name, is := range map[string]bool{
		"answers_truncated": verdict.CutOff(r.Stop),
		"answers_empty":     !r.Declined && strings.TrimSpace(r.Text+r.Called) == "",
		"answers_refused":   r.Declined,
		"answers_estimated": r.Usage.Guessed,
	} {
		if is {
			to[name] = 1
		}
	}
}

// Counts returns what a question used by the names of the record's usage, also
// what was answered before the run was resumed: each attempt has one record.
func (c *Client) Counts(r Result) map[string]int64 {
	u := r.Spent
	out := map[string]int64{"requests": r.Requests, "input_tokens": u.Input, "cached_input_tokens": u.Cached,
		"output_tokens": u.Output, "reasoning_tokens": u.Reasoning, "latency_ms": r.Latency.Milliseconds()}
	r.countAnswer(out)
	if u.Written > 0 {
		out["cache_write_input_tokens"] = u.Written
	}
	if r.First > 0 {
		out["first_text_ms"] = r.First.Milliseconds()
	}
	if _, ok := c.set.Prices[c.set.Model]; ok {
		out["cost_microusd"] = int64(c.price(u)*1e6 + 0.5)
	}
	return out
}
