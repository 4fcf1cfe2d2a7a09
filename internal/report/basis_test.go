package report_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"securebench/internal/report"
	"securebench/internal/verdict"
)

// exports are what a report looks like in every form but CSV, which has a row for each
// record and no figure about several.
func exports(t interface {
	Helper()
	Fatal(args ...any)
}, r *report.Report) map[string]string {
	t.Helper()
	out := map[string]string{}
	write := func(name string, err error, b *bytes.Buffer) {
		if err != nil {
			t.Fatal(err)
		}
		out[name] = b.String()
	}
	var table, object, xml, page bytes.Buffer
	write("table", r.WriteTable(&table), &table)
	write("json", r.WriteJSON(&object), &object)
	write("junit", r.WriteJUnit(&xml), &xml)
	view, err := json.Marshal(r.View())
	page.Write(view)
	write("page", err, &page)
	return out
}

// figures are the rates, intervals and counts of passes in an export.
var figures = map[string]*regexp.Regexp{
	"table": regexp.MustCompile(`\d+ of \d+ attempts?:|\t?\d+/\d+|\d+\.\d %|\d+ failed, \d+ pending`),
	"json":  regexp.MustCompile(`"(?:passed|failed|pass_rate|pass_at_k|pass_hat_k|mean)": [0-9.]+`),
	"junit": regexp.MustCompile(`<testsuites [^>]*|(?:pass_rate|interval_95|measure[^"]*)" value="[^"]*"`),
	"page":  regexp.MustCompile(`"(?:rate|range|passed|failed)":[^,}]*|\d+\.\d %`),
}

// sums returns what figures an export has that neither of two others has.
func sums(name, whole string, parts ...string) (out []string) {
	known := map[string]bool{}
	normal := func(s string) string {
		return strings.NewReplacer("judged_", "", "JUDGED", "", `"judged":`, "").Replace(s)
	}
	for _, part := range parts {
		for _, f := range figures[name].FindAllString(normal(part), -1) {
			known[f] = true
		}
	}
	for _, f := range figures[name].FindAllString(normal(whole), -1) {
		if !known[f] && f != `<testsuites name="securebench 2026-01-02-demo"` {
			out = append(out, f)
		}
	}
	return out
}

// apart returns the reports of a run's tasks of each basis by themselves, as if all of
// them had been computed.
func apart(run report.Run, all []report.Attempt) (out verdict.ByBasis[*report.Report]) {
	for _, basis := range verdict.Bases() {
		part := run
		part.PlannedTasks, part.PlannedJudged = run.PlannedTasks-run.PlannedJudged, 0
		if basis == verdict.Judged {
			part.PlannedTasks = run.PlannedJudged
		}
		var of []report.Attempt
		for _, a := range all {
			if a.Basis == basis {
				a.Basis = verdict.Computed
				of = append(of, a)
			}
		}
		*out.Of(basis) = build(part, of...)
	}
	return out
}

// TestNothingAddsWhatWasJudged: over random records, every figure of every export is one
// of what was computed by itself, or of what was judged by itself.
func TestNothingAddsWhatWasJudged(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		run := plan(0, rapid.IntRange(1, 3).Draw(t, "attempts"))
		var all []report.Attempt
		for i := range rapid.IntRange(1, 14).Draw(t, "tasks") {
			basis := rapid.SampledFrom(verdict.Bases()).Draw(t, "basis")
			run.PlannedTasks++
			if basis == verdict.Judged {
				run.PlannedJudged++
			}
			for n := 1; n <= run.PlannedAttempts; n++ {
				a := pass(i, n)
				a.Basis, a.Family = basis, rapid.SampledFrom([]string{"math", "prose"}).Draw(t, "family")
				switch rapid.IntRange(0, 4).Draw(t, "end") {
				case 0:
					a = fail(a, verdict.Failed, verdict.WrongAnswer)
				case 1:
					a = fail(a, verdict.Pending, verdict.NoJudge)
				case 2:
					continue // without a record
				}
				a.Measure = &verdict.Measure{Name: "checker", Value: float64(rapid.IntRange(0, 8).Draw(t, "measure")) / 8}
				all = append(all, a)
			}
		}
		both, parts := build(run, all...), apart(run, all)
		if rapid.Bool().Draw(t, "operator") {
			both = both.Measured()
			for _, basis := range verdict.Bases() {
				*parts.Of(basis) = (*parts.Of(basis)).Measured()
			}
		}
		whole := exports(t, both)
		computed, judged := exports(t, *parts.Of(verdict.Computed)), exports(t, *parts.Of(verdict.Judged))
		for name := range figures {
			if found := sums(name, whole[name], computed[name], judged[name]); len(found) > 0 {
				t.Errorf("%s: %q are figures of both", name, found)
			}
		}
		same(t, both.Section, (*parts.Of(verdict.Computed)).Section)
		if both.Judged != nil {
			same(t, *both.Judged, (*parts.Of(verdict.Judged)).Section)
		} else if run.PlannedJudged > 0 {
			t.Error("what was judged is not shown")
		}
	})
}

func same(t *rapid.T, got, want report.Section) {
	a, err := json.Marshal(got)
	b, _ := json.Marshal(want)
	if err != nil || !bytes.Equal(a, b) {
		t.Errorf("in a run of both:\n%s\nby itself:\n%s", a, b)
	}
}

// TestSumsAreFound: of a run that takes what was judged for computed, as a former version
// of a record would, each form shows figures that are of both.
func TestSumsAreFound(t *testing.T) {
	t.Parallel()
	run := plan(5, 1)
	run.PlannedJudged = 3
	judged := func(a report.Attempt) report.Attempt {
		a.Basis = verdict.Judged
		return a
	}
	all := []report.Attempt{pass(0, 1), fail(pass(1, 1), verdict.Failed, verdict.WrongAnswer), judged(pass(2, 1)), judged(pass(3, 1)), judged(pass(4, 1))}
	parts := apart(run, all)
	computed, ofJudge := exports(t, *parts.Of(verdict.Computed)), exports(t, *parts.Of(verdict.Judged))
	whole := exports(t, build(run, all...))
	for i := range all {
		all[i].Basis = verdict.Computed
	}
	run.PlannedJudged = 0
	weak := exports(t, build(run, all...))
	for name := range figures {
		if len(sums(name, weak[name], computed[name], ofJudge[name])) == 0 {
			t.Errorf("%s: no figure of both is found where all are", name)
		}
		if found := sums(name, whole[name], computed[name], ofJudge[name]); len(found) > 0 {
			t.Errorf("%s: %q", name, found)
		}
	}
	for form, wants := range map[string][]string{
		"table": {"TOTAL, COMPUTED\n  passed      1 of 2 attempts", "TOTAL, JUDGED\n  passed      3 of 3 attempts", "judge     none: tasks that ask for one have no verdict"},
		"junit": {`<testsuites name="securebench 2026-01-02-demo">`, `<testsuite name="math" tests="2"`, `<testsuite name="math (judged)" tests="3"`, `name="judged_pass_rate" value="1"`, `name="pass_rate" value="0.5"`},
		"page":  {`"title":"Result, computed"`, `"title":"Result, judged"`},
	} {
		for _, want := range wants {
			if !strings.Contains(whole[form], want) {
				t.Errorf("%s: no %q in\n%s", form, want, whole[form])
			}
		}
	}
}

// TestOneBasisATask: a record that says another basis than its task's first, or than its
// labels, is no pass of what was computed.
func TestOneBasisATask(t *testing.T) {
	t.Parallel()
	first, other := pass(0, 1), pass(0, 2)
	first.Basis = verdict.Judged
	r := build(plan(1, 2), first, other)
	if r.Total.Passed != 0 || r.Judged.Total.Passed != 1 || r.Judged.Total.Attempts != 2 {
		t.Errorf("%+v, judged %+v", r.Total, r.Judged.Total)
	}
	labelled := pass(0, 1)
	labelled.Labels = []string{verdict.JudgedLabel}
	if r := build(plan(1, 1), labelled); r.Total.Passed != 0 || r.Judged.Total.Passed != 1 {
		t.Errorf("%+v, judged %+v", r.Total, r.Judged)
	}
}

// TestCSVBasis: each row says what decided, and of a judge its name, votes and canaries.
func TestCSVBasis(t *testing.T) {
	t.Parallel()
	run := plan(2, 1)
	run.PlannedJudged, run.Canaries = 1, "passed"
	a := pass(1, 1)
	a.Basis, a.Judge = verdict.Judged, report.Votes{Model: "=gpt", Votes: 3, Passed: 2}
	var out bytes.Buffer
	if err := build(run, pass(0, 1), a).WriteCSV(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"basis,judge,judge_votes,judge_passed_votes,judge_canaries\r\n", ",computed,,,,\r\n", ",judged,'=gpt,3,2,passed\r\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// TestJudgeRead: an attempt in which a judge read the answer has not passed in any rate,
// whatever it read, with or without others of its task; what it came to is counted beside.
func TestJudgeRead(t *testing.T) {
	of := func(task string, n int, status verdict.Status, outcome verdict.Outcome, labels ...string) report.Attempt {
		a := report.Attempt{TaskID: task, Index: int(task[0]), Attempt: n, Family: "short_answer", Status: status, Outcome: outcome, Containment: verdict.Passive, Labels: labels,
			Passed: outcome == verdict.Passed}
		if len(labels) > 0 {
			a.Basis, a.Judge = verdict.Judged, report.Votes{Model: "judge-1", Votes: 3, Passed: 3}
		}
		return a
	}
	read := []string{verdict.JudgeRead, verdict.JudgedLabel}
	b := report.NewBuilder(report.Run{PlannedTasks: 2, PlannedAttempts: 3, Verified: true})
	for _, a := range []report.Attempt{
		of("a", 1, verdict.StatusPassed, verdict.Passed), of("a", 2, verdict.StatusPassed, verdict.Passed, read...), of("a", 3, verdict.StatusFailed, verdict.Failed, read...),
		of("b", 1, verdict.StatusPassed, verdict.Passed, read...), of("b", 2, verdict.StatusPending, verdict.Pending, read...), of("b", 2, verdict.StatusPassed, verdict.Passed, read...),
	} {
		b.Add(a)
	}
	r := b.Report()
	if r.Judged != nil || r.Total.Attempts != 7 || r.Total.Passed != 1 || r.Total.Failed != 4 || r.Total.Pending != 1 || r.Total.Missing != 1 {
		t.Errorf("%+v", r.Total)
	}
	if r.Read == nil || *r.Read != (report.Read{Attempts: 4, Passed: 2, Failed: 1, Pending: 1}) {
		t.Errorf("%+v", r.Read)
	}
	for _, p := range r.PassK {
		if p.K == 1 && p.Any != 0.166667 {
			t.Errorf("%+v", p)
		}
	}
	for name, text := range exports(t, r) {
		if !strings.Contains(text, map[string]string{"json": `"judge_read"`, "junit": verdict.JudgeRead}[name]) || name != "json" && name != "junit" && !strings.Contains(text, "none of it is part of the rate") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
