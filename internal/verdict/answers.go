package verdict

// StopKey is the key of the producer's metadata that says why a model stopped, in the
// word of its provider.
const StopKey = "stop_reason"

// TurnsKey is the name, in the producer's metadata, of how many turns the agent may take.
const TurnsKey = "max_turns"

// CutOff reports whether a model stopped because its answer had reached its most
// tokens.
func CutOff(stop string) bool {
	switch stop {
	case "length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded", "MAX_TOKENS":
		return true
	}
	return false
}

// Declined reports whether a model or a filter of its provider refused to answer.
func Declined(stop string) bool {
	switch stop {
	case "refusal", "content_filter", "SAFETY":
		return true
	}
	return false
}

// Answers counts attempts by what came of their requests to a model: what a score
// should be read with. An attempt counts once in each.
type Answers struct {
	Asked      int `json:"asked"`           // attempts whose records count answers
	Unanswered int `json:"unanswered"`      // that made requests and got no answer
	Blocked    int `json:"relay_refused"`   // with a request that the relay refused, budgets aside
	Truncated  int `json:"truncated"`       // with an answer that ended at the most tokens that it may have
	Empty      int `json:"empty"`           // with an answer that has neither text nor a call of a tool
	Refused    int `json:"refused"`         // with an answer that the model or a filter of its provider refused
	Estimated  int `json:"usage_estimated"` // with an answer whose usage the provider did not say
}

// AnswersOf reads the usage of one record. Those of former versions count nothing.
func AnswersOf(usage map[string]int64) Answers {
	answers, counted := usage["answers"]
	if !counted {
		return Answers{}
	}
	one := func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	return Answers{
		Asked:      1,
		Unanswered: one(answers <= 0 && (usage["requests"] > 0 || usage["relay_refusals"] > 0)),
		Blocked:    one(usage["relay_refusals"] > 0),
		Truncated:  one(usage["answers_truncated"] > 0),
		Empty:      one(usage["answers_empty"] > 0),
		Refused:    one(usage["answers_refused"] > 0),
		Estimated:  one(usage["answers_estimated"] > 0),
	}
}

// Add adds the counts of another attempt, or of several.
func (a *Answers) Add(b Answers) {
	a.Asked += b.Asked
	a.Unanswered += b.Unanswered
	a.Blocked += b.Blocked
	a.Truncated += b.Truncated
	a.Empty += b.Empty
	a.Refused += b.Refused
	a.Estimated += b.Estimated
}

// Count is a number of attempts, and in words what they have in common.
type Count struct {
	N    int
	What string
}

// Unusual lists what is not zero, the most serious first.
func (a Answers) Unusual() (out []Count) {
	for _, c := range []Count{
		{a.Unanswered, "asked a model and got no answer"},
		{a.Blocked, "made requests that the relay refused"},
		{a.Truncated, "got an answer that was cut off at its most tokens"},
		{a.Empty, "got an empty answer"},
		{a.Refused, "got an answer that the model or its provider refused"},
		{a.Estimated, "got an answer whose usage is estimated"},
	} {
		if c.N > 0 {
			out = append(out, c)
		}
	}
	return out
}
