package report

import (
	"cmp"
	"fmt"
	"strings"

	"securebench/internal/console"
	"securebench/internal/redact"
	"securebench/internal/transcript"
	"securebench/internal/verdict"
)

// View is a report in words, for a page. Every text in it is escaped.
type View struct {
	Title     string         `json:"title"`
	Run       Run            `json:"run"`
	When      string         `json:"when,omitzero"`
	MadeAgain string         `json:"made_again,omitzero"`
	Banners   []string       `json:"banners,omitzero"` // what no reader should miss
	Totals    []TotalView    `json:"totals"`
	Groups    []GroupsView   `json:"groups,omitzero"`
	PassK     []TriesView    `json:"pass_k,omitzero"`
	Measures  []MeasuresView `json:"measures,omitzero"`
	Usage     *UsageView     `json:"usage,omitzero"`
	Counts    []CountsView   `json:"counts,omitzero"`
	Gates     []Gate         `json:"gates"`
}

// GroupsView is a table of groups.
type GroupsView struct {
	Title  string    `json:"title"`
	Column string    `json:"column"` // what a group is
	Note   string    `json:"note,omitzero"`
	Rows   []RowView `json:"rows"`
	More   int       `json:"more,omitzero"`
}

// RowView is a tally in words.
type RowView struct {
	Name  string `json:"name,omitzero"`
	Rate  string `json:"rate"`
	Range string `json:"range"` // the interval
	Other int    `json:"other"`
	Tally
}

// TotalView is what was scored of one basis, with its name if there are two.
type TotalView struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	Note  string `json:"note,omitzero"`
	RowView
}

// CountsView is a table of counts.
type CountsView struct {
	Title string      `json:"title"`
	Rows  []CountView `json:"rows"`
	More  int         `json:"more,omitzero"`
}

// CountView is a count, and what its name means.
type CountView struct {
	Count
	Words string `json:"words,omitzero"`
}

// TriesView is what several attempts at a task achieve.
type TriesView struct {
	Title string      `json:"title"`
	Rows  []PassKView `json:"rows"`
}

// PassKView is [PassK] in words.
type PassKView struct {
	K   int    `json:"k"`
	Any string `json:"any"`
	All string `json:"all"`
}

// MeasuresView is a table of means.
type MeasuresView struct {
	Title string     `json:"title"`
	Rows  []MeanView `json:"rows"`
}

// MeanView is a [Mean] in words.
type MeanView struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	Of       string `json:"of"`
	Attempts int    `json:"attempts"`
}

// UsageView is a [Usage] in words.
type UsageView struct {
	Requests string   `json:"requests"`
	Tokens   string   `json:"tokens"`
	Cost     string   `json:"cost,omitzero"`
	Notes    []string `json:"notes,omitzero"`
}

// Gate is a condition of "run --fail-on", and whether this run meets it.
type Gate struct {
	Condition string `json:"condition"`
	Met       bool   `json:"met"`
	Why       string `json:"why"`
}

// The bounds of a page's tables: their rows, and their names in characters.
const (
	maxRows     = 50
	maxPageName = 120
)

// View returns the report in words.
func (r *Report) View() *View {
	v := &View{
		Title: redact.EscapeShort(r.Run.PackID, maxPageName), Run: escaped(r.Run), When: r.Run.When(), Banners: banners(r), MadeAgain: r.MadeAgain(), Gates: gates(r),
	}
	if u := r.Usage; u.Attempts > 0 {
		v.Usage = &UsageView{Requests: u.Requested(), Tokens: u.Tokens(), Cost: u.Cost()}
		for _, c := range r.Answers.Unusual() {
			v.Usage.Notes = append(v.Usage.Notes, fmt.Sprintf("%d of %d attempts %s.", c.N, r.Answers.Asked, c.What))
		}
	}
	for _, s := range r.sections() {
		v.section(r, s)
	}
	if labels := newCounts("By label", r.Labels, transcript.LabelWords); len(labels.Rows) > 0 {
		v.Counts = append(v.Counts, labels)
	}
	return v
}

// gates are the conditions that say no more than a count, which is of one basis.
func gates(r *Report) (out []Gate) {
	count := func(condition string, of func(Tally) int) {
		g := Gate{Condition: condition}
		var parts []string
		for _, s := range r.sections() {
			n := of(s.Total.Tally)
			g.Met = g.Met || n > 0
			part := console.Plural(n, "attempt")
			if r.Judged != nil {
				part = s.basis.String() + ": " + part
			}
			parts = append(parts, part)
		}
		g.Why = strings.Join(parts, "; ")
		out = append(out, g)
	}
	count("failed", func(t Tally) int { return t.Failed })
	count("pending", func(t Tally) int { return t.Pending + t.Infrastructure + t.Missing })
	if a := r.Answers; a.Asked > 0 {
		for _, share := range []struct {
			condition string
			n         int
		}{{"truncated>0", a.Truncated}, {"empty>0", a.Empty}, {"refused>0", a.Refused}} {
			out = append(out, Gate{share.condition, share.n > 0, console.Plural(share.n, "attempt")})
		}
	}
	return out
}

// section adds the tables of one basis, which name it where a run has tasks that ask for a
// judge.
func (v *View) section(r *Report, s *Section) {
	name, total := "", TotalView{ID: "total", Title: "Result", RowView: newRow("", s.Total.Tally)}
	if r.Judged != nil {
		name = ", " + s.basis.String()
		total.Title += name
	}
	if r.Read != nil && s.basis == verdict.Computed {
		total.Note = "Read: " + r.Read.String() + ". Judge: " + cmp.Or(redact.EscapeShort(r.Run.Judge, maxEvidence), noJudge) + "."
	}
	if s.basis == verdict.Judged {
		total.ID = "judged"
		total.Note = "Judged: a model was asked whether the candidates meet their rubrics. This is no part of what was computed. Judge: " + cmp.Or(redact.EscapeShort(r.Run.Judge, maxEvidence), noJudge) + "."
	}
	v.Totals = append(v.Totals, total)
	v.Groups = append(v.Groups, drop([]GroupsView{
		newGroups("By family"+name, "family", "", s.Families),
		newGroups("By tag"+name, "tag", "A task counts in each of its tags.", s.Tags),
		newGroups("By containment"+name, "profile", containmentNote, s.Profiles),
	})...)
	tries := TriesView{Title: "Several attempts at a task" + name}
	for _, k := range s.PassK {
		tries.Rows = append(tries.Rows, PassKView{k.K, Percent(k.Any), Percent(k.All)})
	}
	if len(tries.Rows) > 0 {
		v.PassK = append(v.PassK, tries)
	}
	measures := MeasuresView{Title: "Measures" + name}
	for _, m := range s.Measures {
		measures.Rows = append(measures.Rows, MeanView{redact.EscapeShort(m.Name, maxPageName), fmt.Sprintf("%.4f", m.Value), m.Of, m.Attempts})
	}
	if len(measures.Rows) > 0 {
		v.Measures = append(v.Measures, measures)
	}
	if len(s.Biases) > 0 {
		v.Counts = append(v.Counts, biasCounts("What may have decided"+name, s.Biases))
	}
	v.Counts = append(v.Counts, newCounts("By outcome"+name, s.Outcomes, func(string) string { return "" }))
}

// biasCounts is the block of biases.
func biasCounts(title string, all []Bias) CountsView {
	out := CountsView{Title: title}
	for _, b := range all[:min(len(all), maxRows)] {
		out.Rows = append(out.Rows, CountView{Count{redact.EscapeShort(b.Name, maxPageName), b.Decided}, fmt.Sprintf("of %d, %s", b.Attempts, Percent(b.Share))})
	}
	out.More = len(all) - len(out.Rows)
	return out
}

const containmentNote = "Where candidate code could run while it was scored. passive: none was executed. split: it ran in a sandbox of its own, away from the tests. shared: it shared a sandbox with the tests, so it could try to deceive them."

func escaped(r Run) Run {
	r.RunID, r.Agent, r.PackID = redact.EscapeShort(r.RunID, maxPageName), redact.EscapeShort(r.Agent, maxPageName), redact.EscapeShort(r.PackID, maxPageName)
	r.Model, r.Program, r.Build = redact.EscapeShort(r.Model, maxPageName), redact.EscapeShort(r.Program, maxPageName), redact.EscapeShort(r.Build, maxPageName)
	r.AgentNote = redact.EscapeShort(r.AgentNote, maxPageName)
	r.Engine, r.Chosen = redact.EscapeShort(r.Engine, maxPageName), redact.EscapeShort(r.Chosen, maxPageName)
	r.Evidence, r.Judge = redact.EscapeShort(r.Evidence, maxBanner), redact.EscapeShort(r.Judge, maxEvidence)
	r.Started, r.Ended, r.Canaries = redact.EscapeShort(r.Started, maxWord), redact.EscapeShort(r.Ended, maxWord), redact.EscapeShort(r.Canaries, maxWord)
	labels := r.Labels
	r.Labels = nil
	for _, l := range labels[:min(len(labels), maxRows)] {
		r.Labels = append(r.Labels, redact.EscapeShort(l, maxPageName))
	}
	return r
}

// banners are what no reader should miss.
func banners(all *Report) (out []string) {
	r := all.Run
	if !r.Verified {
		why := strings.TrimLeft(strings.TrimPrefix(r.Evidence, "NOT VERIFIED"), ": ")
		out = append(out, redact.Escape("NOT VERIFIED: "+why+". The figures below are only what the records claim."))
	}
	if r.LeftOut > 0 {
		out = append(out, fmt.Sprintf("PART OF THE PACK: %d of its %d rows were left out.", r.LeftOut, r.LeftOut+r.PlannedTasks))
	}
	if note := all.NoAgentWorked(); note != "" {
		out = append(out, note+".")
	}
	return out
}

func newGroups(title, column, note string, all []Group) GroupsView {
	g := GroupsView{Title: title, Column: column, Note: note, More: max(len(all)-maxRows, 0)}
	for _, one := range all[:min(len(all), maxRows)] {
		name := one.Name
		if name == "" {
			name = "none recorded"
		}
		g.Rows = append(g.Rows, newRow(redact.EscapeShort(name, maxPageName), one.Tally))
	}
	return g
}

// drop leaves tables without a row out.
func drop(all []GroupsView) (out []GroupsView) {
	for _, g := range all {
		if len(g.Rows) > 0 {
			out = append(out, g)
		}
	}
	return out
}

func newCounts(title string, all []Count, words func(string) string) CountsView {
	c := CountsView{Title: title}
	for _, one := range all {
		switch {
		case one.Attempts == 0:
		case len(c.Rows) == maxRows:
			c.More++
		default:
			c.Rows = append(c.Rows, CountView{Count{Name: redact.EscapeShort(one.Name, maxPageName), Attempts: one.Attempts}, words(one.Name)})
		}
	}
	return c
}

func newRow(name string, t Tally) RowView {
	return RowView{Name: name, Rate: Percent(t.PassRate), Range: fmt.Sprintf("%.1f–%.1f %%", 100*t.Interval[0], 100*t.Interval[1]),
		Other: t.Pending + t.Infrastructure + t.Missing, Tally: t}
}
