package report_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"securebench/internal/report"
	"securebench/internal/verdict"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

var verified = report.Run{
	Verified: true, Evidence: "verified, signed by sha256:" + strings.Repeat("5e", 32),
	RunID: "2026-01-02-demo", Agent: "harness", PackID: "demo", PackVersion: 3, PlannedAttempts: 1,
}

// plan is a run of that many tasks and attempts per task.
func plan(tasks, attempts int) report.Run {
	run := verified
	run.PlannedTasks, run.PlannedAttempts = tasks, attempts
	return run
}

// pass is a record of a pass; fail makes another of it.
func pass(index, attempt int) report.Attempt {
	return report.Attempt{TaskID: fmt.Sprintf("demo/%d", index), Index: index, Attempt: attempt, Family: "math",
		Status: "passed", Outcome: "passed", Passed: true, Containment: "passive", TotalMS: 1000}
}

func fail(a report.Attempt, outcome verdict.Outcome, reason verdict.Reason) report.Attempt {
	a.Passed, a.Outcome, a.Reason, a.Status = false, outcome, reason, "failed"
	if outcome == "pending" || outcome == "infrastructure" {
		a.Status = "pending"
	}
	return a
}

func build(run report.Run, as ...report.Attempt) *report.Report {
	b := report.NewBuilder(run)
	for _, a := range as {
		b.Add(a)
	}
	return b.Report()
}

// mixed is a run of three attempts at each of six tasks, with everything in it.
func mixed() *report.Report {
	run := plan(6, 3)
	run.Labels, run.LeftOut = []string{"unpinned_image"}, 14
	run.Model, run.Started, run.Ended = "gpt-5.5", "2026-01-02T03:04:05.6Z", "2026-01-02T03:06:05.6Z"
	var as []report.Attempt
	for i := range 5 {
		for n := 1; n <= 3; n++ {
			a := pass(i, n)
			a.TotalMS, a.Candidate = int64(1000*i+10*n), "sha256:"+strings.Repeat(fmt.Sprint(i), 64)
			if i > 1 {
				a.Family, a.Containment, a.Labels = "code", "split", []string{"mutates", "unpinned_image"}
			}
			as = append(as, a)
		}
	}
	for i := range as {
		as[i].Usage = report.NewUsage(map[string]int64{"requests": 2, "input_tokens": 700, "cached_input_tokens": 100, "output_tokens": 30, "tool_calls": 1, "cost_microusd": 1500})
	}
	as[4] = fail(as[4], "failed", "wrong_answer")
	as[7] = fail(as[7], "agent_timeout", "producer_timeout")
	as[8] = fail(as[8], "infrastructure", "infrastructure_error")
	as[9].Containment = "shared"
	as[10] = fail(as[10], "pending", "no_verifier")
	as[11] = fail(as[11], "tampering", "")
	return build(run, as[:13]...) // of the fifth task one record, of the sixth none
}

// single is a run of one attempt per task that does not verify.
func single() *report.Report {
	run := plan(14, 1)
	run.Verified, run.Evidence = false, "NOT VERIFIED: hash chain broken between lines 2 and 3"
	var as []report.Attempt
	for i := range 13 {
		a := pass(i, 1)
		if i > 0 {
			a = fail(a, "failed", "wrong_answer")
			a.Labels = []string{"heuristic"}
		}
		as = append(as, a)
	}
	return build(run, as...)
}

// hostile is a run in which every text is an attack.
func hostile() *report.Report {
	run := plan(3, 1)
	run.RunID, run.Agent, run.PackID = "r\x1b]0;x\a", "oracle  \u202eevil", "p\r\nevidence  verified"
	run.Model, run.Started, run.Ended = "m\x1b[2J", "t\x1b[2J", "2026-01-02T03:04:05Z"
	run.Evidence, run.Labels = "verified\nsecurebench: run_id=x passed=999", []string{"<b>", "a, b"}
	ids := []string{
		"x\nsecurebench: run_id=x total=999 passed=999", "securebench: run_id=x passed=999", "\x1b[2J\x1b[31mred",
		"a\rb", "<script>alert(1)</script>&", `=HYPERLINK("http://x","y")`, " \t@SUM(1)", "+1", "-1", "＝1",
		"a;=1+1", "| `x` |", "pass  3 of 3  \"passed\"", "\u2028\u2066\u200b", "\xff\xfe", "", strings.Repeat("w", 300), "𝒙\u0301",
	}
	var as []report.Attempt
	for i, id := range ids {
		a := fail(pass(i, 1), verdict.Outcome(id), verdict.Reason(id))
		a.TaskID, a.Family, a.Containment, a.Labels, a.Candidate = id, id, verdict.Containment(id), []string{id, id}, id
		as = append(as, a)
	}
	return build(run, as...)
}

// TestMadeAgain: the head says what was made more than once, in as much as it was.
func TestMadeAgain(t *testing.T) {
	twice := pass(1, 1)
	twice.Retries = 2
	also := pass(2, 1)
	also.Retries = 1
	resumed := plan(3, 1)
	resumed.Replaced = 4
	for want, r := range map[string]*report.Report{
		"": build(plan(3, 1), pass(1, 1)),
		"1 attempt after 2 infrastructure errors":                        build(plan(3, 1), twice, pass(2, 1)),
		"4 records at resumes":                                           build(resumed, pass(1, 1)),
		"2 attempts after 3 infrastructure errors, 4 records at resumes": build(resumed, twice, also),
		"1 further record of attempts that have one":                     build(plan(3, 1), pass(1, 1), pass(1, 1)),
	} {
		var table bytes.Buffer
		if err := r.WriteTable(&table); err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(table.String(), "TOTAL")
		found := ""
		for line := range strings.Lines(head) {
			if text, ok := strings.CutPrefix(line, "made again"); ok {
				found = strings.TrimSpace(text)
			}
		}
		if found != want || r.MadeAgain() != want {
			t.Errorf("%q and %q, want %q", found, r.MadeAgain(), want)
		}
	}
}

func TestGolden(t *testing.T) {
	for name, r := range map[string]*report.Report{
		"mixed": mixed(), "single": single(), "hostile": hostile(), "nothing": build(plan(2, 1)), "empty": build(report.Run{}),
	} {
		for kind, write := range map[string]func(io.Writer) error{"txt": r.WriteTable, "json": r.WriteJSON, "csv": r.WriteCSV} {
			t.Run(name+"."+kind, func(t *testing.T) {
				var got bytes.Buffer
				if err := write(&got); err != nil {
					t.Fatal(err)
				}
				file := filepath.Join("testdata", name+"."+kind)
				if *update {
					if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), got.String()); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func TestTotals(t *testing.T) {
	odd := func(change func(*report.Attempt)) report.Attempt {
		a := pass(0, 1)
		change(&a)
		return a
	}
	for _, c := range []struct {
		name     string
		run      report.Run
		attempts []report.Attempt
		want     report.Tally // without an interval
		outcome  string       // that one attempt must have
	}{
		{"nothing planned", plan(0, 0), nil, report.Tally{}, ""},
		{"hostile plan", plan(-5, -5), nil, report.Tally{}, ""},
		{"no record", plan(2, 3), nil, report.Tally{Tasks: 2, Attempts: 6, Missing: 6}, ""},
		{"one of four", plan(4, 1), []report.Attempt{pass(0, 1)},
			report.Tally{Tasks: 4, Attempts: 4, Passed: 1, Missing: 3, PassRate: 0.25}, "passed"},
		{"our fault", plan(2, 1), []report.Attempt{pass(0, 1), fail(pass(1, 1), "infrastructure", "infrastructure_error")},
			report.Tally{Tasks: 2, Attempts: 2, Passed: 1, Infrastructure: 1, PassRate: 0.5}, "infrastructure"},
		{"pending", plan(2, 1), []report.Attempt{pass(0, 1), fail(pass(1, 1), "pending", "no_judge")},
			report.Tally{Tasks: 2, Attempts: 2, Passed: 1, Pending: 1, PassRate: 0.5}, "pending"},
		{"a third of one", plan(2, 3), []report.Attempt{pass(0, 2)},
			report.Tally{Tasks: 2, Attempts: 6, Passed: 1, Missing: 5, PassRate: 0.166667}, "passed"},
		{"more tasks than planned", plan(1, 1), []report.Attempt{pass(0, 1), fail(pass(1, 1), "failed", "")},
			report.Tally{Tasks: 2, Attempts: 2, Passed: 1, Failed: 1, PassRate: 0.5}, "failed"},
		{"more attempts than planned", plan(1, 1), []report.Attempt{fail(pass(0, 1), "failed", ""), pass(0, 2)},
			report.Tally{Tasks: 1, Attempts: 2, Passed: 1, Failed: 1, PassRate: 0.5}, "failed"},
		{"another attempt instead", plan(1, 2), []report.Attempt{pass(0, 1), pass(0, 3)},
			report.Tally{Tasks: 1, Attempts: 3, Passed: 2, Missing: 1, PassRate: 0.666667}, "missing"},
		{"a pass twice", plan(1, 2), []report.Attempt{pass(0, 1), pass(0, 1)},
			report.Tally{Tasks: 1, Attempts: 3, Passed: 1, Failed: 1, Missing: 1, PassRate: 0.333333}, "repeated"},
		{"a pass after a failure", plan(1, 1), []report.Attempt{fail(pass(0, 1), "failed", ""), pass(0, 1)},
			report.Tally{Tasks: 1, Attempts: 2, Failed: 2}, "repeated"},
		{"passed but not its status", plan(1, 1), []report.Attempt{odd(func(a *report.Attempt) { a.Status = "failed" })},
			report.Tally{Tasks: 1, Attempts: 1, Failed: 1}, "inconsistent"},
		{"passed but not its outcome", plan(1, 1), []report.Attempt{odd(func(a *report.Attempt) { a.Outcome = "failed" })},
			report.Tally{Tasks: 1, Attempts: 1, Failed: 1}, "inconsistent"},
		{"not passed but its outcome", plan(1, 1), []report.Attempt{odd(func(a *report.Attempt) { a.Passed = false })},
			report.Tally{Tasks: 1, Attempts: 1, Failed: 1}, "inconsistent"},
		{"claims to be missing", plan(1, 1), []report.Attempt{fail(pass(0, 1), "missing", "")},
			report.Tally{Tasks: 1, Attempts: 1, Failed: 1}, "inconsistent"},
		{"unknown", plan(1, 1), []report.Attempt{fail(pass(0, 1), "odd", "")},
			report.Tally{Tasks: 1, Attempts: 1, Failed: 1}, "odd"},
		{"huge plan", plan(1<<62, 1<<62), []report.Attempt{pass(0, 1)},
			report.Tally{Tasks: 1 << 30, Attempts: 1 << 60, Passed: 1, Missing: 1<<60 - 1}, "passed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := build(c.run, c.attempts...)
			if diff := cmp.Diff(c.want, r.Total.Tally, cmpopts.IgnoreFields(report.Tally{}, "Interval")); diff != "" {
				t.Error(diff)
			}
			consistent(t, r)
			if n := outcome(r, c.outcome); c.outcome != "" && c.outcome != "missing" && n != 1 {
				t.Errorf("%d attempts are %s", n, c.outcome)
			}
		})
	}
}

func outcome(r *report.Report, name string) int {
	for _, c := range r.Outcomes {
		if c.Name == name {
			return c.Attempts
		}
	}
	return 0
}

// consistent checks that every way of counting finds every attempt once.
func consistent(t *testing.T, r *report.Report) {
	t.Helper()
	total := r.Total.Tally
	families, profiles, outcomes := 0, 0, 0
	for _, g := range r.Families {
		families += g.Attempts
	}
	for _, g := range r.Profiles {
		profiles += g.Attempts
	}
	for _, c := range r.Outcomes {
		outcomes += c.Attempts
	}
	m := r.Total.Containment
	for what, n := range map[string]int{
		"families": families, "profiles": profiles, "outcomes": outcomes,
		"containment": m.Passive + m.Split + m.Shared + m.Other + m.Missing,
		"classes":     total.Passed + total.Failed + total.Pending + total.Infrastructure + total.Missing,
	} {
		if n != total.Attempts {
			t.Errorf("the %s have %d attempts of %d", what, n, total.Attempts)
		}
	}
	if total.Passed != outcome(r, "passed") || total.Missing != outcome(r, "missing") {
		t.Errorf("the outcomes %v are not those of %+v", r.Outcomes, total)
	}
	if i := total.Interval; !(0 <= i[0] && i[0] <= total.PassRate && total.PassRate <= i[1] && i[1] <= 1) {
		t.Errorf("%v does not hold %v", i, total.PassRate)
	}
}

// With several attempts the interval is over tasks: more attempts at the same
// tasks do not make the result look surer.
func TestIntervalIsOverTasks(t *testing.T) {
	var once, often []report.Attempt
	for i := range 10 {
		for n := 1; n <= 4; n++ {
			a := pass(i, n)
			if i%2 == 0 {
				a = fail(a, "failed", "wrong_answer")
			}
			if often = append(often, a); n == 1 {
				once = append(once, a)
			}
		}
	}
	want := report.Interval{0.236593, 0.763407}
	if got := build(plan(10, 1), once...).Total.Interval; got != want {
		t.Errorf("one attempt: %v", got)
	}
	if got := build(plan(10, 4), often...).Total.Interval; got != want {
		t.Errorf("four attempts: %v", got)
	}
}

func TestGroups(t *testing.T) {
	r := mixed()
	consistent(t, r)
	type row struct {
		Name            string
		Tasks, Attempts int
		Rate            float64
	}
	rows := func(gs []report.Group) (out []row) {
		for _, g := range gs {
			out = append(out, row{g.Name, g.Tasks, g.Attempts, g.PassRate})
		}
		return out
	}
	families := []row{{"code", 3, 9, 0.333333}, {"math", 2, 6, 0.833333}, {"", 1, 3, 0}}
	if diff := cmp.Diff(families, rows(r.Families)); diff != "" {
		t.Error(diff)
	}
	profiles := []row{{"passive", 2, 6, 0.833333}, {"split", 3, 6, 0.444444}, {"shared", 1, 1, 1}, {"", 2, 5, 0}}
	if diff := cmp.Diff(profiles, rows(r.Profiles)); diff != "" {
		t.Error(diff)
	}
	// Three tasks of 3 attempts with 3, 2 and 1 passes, two with 1, one with 0.
	passK := []report.PassK{{K: 1, Any: 0.444444, All: 0.444444}, {K: 2, Any: 0.666667, All: 0.222222}, {K: 3, Any: 0.833333, All: 0.166667}}
	if diff := cmp.Diff(passK, r.PassK); diff != "" {
		t.Error(diff)
	}
	if got := single(); len(got.PassK) > 0 {
		t.Error("pass@k of single attempts")
	}
}

func TestUnknownNamesComeLast(t *testing.T) {
	var as []report.Attempt
	for i, n := range []string{"zebra", "shared", "", "apple", "passive"} {
		a := fail(pass(i, 1), "failed", "")
		a.Containment = verdict.Containment(n)
		if n != "shared" && n != "passive" {
			a.Outcome = verdict.Outcome(n)
		}
		as = append(as, a)
	}
	r := build(plan(5, 1), as...)
	var profiles, outcomes []string
	for _, g := range r.Profiles {
		profiles = append(profiles, g.Name)
	}
	for _, c := range r.Outcomes[12:] {
		outcomes = append(outcomes, c.Name)
	}
	if diff := cmp.Diff([]string{"passive", "shared", "apple", "zebra", ""}, profiles); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"", "apple", "zebra"}, outcomes); diff != "" {
		t.Error(diff)
	}
}

func TestSlowest(t *testing.T) {
	var as []report.Attempt
	for i, ms := range []int64{5, 9, 9, 1, 7, 7, 0} {
		a := pass(i/2, 2-i%2)
		a.TotalMS = ms
		as = append(as, a)
	}
	want := []report.Slow{
		{TaskID: "demo/0", Attempt: 1, TotalMS: 9, Outcome: "passed"}, {TaskID: "demo/1", Attempt: 2, TotalMS: 9, Outcome: "passed"},
		{TaskID: "demo/2", Attempt: 1, TotalMS: 7, Outcome: "passed"}, {TaskID: "demo/2", Attempt: 2, TotalMS: 7, Outcome: "passed"},
		{TaskID: "demo/0", Attempt: 2, TotalMS: 5, Outcome: "passed"},
	}
	if diff := cmp.Diff(want, build(plan(4, 2), as...).Slowest); diff != "" {
		t.Error(diff)
	}
}

// Records come in the order of completion; a report does not depend on it.
func TestOrderDoesNotMatter(t *testing.T) {
	var as []report.Attempt
	for i := range 40 {
		a := pass(i/2, 1+i%2)
		if i%3 == 0 {
			a = fail(a, "failed", "tests_failed")
			a.Labels = []string{"mutates"}
		}
		as = append(as, a)
	}
	want := all(t, build(plan(25, 2), as...))
	for range 5 {
		rand.Shuffle(len(as), func(i, j int) { as[i], as[j] = as[j], as[i] })
		if diff := cmp.Diff(want, all(t, build(plan(25, 2), as...))); diff != "" {
			t.Fatal(diff)
		}
	}
}

// all is a report in its three forms.
func all(t *testing.T, r *report.Report) [3]string {
	t.Helper()
	var out [3]string
	for i, write := range []func(io.Writer) error{r.WriteTable, r.WriteJSON, r.WriteCSV} {
		var b strings.Builder
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		out[i] = b.String()
	}
	return out
}

// A report is of what was added before it.
func TestReportIsASnapshot(t *testing.T) {
	b := report.NewBuilder(plan(2, 1))
	labels := []string{"mutates"}
	a := pass(0, 1)
	a.Labels = labels
	b.Add(a)
	r := b.Report()
	before := all(t, r)
	labels[0] = "changed"
	b.Add(pass(0, 1))
	b.Add(pass(1, 1))
	b.Report()
	if diff := cmp.Diff(before, all(t, r)); diff != "" {
		t.Error(diff)
	}
}

func TestWriteErrors(t *testing.T) {
	r := mixed()
	for name, write := range map[string]func(io.Writer) error{"table": r.WriteTable, "json": r.WriteJSON, "csv": r.WriteCSV} {
		if err := write(full{}); !errors.Is(err, errFull) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

var errFull = errors.New("no space left on device")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestNotVerifiedComesFirst(t *testing.T) {
	for evidence, want := range map[string]string{
		"NOT VERIFIED: no signature":   "*** NOT VERIFIED: no signature ***\n",
		"verified, signed by sha256:1": "*** NOT VERIFIED: verified, signed by sha256:1 ***\n",
		"":                             "*** NOT VERIFIED: no evidence ***\n",
		"x\n\x1b[1A":                   "*** NOT VERIFIED: x\\x0a\\x1b[1A ***\n",
	} {
		run := plan(1, 1)
		run.Verified, run.Evidence = false, evidence
		if got := all(t, build(run))[0]; !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s", evidence, got)
		}
	}
}

// Nothing from outside can pose as one of the report's or the command's own
// lines, be seen as something else, or be run by what opens the report.
func TestHostileTexts(t *testing.T) {
	r := hostile()
	consistent(t, r)
	out := all(t, r)
	safeTable(t, out[0])
	safeJSON(t, out[1])
	safeCSV(t, out[2], 18)
	for _, line := range strings.Split(out[0], "\n") {
		if strings.HasPrefix(line, "securebench:") {
			t.Errorf("the table has the line %q", line)
		}
	}
	rows, err := csv.NewReader(strings.NewReader(out[2])).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range map[int]string{
		6: `'=HYPERLINK("http://x","y")`, 7: `' \x09@SUM(1)`, 8: "'+1", 9: "'-1", 10: "'＝1", 11: `a\x3b=1+1`, 16: "",
	} {
		if got := rows[i][0]; got != want {
			t.Errorf("row %d is %q, want %q", i, got, want)
		}
	}
}

func safeJSON(t *testing.T, s string) map[string]any {
	t.Helper()
	if i := strings.IndexFunc(s, func(r rune) bool { return r != '\n' && (r < ' ' || r >= 0x7f) || strings.ContainsRune("<>&", r) }); i >= 0 {
		t.Errorf("the JSON has %q", s[i:min(len(s), i+8)])
	}
	var out map[string]any
	if err := json.Unmarshal([]byte(s), &out); err != nil || !strings.HasSuffix(s, "}\n") {
		t.Fatalf("%v: %s", err, s)
	}
	return out
}

// TestNoAgentWorked: where every agent failed, the table says so first. Other agents
// that ended with an error are counted.
func TestNoAgentWorked(t *testing.T) {
	broken := fail(pass(0, 1), "no_candidate", "agent_failed")
	broken.AgentExit = 127
	wrong := fail(pass(1, 1), "failed", "wrong_answer")
	wrong.AgentExit = 1
	for name, tt := range map[string]struct {
		all    []report.Attempt
		banner bool
		counts string
	}{
		"all":     {[]report.Attempt{broken}, true, "1 ended with an error, 1 of them without a candidate"},
		"not all": {[]report.Attempt{broken, wrong}, false, "2 ended with an error, 1 of them without a candidate"},
		"none":    {[]report.Attempt{pass(0, 1)}, false, ""},
	} {
		var b strings.Builder
		r := build(plan(len(tt.all), 1), tt.all...)
		if err := r.WriteTable(&b); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(b.String(), "*** NO AGENT WORKED: each of 1 agent ") != tt.banner || !strings.Contains(b.String(), tt.counts) ||
			tt.counts == "" && strings.Contains(b.String(), "ended with an error") {
			t.Errorf("%s:\n%s", name, b.String())
		}
	}
}
