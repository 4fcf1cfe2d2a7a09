package results

import (
	"errors"
	"fmt"
	"io"

	"securebench/cmd/securebench/subcommand"
	"securebench/internal/evidence"
	"securebench/internal/families"
	"securebench/internal/pipeline/record"
	"securebench/internal/report"
	"securebench/internal/transcript"
)

// written is a report that is written to files.
type written struct {
	run     *evidence.Run
	res     *evidence.Result
	report  *report.Report
	version string
}

// files writes those that the flags name.
func (p *written) files(f reportFlags) error {
	var errs []error
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{{f.html, p.page}, {f.junit, p.report.WriteJUnit}} {
		if file.name != "" {
			errs = append(errs, subcommand.WriteWhole(file.name, file.write))
		}
	}
	return errors.Join(errs...)
}

// page writes the report with every attempt as one page.
func (p *written) page(w io.Writer) error {
	attempts, err := p.attempts()
	if err != nil {
		return err
	}
	out := &report.Page{Report: p.report, Attempts: attempts, Facts: p.facts(), Version: p.version}
	return out.Write(w)
}

// attempts reads the records again, because their texts were too long to keep, and
// returns the attempts in the report's order, with the outcomes that it counts.
func (p *written) attempts() ([]report.PageAttempt, error) {
	counted := p.report.Counted()
	at := map[int]int{} // place in the page by line
	for i, a := range counted {
		at[a.Line] = i
	}
	out := make([]report.PageAttempt, len(counted))
	from := transcript.Source{Limit: report.TextLimit(int64(len(counted))), Brief: true}
	f, err := p.run.Open(record.LinesName)
	if err != nil {
		return nil, fmt.Errorf("reading the records again: %w", err)
	}
	defer f.Close()
	found := 0
	for raw, err := range record.Lines(f) {
		if err != nil {
			return nil, fmt.Errorf("reading the records again: %w", err)
		}
		i, ok := at[raw.Number]
		if !ok {
			continue
		}
		e, err := record.Decode(raw.Bytes)
		if err != nil || e.TaskID != counted[i].TaskID || e.Digests.Candidate != counted[i].Candidate {
			return nil, fmt.Errorf("%s changed while the report was written", record.LinesName)
		}
		a := report.PageAttempt{Attempt: transcript.Read(from, e.Line), Tags: counted[i].Tags}
		if a.Passed != counted[i].Passed {
			a.Contradicts(string(counted[i].Outcome))
		}
		out[i] = a
		found++
	}
	if found != len(counted) {
		return nil, fmt.Errorf("%s changed while the report was written", record.LinesName)
	}
	return out, nil
}

// facts are what a reader needs to check the run.
func (p *written) facts() (out []report.Fact) {
	add := func(name, value string) {
		if value != "" {
			out = append(out, report.Fact{Name: name, Value: value})
		}
	}
	m, s := p.res.Manifest, p.res.Statement
	add("evidence", p.report.Run.Evidence)
	if p.res.Sealed {
		add("signed by", p.res.Signer.ID)
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
	add("model", m.Model)
	for _, remark := range p.res.Remarks(families.All()) {
		add("to know", remark)
	}
	return out
}
