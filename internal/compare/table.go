package compare

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"securebench/internal/console"
	"securebench/internal/redact"
	"securebench/internal/report"
)

// Bounds on what the table shows, in characters and lines. The JSON has all of
// it.
const (
	maxName     = 28
	maxFlips    = 5
	maxFamilies = 20
)

// WriteJSON writes the report as one JSON object and a newline, in ASCII and
// without <, > and &.
func (r *Report) WriteJSON(w io.Writer) error { return console.WriteJSON(w, "the comparison", r) }

// WriteTable writes the report for a terminal. No line begins with text from
// outside, and none contains an invisible character.
func (r *Report) WriteTable(w io.Writer) error {
	t := console.NewTable(w)
	r.head(t)
	if r.Tasks > 0 || r.Judged == nil {
		r.section(t, &r.Section)
	}
	if r.Judged != nil {
		t.Line("\nJUDGED\t%s, of which a judge decides: apart from what is computed", console.Plural(r.Judged.Tasks, "task"))
		r.section(t, r.Judged)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("writing the comparison: %w", err)
	}
	return nil
}

func (r *Report) head(t *console.Table) {
	if r.LeftOut > 0 {
		t.Line("*** PART OF THE PACK: %d of its %s were not compared; the figures below are about %s. ***\n", r.LeftOut, console.Plural(r.LeftOut+r.compared(), "row"), console.Plural(r.compared(), "task"))
	}
	t.Line("pack\t%s", console.Cell(r.Pack, maxName))
	r.tasks(t, "tasks", &r.Section)
	if r.Judged != nil {
		r.tasks(t, "judged", r.Judged)
	}
	for _, d := range r.Allowed {
		t.Line("allowed\t%s", redact.Escape(d.String()))
	}
	for _, note := range r.Notes {
		t.Line("note\t%s", redact.Escape(note))
	}
}

// compared is how many rows were compared.
func (r *Report) compared() int {
	if r.Judged == nil {
		return r.Tasks
	}
	return r.Tasks + r.Judged.Tasks
}

// tasks says how many tasks a section is about.
func (r *Report) tasks(t *console.Table, name string, s *Section) {
	if s.Tasks == 0 && r.Judged != nil {
		return
	}
	var mix []string
	for _, name := range slices.Sorted(maps.Keys(s.Containment)) {
		mix = append(mix, fmt.Sprintf("%d %s", s.Containment[name], console.Cell(name, maxName)))
	}
	t.Line("%s\t%d: %s", name, s.Tasks, strings.Join(mix, ", "))
	if s.Clusters > 0 {
		t.Line("clusters\t%d", s.Clusters)
	}
}

func (r *Report) section(t *console.Table, s *Section) {
	s.runs(t)
	for i, c := range s.Comparisons {
		t.Line("\n%s AGAINST %s", letter(i+1), letter(0))
		c.figures(t, r, s)
		c.families(t)
		flips(t, "LOST", c.Lost)
		flips(t, "GAINED", c.Gained)
	}
}

func (s *Section) runs(t *console.Table) {
	t.Line("\n\tRUN\tAGENT\tPASSED\tRATE\t95 %%")
	for i, run := range s.Runs {
		t.Line("%s\t%s\t%s\t%d of %d\t%s\t%s", letter(i), console.Cell(run.Name, maxName), console.Cell(cmp.Or(run.Model, run.Agent), maxName), run.Passed, s.Tasks*run.Attempts, report.Percent(run.Rate), run.Interval)
	}
	for i, run := range s.Runs {
		if run.Unscored > 0 {
			t.Line("%s has %s without a verdict, which count as not passed", letter(i), console.Plural(run.Unscored, "attempt"))
		}
	}
}

// figures shows the difference, its intervals and the test.
func (c Comparison) figures(t *console.Table, r *Report, s *Section) {
	t.Line("  difference\t%s%s", points(c.Difference), between(c.Interval, c.Method))
	if c.Bootstrap != nil {
		over := "tasks"
		if s.Clusters > 0 {
			over = "clusters"
		}
		t.Line("  bootstrap\t%s, %d resamples of %s, seed %d", pointsInterval(c.Bootstrap), r.Resamples, over, r.Seed)
	}
	if n := c.Counts; n != nil {
		t.Line("  tasks\t%d passed in both, %d gained, %d lost, %d in neither", n.Both, n.Gained, n.Lost, n.Neither)
	} else {
		t.Line("  tasks\t%d better, %d worse, %d equal", len(c.Gained), len(c.Lost), c.Tasks-len(c.Gained)-len(c.Lost))
	}
	if c.P == nil {
		t.Line("  test\tnone: %s", c.untested)
		return
	}
	text := fmt.Sprintf("%s: p = %s", testName(c.Test), p(*c.P))
	if c.McNemar != nil {
		text += fmt.Sprintf(" (mid-p %s)", p(c.McNemar.Mid))
	}
	if c.Adjusted != nil {
		text += fmt.Sprintf(", Holm-adjusted %s", p(*c.Adjusted))
	}
	t.Line("  test\t%s", text)
}

func (c Comparison) families(t *console.Table) {
	if len(c.Families) < 2 {
		return
	}
	t.Line("\n  FAMILY\tTASKS\tBEFORE\tAFTER\tDIFFERENCE\t95 %%")
	for _, f := range c.Families[:min(len(c.Families), maxFamilies)] {
		t.Line("  %s\t%d\t%s\t%s\t%s\t%s", console.Cell(f.Name, maxName), f.Tasks, report.Percent(f.Before), report.Percent(f.After), points(f.Difference), pointsInterval(f.Interval))
	}
	t.More(len(c.Families) - maxFamilies)
}

// flips names the tasks whose result changed.
func flips(t *console.Table, title string, all []Flip) {
	if len(all) == 0 {
		return
	}
	t.Line("\n  %s\tBEFORE\tAFTER", title)
	for _, f := range all[:min(len(all), maxFlips)] {
		t.Line("  %s\t%s\t%s", console.Cell(f.TaskID, maxName), report.Percent(f.Before), report.Percent(f.After))
	}
	t.More(len(all) - maxFlips)
}

// letter names a run in the table: A, B and so on.
func letter(i int) string {
	if i < 26 {
		return string(rune('A' + i))
	}
	return fmt.Sprintf("R%d", i+1)
}

func points(d float64) string { return fmt.Sprintf("%+.1f points", 100*d) }

func pointsInterval(in *Interval) string {
	if in == nil {
		return "-"
	}
	return fmt.Sprintf("[%+.1f, %+.1f]", 100*in[0], 100*in[1])
}

// between shows an interval with its method.
func between(in *Interval, method string) string {
	if in == nil {
		return ""
	}
	name := map[string]string{newcombeInterval: "Newcombe", pairedInterval: "paired t", clusterInterval: "t over clusters"}[method]
	return fmt.Sprintf(", 95 %% interval %s (%s)", pointsInterval(in), name)
}

func testName(test string) string {
	return map[string]string{mcNemarTest: "McNemar, exact", pairedInterval: "paired t test", clusterInterval: "t test over clusters"}[test]
}

// p shows a p value.
func p(x float64) string { return fmt.Sprintf("%.3g", x) }
