package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"securebench/internal/console"
	"securebench/internal/lazyregexp"
	"securebench/internal/redact"
	"securebench/internal/verdict"
)

// Bounds on what the table shows, in characters and lines. The JSON has all of
// it.
const (
	maxName      = 48 // ids, the agent
	maxWord      = 24 // families, outcomes, reasons, labels
	maxEvidence  = 160
	maxBanner    = 640
	maxRunLabels = 5
	maxGroups    = 20 // families, profiles, outcomes, labels
	maxUnpassed  = 10
)

// WriteTable writes the report for a terminal. No line begins with text from
// outside, and none contains an invisible character.
func (r *Report) WriteTable(w io.Writer) error {
	t := &table{Table: console.NewTable(w), r: r}
	t.head()
	for _, s := range r.sections() {
		t.total(s)
	}
	t.agents()
	for _, s := range r.sections() {
		t.groups(t.title("FAMILY", s), s.Families)
		t.groups(t.title("TAG", s), s.Tags)
		t.groups(t.title("CONTAINMENT", s), s.Profiles)
		t.counts(t.title("OUTCOME", s), s.Outcomes)
	}
	t.counts("LABEL", r.Labels)
	for _, s := range r.sections() {
		t.passK(s)
		t.measures(s)
		t.biases(s)
	}
	t.usage()
	t.slowest()
	t.unpassed()
	if err := t.Flush(); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// table writes sections of rows whose cells are separated by tabs.
type table struct {
	*console.Table
	r *Report
}

func (t *table) head() {
	run := t.r.Run
	if !run.Verified {
		const mark = "NOT VERIFIED"
		why := strings.TrimLeft(strings.TrimPrefix(run.Evidence, mark), ": ")
		t.banner(mark+": "+redact.EscapeShort(cmp.Or(why, "no evidence"), maxBanner), "The figures below are only what the records claim.")
	}
	if n := run.LeftOut; n > 0 {
		t.banner(fmt.Sprintf("PART OF THE PACK: %d of its %s were left out; the figures below are about %s.", n, console.Plural(n+run.PlannedTasks, "row"), console.Plural(run.PlannedTasks, "task")))
	}
	if note := t.r.NoAgentWorked(); note != "" {
		t.banner(note + "; the figures below are about that.")
	}
	t.Line("run\t%s", console.Cell(run.RunID, maxName))
	agent := console.Cell(run.Agent, maxName)
	if run.AgentNote != "" {
		agent += " (" + redact.EscapeShort(run.AgentNote, maxEvidence) + ")"
	}
	t.Line("agent\t%s", agent)
	if run.Model != "" {
		t.Line("model\t%s", console.Cell(run.Model, maxName))
	}
	if run.Program != "" {
		t.Line("program\t%s", redact.EscapeShort(run.Program, maxEvidence))
	}
	t.Line("pack\t%s, version %d", console.Cell(run.PackID, maxName), run.PackVersion)
	if run.Engine != "" {
		t.Line("engine\t%s", redact.EscapeShort(run.Engine, maxEvidence))
	}
	if run.Build != "" {
		t.Line("build\t%s", redact.EscapeShort(shortDigests(run.Build), maxEvidence))
	}
	t.Line("planned\t%s, %s each", console.Plural(run.PlannedTasks, "task"), console.Plural(run.PlannedAttempts, "attempt"))
	if t.r.Judged != nil || t.r.Read != nil {
		t.Line("judge\t%s", redact.EscapeShort(cmp.Or(run.Judge, noJudge), maxEvidence))
	}
	if when := run.When(); when != "" {
		t.Line("ran\t%s", redact.EscapeShort(when, maxEvidence))
	}
	if run.Chosen != "" {
		t.Line("chosen by\t%s", redact.EscapeShort(run.Chosen, maxEvidence))
	}
	if again := t.r.MadeAgain(); again != "" {
		t.Line("made again\t%s", again)
	}
	if len(run.Labels) > 0 {
		t.Line("labels\t%s", list(run.Labels))
	}
	if run.Verified {
		t.Line("evidence\t%s", redact.EscapeShort(shortDigests(run.Evidence), maxEvidence))
	}
}

// MadeAgain says what was made more than once, "" if nothing was.
func (r *Report) MadeAgain() string {
	var parts []string
	if n := r.Retried; n > 0 {
		parts = append(parts, fmt.Sprintf("%s after %s", console.Plural(n, "attempt"), console.Plural(r.Retries, "infrastructure error")))
	}
	if n := r.Run.Replaced; n > 0 {
		parts = append(parts, console.Plural(n, "record")+" at resumes")
	}
	again := 0
	for _, a := range r.attempts {
		if a.Outcome == repeated {
			again++
		}
	}
	if again > 0 {
		parts = append(parts, console.Plural(again, "further record")+" of attempts that have one")
	}
	return strings.Join(parts, ", ")
}

// NoAgentWorked says so if no agent did, or no model answered one.
func (r *Report) NoAgentWorked() string {
	n := r.AgentsFailed
	if all := len(r.attempts); all > 0 && r.Answers.Unanswered == all {
		return fmt.Sprintf("NO MODEL ANSWERED: each of %s asked a model and got no answer", console.Plural(all, "attempt"))
	}
	if n == 0 || n != len(r.attempts) {
		return ""
	}
	return fmt.Sprintf("NO AGENT WORKED: each of %s ended with an error and left no candidate", console.Plural(n, "agent"))
}

// banner writes texts that no reader should miss, each from a line of its own, and
// an empty line. None is cut at the edge of a terminal: what to do about it is
// at the end.
func (t *table) banner(texts ...string) {
	const width = console.DefaultWidth - len("***  ***")
	for _, text := range texts {
		line := ""
		for word := range strings.FieldsSeq(text) {
			if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
				t.Line("*** %s ***", line)
				line = ""
			}
			line = strings.TrimPrefix(line+" "+word, " ")
		}
		t.Line("*** %s ***", line)
	}
	t.Line("")
}

// noJudge says who decided on tasks that ask for a judge, in a run without one.
const noJudge = "none: tasks that ask for one have no verdict"

// title names a basis where a run has tasks that ask for a judge.
func (t *table) title(title string, s *Section) string {
	if t.r.Judged == nil {
		return title
	}
	return title + ", " + strings.ToUpper(s.basis.String())
}

func (t *table) total(s *Section) {
	sum := s.Total
	t.Line("\n%s", t.title("TOTAL", s))
	t.Line("  passed\t%d of %s: %s", sum.Passed, console.Plural(sum.Attempts, "attempt"), sum.Containment)
	t.Line("  rate\t%s %s, 95 %% interval over %s", Percent(sum.PassRate), sum.Interval, console.Plural(sum.Tasks, "task"))
	t.Line("  not passed\t%d failed, %d pending, %d infrastructure, %d missing", sum.Failed, sum.Pending, sum.Infrastructure, sum.Missing)
	if t.r.Read != nil && s.basis == verdict.Computed {
		t.Line("  read\t%s", t.r.Read)
	}
}

// agents counts the agents that failed.
func (t *table) agents() {
	if n := t.r.AgentErrors; n > 0 {
		t.Line("  agents\t%d ended with an error, %d of them without a candidate", n, t.r.AgentsFailed)
	}
}

// groups shows what groups of attempts scored. Counts that are 0 in every group
// are left out, and numbers of tasks where each task has one attempt.
func (t *table) groups(title string, gs []Group) {
	if len(gs) == 0 {
		return
	}
	type column struct {
		title string
		of    func(Group) int
	}
	counts := []column{{"FAILED", func(g Group) int { return g.Failed }}}
	for _, c := range []column{
		{"PENDING", func(g Group) int { return g.Pending }},
		{"INFRA", func(g Group) int { return g.Infrastructure }},
		{"MISSING", func(g Group) int { return g.Missing }},
	} {
		if slices.ContainsFunc(gs, func(g Group) bool { return c.of(g) > 0 }) {
			counts = append(counts, c)
		}
	}
	head, single := "\n"+title, !slices.ContainsFunc(gs, func(g Group) bool { return g.Tasks != g.Attempts })
	if !single {
		head += "\tTASKS"
	}
	head += "\tPASSED"
	for _, c := range counts {
		head += "\t" + c.title
	}
	t.Line("%s\tRATE\t95 %%", head)
	for _, g := range gs[:min(len(gs), maxGroups)] {
		row := "  " + console.Cell(g.Name, maxWord)
		if !single {
			row += fmt.Sprintf("\t%d", g.Tasks)
		}
		row += fmt.Sprintf("\t%d/%d", g.Passed, g.Attempts)
		for _, c := range counts {
			row += fmt.Sprintf("\t%d", c.of(g))
		}
		t.Line("%s\t%s\t%.1f–%.1f", row, Percent(g.PassRate), 100*g.Interval[0], 100*g.Interval[1])
	}
	t.More(len(gs) - maxGroups)
}

// counts shows the names that occurred.
func (t *table) counts(title string, all []Count) {
	var seen []Count
	for _, c := range all {
		if c.Attempts > 0 {
			seen = append(seen, c)
		}
	}
	if len(seen) == 0 {
		return
	}
	t.Line("\n%s\tATTEMPTS", title)
	for _, c := range seen[:min(len(seen), maxGroups)] {
		t.Line("  %s\t%d", console.Cell(c.Name, maxWord), c.Attempts)
	}
	t.More(len(seen) - maxGroups)
}

func (t *table) passK(s *Section) {
	if len(s.PassK) == 0 {
		return
	}
	t.Line("\n%s\tPASS@K\tPASS^K", t.title("K", s))
	for _, p := range s.PassK {
		t.Line("  %d\t%s\t%s", p.K, Percent(p.Any), Percent(p.All))
	}
}

func (t *table) slowest() {
	if len(t.r.Slowest) == 0 {
		return
	}
	t.Line("\nSLOWEST\tATTEMPT\tTIME\tOUTCOME")
	for _, s := range t.r.Slowest {
		t.Line("  %s\t%d\t%.1f s\t%s", console.Cell(s.TaskID, maxName), s.Attempt, float64(s.TotalMS)/1000, console.Cell(s.Outcome, maxWord))
	}
}

// unpassed names the tasks that did not pass, each with its first failure.
func (t *table) unpassed() {
	all := t.r.Unpassed
	if len(all) > 0 {
		t.Line("\nNOT PASSED\tPASSED\tOUTCOME\tREASON")
	}
	for _, u := range all[:min(len(all), maxUnpassed)] {
		first := Failure{Outcome: missing}
		if len(u.Failures) > 0 {
			first = u.Failures[0]
		}
		t.Line("  %s\t%d of %d\t%s\t%s", console.Cell(u.TaskID, maxName), u.Passed, u.Attempts, console.Cell(first.Outcome, maxWord), console.Cell(first.Reason, maxWord))
	}
	t.More(len(all) - maxUnpassed)
	if n := t.r.TasksMissing; n > 0 {
		t.Line("\n%s without any record", console.Plural(n, "task"))
	}
}

// String lists the profiles that occurred.
func (m Mix) String() string {
	var out []string
	for _, c := range []Count{{string(verdict.Passive), m.Passive}, {string(verdict.Split), m.Split},
		{string(verdict.Shared), m.Shared}, {"of another profile", m.Other}, {"without a record", m.Missing}} {
		if c.Attempts > 0 {
			out = append(out, fmt.Sprintf("%d %s", c.Attempts, c.Name))
		}
	}
	return cmp.Or(strings.Join(out, ", "), "none")
}

// String shows the bounds in percent.
func (i Interval) String() string { return fmt.Sprintf("[%.1f, %.1f]", 100*i[0], 100*i[1]) }

// Percent shows a rate.
func Percent(rate float64) string { return fmt.Sprintf("%.1f %%", 100*rate) }

var digests = lazyregexp.New(`sha256:[0-9a-f]{64}`)

// shortDigests shortens the digests in a text, such as the signer's.
func shortDigests(text string) string {
	return digests.ReplaceAllStringFunc(text, func(d string) string { return "sha256:" + console.ShortDigest(d) })
}

// list joins the first of the run's labels.
func list(labels []string) string {
	var out []string
	for _, l := range labels[:min(len(labels), maxRunLabels)] {
		out = append(out, console.Cell(l, maxWord))
	}
	if left := len(labels) - maxRunLabels; left > 0 {
		out = append(out, fmt.Sprintf("and %d more", left))
	}
	return strings.Join(out, ", ")
}
