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
	"securebench/internal/workload"
)

// Judge is what the tasks that ask for a judge would take.
type Judge struct {
	Tasks int `json:"tasks"` // that it decides
	// Reads are the tasks of whose candidates it reads the answers that their rule does not
	// find. How many that are is not known.
	Reads int `json:"reads,omitzero"`
	// Model is "" if no judge is configured: then the tasks stay pending, nothing is read,
	// and the rest is zero.
	Model string `json:"model,omitzero"`
	Votes int    `json:"votes,omitzero"`
	// Requests are those for the votes of the attempts that remain. A vote that decides
	// nothing is asked for again.
	Requests int `json:"requests"`
	// ReadRequests are those for votes of what it reads, at most.
	ReadRequests int `json:"read_requests,omitzero"`
	// CanaryRows is on how many rows the judge is tried first, at most.
	CanaryRows int `json:"canary_rows"`
	// Canaries are about how many requests that takes.
	Canaries int `json:"canary_requests"`
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
	if e.ByRule().Basis != verdict.Judged {
		return
	}
	j.attempts++
	if cost, ok := e.Usage[judge.UsagePrefix+"cost_microusd"]; ok {
		j.priced++
		j.cost += float64(cost)
	}
}

// aboutJudge returns what a run asks of its judge, nil if no task asks for one.
func (p *Preview) aboutJudge(o run.Options, w *workload.Workload, before *past) *Judge {
	if !w.AsksJudge() {
		return nil
	}
	j := &Judge{Tasks: w.Judged(), Reads: w.JudgeReads()}
	if o.Judge == nil {
		return j
	}
	remaining := func(tasks int) int {
		if all := p.Tasks * p.Attempts; all > 0 {
			return tasks * p.Attempts * p.Remaining / all
		}
		return tasks * p.Attempts
	}
	attempts := remaining(j.Tasks)
	j.Model, j.Votes, j.Requests, j.Budget = o.Judge.Model.Model, o.Judge.Votes, remaining(w.Decisions())*o.Judge.Votes, o.Judge.Model.Total
	j.ReadRequests = remaining(j.Reads) * o.Judge.Votes
	if !o.Judge.Unchecked {
		decided, read := min(j.Tasks, judge.MaxSpecimens), min(j.Reads, judge.MaxSpecimens)
		j.CanaryRows, j.Canaries = decided+read, (decided*judge.CanariesPerRow()+read*judge.CanariesPerReadRow())*j.Votes
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
		line("judge", "none: %s; give --judge MODEL", j.without())
		return
	}
	line("judge", "%s decides on %s: %s for %s each, and more for votes that decide nothing", redact.Quote(j.Model), console.Plural(j.Tasks, "task"),
		console.Plural(j.Requests, "request"), console.Plural(j.Votes, "vote"))
	if j.Reads > 0 {
		line("", "it reads the answers that the rules of %s do not find: at most %s", console.Plural(j.Reads, "task"), console.Plural(j.ReadRequests, "request"))
	}
	if j.CanaryRows > 0 {
		line("", "before that it is tried on at most %s, with about %s", console.Plural(j.CanaryRows, "row"), console.Plural(j.Canaries, "request"))
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

// without says what tasks lack without a judge.
func (j *Judge) without() string {
	var out []string
	if j.Tasks > 0 {
		out = append(out, console.Plural(j.Tasks, "task")+" stay pending, and no agent runs for them")
	}
	if j.Reads > 0 {
		out = append(out, "no answers are read that the rules of "+console.Plural(j.Reads, "task")+" do not find")
	}
	return strings.Join(out, "; ")
}
