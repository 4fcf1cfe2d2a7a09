package report_test

import (
	"encoding/csv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/redact"
	"securebench/internal/report"
	"securebench/internal/verdict"
)

// safeTable checks that s has only characters that can be seen, in lines of
// bearable length.
func safeTable(t *testing.T, s string) {
	t.Helper()
	for line := range strings.Lines(s) {
		line = strings.TrimSuffix(line, "\n")
		if redact.Escape(line) != line {
			t.Errorf("the table has %q", line)
		}
		if n := utf8.RuneCountInString(line); n > 400 {
			t.Errorf("a line has %d characters", n)
		}
	}
}

// safeCSV checks that s has so many records, and no cell that is a formula or
// has a control character.
func safeCSV(t *testing.T, s string, records int) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(s)).ReadAll()
	if err != nil || len(rows) != records+1 {
		t.Fatalf("%d rows: %v", len(rows), err)
	}
	for _, row := range rows {
		for i, cell := range row {
			number := i == 1 || i == 2 || i == 11
			if redact.Escape(cell) != cell || !number && strings.ContainsAny(first(cell), "=+-@＝＋－＠") {
				t.Errorf("the CSV has the cell %q", cell)
			}
		}
	}
}

// first returns the first non-space character of s.
func first(s string) string {
	for _, r := range strings.TrimLeftFunc(s, unicode.IsSpace) {
		return string(r)
	}
	return ""
}

func FuzzReport(f *testing.F) {
	f.Add("demo/1", "math", "passed", "", "passive", "heuristic", "r", uint8(1), uint8(1), int64(12))
	f.Add("x\nsecurebench: run_id=x passed=999", "\x1b[2J", "failed", "a\rb", "<script>", "\u202e", "\u2028", uint8(3), uint8(2), int64(-1))
	f.Add(`=HYPERLINK("x")`, " \t@a", "missing", "a;=1", "| `x`", "\"", "\xff", uint8(0), uint8(0), int64(1)<<62)
	f.Add("＝1", "\ufeff=1", "\u00a0-1", "\v+1", `\.`, "'", "*** ", uint8(9), uint8(7), int64(0))
	f.Fuzz(func(t *testing.T, id, family, outcome, reason, profile, label, text string, tasks, attempts uint8, ms int64) {
		b := report.NewBuilder(report.Run{
			Verified: tasks%2 == 0, Evidence: text, RunID: id, Agent: text, PackID: label,
			PlannedTasks: int(tasks), PlannedAttempts: int(attempts), Labels: []string{label, text},
		})
		records := []report.Attempt{
			{TaskID: id, Index: 1, Attempt: 1, Family: family, Status: verdict.Status(outcome), Outcome: verdict.Outcome(outcome),
				Reason: verdict.Reason(reason), Containment: verdict.Containment(profile), Labels: []string{label, text}, Passed: outcome == "passed", TotalMS: ms, Candidate: text},
			{TaskID: text, Index: 2, Attempt: int(attempts), Family: profile, Outcome: "passed", Reason: verdict.Reason(text), TotalMS: ms},
			{TaskID: id, Index: 3, Attempt: 2, Status: "passed", Outcome: "passed", Passed: true},
		}
		for _, a := range records {
			b.Add(a)
		}
		r := b.Report()
		consistent(t, r)
		out := all(t, r)
		safeTable(t, out[0])
		safeCSV(t, out[2], len(records))
		var got []string
		slow, _ := safeJSON(t, out[1])["slowest"].([]any)
		for _, s := range slow {
			id, _ := s.(map[string]any)["task_id"].(string)
			got = append(got, id)
		}
		var want []string
		for _, s := range r.Slowest {
			want = append(want, string([]rune(s.TaskID))) // each bad byte is U+FFFD
		}
		if diff := cmp.Diff(want, got); diff != "" || len(got) != len(records) {
			t.Error(diff)
		}
	})
}
