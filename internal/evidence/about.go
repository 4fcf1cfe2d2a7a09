package evidence

import (
	"fmt"
	"slices"
	"strings"

	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/verdict"
)

// Fact is what a run says of itself, escaped.
type Fact struct{ Name, Value string }

// maxFact bounds a name in a fact, in characters.
const maxFact = 400

// About names the agent of a run, its model and program, the engine and the build,
// with what a reader should know of each.
func About(m record.Manifest) (out []Fact) {
	add := func(name, value, words string) {
		if value == "" {
			return
		}
		if value = redact.EscapeShort(value, maxFact); words != "" {
			value += " (" + words + ")"
		}
		out = append(out, Fact{name, value})
	}
	add("agent", m.Agent, AgentWords(m.Agent))
	add("model", m.Model, "")
	add("program", Programs(m), "")
	if m.Planned.Judged > 0 || m.Judge != nil {
		add("judge", JudgeWords(m.Judge), "")
	}
	add("engine", Engine(m), "")
	add("build", Build(m), "")
	return out
}

// JudgeWords names a run's judge, with its votes and what came of its canaries, "" for
// none.
func JudgeWords(j *record.Judging) string {
	if j == nil {
		return ""
	}
	text := j.Model
	if j.Answered != "" && j.Answered != j.Model {
		text += ", which answers as " + j.Answered
	}
	text += fmt.Sprintf(", %d votes, %s", j.Votes, j.Decide)
	if j.Canaries != nil {
		text += ", " + j.Canaries.String()
	} else {
		text += ", not tried with canaries"
	}
	if slices.Contains(j.Labels, verdict.SelfJudged) {
		text += ", the agent's own model or one of its vendor's"
	}
	if j.Trusted != "" {
		text += ", compared with people in " + j.Trusted
	}
	return text
}

// AgentWords says what a reader should know of an agent, "" for one that this build
// does not know.
func AgentWords(name string) string {
	switch name {
	case "replay":
		return "answers were replayed from a file: only the operator can say where they come from"
	case "oracle":
		return "the pack's own solutions: no agent worked"
	case "null":
		return "empty answers: no agent worked"
	case "command":
		return "a command of the operator's"
	case "model":
		return "a model was asked, and had no tools"
	}
	return ""
}

// Programs names the programs of a run's agents with their versions, "" for none.
func Programs(m record.Manifest) string {
	var out []string
	for _, p := range m.Programs {
		if name := p.Name + " " + p.Version; !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return strings.Join(out, ", ")
}

// Build names the build that made and scored a run, "" if it is unknown.
func Build(m record.Manifest) string {
	return strings.Trim(fmt.Sprintf("%s, %s", m.Version, m.Digests.Verifier), ", ")
}

// OtherBuild says so if this program is another build than the one that scored a run,
// else it returns "".
func OtherBuild(m record.Manifest) (string, error) {
	this, err := record.ThisBuild()
	if err != nil || this == m.Digests.Verifier || m.Digests.Verifier == "" {
		return "", err
	}
	return "this program is another build than the one that scored the run: it is " + this, nil
}
