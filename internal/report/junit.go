package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"

	"securebench/internal/console"
	"securebench/internal/redact"
	"securebench/internal/verdict"
)

// The elements of JUnit XML that test dashboards read.
type (
	junitRun struct {
		XMLName xml.Name `xml:"testsuites"`
		Name    string   `xml:"name,attr"`
		// The sums are absent of a run in which some was computed and some was judged.
		Tests    *int         `xml:"tests,attr"`
		Failures *int         `xml:"failures,attr"`
		Errors   *int         `xml:"errors,attr"`
		Skipped  *int         `xml:"skipped,attr"`
		Time     string       `xml:"time,attr,omitempty"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Time       string          `xml:"time,attr"`
		Properties []junitProperty `xml:"properties>property,omitempty"`
		Cases      []junitCase     `xml:"testcase"`
		ms         int64
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Class      string          `xml:"classname,attr"`
		Name       string          `xml:"name,attr"`
		Time       string          `xml:"time,attr"`
		Properties []junitProperty `xml:"properties>property,omitempty"`
		Failure    *junitResult    `xml:"failure"`
		Error      *junitResult    `xml:"error"`
		Skipped    *junitResult    `xml:"skipped"`
	}
	junitResult struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Body    string `xml:",cdata"`
	}
)

// WriteJUnit writes the report as JUnit XML: a suite for each family, another for what of
// it was judged, and a test case for each attempt. An attempt without a verdict is skipped; infrastructure errors
// and planned attempts without a record are errors. The first suite has one case,
// which passes if the run verifies, so a dashboard cannot show an unverified run as
// green. Rows that were left out, and that no agent worked, are skipped cases and in
// the name of the whole.
func (r *Report) WriteJUnit(w io.Writer) error {
	suites := []*junitSuite{r.junitEvidence()}
	byFamily := map[string]*junitSuite{}
	suite := func(name string, basis verdict.Basis) *junitSuite {
		if basis == verdict.Judged {
			name += " (judged)"
		}
		if byFamily[name] == nil {
			byFamily[name] = &junitSuite{Name: redact.Escape(name)}
			suites = append(suites, byFamily[name])
		}
		return byFamily[name]
	}
	pack := redact.Escape(r.Run.PackID)
	for _, a := range r.attempts {
		suite(a.Family, a.Basis).add(r.junitAttempt(pack, a), a.TotalMS)
	}
	for _, m := range r.junitMissing() {
		suite(missingSuite, m.basis).add(missingCase(pack, m.name), 0)
	}
	all := junitRun{Name: strings.Join(append([]string{"securebench " + redact.Escape(r.Run.RunID)}, r.junitNotes()...), ", ")}
	if len(r.sections()) == 1 {
		all.sum(suites)
	}
	for _, s := range suites {
		s.Time = seconds(s.ms)
		all.Suites = append(all.Suites, *s)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// sum adds up suites of one basis.
func (r *junitRun) sum(suites []*junitSuite) {
	var tests, failures, errors, skipped int
	ms := int64(0)
	for _, s := range suites {
		tests, failures, errors, skipped = tests+s.Tests, failures+s.Failures, errors+s.Errors, skipped+s.Skipped
		ms += s.ms
	}
	r.Tests, r.Failures, r.Errors, r.Skipped, r.Time = &tests, &failures, &errors, &skipped, seconds(ms)
}

const (
	missingSuite = "without a record"
	maxMissing   = 1000 // cases; how many attempts are planned is whatever the manifest says
	// maxMissingName bounds an id that is repeated in those cases, in characters.
	maxMissingName = 200
)

// missingName is the name of a case for what has no record.
type missingName struct {
	basis verdict.Basis
	name  string
}

// junitMissing names the cases for what is planned and has no record: at most
// maxMissing of each basis, and one for the rest.
func (r *Report) junitMissing() (names []missingName) {
	for _, s := range r.sections() {
		before, more := len(names), 0
		add := func(n int, name func(i int) string) {
			shown := min(n, maxMissing-(len(names)-before))
			more += n - shown
			for i := range shown {
				names = append(names, missingName{s.basis, name(i + 1)})
			}
		}
		for _, u := range r.Unpassed {
			if u.Basis != s.basis {
				continue
			}
			add(u.Missing, func(i int) string {
				return fmt.Sprintf("%s, missing %d", redact.EscapeShort(u.TaskID, maxMissingName), i)
			})
		}
		add(s.missing, func(i int) string { return fmt.Sprintf("task without any record %d of %d", i, s.missing) })
		if more > 0 {
			names = append(names, missingName{s.basis, fmt.Sprintf("and %d more", more)})
		}
	}
	return names
}

// junitNotes are what no reader should miss in a run that verifies.
func (r *Report) junitNotes() (notes []string) {
	if n := r.Run.LeftOut; n > 0 {
		note := fmt.Sprintf("%d of %s were left out", n, console.Plural(n+r.Run.PlannedTasks, "row"))
		if r.Run.Chosen != "" {
			note += " (chosen by " + redact.EscapeShort(r.Run.Chosen, maxEvidence) + ")"
		}
		notes = append(notes, note)
	}
	if note := r.NoAgentWorked(); note != "" {
		notes = append(notes, note)
	}
	return notes
}

// junitEvidence is the suite that passes if the run verifies.
func (r *Report) junitEvidence() *junitSuite {
	run := r.Run
	c := junitCase{Class: "securebench", Name: "the run verifies", Time: seconds(0)}
	if !run.Verified {
		c.Failure = &junitResult{Message: redact.Escape(run.Evidence), Type: "not verified"}
	}
	cost := ""
	if c := r.Usage.MicroUSD; c != nil {
		cost = strconv.FormatInt(*c, 10)
	}
	s := &junitSuite{Name: "securebench verify"}
	s.add(c, 0)
	for _, note := range r.junitNotes() {
		s.add(junitCase{Class: c.Class, Name: note, Time: c.Time, Skipped: &junitResult{Message: note}}, 0)
	}
	properties := []junitProperty{{"run_id", run.RunID}, {"agent", run.Agent}, {"agent_note", run.AgentNote}, {"model", run.Model}, {"program", run.Program}, {"build", run.Build}, {"pack", run.PackID}, {"pack_version", strconv.FormatInt(run.PackVersion, 10)},
		{"engine", run.Engine}, {"evidence", run.Evidence}, {"rows_left_out", strconv.Itoa(run.LeftOut)},
		{"requests", strconv.FormatInt(r.Usage.Requests, 10)}, {"input_tokens", strconv.FormatInt(r.Usage.InputTokens, 10)}, {"output_tokens", strconv.FormatInt(r.Usage.OutputTokens, 10)}, {"cost_microusd", cost}, {"judge", run.Judge}, {"judge_canaries", run.Canaries}}
	for _, section := range r.sections() {
		properties = append(properties, section.junitFigures()...)
	}
	for _, p := range properties {
		if p.Value == "" {
			continue
		}
		s.Properties = append(s.Properties, junitProperty{p.Name, redact.Escape(p.Value)})
	}
	return s
}

// junitFigures are the rate and the measures, with a name of their own for what was
// judged.
func (s *Section) junitFigures() []junitProperty {
	prefix := ""
	if s.basis == verdict.Judged {
		prefix = "judged_"
	}
	out := []junitProperty{{prefix + "pass_rate", number(s.Total.PassRate)}, {prefix + "interval_95", s.Total.Interval.String() + " %"},
		{prefix + "containment", s.Total.Containment.String()}}
	for _, m := range s.Measures {
		out = append(out, junitProperty{prefix + "measure." + redact.Escape(m.Name), fmt.Sprintf("%s, mean of %d (%s)", number(m.Value), m.Attempts, m.Of)})
	}
	for _, b := range s.Biases {
		out = append(out, junitProperty{prefix + "bias." + redact.Escape(b.Name), b.of()})
	}
	return out
}

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// junitFacts are a judge's votes on an attempt, and the measure of a pass, which its
// record shows.
func junitFacts(a Attempt) (out []junitProperty) {
	if a.Basis == verdict.Judged {
		out = append(out, junitProperty{"basis", a.Basis.String()})
	}
	if a.read != "" {
		out = append(out, junitProperty{verdict.JudgeRead, string(a.read)})
	}
	if v := a.Judge; v.Votes > 0 {
		out = append(out, junitProperty{"judge", redact.Escape(v.Model)}, junitProperty{"judge_votes", fmt.Sprintf("%d of %d", v.Passed, v.Votes)})
	}
	if a.Passed && a.Measure != nil {
		out = append(out, junitProperty{"measure." + redact.Escape(a.Measure.Name), number(a.Measure.Value)})
	}
	return out
}

func (r *Report) junitAttempt(pack string, a Attempt) junitCase {
	c := junitCase{Class: pack + "." + redact.Escape(a.Family), Name: redact.Escape(a.TaskID), Time: seconds(a.TotalMS), Properties: junitFacts(a)}
	if r.Run.PlannedAttempts > 1 {
		c.Name += ", attempt " + strconv.Itoa(a.Attempt)
	}
	why := strings.TrimSuffix(fmt.Sprintf("%s: %s", redact.Escape(string(a.Outcome)), redact.Escape(string(a.Reason))), ": ")
	result := &junitResult{Message: why, Type: redact.Escape(string(a.Reason)), Body: why}
	if a.Said != "" {
		result.Body += "\n" + redact.EscapeText(a.Said)
	}
	switch {
	case a.Passed:
	case a.Outcome == verdict.Infrastructure:
		c.Error = result
	case a.Outcome == verdict.Pending || a.Status == verdict.StatusPending:
		c.Skipped = &junitResult{Message: why, Body: result.Body}
	default:
		c.Failure = result
	}
	return c
}

func missingCase(pack, name string) junitCase {
	return junitCase{Class: pack, Name: name, Time: seconds(0), Error: &junitResult{Message: "a planned attempt has no record", Type: string(missing)}}
}

func (s *junitSuite) add(c junitCase, ms int64) {
	s.Cases = append(s.Cases, c)
	s.Tests++
	s.ms += ms
	switch {
	case c.Failure != nil:
		s.Failures++
	case c.Error != nil:
		s.Errors++
	case c.Skipped != nil:
		s.Skipped++
	}
}

func seconds(ms int64) string { return strconv.FormatFloat(float64(ms)/1000, 'f', 3, 64) }
