package transcript

import (
	"fmt"
	"io/fs"
	"strings"
	"time"

	"securebench/internal/console"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/source"
	"securebench/internal/trajectory"
)

// Track is what an agent did in one try.
type Track struct {
	Title string            `json:"title"`
	Note  string            `json:"note"`
	Steps []trajectory.Step `json:"steps"`
}

// maxStep bounds a step that is shown on one line, in characters.
const maxStep = 160

// steps adds those of the agent, of each of its tries, and reports whether it has any.
func (b *builder) steps() bool {
	found := false
	for _, f := range b.stepFiles() {
		title := "agent: steps"
		if try := strings.TrimSuffix(rawName(f.Path), agentSteps); try != "" {
			title += " of " + strings.TrimSuffix(try, "-")
		}
		steps, left, err := b.readSteps(f)
		if err != nil {
			b.add(title, "they cannot be used: "+source.Words(err), "")
			continue
		}
		found = true
		note := console.Plural(len(steps), "step") + " between the agent and its provider"
		if left > 0 {
			note += "; more are not there, because there were too many"
		}
		if b.Apart {
			b.out.Tracks = append(b.out.Tracks, Track{Title: redact.Escape(title), Note: note, Steps: escaped(steps)})
			continue
		}
		b.add(title, note, b.stepLines(steps))
		if b.Steps {
			b.out.Steps = append(b.out.Steps, escaped(steps)...)
		}
	}
	return found
}

// agentSteps ends the name of a file with an agent's steps.
const agentSteps = "agent-" + trajectory.File

// stepFiles are the files with steps, in the order of the tries.
func (b *builder) stepFiles() (out []record.RawFile) {
	if b.FS == nil || b.Salt == nil {
		return nil
	}
	for _, f := range b.line.Restricted {
		if strings.HasSuffix(rawName(f.Path), agentSteps) {
			out = append(out, f)
		}
	}
	return out
}

// readSteps reads a file with steps, if it is what the record says.
func (b *builder) readSteps(f record.RawFile) ([]trajectory.Step, int64, error) {
	if err := f.Check(b.FS, *b.Salt, b.line.TaskID); err != nil {
		return nil, 0, err
	}
	lines, err := fs.ReadFile(b.FS, f.Path)
	if err != nil {
		return nil, 0, err
	}
	return trajectory.Read(lines)
}

// stepLines has a line for each step, or with [Source.Steps] also all lines of its text,
// which begin with blanks.
func (b *builder) stepLines(steps []trajectory.Step) string {
	var out strings.Builder
	tools := map[string]string{} // by call
	for _, s := range steps {
		if s.Kind == trajectory.Call && s.Call != "" {
			tools[s.Call] = s.Name
		}
		if s.Kind == trajectory.Result && s.Name == "" {
			s.Name = tools[s.Call]
		}
		head := fmt.Sprintf("[%.1f s] %s", s.At.Sub(steps[0].At).Seconds(), stepHead(s))
		if !b.Steps {
			out.WriteString(redact.EscapeShort(strings.Join(strings.Fields(head+"  "+s.Text), " "), maxStep) + "\n")
			continue
		}
		out.WriteString(redact.Escape(strings.Join(strings.Fields(head), " ")) + "\n")
		for line := range strings.Lines(s.Text) {
			out.WriteString("    " + strings.TrimRight(line, "\r\n") + "\n")
		}
	}
	return out.String()
}

// stepHead says whose step it is, and what.
func stepHead(s trajectory.Step) string {
	var head string
	switch s.Kind {
	case trajectory.Answer, trajectory.Error:
		return answerHead(s)
	case trajectory.Message:
		head = s.Role
		if s.By == trajectory.Model {
			head = "model"
		}
	case trajectory.Result:
		head = "result " + s.Name
	default:
		head = string(s.Kind) + " " + s.Name
	}
	if s.By == trajectory.Agent && (s.Kind == trajectory.Call || s.Kind == trajectory.Reasoning || s.Role == "assistant") {
		head += " (the agent says; no answer of its model has it)"
	}
	if s.Failed {
		head += " (failed)"
	}
	return head + ":"
}

// answerHead says what an answer took, or why there is none.
func answerHead(s trajectory.Step) string {
	took := time.Duration(s.Took) * time.Millisecond
	words := []string{fmt.Sprintf("%s after %.1f s", s.Kind, took.Seconds())}
	if s.Kind == trajectory.Error && s.Status > 0 {
		words = append(words, fmt.Sprintf("status %d", s.Status))
	}
	if s.Waited > 0 {
		words = append(words, fmt.Sprintf("%.1f s of them waiting", float64(s.Waited)/1000))
	}
	if u := s.Usage; u != nil {
		text := fmt.Sprintf("%d tokens in, %d cached, %d out", u.Input, u.Cached, u.Output)
		if s.Estimated {
			text += ", estimated"
		}
		words = append(words, text)
	}
	if s.Reason != "" {
		words = append(words, s.Reason)
	}
	if s.Model != "" {
		words = append(words, s.Model)
	}
	return strings.Join(words, ", ")
}

// escaped are steps whose texts are escaped.
func escaped(steps []trajectory.Step) []trajectory.Step {
	for i := range steps {
		s := &steps[i]
		for _, name := range []*string{&s.Role, &s.Call, &s.Name, &s.Model, &s.Reason} {
			*name = redact.Escape(*name)
		}
		s.By, s.Kind = trajectory.By(redact.Escape(string(s.By))), trajectory.Kind(redact.Escape(string(s.Kind)))
		s.Text = redact.EscapeText(s.Text)
	}
	return steps
}
