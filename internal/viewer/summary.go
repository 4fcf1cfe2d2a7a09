package viewer

import (
	"securebench/internal/evidence"
	"securebench/internal/redact"
	"securebench/internal/report"
)

// State is what can be said of a run in a list.
type State string

// The states. Nothing that a run wrote sets one.
const (
	Checking   State = "checking"
	Verified   State = "verified"
	Unverified State = "unverified" // something is wrong with it, or its signer is unknown
	Unfinished State = "unfinished" // nothing is wrong but that it has no end
	Running    State = "running"
	Unreadable State = "unreadable"
)

// Summary is a run in a list. Its texts are escaped.
type Summary struct {
	ID       string       `json:"id"`   // in addresses
	Path     string       `json:"path"` // below the folder
	State    State        `json:"state"`
	Evidence string       `json:"evidence,omitzero"`
	RunID    string       `json:"run_id,omitzero"`
	Pack     string       `json:"pack,omitzero"`
	Version  int64        `json:"version,omitzero"`
	Agent    string       `json:"agent,omitzero"`
	Model    string       `json:"model,omitzero"`
	Started  string       `json:"started,omitzero"`
	Ended    string       `json:"ended,omitzero"`
	Recorded int64        `json:"recorded"`
	Planned  int64        `json:"planned"`
	Totals   []ShortTotal `json:"totals,omitzero"` // one for each basis
}

// ShortTotal is what was scored of one basis.
type ShortTotal struct {
	Basis    string          `json:"basis"`
	Rate     float64         `json:"rate"`
	Interval report.Interval `json:"interval"`
	Passed   int             `json:"passed"`
	Attempts int             `json:"attempts"`
	Tasks    int             `json:"tasks"`
}

// tasks is how many tasks the run has.
func (s *Summary) tasks() (n int) {
	for _, t := range s.Totals {
		n += t.Tasks
	}
	return n
}

// summarize says in short what a run scored.
func summarize(rep *report.Report, res *evidence.Result) Summary {
	v := rep.View()
	s := Summary{State: Verified, Evidence: v.Run.Evidence, RunID: v.Run.RunID, Pack: v.Run.PackID, Version: v.Run.PackVersion, Agent: v.Run.Agent,
		Model: v.Run.Model, Started: v.Run.Started, Ended: v.Run.Ended, Recorded: res.Records, Planned: res.Planned()}
	switch {
	case rep.Run.Verified:
	case res.Unfinished && len(res.Problems) == 0:
		s.State = Unfinished
	default:
		s.State = Unverified
	}
	for _, t := range v.Totals {
		s.Totals = append(s.Totals, ShortTotal{Basis: t.ID, Rate: t.PassRate, Interval: t.Interval, Passed: t.Passed, Attempts: t.Attempts, Tasks: t.Tasks})
	}
	return s
}

// unreadable is the summary of what cannot be opened.
func unreadable(err error) Summary {
	return Summary{State: Unreadable, Evidence: redact.EscapeShort(err.Error(), maxWord)}
}
