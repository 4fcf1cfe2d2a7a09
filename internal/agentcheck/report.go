package agentcheck

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"securebench/internal/console"
	"securebench/internal/gateway/access"
	"securebench/internal/gateway/relay"
	"securebench/internal/gateway/scripted"
	"securebench/internal/pipeline/produce"
	"securebench/internal/pipeline/record"
	"securebench/internal/verdict"
)

// Finding is one thing that an agent has to do.
type Finding struct {
	Step  string `json:"step"`
	Works bool   `json:"works"`
	Found string `json:"found"` // in words
}

// Report is how far an agent came, in order.
type Report struct {
	Agent    string    `json:"agent"`
	Version  string    `json:"version"`
	API      string    `json:"api"`
	Model    string    `json:"model"` // that it asked for
	Findings []Finding `json:"findings"`
}

// Works reports whether everything works.
func (r Report) Works() bool {
	for _, f := range r.Findings {
		if !f.Works {
			return false
		}
	}
	return len(r.Findings) > 0
}

// report says what a run found.
func (o Options) report(m record.Manifest, line *record.Line, requests []scripted.Request) Report {
	r := Report{Agent: o.Agent.Name, API: o.Agent.Providers[0].API, Model: m.Model}
	for _, by := range o.Agent.Providers {
		if by.API == o.API || access.Short(by.API) == o.API {
			r.API = by.API
		}
	}
	add := func(step string, works bool, found string) {
		r.Findings = append(r.Findings, Finding{step, works, found})
	}
	unless := func(step, why, found string) { add(step, why == "", cmp.Or(why, found)) }
	var programs []string
	for _, p := range m.Programs {
		programs = append(programs, fmt.Sprintf("%s %s %s, %s", p.Name, p.Version, p.Platform, console.ShortDigest(p.Digest)))
		if p.Name == o.Agent.Name {
			r.Version = p.Version
		}
	}
	add("program", r.Version != "", strings.Join(programs, "; "))
	add("starts", true, "in "+cmp.Or(o.Image, DefaultImage)+", which has nothing of it")
	unless("relay", relayed(line, r.API, requests), asked(line, r.API))
	if calls := line.Usage["tool_calls"]; !o.Agent.Work.Files {
		add("tools", calls > 0, console.Plural(int(calls), "call")+" of tools by its model")
	}
	if o.ACP || o.Agent.ACP != nil && len(o.Agent.Command) == 0 || o.Agent.Format() != nil {
		steps := line.Usage["steps"]
		add("output", steps > 0, console.Plural(int(steps), "step")+" in what it prints")
	}
	unless("ends", ended(line), "with exit code 0")
	add("candidate", left(line), candidate(line))
	add("score", line.Outcome == verdict.Passed, score(line))
	return r
}

// asked says how an agent spoke with its provider.
func asked(line *record.Line, api string) string {
	return fmt.Sprintf("%s, %s, of %s", console.Plural(int(line.Usage["requests"]), "request"), console.Plural(int(line.Usage[relay.Answers]), "answer"), api)
}

// relayed says why an agent and its provider did not understand each other, "" if they
// did. A refusal beside answers is no failure: agents ask for what they can do without.
func relayed(line *record.Line, api string, requests []scripted.Request) string {
	var why string
	_ = json.Unmarshal(line.ProducerMetadata[produce.RefusalKey], &why) // absent: ""
	switch {
	case line.Usage["requests"] == 0 && why == "":
		return "no request of the agent came to the relay"
	case line.Usage[relay.Answers] == 0 && why != "":
		return "the relay refused what it asked: " + why
	}
	for _, r := range requests {
		switch {
		case r.Refused != "" && len(r.Tools) > 0: // without tools it is for something beside the task, such as a title
			return "a provider would refuse what it asked: " + r.Refused
		case string(r.API) != api:
			return fmt.Sprintf("it asked in %s, and its description says %s", r.API, api)
		}
	}
	if line.Usage[relay.Answers] == 0 {
		return "no answer of the provider came to its end"
	}
	return ""
}

// ended says how an agent ended that did not end well.
func ended(line *record.Line) string {
	var code int
	_ = json.Unmarshal(line.ProducerMetadata["exit_code"], &code) // absent: 0
	switch {
	case line.FailurePhase == verdict.PhaseProduce, line.Outcome == verdict.NoCandidate && code != 0:
		return line.FailureMessage
	case code != 0:
		return fmt.Sprintf("with exit code %d", code)
	}
	return ""
}

// left reports whether an agent left a candidate with anything in it.
func left(line *record.Line) bool {
	return line.Digests.Candidate != "" && line.FailureReason != verdict.EmptyCandidate
}

// candidate says what an agent left.
func candidate(line *record.Line) string {
	if !left(line) {
		return "it left none"
	}
	var from string
	_ = json.Unmarshal(line.ProducerMetadata[record.OriginKey], &from)
	return fmt.Sprintf("%s of code, from %s, %s", console.Plural(len(line.Candidate.Shown), "byte"), from, console.ShortDigest(line.Digests.Candidate))
}

// score says what its candidate is worth.
func score(line *record.Line) string {
	if !left(line) {
		return "without a candidate there is none"
	}
	return cmp.Or(line.FailureMessage, string(line.Outcome))
}
