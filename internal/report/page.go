package report

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/redact"
	"securebench/internal/transcript"
	"securebench/internal/verdict"
)

// The parts of the page.
var (
	//go:embed page.html
	layout string
	//go:embed page.css
	style string
	//go:embed page.js
	script string
)

// PageAttempt is an attempt with the tags of its row.
type PageAttempt struct {
	transcript.Attempt
	Tags []string `json:"tags,omitzero"`
}

// Fact is a line of the section on checking the run.
type Fact struct{ Name, Value string }

// Page is a report as one page of HTML: a file that can be opened from disk and
// published. It loads nothing from elsewhere, and its policy on content lets nothing run
// in it but its own script. Texts of agents and candidates are data of that script, which
// shows them as text.
type Page struct {
	Report *Report
	// Attempts are shown in this order. Their texts are escaped.
	Attempts []PageAttempt
	Facts    []Fact
	Version  string // of this build
}

// textBudget bounds the texts of all attempts together, in bytes; a text has
// between minText and maxText.
const (
	textBudget = 40 << 20
	minText    = 512
	maxText    = 16 << 10
)

// TextLimit is how long a text of an attempt may be on a page of so many, in bytes.
func TextLimit(attempts int64) int {
	const texts = 3 // of an attempt that are long
	return int(min(max(textBudget/max(attempts, 1)/texts, minText), maxText))
}

// maxRows bounds the rows of a table of groups or counts.
const maxRows = 50

// pageView is the page as the template sees it. All of its texts are escaped.
type pageView struct {
	Title, Policy, Version string
	Style                  template.CSS
	Script, Data           template.JS
	Run                    Run
	MadeAgain              string
	Banners                []string
	Totals                 []pageTotal
	Groups                 []pageGroups
	PassK                  []pageTries
	Measures               []pageMeasures
	Usage                  Usage
	Answers                verdict.Answers
	Counts                 []pageCounts
	Facts                  []Fact
}

type pageGroups struct {
	Title, Column, Note string
	Rows                []pageRow
	More                int
}

type pageCounts struct {
	Title string
	Rows  []count
	More  int
}

type count struct {
	Count
	Words string // what the name means
}

type pageRow struct {
	Name, Rate, Interval string
	Bar                  template.HTML
	Other                int
	Tally
}

// pageTotal is what was scored of one basis, with a title if there are two.
type pageTotal struct {
	ID, Title, Note string
	pageRow
}

type pageTries struct {
	Title string
	Rows  []pagePassK
}

type pagePassK struct {
	K        int
	Any, All string
}

type pageMeasures struct {
	Title string
	Rows  []pageMean
}

type pageMean struct {
	Name, Value, Of string
	Attempts        int
}

// Write writes the page.
func (p *Page) Write(w io.Writer) error {
	data, err := json.Marshal(p.Attempts, jsontext.EscapeForHTML(true), jsontext.EscapeForJS(true), jsontext.AllowInvalidUTF8(true), json.FormatNilSliceAsNull(false))
	if err != nil {
		return fmt.Errorf("encoding the attempts: %w", err)
	}
	t, err := template.New("page").Parse(layout)
	if err == nil {
		err = t.Execute(w, p.view(template.JS(redact.ASCII(data)))) //nolint:gosec // JSON without <, > and &
	}
	if err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

func (p *Page) view(data template.JS) pageView {
	r := p.Report
	v := pageView{
		Title: "securebench report: " + redact.EscapeShort(r.Run.PackID, maxPageName), Version: redact.Escape(p.Version),
		Style: template.CSS(style), Script: template.JS(script), Data: data, //nolint:gosec // own files
		Run: escaped(r.Run), Banners: banners(r), MadeAgain: r.MadeAgain(), Usage: r.Usage, Answers: r.Answers,
	}
	v.Policy = "default-src 'none'; script-src " + source(script) + "; style-src " + source(style) + "; base-uri 'none'; form-action 'none'"
	for _, s := range r.sections() {
		v.section(r, s)
	}
	v.Counts = append(v.Counts, newCounts("By label", r.Labels, transcript.LabelWords))
	for _, f := range p.Facts {
		v.Facts = append(v.Facts, Fact{redact.Escape(f.Name), redact.EscapeText(f.Value)})
	}
	return v
}

// section adds the tables of one basis, which name it where a run has tasks that ask for a
// judge.
func (v *pageView) section(r *Report, s *Section) {
	name, total := "", pageTotal{ID: "total", Title: "Result", pageRow: newRow("", s.Total.Tally)}
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
	v.Groups = append(v.Groups, drop([]pageGroups{
		newGroups("By family"+name, "family", "", s.Families),
		newGroups("By tag"+name, "tag", "A task counts in each of its tags.", s.Tags),
		newGroups("By containment"+name, "profile", containmentNote, s.Profiles),
	})...)
	tries := pageTries{Title: "Several attempts at a task" + name}
	for _, k := range s.PassK {
		tries.Rows = append(tries.Rows, pagePassK{k.K, Percent(k.Any), Percent(k.All)})
	}
	if len(tries.Rows) > 0 {
		v.PassK = append(v.PassK, tries)
	}
	measures := pageMeasures{Title: "Measures" + name}
	for _, m := range s.Measures {
		measures.Rows = append(measures.Rows, pageMean{redact.EscapeShort(m.Name, maxPageName), fmt.Sprintf("%.4f", m.Value), m.Of, m.Attempts})
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
func biasCounts(title string, all []Bias) pageCounts {
	out := pageCounts{Title: title}
	for _, b := range all[:min(len(all), maxRows)] {
		out.Rows = append(out.Rows, count{Count{redact.EscapeShort(b.Name, maxPageName), b.Decided}, fmt.Sprintf("of %d, %s", b.Attempts, Percent(b.Share))})
	}
	out.More = len(all) - len(out.Rows)
	return out
}

const containmentNote = "Where candidate code could run while it was scored. passive: none was executed. split: it ran in a sandbox of its own, away from the tests. shared: it shared a sandbox with the tests, so it could try to deceive them."

// maxPageName bounds a name, in characters.
const maxPageName = 120

func escaped(r Run) Run {
	r.RunID, r.Agent, r.PackID = redact.EscapeShort(r.RunID, maxPageName), redact.EscapeShort(r.Agent, maxPageName), redact.EscapeShort(r.PackID, maxPageName)
	r.Model, r.Program, r.Build = redact.EscapeShort(r.Model, maxPageName), redact.EscapeShort(r.Program, maxPageName), redact.EscapeShort(r.Build, maxPageName)
	r.AgentNote = redact.EscapeShort(r.AgentNote, maxPageName)
	r.Engine, r.Chosen = redact.EscapeShort(r.Engine, maxPageName), redact.EscapeShort(r.Chosen, maxPageName)
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

func newGroups(title, column, note string, all []Group) pageGroups {
	g := pageGroups{Title: title, Column: column, Note: note, More: max(len(all)-maxRows, 0)}
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
func drop(all []pageGroups) (out []pageGroups) {
	for _, g := range all {
		if len(g.Rows) > 0 {
			out = append(out, g)
		}
	}
	return out
}

func newCounts(title string, all []Count, words func(string) string) pageCounts {
	c := pageCounts{Title: title}
	for _, one := range all {
		switch {
		case one.Attempts == 0:
		case len(c.Rows) == maxRows:
			c.More++
		default:
			c.Rows = append(c.Rows, count{Count{Name: redact.EscapeShort(one.Name, maxPageName), Attempts: one.Attempts}, words(one.Name)})
		}
	}
	return c
}

func newRow(name string, t Tally) pageRow {
	return pageRow{Name: name, Rate: Percent(t.PassRate), Interval: fmt.Sprintf("%.1f–%.1f %%", 100*t.Interval[0], 100*t.Interval[1]),
		Bar: bar(t), Other: t.Pending + t.Infrastructure + t.Missing, Tally: t}
}

// bar draws a rate with its interval.
func bar(t Tally) template.HTML {
	low, high := 100*t.Interval[0], 100*t.Interval[1]
	return template.HTML(fmt.Sprintf(`<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="%s">`+ //nolint:gosec // numbers
		`<rect class="track" x="0" y="4" width="100" height="2"></rect><rect class="range" x="%.2f" y="1" width="%.2f" height="8"></rect>`+
		`<rect class="point" x="%.2f" y="0" width="0.8" height="10"></rect></svg>`, Percent(t.PassRate), low, high-low, min(100*t.PassRate, 99.2)))
}

// source names a script or style by its digest in a policy on content.
func source(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
