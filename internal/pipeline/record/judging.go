package record

import (
	"fmt"
	"strings"

	"securebench/internal/digest"
	"securebench/internal/judge"
	"securebench/internal/redact"
)

// ExchangesName is the raw output with what a judge was asked and answered about an attempt.
const ExchangesName = "exchanges.jsonl"

// MaxExchanges bounds that file.
const MaxExchanges = maxRaw

// Exchanges returns the file with what a judge was asked about the attempt at last, "" if
// it was not.
func (l *Line) Exchanges() (path string) {
	for _, f := range l.Restricted {
		if strings.HasSuffix(f.Path, "judge-"+ExchangesName) {
			path = f.Path
		}
	}
	return path
}

// Judging says which judge a run has.
type Judging struct {
	Model string `json:"model"` // that is asked for
	API   string `json:"api"`
	// Effort is that of its reasoning, and Server the digest of its base URL.
	Effort string `json:"reasoning_effort,omitzero"`
	Server string `json:"server,omitzero"`
	Votes  int    `json:"votes"`
	Decide string `json:"decide"`
	Prompt int    `json:"prompt_version"`
	// Trusted is the digest of a comparison with people's labels.
	Trusted string `json:"trusted,omitzero"`
	// Answered is the model that answers, as its provider names it, and Canaries what came
	// of trying it; both are empty until it is tried, and where it is not.
	Answered string       `json:"answered,omitzero"`
	Canaries *judge.Trial `json:"canaries,omitzero"`
	// Labels are those of its verdicts.
	Labels []string `json:"labels"`
}

// OneJudge sees that all records of a run name one model that judged. Answered is that
// model, "" before the first.
type OneJudge struct{ Answered string }

// Next takes a record into account. Its error says that another model judged.
func (o *OneJudge) Next(l *Line) error {
	if l.Judge == nil || l.Judge.Model == "" { // no model answered
		return nil
	}
	if o.Answered == "" {
		o.Answered = l.Judge.Model
	}
	if l.Judge.Model != o.Answered {
		return fmt.Errorf("its judge is %s, and before it was %s: a run has one", redact.Quote(l.Judge.Model), redact.Quote(o.Answered))
	}
	return nil
}

// Used is what trying it took, by the names of a record's usage.
func (j *Judging) Used() map[string]int64 {
	if j == nil || j.Canaries == nil {
		return nil
	}
	return judge.Prefixed(j.Canaries.Usage)
}

// Panel returns the judge, whose model an asker asks, of the run with a salt.
func (j *Judging) Panel(asker judge.Asker, salt digest.Salt) *judge.Panel {
	return &judge.Panel{Settings: judge.Settings{Votes: j.Votes, Unanimous: j.Decide == judge.Unanimous}, Asker: asker, API: j.API,
		Labels: j.Labels, Derive: salt.Derive,
		Keyed: func(task string, content []byte) string { return salt.Keyed("judge", task, content) }}
}
