package relay

import (
	"maps"
	"sync"

	"securebench/internal/gateway/relay/wire"
	"securebench/internal/redact"
)

// answers counts what came of an attempt's requests.
type answers struct {
	mu      sync.Mutex
	whole   int64 // answers of the model that came to their end
	refused int64 // requests that the relay itself refused
	last    refusal
	cut     string           // why the last answer was cut off, if it was
	by      map[string]int64 // of the answers those that a score should be read with
}

// The names of the record's usage for answers. A provider's failure is none.
const (
	Answers   = "answers"
	Refusals  = "relay_refusals"
	Truncated = "answers_truncated" // at the most tokens that one may have
	Empty     = "answers_empty"     // with neither text nor call, such as reasoning alone
	Declined  = "answers_refused"   // by the model, or a filter of the provider's
	Guessed   = "answers_estimated" // whose usage the provider did not say
)

// answered counts an answer.
func (c *answers) answered(x *exchange, ending wire.Ending) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.whole++
	c.cut = ending.Stop
	for name, is := range map[string]bool{Truncated: ending.Truncated, Empty: ending.Empty && !ending.Declined, Declined: ending.Declined, Guessed: !x.exact} {
		if !is {
			continue
		}
		if c.by == nil {
			c.by = map[string]int64{}
		}
		c.by[name]++
	}
}

// refuse counts a refusal. Those for want of budget, and those that repeat what a
// provider or the agent itself brought about, say nothing about the agent's form.
func (c *answers) refuse(r *refusal) {
	switch r.reason {
	case budgetSpent, agentLeft, bodyCut, providerFailed, providerReject, providerError, responseCut, responseLong, attemptEnded:
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused++
	c.last = *r
}

// add adds the counts to a usage.
func (c *answers) add(to map[string]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to[Answers], to[Refusals] = c.whole, c.refused
	maps.Copy(to, c.by)
}

// maxRefusal bounds what a record quotes of a refusal.
const maxRefusal = 300

// Words says why the relay refused the last request that it refused, without credentials,
// and in the API's word why the last answer of the model was cut off; "" of none.
func (a *Attempt) Words() (refusal, cut string) {
	a.answers.mu.Lock()
	defer a.answers.mu.Unlock()
	if a.answers.refused > 0 {
		last := a.answers.last
		refusal = redact.EscapeShort(string(a.relay.secrets.Bytes([]byte(string(last.reason)+": "+last.message))), maxRefusal)
	}
	return refusal, a.answers.cut
}
