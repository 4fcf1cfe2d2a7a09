package compare

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"securebench/internal/earlier"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/verdict"
)

// oneRun is a run of tasks t0, t1 and so on, of which those with a '1' passed.
func oneRun(name, results string) *earlier.Run {
	m := record.Manifest{RunID: name, Agent: "null", Pack: record.PackInfo{ID: "p", Version: 1}, Planned: record.Planned{Tasks: len(results), Attempts: 1},
		Digests: record.RunDigests{Manifest: "m", Public: "u", Verifier: "v"}, Images: map[string]string{"i": "sha256:1"},
		Limits: record.RunLimits{Memory: 1, VerifySeconds: map[string]float64{"f": 30}}}
	r := &earlier.Run{Name: name, Manifest: m, Hidden: &record.PackDigests{Pack: "h"}}
	for i, c := range results {
		r.Tasks = append(r.Tasks, earlier.Task{ID: fmt.Sprintf("t%d", i), Index: i, Family: fmt.Sprintf("f%d", i%2), Containment: verdict.Passive, Attempts: 1, Passed: int(c - '0')})
	}
	return r
}

// TestDifferences: whatever differs between what two runs were given is named,
// and refused unless it is allowed.
func TestDifferences(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*earlier.Run)
		kind   Kind
		say    string
	}{
		"another pack":     {func(r *earlier.Run) { r.Manifest.Pack.ID = "q" }, Pack, "a and b are of p, version 1, and q, version 1"},
		"another version":  {func(r *earlier.Run) { r.Manifest.Pack.Version = 2 }, Pack, "version 2"},
		"another manifest": {func(r *earlier.Run) { r.Manifest.Digests.Manifest = "x" }, Pack, "the manifests"},
		"public part":      {func(r *earlier.Run) { r.Manifest.Digests.Public = "x" }, Pack, "the public parts"},
		"hidden part":      {func(r *earlier.Run) { r.Hidden.Pack = "x" }, Pack, "the hidden parts"},
		"fewer tasks":      {func(r *earlier.Run) { r.Tasks = r.Tasks[1:] }, Tasks, "about 4 and 3 tasks; 3 are the same"},
		"other tasks":      {func(r *earlier.Run) { r.Tasks[0].ID = "x" }, Tasks, "about 4 and 4 tasks; 3 are the same"},
		"another build":    {func(r *earlier.Run) { r.Manifest.Digests.Verifier = "w" }, Verifier, "different builds"},
		"another image":    {func(r *earlier.Run) { r.Manifest.Images["i"] = "sha256:2" }, Images, "i is sha256:1 and sha256:2"},
		"more memory":      {func(r *earlier.Run) { r.Manifest.Limits.Memory = 2 }, Limits, "memory 1 and 2"},
		"more time":        {func(r *earlier.Run) { r.Manifest.Limits.VerifySeconds["f"] = 60 }, Limits, "verify_seconds of f 30 and 60"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := oneRun("a", "0101"), oneRun("b", "0111")
			c.change(b)
			_, err := Compare([]*earlier.Run{a, b}, Options{Resamples: 10})
			var different *DifferentError
			if !errors.As(err, &different) || len(different.Differences) != 1 || different.Differences[0].Kind != c.kind || !strings.Contains(err.Error(), c.say) {
				t.Fatalf("%v, want %s: %s", err, c.kind, c.say)
			}
			r, err := Compare([]*earlier.Run{a, b}, Options{Resamples: 10, Allowed: []Kind{c.kind}})
			if c.kind == Pack {
				if err == nil {
					t.Error("runs of different packs are compared")
				}
				return
			}
			if err != nil || len(r.Allowed) != 1 || r.Allowed[0] != different.Differences[0] {
				t.Errorf("allowed: %v, %+v", err, r)
			}
		})
	}
	if _, err := Compare([]*earlier.Run{oneRun("a", ""), oneRun("b", "")}, Options{}); err == nil {
		t.Error("runs without tasks are compared")
	}
}

// TestNotes: what does not prevent a comparison is said.
func TestNotes(t *testing.T) {
	t.Parallel()
	a, b := oneRun("a", "0101"), oneRun("b", "0111")
	b.Hidden = nil
	b.Manifest.Labels = []string{"network_enabled"}
	b.Manifest.Planned.Attempts = 3
	a.Manifest.Engine, b.Manifest.Engine = map[string]any{"name": "docker"}, map[string]any{"name": "native"}
	r, err := Compare([]*earlier.Run{a, b}, Options{Resamples: 10})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"b is a published copy", "different engines: docker and native", "1 and 3 attempts", "different labels: none and network_enabled"} {
		if !strings.Contains(strings.Join(r.Notes, "\n"), want) {
			t.Errorf("no note %q in %q", want, r.Notes)
		}
	}
}

// TestHolm: adjusted p values are those of Holm's procedure, never fall below p,
// and keep the order. A comparison without one counts.
func TestHolm(t *testing.T) {
	t.Parallel()
	cs := make([]Comparison, 4)
	for i, p := range []float64{0.04, 0.01, 0.03} {
		cs[i].P = &p
	}
	adjust(cs)
	for i, want := range []float64{0.09, 0.04, 0.09} {
		if cs[i].Adjusted == nil || *cs[i].Adjusted != want {
			t.Errorf("%v is adjusted to %v, want %v", *cs[i].P, cs[i].Adjusted, want)
		}
	}
	if cs[3].Adjusted != nil {
		t.Error("no p value is adjusted")
	}
}

// TestHostileNames: no name from a run's files reaches a terminal as it is, forges
// a line, or breaks the JSON.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	const evil = "x\nA  all  fine  \x1b[2J\u202e</script>"
	a, b := oneRun(evil, "0101"), oneRun("b"+evil, "1010")
	for _, r := range []*earlier.Run{a, b} {
		r.Manifest.Agent, r.Manifest.Model, r.Manifest.Pack.ID, r.Manifest.Labels = evil, evil, evil, []string{r.Name}
		for i := range r.Tasks {
			r.Tasks[i].ID, r.Tasks[i].Family, r.Tasks[i].Containment = fmt.Sprint(evil, i), fmt.Sprint(evil, i%2), evil
		}
	}
	r, err := Compare([]*earlier.Run{a, b}, Options{Resamples: 10})
	if err != nil {
		t.Fatal(err)
	}
	var table, object bytes.Buffer
	if err := errors.Join(r.WriteTable(&table), r.WriteJSON(&object)); err != nil {
		t.Fatal(err)
	}
	if text := table.String(); redact.EscapeText(text) != text || slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool { return strings.HasPrefix(line, "A  all") }) {
		t.Errorf("the table: %q", text)
	}
	if strings.ContainsAny(object.String(), "<>\x1b\u202e") {
		t.Errorf("the JSON: %q", object.String())
	}
	var back map[string]any
	if err := json.Unmarshal(object.Bytes(), &back); err != nil || back["pack_id"] != evil {
		t.Errorf("%v: %v", err, slices.Collect(maps.Keys(back)))
	}
}

// TestOverlap: rows that a run was not about are not compared, whichever run it is.
func TestOverlap(t *testing.T) {
	t.Parallel()
	part := func(name string, from, to int) *earlier.Run {
		r := oneRun(name, strings.Repeat("01", 50))
		r.Tasks = r.Tasks[from:to]
		r.Manifest.Planned.Tasks, r.Manifest.Planned.LeftOut = to-from, 100-(to-from)
		return r
	}
	r, err := Compare([]*earlier.Run{part("a", 0, 50), part("b", 25, 75)}, Options{Resamples: 10, Allowed: []Kind{Tasks}})
	if err != nil || r.Tasks != 25 || r.LeftOut != 75 {
		t.Fatalf("%v: %+v", err, r)
	}
	var out bytes.Buffer
	if err := r.WriteTable(&out); err != nil || !strings.Contains(out.String(), "75 of its 100 rows were not compared") {
		t.Errorf("%v: %s", err, out.String())
	}
}

// TestJudgedApart: over random runs, what is said of computed tasks is what is said of
// runs without judged ones, and the other way round: no figure is of both.
func TestJudgedApart(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "tasks")
		runs, only := make([]*earlier.Run, 2), map[verdict.Basis][]*earlier.Run{}
		judged := rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "judged")
		for i := range runs {
			runs[i] = oneRun(fmt.Sprint("run", i), strings.Repeat("0", n))
			for k := range runs[i].Tasks {
				task := &runs[i].Tasks[k]
				task.Passed = rapid.IntRange(0, 1).Draw(t, "passed")
				if judged[k] {
					task.Basis = verdict.Judged
				}
			}
			for _, basis := range verdict.Bases() {
				part := *runs[i]
				part.Tasks = nil
				for _, task := range runs[i].Tasks {
					if task.Basis == basis {
						task.Basis = verdict.Computed
						part.Tasks = append(part.Tasks, task)
					}
				}
				only[basis] = append(only[basis], &part)
			}
		}
		o := Options{Resamples: 20}
		both, err := Compare(runs, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, basis := range verdict.Bases() {
			got := &both.Section
			if basis == verdict.Judged {
				got = both.Judged
			}
			if len(only[basis][0].Tasks) == 0 {
				if got != nil && (got.Tasks != 0 || len(got.Comparisons) != 0 || got.Runs[0].Passed != 0) {
					t.Errorf("%s without a task: %+v", basis, got)
				}
				continue
			}
			want, err := Compare(only[basis], o)
			if err != nil {
				t.Fatal(err)
			}
			a, _ := json.Marshal(got, json.Deterministic(true))
			b, _ := json.Marshal(want.Section, json.Deterministic(true))
			if !bytes.Equal(a, b) {
				t.Errorf("%s in a run of both:\n%s\nand apart:\n%s", basis, a, b)
			}
		}
		var table bytes.Buffer
		if err := both.WriteTable(&table); err != nil {
			t.Fatal(err)
		}
		if has := strings.Contains(table.String(), "\nJUDGED"); has != (both.Judged != nil) {
			t.Errorf("the table says so: %t\n%s", has, table.String())
		}
	})
}
