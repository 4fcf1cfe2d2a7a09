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
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Skipped  int          `xml:"skipped,attr"`
		Time     string       `xml:"time,attr"`
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
		Class   string       `xml:"classname,attr"`
		Name    string       `xml:"name,attr"`
		Time    string       `xml:"time,attr"`
		Failure *junitResult `xml:"failure"`
		Error   *junitResult `xml:"error"`
		Skipped *junitResult `xml:"skipped"`
	}
	junitResult struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
	}
)

// WriteJUnit writes the report as JUnit XML: a suite for each family, a test case
// for each attempt. An attempt without a verdict is skipped; infrastructure errors
// and planned attempts without a record are errors. The first suite has one case,
// which passes if the run verifies, so a dashboard cannot show an unverified run as
// green. Rows that were left out, and that no agent worked, are skipped cases and in
// the name of the whole.
func (r *Report) WriteJUnit(w io.Writer) error {
	suites := []*junitSuite{r.junitEvidence()}
	byFamily := map[string]*junitSuite{}
	suite := func(name string) *junitSuite {
		if byFamily[name] == nil {
			byFamily[name] = &junitSuite{Name: redact.Escape(name)}
			suites = append(suites, byFamily[name])
		}
		return byFamily[name]
	}
	pack := redact.Escape(r.Run.PackID)
	for _, a := range r.attempts {
		suite(a.Family).add(r.junitAttempt(pack, a), a.TotalMS)
	}
	for _, name := range r.junitMissing() {
		suite(missingSuite).add(missingCase(pack, name), 0)
	}
	all := junitRun{Name: strings.Join(append([]string{"securebench " + redact.Escape(r.Run.RunID)}, r.junitNotes()...), ", ")}
	ms := int64(0)
	for _, s := range suites {
		s.Time = seconds(s.ms)
		all.Tests, all.Failures, all.Errors, all.Skipped = all.Tests+s.Tests, all.Failures+s.Failures, all.Errors+s.Errors, all.Skipped+s.Skipped
		ms += s.ms
		all.Suites = append(all.Suites, *s)
	}
	all.Time = seconds(ms)
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

const (
	missingSuite = "without a record"
	maxMissing   = 1000 // cases; how many attempts are planned is whatever the manifest says
	// maxMissingName bounds an id that is repeated in those cases, in characters.
	maxMissingName = 200
)

// junitMissing names the cases for what is planned and has no record: at most
// maxMissing, and one for the rest.
func (r *Report) junitMissing() (names []string) {
	more := 0
	add := func(n int, name func(i int) string) {
		shown := min(n, maxMissing-len(names))
		more += n - shown
		for i := range shown {
			names = append(names, name(i+1))
		}
	}
	for _, u := range r.Unpassed {
		add(u.Missing, func(i int) string {
			return fmt.Sprintf("%s, missing %d", redact.EscapeShort(u.TaskID, maxMissingName), i)
		})
	}
	add(r.TasksMissing, func(i int) string { return fmt.Sprintf("task without any record %d of %d", i, r.TasksMissing) })
	if more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
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
	for _, p := range []junitProperty{{"run_id", run.RunID}, {"agent", run.Agent}, {"agent_note", run.AgentNote}, {"model", run.Model}, {"program", run.Program}, {"build", run.Build}, {"pack", run.PackID}, {"pack_version", strconv.FormatInt(run.PackVersion, 10)},
		{"engine", run.Engine}, {"evidence", run.Evidence}, {"rows_left_out", strconv.Itoa(run.LeftOut)}, {"pass_rate", strconv.FormatFloat(r.Total.PassRate, 'f', -1, 64)},
		{"interval_95", r.Total.Interval.String() + " %"}, {"containment", r.Total.Containment.String()},
		{"requests", strconv.FormatInt(r.Usage.Requests, 10)}, {"input_tokens", strconv.FormatInt(r.Usage.InputTokens, 10)}, {"output_tokens", strconv.FormatInt(r.Usage.OutputTokens, 10)}, {"cost_microusd", cost}} {
		if p.Value == "" {
			continue
		}
		s.Properties = append(s.Properties, junitProperty{p.Name, redact.Escape(p.Value)})
	}
	return s
}

func (r *Report) junitAttempt(pack string, a Attempt) junitCase {
	c := junitCase{Class: pack + "." + redact.Escape(a.Family), Name: redact.Escape(a.TaskID), Time: seconds(a.TotalMS)}
	if r.Run.PlannedAttempts > 1 {
		c.Name += ", attempt " + strconv.Itoa(a.Attempt)
	}
	why := strings.TrimSuffix(fmt.Sprintf("%s: %s", redact.Escape(string(a.Outcome)), redact.Escape(string(a.Reason))), ": ")
	result := &junitResult{Message: why, Type: redact.Escape(string(a.Reason))}
	switch {
	case a.Passed:
	case a.Outcome == verdict.Infrastructure:
		c.Error = result
	case a.Outcome == verdict.Pending || a.Status == verdict.StatusPending:
		c.Skipped = &junitResult{Message: why}
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
