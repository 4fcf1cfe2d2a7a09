package attempt

import (
	"securebench/internal/pipeline/produce"
	"securebench/internal/redact"
	"securebench/internal/sandbox"
	"securebench/internal/verdict"
)

// Reached is what the relay of a run knows of an agent that another process ran.
type Reached struct {
	produce.Reached
	Spent   bool             // the attempt's budget is
	Err     error            // why the provider failed the attempt, if it did
	Secrets *redact.Registry // redacted in the files; nil is none
}

// AddTo adds what is known to what came of the agent. The relay decides whether it had
// used its budget.
func (r Reached) AddTo(p *Produced) {
	if p.Metadata == nil {
		p.Metadata = verdict.Metadata{}
	}
	p.Usage = r.add(p.Metadata, &p.Raw, p.Usage)
	p.noteCut()
	if r.Spent && p.End == sandbox.Exited && p.Limit == "" {
		p.Candidate, p.Path, p.Rejection = nil, "", nil
		p.End, p.Limit = produce.OverBudget, produce.OverBudget
	}
}

// AddToError adds what is known to why the call failed. That the provider rejects the
// configuration, or that the run has used its budget, is true if the relay says so: it
// ends the run, which no worker may.
func (r Reached) AddToError(e *Error) {
	e.Usage = r.add(verdict.Metadata{}, &e.Raw, e.Usage)
	class := ClassOf(r.Err)
	switch {
	case class != Infrastructure && e.Phase == verdict.PhaseProduce:
		e.Class, e.cause = class, r.Err
	case e.Class == Rejected, e.Class == Spent:
		e.Class = Infrastructure
	}
}

func (r Reached) add(m verdict.Metadata, raw *map[string][]byte, usage map[string]int64) map[string]int64 {
	known := map[string][]byte{}
	usage = r.Add(m, known, usage)
	if *raw == nil {
		*raw = map[string][]byte{}
	}
	for name, content := range known {
		if r.Secrets != nil {
			content = r.Secrets.Bytes(content)
		}
		if name == produce.NetworkFile { // of which the other process has a part
			content = append((*raw)[name], content...)
		}
		(*raw)[name] = content
	}
	return usage
}
