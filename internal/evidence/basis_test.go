package evidence

import (
	"fmt"
	"strings"
	"testing"

	"securebench/internal/attest"
	"securebench/internal/pipeline/record"
	"securebench/internal/verdict"
)

// TestBasisIsPlanned: a record whose basis is not that of its row, or of as many tasks as
// were planned to be judged, is a problem: what was judged would count as computed. The
// twin, in which all agree, has none.
func TestBasisIsPlanned(t *testing.T) {
	t.Parallel()
	entry := func(index, attempt int, basis verdict.Basis) record.Entry {
		return record.Entry{Line: &record.Line{TaskID: fmt.Sprint("t", index), Index: index, Attempt: attempt, Basis: basis, Status: verdict.StatusPassed, Outcome: verdict.Passed}}
	}
	const computed, judged = verdict.Computed, verdict.Judged
	for name, c := range map[string]struct {
		planned int
		all     []record.Entry
		want    string
	}{
		"as planned":      {1, []record.Entry{entry(0, 1, computed), entry(0, 2, computed), entry(1, 1, judged), entry(1, 2, judged)}, ""},
		"none":            {0, []record.Entry{entry(0, 1, computed)}, ""},
		"made computed":   {1, []record.Entry{entry(0, 1, computed), entry(1, 1, computed)}, "0 tasks were judged, and 1 were planned to be"},
		"made judged":     {0, []record.Entry{entry(0, 1, judged)}, "1 tasks were judged, and 0 were planned to be"},
		"of two attempts": {1, []record.Entry{entry(0, 1, judged), entry(0, 2, computed)}, "row 0 is computed here, and not in an earlier line"},
	} {
		r := newCheck(t.Context(), nil, &Result{Manifest: record.Manifest{Planned: record.Planned{Tasks: 2, Attempts: 2, Judged: c.planned}}})
		r.known = true
		r.rows = r.Manifest.Rows()
		lines := &lineCheck{check: r}
		var found []string
		for _, e := range c.all {
			lines.place(e, func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) })
			lines.count(e)
		}
		r.bases()
		for _, p := range r.Problems {
			found = append(found, p.String())
		}
		got := strings.Join(found, "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		var want verdict.ByBasis[attest.Counts]
		for _, e := range c.all {
			want.Of(e.Basis).Passed++
		}
		if r.counts != want {
			t.Errorf("%s: counts %+v, want %+v", name, r.counts, want)
		}
	}
}
