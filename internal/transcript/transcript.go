// Package transcript reads one attempt of a run in full: what the agent was
// asked, what it printed, what was taken as its candidate, the verdict in words,
// and what binds all of it to its inputs.
//
// Agents and candidates choose most of that text, so all of it is escaped: it has
// no character that a terminal would interpret or a reader would not see.
package transcript

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/digest"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/task"
	"securebench/internal/trajectory"
	"securebench/internal/verdict"
)

// Attempt is one attempt, in texts that are escaped.
type Attempt struct {
	TaskID      string   `json:"task"`
	Index       int      `json:"row"`
	Number      int      `json:"attempt"` // from 1
	Family      string   `json:"family"`
	Outcome     string   `json:"outcome"`
	Reason      string   `json:"reason,omitzero"`
	Containment string   `json:"containment"`
	Basis       string   `json:"basis"`
	Labels      []string `json:"labels,omitzero"`
	Passed      bool     `json:"passed"`
	TotalMS     int64    `json:"ms"`
	// Verdict is a sentence, and Message what the verifier said besides.
	Verdict string `json:"verdict"`
	Message string `json:"message,omitzero"`
	Parts   []Part `json:"parts,omitzero"`
	// Steps are there only with [Source.Steps].
	Steps []trajectory.Step `json:"steps,omitzero"`
	// Tracks are the agent's steps, one track for each try, only with [Source.Apart].
	Tracks []Track `json:"tracks,omitzero"`
}

// Part is a text of an attempt under a title, such as its prompt.
type Part struct {
	Title string `json:"title"`
	// Form says what the text is, so that a page can show it as that, with [Source.Apart].
	Form Form `json:"form,omitzero"`
	// Note says what a reader should know of the text, such as that it was cut.
	Note string `json:"note,omitzero"`
	Text string `json:"text"`
	// Files are those of a tree, only with [Source.Apart].
	Files []File `json:"files,omitzero"`
}

// Form is what the text of a part is; the zero value is a text like any other.
type Form string

// The forms.
const (
	Prompt Form = "prompt"
	Code   Form = "code"
	Patch  Form = "patch"
	Tree   Form = "tree"
	Values Form = "values" // a name and a value a line
	// Pictures are files, each with its picture.
	Pictures Form = "pictures"
)

// Source says where the parts of an attempt are read.
type Source struct {
	// FS is the directory of the run, or nil for what only the record has.
	FS fs.FS
	// Salt is nil for a published copy, whose raw output is absent.
	Salt *digest.Salt
	// Limit bounds each text, in bytes.
	Limit int
	// Brief leaves out the digests that all records of a run share.
	Brief bool
	// Steps leaves out all parts but the agent's steps, and shows these in full.
	Steps bool
	// Apart returns steps and files of trees as values rather than as text, and leaves the
	// decisions of the gateway to the caller.
	Apart bool
}

// Read returns an attempt.
func Read(from Source, l *record.Line) Attempt {
	a := Attempt{
		TaskID: redact.Escape(l.TaskID), Index: l.Index, Number: l.Attempt, Family: redact.Escape(l.TaskType),
		Outcome: redact.Escape(string(l.Outcome)), Reason: redact.Escape(string(l.FailureReason)),
		Containment: redact.Escape(string(l.Containment)), Basis: l.Basis.String(), Passed: l.Passed, TotalMS: l.Timings["total"],
		Verdict: words(l), Message: redact.EscapeText(l.FailureMessage),
	}
	for _, label := range l.Labels {
		a.Labels = append(a.Labels, redact.Escape(label))
	}
	b := builder{Source: from, line: l, out: &a}
	if from.Steps {
		if !b.steps() && len(a.Parts) == 0 {
			b.add("agent: steps", "none are there: only an agent with a provider has them, and only the operator's directory", "")
		}
		return a
	}
	b.prompt()
	b.agent()
	b.candidate()
	b.verifier()
	b.retries()
	b.numbers()
	b.digests()
	return a
}

// Contradicts makes the attempt one that did not pass, whatever its record says: a
// report counts it under another outcome.
func (a *Attempt) Contradicts(counted string) {
	a.Verdict = "The record says \"" + strings.ReplaceAll(a.Heading(), `"`, `\"`) + "\", but contradicts itself or another record, and does not count. It says: " + a.Verdict
	a.Passed, a.Outcome, a.Reason = false, redact.Escape(counted), ""
}

// builder collects the parts of an attempt.
type builder struct {
	Source
	line *record.Line
	out  *Attempt
	// stepped says that the agent's steps are shown, and so what its exchanges say.
	stepped bool
}

// add adds a part unless it is empty. The text is from outside.
func (b *builder) add(title, note, text string) { b.addAs("", title, note, text) }

// addAs adds a part of a form.
func (b *builder) addAs(form Form, title, note, text string) {
	if text == "" && note == "" {
		return
	}
	if !b.Apart {
		form = ""
	}
	shown, cut := cutText(text, b.Limit)
	if cut != "" && note != "" {
		note += "; "
	}
	b.out.Parts = append(b.out.Parts, Part{Title: redact.Escape(title), Form: form, Note: redact.Escape(note + cut), Text: shown})
}

// cutText escapes a text and cuts its middle out if it is longer than limit. The
// second result says so.
func cutText(text string, limit int) (shown, note string) {
	shown, cut := redact.EscapedExcerpt([]byte(text), limit)
	if cut {
		note = fmt.Sprintf("cut to %d of %d bytes", limit, len(text))
	}
	return shown, note
}

// prompt adds the public values of the row.
func (b *builder) prompt() {
	hidden := []string{}
	for _, r := range b.line.Summary {
		title := "prompt: " + r.Name
		if r.Name == "prompt" {
			title = r.Name
		}
		switch {
		case r.Redacted:
			hidden = append(hidden, r.Name)
		case r.Digest != "":
			b.addAs(Prompt, title, fmt.Sprintf("not in the record: %d bytes, %s", r.Bytes, r.Digest), "")
		default:
			b.addAs(Prompt, title, "", plainJSON(r.Value))
		}
	}
	if len(hidden) > 0 {
		b.add("not shown to the agent", "", strings.Join(hidden, ", "))
	}
}

// Texts returns what was asked and what was answered, as far as the record has it, which
// is nothing that the agent did not see. They are not escaped.
func Texts(l *record.Line) (asked, answered string) {
	var values []string
	for _, r := range l.Summary {
		if !r.Redacted && r.Digest == "" {
			values = append(values, plainJSON(r.Value))
		}
	}
	if l.Candidate.Kind != task.Workspace {
		answered = l.Candidate.Shown
	}
	return strings.Join(values, "\n"), answered
}

// plainJSON is a value as a reader wants it: a string is its text, and anything
// else indented JSON.
func plainJSON(v jsontext.Value) string {
	if v.Kind() == '"' {
		if text, err := jsontext.AppendUnquote(nil, v); err == nil {
			return string(text)
		}
	}
	pretty := v.Clone()
	if pretty.Indent() == nil {
		return string(pretty)
	}
	return string(v)
}

// agent adds what the agent did and printed: all of it where the operator's folder is
// there, else the record's excerpt.
func (b *builder) agent() {
	b.stepped = b.steps()
	b.stream("agent: standard output", "agent-stdout", b.line.ProducerStdout)
	b.stream("agent: standard error", "agent-stderr", b.line.ProducerStderr)
	b.addAs(Values, "agent: how it ended", "", pairs(b.line.ProducerMetadata))
}

// stream adds a stream of the agent's.
func (b *builder) stream(title, file, excerpt string) {
	if raw, ok := b.raw(file); ok {
		b.rawPart(title, raw)
		return
	}
	b.add(title, "", excerpt)
}

// verifier adds what the verification said.
func (b *builder) verifier() {
	l := b.line
	if !l.Verified {
		return
	}
	b.add("verifier: standard output", "", l.VerifierStdout)
	if l.VerifierStderr != l.FailureMessage {
		b.add("verifier: standard error", "", l.VerifierStderr)
	}
	b.add("judge", "", judgement(l.Judge))
	b.add("verifier: measure", "", l.Measure.String())
	b.addAs(Values, "verifier: details", "", pairs(l.VerifierMetadata))
	b.pictures()
	for _, f := range l.Restricted {
		switch name := rawName(f.Path); {
		case strings.HasSuffix(name, verdict.PictureExt):
		case name == "agent-stdout", name == "agent-stderr", strings.HasSuffix(name, agentSteps), b.Apart && strings.HasSuffix(name, "agent-network.jsonl"):
		case b.stepped && strings.HasSuffix(name, "agent-exchanges.jsonl"):
			b.add("restricted: "+name, "not shown, as the steps are; "+f.Path, "")
		default:
			b.rawPart("restricted: "+name, f)
		}
	}
}

func (b *builder) retries() {
	var lines []string
	for i, r := range b.line.Retries {
		lines = append(lines, redact.Escape(fmt.Sprintf("try %d ended in %s: %s", i+1, r.Phase, r.Error)))
	}
	b.add("tries that ended in an infrastructure error", "", strings.Join(lines, "\n"))
}

// numbers adds times and counts.
func (b *builder) numbers() {
	var lines []string
	for _, phase := range slices.Sorted(maps.Keys(b.line.Timings)) {
		lines = append(lines, fmt.Sprintf("%s: %.3f s", redact.Escape(string(phase)), float64(b.line.Timings[phase])/1000))
	}
	b.addAs(Values, "time by phase", "", strings.Join(lines, "\n"))
	lines = nil
	for _, name := range slices.Sorted(maps.Keys(b.line.Usage)) {
		lines = append(lines, redact.Escape(name)+": "+strconv.FormatInt(b.line.Usage[name], 10))
	}
	b.addAs(Values, "usage", "", strings.Join(lines, "\n"))
}

// digests adds what binds the record to its inputs.
func (b *builder) digests() {
	d := b.line.Digests
	var lines []string
	for _, p := range []struct{ name, sum string }{{"candidate", d.Candidate}, {"extracted", d.Extracted}, {"image", d.Image},
		{"row", d.Row}, {"pack", d.Pack}, {"assets", d.Assets}, {"config", d.Config}, {"verifier", d.Verifier}} {
		if p.name == "pack" && b.Brief {
			break
		}
		if p.sum != "" {
			lines = append(lines, p.name+": "+p.sum)
		}
	}
	b.addAs(Values, "digests", "", strings.Join(lines, "\n"))
}

// judgement says how a judge voted, "" if none was asked.
func judgement(j *verdict.Judgement) string {
	if j == nil {
		return ""
	}
	text := fmt.Sprintf("model: %s\nvotes: %d of %d passed", redact.Escape(j.Model), j.Passed, len(j.Votes))
	for i, v := range j.Votes {
		text += fmt.Sprintf("\nvote %d: %s, asked %d times, %d tokens", i+1, map[bool]string{true: "passed", false: "failed"}[v.Passed], v.Asked, v.Tokens)
	}
	if j.Cost != nil {
		text += fmt.Sprintf("\ncost: %d millionths of a USD", *j.Cost)
	}
	return text
}

// pairs lists metadata, one value a line.
func pairs(m verdict.Metadata) string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		v := m[key]
		text := string(v)
		if v.Kind() == '"' {
			text = redact.Escape(plainJSON(v))
		}
		if text != "null" && text != "[]" && text != "{}" {
			lines = append(lines, redact.Escape(key)+": "+text)
		}
	}
	return strings.Join(lines, "\n")
}

// NewPart is a part with a value, escaped and cut to a limit.
func NewPart(form Form, title string, v jsontext.Value, limit int) Part {
	shown, cut := cutText(plainJSON(v), limit)
	return Part{Title: redact.Escape(title), Form: form, Note: cut, Text: shown}
}
