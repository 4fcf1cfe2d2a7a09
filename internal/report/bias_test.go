package report_test

import (
	"bytes"
	"strings"
	"testing"

	"securebench/internal/report"
	"securebench/internal/verdict"
)

// TestBiases: what decided is counted over the attempts that know it, each once, and shown
// beside the rate in every form for people.
func TestBiases(t *testing.T) {
	b := report.NewBuilder(report.Run{Verified: true, PlannedTasks: 4, PlannedAttempts: 1})
	for i, biases := range []map[string]bool{{"position": true}, {"position": false, "length": true}, {"position": true}, nil} {
		b.Add(report.Attempt{TaskID: string(rune('a' + i)), Index: i, Attempt: 1, Family: "f", Status: verdict.StatusFailed, Outcome: verdict.Failed, Biases: biases})
	}
	b.Add(report.Attempt{TaskID: "a", Index: 0, Attempt: 1, Status: verdict.StatusFailed, Outcome: verdict.Failed, Biases: map[string]bool{"position": true}}) // again
	r := b.Report()
	want := []report.Bias{{Name: "length", Decided: 1, Attempts: 1, Share: 1}, {Name: "position", Decided: 2, Attempts: 3, Share: 0.666667}}
	if len(r.Biases) != 2 || r.Biases[0] != want[0] || r.Biases[1] != want[1] {
		t.Errorf("the biases are %+v", r.Biases)
	}
	var table, junit bytes.Buffer
	if err := r.WriteTable(&table); err != nil || !strings.Contains(table.String(), "position  2 of 3   66.7 %") {
		t.Errorf("the table is %v:\n%s", err, table.String())
	}
	if err := r.WriteJUnit(&junit); err != nil || !strings.Contains(junit.String(), `<property name="bias.position" value="2 of 3">`) {
		t.Errorf("JUnit has %v: %s", err, junit.String())
	}
}
