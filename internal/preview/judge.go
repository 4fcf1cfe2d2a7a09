package preview

import (
	"cmp"
	"fmt"
	"strings"

	"securebench/internal/agent/harness"
	"securebench/internal/console"
	"securebench/internal/judge"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/run"
	"securebench/internal/verdict"
)

// Judge is what the tasks that ask for a judge would take.
type Judge struct {
	Tasks int `json:"tasks"`
	// Model is "" if no judge is configured: then the tasks stay pending, and the rest is
	// zero.
	Model string `json:"model,omitzero"`
	Votes int    `json:"votes,omitzero"`
	// Requests are those for the votes of the attempts that remain. A vote that decides
	// nothing is asked for again.
	Requests int `json:"requests"`
	// CanaryRows is on how many rows the judge is tried first, at most.
	CanaryRows int `json:"canary_rows"`
	// MicroUSD is the cost of the votes, by the earlier records; absent if those have none.
	MicroUSD *int64 `json:"cost_microusd,omitzero"`
	// Budget is what the judge may use in the run; absent without a bound.
	Budget harness.Budget `json:"budget,omitzero"`
}

// judged adds up what a judge took of earlier attempts.
type judged struct {
	attempts, priced int
	cost             float64
}

func (j *judged) add(e record.Entry) {
	if e.Basis != verdict.Judged {
		return
	}
	j.attempts++
	if cost, ok := e.Usage[judge.UsagePrefix+"cost_microusd"]; ok {
		j.priced++
		j.cost += float64(cost)
	}
}

// aboutJudge returns what a run asks of its judge, nil if no task asks for one.
func (p *Preview) aboutJudge(o run.Options, tasks int, before *past) *Judge {
	if tasks == 0 {
		return nil
	}
	j := &Judge{Tasks: tasks}
	if o.Judge == nil {
		return j
	}
	attempts := tasks * p.Attempts
	if all := p.Tasks * p.Attempts; all > 0 {
		attempts = attempts * p.Remaining / all
	}
	j.Model, j.Votes, j.Requests, j.Budget = o.Judge.Model.Model, o.Judge.Votes, attempts*o.Judge.Votes, o.Judge.Model.Total
	if !o.Judge.Unchecked {
		j.CanaryRows = min(tasks, judge.MaxSpecimens)
	}
	if before != nil && before.judged.priced > 0 {
		cost := int64(before.judged.cost / float64(before.judged.priced) * float64(attempts))
		j.MicroUSD = &cost
	}
	return j
}

// lines shows what a judge would be asked.
func (j *Judge) lines(line func(name, format string, args ...any)) {
	switch {
	case j == nil:
		return
	case j.Model == "":
		line("judge", "none: %s stay pending, and no agent runs for them; give --judge MODEL", console.Plural(j.Tasks, "task"))
		return
	}
	line("judge", "%s decides on %s: %s for %s each, and more for votes that decide nothing", redact.Quote(j.Model), console.Plural(j.Tasks, "task"),
		console.Plural(j.Requests, "request"), console.Plural(j.Votes, "vote"))
	if j.CanaryRows > 0 {
		line("", "before that it is tried on at most %s, with about %s", console.Plural(j.CanaryRows, "row"), console.Plural(j.CanaryRows*judge.CanariesPerRow()*j.Votes, "request"))
	}
	var cost []string
	if j.MicroUSD != nil {
		cost = append(cost, fmt.Sprintf("about %.2f USD for votes, by the earlier records", float64(*j.MicroUSD)/1e6))
	}
	if j.Budget != (harness.Budget{}) {
		cost = append(cost, "at most "+total(j.Budget)+", by its budget")
	}
	line("", "%s", cmp.Or(strings.Join(cost, "; "), "its cost is unknown: no earlier records have one, and it has no budget"))
}
