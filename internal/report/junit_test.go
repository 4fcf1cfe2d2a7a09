package report_test

import (
	"bytes"
	"encoding/xml"
	"strings"
	"testing"

	"securebench/internal/report"
	"securebench/internal/verdict"
)

// TestJUnit: the XML counts every planned attempt once, is well-formed whatever the
// records contain, and is red for a run that does not verify.
func TestJUnit(t *testing.T) {
	hostile := "a\x00\x1b]]>&<b\xff\ud7ff\ufffe"
	b := report.NewBuilder(report.Run{RunID: hostile, PackID: hostile, Evidence: "NOT VERIFIED: " + hostile, PlannedTasks: 6, PlannedAttempts: 2})
	add := func(task string, n int, status verdict.Status, outcome verdict.Outcome, reason verdict.Reason) {
		b.Add(report.Attempt{TaskID: task, Attempt: n, Family: hostile, Status: status, Outcome: outcome, Reason: reason, Passed: outcome == verdict.Passed, TotalMS: 1500})
	}
	add("one", 1, verdict.StatusPassed, verdict.Passed, "")
	add("one", 2, verdict.StatusFailed, verdict.Failed, verdict.Reason(hostile))
	add("two"+hostile, 1, verdict.StatusPending, verdict.Infrastructure, verdict.InfrastructureError)
	add("three", 1, verdict.StatusPending, verdict.Pending, verdict.NoJudge)
	add("three", 2, verdict.StatusPassed, verdict.Failed, "") // contradicts itself
	var out bytes.Buffer
	if err := b.Report().WriteJUnit(&out); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Skipped  int `xml:"skipped,attr"`
		Suites   []struct {
			Name  string `xml:"name,attr"`
			Tests int    `xml:"tests,attr"`
			Cases []struct {
				Name string `xml:"name,attr"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	// Besides the five records: the check of the run, the missing second attempt of
	// two, and a case for each of the three tasks without any record.
	if got.Tests != 1+5+1+3 || got.Failures != 1+2 || got.Errors != 1+1+3 || got.Skipped != 1 {
		t.Errorf("%+v", got)
	}
	for _, s := range got.Suites {
		if s.Tests != len(s.Cases) {
			t.Errorf("%s: %d tests, %d cases", s.Name, s.Tests, len(s.Cases))
		}
	}
	if strings.ContainsAny(out.String(), "\x00\x1b\ufffd") {
		t.Errorf("control characters: %q", out.String())
	}
}
