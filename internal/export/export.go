// Package export writes the attempts of a run in the formats of other programs: tables
// (Parquet, CSV, JSON lines), logs of Inspect, and trajectories of Harbor's interchange
// format. What comes out is what the run publishes, unless steps are asked for, which are
// the operator's.
package export

import (
	"cmp"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"securebench/internal/digest"
	"securebench/internal/pipeline/record"
	"securebench/internal/task"
	"securebench/internal/trajectory"
)

// Run is what is exported: a run that verifies.
type Run struct {
	FS       fs.FS
	Manifest record.Manifest
	Ended    string // RFC 3339
	Lines    []*record.Line
	// Salt checks the operator's files, from which steps are read; nil reads none.
	Salt *digest.Salt
}

// attempts yields the run's attempts in the order of rows and attempts.
func (r *Run) attempts() iter.Seq2[*attempt, error] {
	lines := slices.Clone(r.Lines)
	slices.SortStableFunc(lines, record.InOrder)
	return func(yield func(*attempt, error) bool) {
		for _, l := range lines {
			a, err := r.attempt(l)
			if !yield(a, err) || err != nil {
				return
			}
		}
	}
}

// attempt is one attempt with what is known of it besides its record.
type attempt struct {
	*record.Line
	run     *Run
	steps   []trajectory.Step
	omitted int64 // steps that were too many
}

// stepsName ends the path of the file with an attempt's steps.
const stepsName = "agent-" + trajectory.File

// attempt reads what belongs to a record.
func (r *Run) attempt(l *record.Line) (*attempt, error) {
	a := &attempt{Line: l, run: r}
	if r.Salt == nil {
		return a, nil
	}
	for _, f := range l.Restricted {
		if path.Base(f.Path) != stepsName {
			continue
		}
		if err := f.Check(r.FS, *r.Salt, l.TaskID); err != nil {
			return nil, fmt.Errorf("reading the steps of %q: %w", l.TaskID, err)
		}
		lines, err := fs.ReadFile(r.FS, f.Path)
		if err == nil {
			a.steps, a.omitted, err = trajectory.Read(lines)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the steps of %q: %w", l.TaskID, err)
		}
	}
	return a, nil
}

// model names what answered, or what the provider was asked for, "" for neither.
func (a *attempt) model() string {
	return cmp.Or(a.ProducerMetadata.Text("model_answered"), a.run.Manifest.Model)
}

// shown is what the record shows of the candidate: text, patch, or the digest of a tree.
func (a *attempt) shown() string { return a.Candidate.Shown }

// public are the row's public values that the record has, in the order of the row.
func (a *attempt) public() (out []task.ResourceSummary) {
	for _, s := range a.Summary {
		if len(s.Value) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// publicJSON is an object of the public values, by name.
func (a *attempt) publicJSON() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, s := range a.public() {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := jsontext.AppendQuote(nil, s.Name)
		b.Write(name)
		b.WriteByte(':')
		b.Write(s.Value)
	}
	b.WriteByte('}')
	return b.String()
}

// question is what the agent was asked, as far as the record tells: the one public text, or
// each public value below its name.
func (a *attempt) question() string {
	var texts []string
	public := a.public()
	for _, s := range public {
		text := string(s.Value)
		if s.Value.Kind() == '"' {
			if err := json.Unmarshal(s.Value, &text); err != nil {
				text = string(s.Value)
			}
		}
		texts = append(texts, text)
	}
	if len(texts) == 1 {
		return texts[0]
	}
	for i, s := range public {
		texts[i] = s.Name + ":\n" + texts[i]
	}
	return strings.Join(texts, "\n\n")
}

// arguments are those of a call as an object, whatever the model wrote.
func arguments(text string) map[string]any {
	var out map[string]any
	if json.Unmarshal([]byte(text), &out) != nil || out == nil {
		return map[string]any{"input": text}
	}
	return out
}
