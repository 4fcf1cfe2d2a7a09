package report_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"testing"

	"securebench/internal/pipeline/record"
	"securebench/internal/report"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// TestJUnit: the XML counts every planned attempt once, is well-formed whatever the
// records contain, and is red for a run that does not verify.
func TestJUnit(t *testing.T) {
	hostile := "a\x00\x1b]]>&<b\xff\ud7ff\ufffe"
	b := report.NewBuilder(report.Run{RunID: hostile, PackID: hostile, Evidence: "NOT VERIFIED: " + hostile, PlannedTasks: 6, PlannedAttempts: 2})
	add := func(task string, n int, status verdict.Status, outcome verdict.Outcome, reason verdict.Reason) {
		b.Add(report.Attempt{TaskID: task, Attempt: n, Family: hostile, Status: status, Outcome: outcome, Reason: reason, Passed: outcome == verdict.Passed, TotalMS: 1500, Said: "the tests failed\n" + hostile})
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
	if n := strings.Count(out.String(), "the tests failed\n"); n != 4 { // of all but the pass
		t.Errorf("%d bodies say why:\n%s", n, out.String())
	}
	if strings.ContainsAny(out.String(), "\x00\x1b\ufffd") {
		t.Errorf("control characters: %q", out.String())
	}
}

// TestJUnitIsBounded: a manifest that plans more attempts than anybody made does not
// make a file without end, and what is not listed is counted.
func TestJUnitIsBounded(t *testing.T) {
	b := report.NewBuilder(report.Run{RunID: "r", PackID: "p", Verified: true, PlannedTasks: 1 << 30, PlannedAttempts: 1 << 20})
	for i := range 3 {
		b.Add(report.Attempt{TaskID: fmt.Sprint("t", i, strings.Repeat("x", 10_000)), Index: i, Attempt: 1, Status: verdict.StatusPassed, Outcome: verdict.Passed, Passed: true})
	}
	var out bytes.Buffer
	if err := b.Report().WriteJUnit(&out); err != nil {
		t.Fatal(err)
	}
	more := 3*(1<<20-1) + 1<<30 - 3 - 1000
	if n := strings.Count(out.String(), "<testcase "); n != 1+3+1000+1 || !strings.Contains(out.String(), fmt.Sprintf(`name="and %d more"`, more)) || out.Len() > 1<<20 {
		t.Errorf("%d cases in %d bytes, want that %d more are counted", n, out.Len(), more)
	}
}

// TestJUnitNotes: rows that were left out and a run in which no agent worked are
// named, and skipped; another run has no such case.
func TestJUnitNotes(t *testing.T) {
	write := func(run report.Run, reason verdict.Reason) string {
		t.Helper()
		run.RunID, run.Verified, run.PlannedTasks, run.PlannedAttempts = "r", true, 1, 1
		b := report.NewBuilder(run)
		b.Add(report.Attempt{TaskID: "t", Attempt: 1, Status: verdict.StatusFailed, Outcome: verdict.NoCandidate, Reason: reason, AgentExit: 1})
		var out bytes.Buffer
		if err := b.Report().WriteJUnit(&out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	const left, none = "3 of 4 rows were left out (chosen by --sample 1)", "NO AGENT WORKED: each of 1 agent ended with an error and left no candidate"
	got := write(report.Run{LeftOut: 3, Chosen: "--sample 1"}, verdict.AgentFailed)
	for _, want := range []string{`<testsuites name="securebench r, ` + left + ", " + none + `" tests="4" failures="1" errors="0" skipped="2"`,
		`name="` + left + `"`, `<skipped message="` + left + `">`, `<skipped message="` + none + `">`} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if got := write(report.Run{}, verdict.NoJudge); !strings.Contains(got, `<testsuites name="securebench r" tests="2"`) || strings.Contains(got, "<skipped") {
		t.Errorf("notes of a run that needs none:\n%s", got)
	}
}

// TestExplain: of an attempt that did not pass, what its record says and shows of it; of an
// answer the end.
func TestExplain(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 700)
	for _, tt := range []struct {
		kind        task.CandidateKind
		shown, want string
		passed      bool
	}{
		{task.Text, "so it is\nB\x1b", "wrong\nIt left:\nso it is\nB\\x1b", false},
		{task.Text, "begin" + long + "end", "wrong\nWhat it left ends with:\n..." + long[:597] + "end", false},
		{task.Code, "begin" + long + "end", "wrong\nWhat it left begins with:\nbegin" + long[:595] + "...", false},
		{task.Workspace, "sha256:0", "wrong", false},
		{task.Text, "B", "", true},
	} {
		e := record.Entry{Line: &record.Line{Passed: tt.passed, FailureMessage: "wrong", Candidate: record.Candidate{Kind: tt.kind, Shown: tt.shown}}}
		if got := report.Explain(e); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.shown, got, tt.want)
		}
	}
}
