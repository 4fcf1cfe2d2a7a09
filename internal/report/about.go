package report

import (
	"strings"

	"securebench/internal/evidence"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	tasks "securebench/internal/task"
	"securebench/internal/verdict"
)

// SignedBy begins the evidence of a run that verifies.
const SignedBy = "verified, signed by "

// NewAttempt reads what a report needs of a record.
func NewAttempt(e record.Entry) Attempt {
	return Attempt{
		Line: e.Number, TaskID: e.TaskID, Index: e.Index, Attempt: e.Attempt, Family: e.TaskType, Status: e.Status,
		Outcome: e.Outcome, Reason: e.FailureReason, Containment: e.Containment, Basis: e.Basis, Judge: votes(e.Judge), Labels: e.Labels,
		Passed: e.Passed, AgentExit: e.AgentExit(), Retries: len(e.Retries), TotalMS: e.Timings["total"], Candidate: e.Digests.Candidate,
		Usage: NewUsage(e.Usage), Answers: e.Answers(), Measure: e.Measure, Biases: e.Biases(),
	}
}

// The most characters of [Explain].
const (
	maxSaid    = 500
	maxExcerpt = 600
)

// Explain says why the attempt of a record did not pass, for people, on lines of their own:
// the message, and an excerpt of the candidate as the record shows it. Of an answer that is
// its end, where answers state what they come to. It is "" for a pass.
func Explain(e record.Entry) string {
	if e.Passed {
		return ""
	}
	var out []string
	if m := redact.EscapeShort(e.FailureMessage, maxSaid); m != "" {
		out = append(out, m)
	}
	text := []rune(strings.TrimSpace(redact.EscapeText(e.Candidate.Shown)))
	switch kind := e.Candidate.Kind; {
	case len(text) == 0 || kind == tasks.Workspace: // of a tree that is a digest
	case len(text) <= maxExcerpt:
		out = append(out, "It left:", string(text))
	case kind == tasks.Text:
		out = append(out, "What it left ends with:", "..."+string(text[len(text)-maxExcerpt:]))
	default:
		out = append(out, "What it left begins with:", string(text[:maxExcerpt])+"...")
	}
	return strings.Join(out, "\n")
}

// replaced counts the records that resumes did not keep, and those that were gone.
func replaced(resumes []record.Resumption) (n int) {
	const most = 1 << 30 // anybody can have written it
	for _, r := range resumes {
		for reason, lines := range r.Rerun {
			if reason != record.BrokenSeal {
				n = min(n+min(max(lines, 0), most), most)
			}
		}
	}
	return n
}

// votes are those of a judge in a record.
func votes(j *verdict.Judgement) Votes {
	if j == nil {
		return Votes{}
	}
	return Votes{Model: j.Model, Votes: len(j.Votes), Passed: j.Passed}
}

// canaries says in a word what came of trying a run's judge.
func canaries(j *record.Judging) string {
	switch {
	case j == nil:
		return ""
	case j.Canaries == nil:
		return "not tried"
	case j.Canaries.Fault() != "":
		return "failed"
	}
	return "passed"
}

// About describes a run that was checked: by whom it is signed, and what is wrong with
// it.
func About(res *evidence.Result, s evidence.Signer, judged error) Run {
	m := res.Manifest
	if m.RunID == "" && res.Sealed { // run.json cannot be read
		m.RunID, m.Planned = res.Statement.Predicate.RunID, record.Planned(res.Statement.Predicate.Planned)
	}
	r := Run{
		RunID: m.RunID, Agent: m.Agent, Model: m.Model, Started: m.Started, PackID: m.Pack.ID, PackVersion: m.Pack.Version, Engine: evidence.Engine(m),
		PlannedTasks: m.Planned.Tasks, PlannedAttempts: m.Planned.Attempts,
		LeftOut: m.Planned.LeftOut, PlannedJudged: m.Planned.Judged, Labels: m.Labels,
		Chosen: m.Selection.String(), Replaced: replaced(m.ResumedFrom),
		Verified: judged == nil, Evidence: SignedBy + s.Public(),
		AgentNote: evidence.AgentWords(m.Agent), Program: evidence.Programs(m), Build: evidence.Build(m),
	}
	r.Judge, r.Canaries = evidence.JudgeWords(m.Judge), canaries(m.Judge)
	if res.Sealed {
		r.Ended = res.Statement.Predicate.Ended
	}
	if judged != nil {
		r.Evidence = "NOT VERIFIED: " + judged.Error()
		if len(res.Problems) > 0 {
			r.Evidence += "; the first: " + res.Problems[0].String()
		}
	}
	return r
}

// Fact is a line about checking a run.
type Fact struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Facts are what a reader needs to check a run, escaped.
func Facts(res *evidence.Result, about Run) (out []Fact) {
	add := func(name, value string) {
		if value != "" {
			out = append(out, Fact{redact.Escape(name), redact.EscapeText(value)})
		}
	}
	m, s := res.Manifest, res.Statement
	add("evidence", about.Evidence)
	if res.Sealed {
		add("signed by", res.Signer.ID)
		add("ended", s.Predicate.Ended)
		add("Merkle root of the records", s.Predicate.MerkleRoot)
		for _, subject := range s.Subject {
			add("SHA-256 of "+subject.Name, subject.Digest["sha256"])
		}
	}
	add("started", m.Started)
	add("pack, public part", m.Digests.Public)
	add("pack, manifest", m.Digests.Manifest)
	add("configuration", m.Digests.Config)
	add("verifier", m.Digests.Verifier)
	return out
}
