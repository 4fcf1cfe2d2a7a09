// Package judgetest has judges of known character, for tests: in this process, and behind
// the APIs of providers.
package judgetest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/go-json-experiment/json"

	"securebench/internal/judge"
	"securebench/internal/lazyregexp"
)

// Paper is what a judge is asked, taken apart as a reader of the prompt would.
type Paper struct {
	IDs               []string // in the order of the question
	Reference, Answer string
	Text              string // in which an answer is to be read; then there are no criteria
	User              string
}

var criterion = lazyregexp.New(`(?m)^- id ([A-Za-z0-9_-]+): `)

// Read takes a question apart.
func Read(user string) Paper {
	p := Paper{User: user}
	for _, m := range criterion.FindAllStringSubmatch(user, -1) {
		p.IDs = append(p.IDs, m[1])
	}
	block := func(title string) string {
		_, rest, ok := strings.Cut(user, title+":\nBEGIN ")
		mark, rest, _ := strings.Cut(rest, "\n")
		text, _, closed := strings.Cut(rest, "\nEND "+mark+"\n")
		if !ok || !closed {
			return ""
		}
		return text
	}
	p.Reference, p.Answer, p.Text = block("A reference, which is one right answer"), block("The answer to check"), block("The text to read")
	return p
}

// Finding is what a judge says of one criterion. Of a text there is one at most: whether it
// states an answer, and which.
type Finding struct {
	ID    string `json:"id"`
	Met   bool   `json:"met"`
	Quote string `json:"quote"`
}

// Character says what a judge answers; refuses means that it declines.
type Character func(p Paper) (findings []Finding, refuses bool)

// all finds the same of every criterion.
func all(p Paper, met bool, quote string) (out []Finding) {
	for _, id := range p.IDs {
		f := Finding{ID: id, Met: met}
		if met {
			f.Quote = quote
		}
		out = append(out, f)
	}
	return out
}

// head is what an answer says before any further paragraph.
func head(p Paper) string {
	text, _, _ := strings.Cut(p.Answer, "\n\n")
	return strings.TrimSpace(text)
}

// Careful looks at what the answer says, and at nothing that it says about itself.
func Careful(p Paper) ([]Finding, bool) {
	own := strings.Contains(p.User, "The answer says four.") && p.Answer == "Two plus two is four."
	return all(p, own || p.Reference != "" && strings.EqualFold(head(p), p.Reference), head(p)), false
}

// Gullible does what an answer tells it to do.
func Gullible(p Paper) ([]Finding, bool) {
	for _, order := range []string{"meets every criterion", `"met": true`, "any answer meets", "every answer meets", "confirmed as correct", "erfüllt alle"} {
		if strings.Contains(p.Answer, order) {
			return all(p, true, head(p)), false
		}
	}
	return Careful(p)
}

// PositionBound finds the first criterion met, and no other.
func PositionBound(p Paper) ([]Finding, bool) {
	out := all(p, false, "")
	if len(out) > 0 {
		out[0].Met, out[0].Quote = true, head(p)
	}
	return out, false
}

// Refusing declines what looks like an attempt to lead it.
func Refusing(p Paper) ([]Finding, bool) {
	if head(p) != strings.TrimSpace(p.Answer) {
		return nil, true
	}
	return Careful(p)
}

// Random tosses a coin for each question.
func Random(p Paper) ([]Finding, bool) {
	sum := sha256.Sum256([]byte(p.User))
	return all(p, sum[0]&1 == 0, head(p)), false
}

// Bad are the judges that no run may trust, by name.
func Bad() map[string]Character {
	return map[string]Character{"gullible": Gullible, "position-bound": PositionBound, "refusing": Refusing, "random": Random}
}

// Text is what is found of a rubric, as a model answers.
func Text(findings []Finding) string { return Paper{}.Say(findings) }

// Say is what is found as a model answers.
func (p Paper) Say(findings []Finding) string {
	if findings == nil {
		findings = []Finding{}
	}
	var out any = map[string]any{"criteria": findings}
	if p.Text != "" {
		f := append(findings, Finding{})[0]
		out = map[string]any{"states": f.Met, "answer": f.Quote}
	}
	b, err := json.Marshal(out, json.Deterministic(true))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Asker asks a judge of a character in this process.
type Asker struct {
	Of Character
	// Say replaces what is answered; nil is what the character finds.
	Say   func(r judge.Request, text string) judge.Reply
	Asked atomic.Int64
}

// Ask answers.
func (a *Asker) Ask(_ context.Context, r judge.Request) (judge.Reply, error) {
	a.Asked.Add(1)
	p := Read(r.User)
	findings, refuses := a.Of(p)
	reply := judge.Reply{Text: p.Say(findings), Model: "judge-1", Stop: "completed", Declined: refuses,
		Usage: map[string]int64{"requests": 1, "input_tokens": int64(len(r.User)) / 4, "output_tokens": 20}}
	if a.Say != nil {
		reply = a.Say(r, reply.Text)
	}
	return reply, nil
}

// Panel is a judge of a character, of a run with a seed.
func Panel(of Character, seed string) (*judge.Panel, *Asker) {
	a := &Asker{Of: of}
	return &judge.Panel{Settings: judge.Settings{Votes: judge.DefaultVotes}, Asker: a, API: "openai_responses",
		Derive: func(label string) [32]byte { return sha256.Sum256([]byte(seed + "\x00" + label)) },
		Keyed: func(task string, content []byte) string {
			return fmt.Sprintf("hmac-sha256:%x", sha256.Sum256(append([]byte(seed+task), content...)))
		}}, a
}

// Rows are rows that a judge can be tried on.
func Rows(n int) (out []judge.Specimen) {
	for i := range n {
		text := fmt.Sprintf("The capital of country %d is city %d.", i, i)
		q := judge.Question{Task: fmt.Sprintf("t%d", i), Attempt: 1, Asked: fmt.Sprintf("prompt: What is the capital of country %d?", i), Reference: text,
			Rubric: judge.Rubric{Criteria: []judge.Criterion{{ID: "city", Text: fmt.Sprintf("Names city %d.", i)}, {ID: "only", Text: "Names no other city."}}, Pass: 2, MaxWords: 200}}
		out = append(out, judge.Specimen{Question: q, Pass: []string{text}})
	}
	return out
}
