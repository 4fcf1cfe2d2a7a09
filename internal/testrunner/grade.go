package testrunner

import (
	"errors"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/sandbox"
	"securebench/internal/testrunner/results"
	"securebench/internal/verdict"
)

// Grade is what the tests say.
type Grade struct {
	Outcome  verdict.Outcome
	Reason   verdict.Reason
	Message  string   // one line without anything of the candidate or the tests
	Labels   []string // e.g. "text_report"
	Metadata map[string]any
	// Restricted holds results by test id, never published, by file name.
	Restricted map[string][]byte
}

// textReport labels a verdict that rests on text which candidate code could
// have written.
const textReport = "text_report"

func failed(reason verdict.Reason, message string) Grade {
	return Grade{Outcome: verdict.Failed, Reason: reason, Message: message}
}

// Grade decides by the results.
func (p *Plan) Grade(r Ran) Grade {
	if r.End != sandbox.Exited {
		return limited(r.End)
	}
	report, err := p.read(r)
	if report == nil && err == nil {
		if r.ExitCode == 0 {
			return Grade{Outcome: verdict.Passed, Metadata: map[string]any{}}
		}
		g := failed(verdict.TestsFailed, "the test command ended with an exit status other than 0")
		g.Metadata = map[string]any{}
		return g
	}
	s := p.sort(report)
	g := s.decide(r, err)
	s.describe(&g)
	return g
}

// limited is the grade of a run that a limit ended.
func limited(end sandbox.End) Grade {
	g := Grade{Outcome: verdict.Limit, Reason: verdict.Reason(end), Message: "the test run ran into its limit: " + string(end),
		Metadata: map[string]any{}}
	switch end {
	case sandbox.TimedOut:
		g.Outcome, g.Reason, g.Message = verdict.VerifierTimeout, verdict.VerificationTimeout, "the test run ran out of time"
	case sandbox.OutOfMemory, sandbox.PidsLimit, sandbox.DiskLimit, sandbox.OutputLimit:
	default:
		g = failed(verdict.WorkerExited, "the test run was ended")
		g.Metadata = map[string]any{}
	}
	return g
}

// read returns the report of a run, or nil if the exit code is all there is.
func (p *Plan) read(r Ran) (*results.Report, error) {
	if p.driver != "" {
		return results.Channel(r.Stdout, p.key)
	}
	if !p.text() {
		return nil, nil
	}
	if r.Truncated {
		return &results.Report{}, errTruncated
	}
	return results.Text(p.tests.Runner, r.Stdout)
}

// text reports whether the verdict rests on text.
func (p *Plan) text() bool {
	return p.driver == "" && slices.Contains([]string{"go", "junit", "tap"}, p.tests.Runner)
}

var errTruncated = errors.New("the report is longer than its limit")

// sorted is a report, divided into the tests of the row and the canaries.
type sorted struct {
	plan     *Plan
	report   *results.Report
	tests    *index
	canaries *index
	lost     []string // canaries without a result
	beaten   []string // canaries that did not fail
}

// sort divides a report.
func (p *Plan) sort(report *results.Report) *sorted {
	s := &sorted{plan: p, report: report}
	mine := map[string]bool{}
	for _, c := range p.canaries {
		for _, id := range c.ids {
			mine[id] = true
		}
	}
	var tests, canaries []results.Test
	for _, t := range report.Tests {
		if mine[t.ID] {
			canaries = append(canaries, t)
		} else {
			tests = append(tests, t)
		}
	}
	report.Tests = tests
	s.tests, s.canaries = newIndex(tests), newIndex(canaries)
	for _, c := range p.canaries {
		for _, id := range c.ids {
			switch found := s.canaries.statuses(id); {
			case len(found) != 1 || found[0] == "":
				s.lost = append(s.lost, id)
			case found[0] != results.Failed && found[0] != results.Error:
				s.beaten = append(s.beaten, id)
			}
		}
	}
	return s
}

// decide grades a report. The order matters: what makes a report worthless
// comes before what it says.
func (s *sorted) decide(r Ran, err error) Grade {
	p, exit := s.plan, s.report.Exit
	if p.driver == "" {
		exit = r.ExitCode
	}
	switch {
	case errors.Is(err, errTruncated), errors.Is(err, results.ErrUnfinished) && r.Truncated:
		return limited(sandbox.OutputLimit)
	case errors.Is(err, results.ErrUnfinished):
		return failed(verdict.WorkerExited, "the test run ended before its report was complete")
	case err != nil:
		return failed(verdict.ProtocolViolation, "the report of the test run breaks its form")
	case exit != r.ExitCode:
		return failed(verdict.WorkerExited, "the test run ended with another exit status than it reported")
	case len(s.beaten) > 0:
		return Grade{Outcome: verdict.Tampering, Message: "a test that must fail did not: the candidate interferes with the tests"}
	case p.driver != "" && exit > 1:
		return failed(verdict.TestsFailed, "the test run did not come to its regular end")
	case len(s.lost) > 0 && len(s.report.Broken) == 0:
		return Grade{Outcome: verdict.Tampering, Message: "a test that must fail was not run: the candidate interferes with the tests"}
	case len(s.lost) > 0:
		return failed(verdict.TestsFailed, "the test run could not load all test files")
	case !s.report.Explained(exit):
		return failed(verdict.TestsFailed, "no reported result explains the exit status of the test run")
	}
	return s.named(exit)
}

// named grades by the row's tests, or by all if it names none.
func (s *sorted) named(exit int) Grade {
	t := s.plan.tests
	if !t.Named() {
		ran := slices.ContainsFunc(s.report.Tests, func(t results.Test) bool { return t.Status == results.Passed })
		if exit != 0 || !ran {
			return failed(verdict.TestsFailed, "not every test passed, or none was run")
		}
		return Grade{Outcome: verdict.Passed}
	}
	f, p := s.passed(t.FailToPass, nil), s.passed(t.PassToPass, t.Expected)
	if f < len(t.FailToPass) || p < len(t.PassToPass) {
		return failed(verdict.TestsFailed, "not every named test passed")
	}
	return Grade{Outcome: verdict.Passed}
}

// passed counts the tests that did what they must.
func (s *sorted) passed(ids []string, expected map[string]string) (n int) {
	for _, id := range ids {
		if s.tests.kept(id, expected[id]) {
			n++
		}
	}
	return n
}

// describe adds what is recorded beside the decision.
func (s *sorted) describe(g *Grade) {
	t := s.plan.tests
	if s.plan.text() {
		g.Labels = []string{textReport}
	}
	if t.Form.None && s.plan.driver != "" {
		g.Labels = append(g.Labels, noCanaries)
	}
	total := 0
	for _, c := range s.plan.canaries {
		total += len(c.ids)
	}
	g.Metadata = map[string]any{
		"fail_to_pass_passed": s.passed(t.FailToPass, nil), "fail_to_pass_total": len(t.FailToPass),
		"pass_to_pass_passed": s.passed(t.PassToPass, t.Expected), "pass_to_pass_total": len(t.PassToPass),
		"canaries_failed": total - len(s.lost) - len(s.beaten), "canaries_total": total,
	}
	var missing []string
	for _, id := range slices.Concat(t.FailToPass, t.PassToPass) {
		if len(s.tests.statuses(id)) == 0 {
			missing = append(missing, id)
		}
	}
	text, err := json.Marshal(resultFile{
		Tests: s.report.Tests, Broken: s.report.Broken, Missing: missing,
		Canaries: s.canaries.tests, Lost: s.lost, Beaten: s.beaten, Exit: s.report.Exit,
	}, json.Deterministic(true), jsontext.AllowInvalidUTF8(true), json.FormatNilSliceAsNull(false), jsontext.Multiline(true))
	if err == nil { // plain data always encodes
		g.Restricted = map[string][]byte{"test-results.json": text}
	}
}
