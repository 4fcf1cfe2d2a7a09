package shortanswer

import (
	"strings"

	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/answer"
	"securebench/internal/verdict"
)

// A decision says which accepted answer a reply gives, and how, or why none.
type decision struct {
	index    int // -1 for a set
	strategy string
	reason   verdict.Reason
	message  string
}

// decide scores a reply. Numbers are decided first: which number is the answer depends
// on the reply and the question only.
func (k *key) decide(candidate string, cut bool) (d decision) {
	reply, ok := k.marked(candidate)
	if !ok {
		return decision{reason: verdict.WrongAnswer, message: noMarker}
	}
	if k.rule == bySet {
		return accept(reply, &k.members, "set", cut)
	}
	if k.numeric > 0 {
		if d = k.number(reply, cut); d.reason == "" || k.numeric == len(k.members.Accepted) {
			return d
		}
	}
	if t := accept(reply, &k.texts, "answer_span", cut); t.reason == "" || k.numeric == 0 {
		return t
	}
	return d
}

// Silent reports whether a reply states no answer by the row's rule.
func (k *key) Silent(candidate string) bool {
	reply := k.read(candidate)
	if k.rule == bySet {
		return answer.Silent(reply, &k.members)
	}
	return (k.numeric == 0 || answer.Silent(reply, k.numbers)) &&
		(k.numeric == len(k.members.Accepted) || answer.Silent(reply, &k.texts))
}

// number decides about a reply to a question that accepts numbers.
func (k *key) number(reply *answer.Reply, cut bool) decision {
	got, reason, message := answer.Decide(reply, k.numbers, cut)
	if reason != "" {
		return decision{reason: reason, message: message}
	}
	for i, a := range k.members.Accepted {
		if a.Number != nil && a.Number.Matches(got.Value, k.members.Tolerance, k.question) {
			return decision{index: i, strategy: "numeric_tolerance"}
		}
	}
	return decision{reason: verdict.WrongAnswer, message: "the answer is not the expected one"}
}

// accept decides about a reply by a reader that knows the accepted answers.
func accept(reply *answer.Reply, reader answer.Reader[int], strategy string, cut bool) decision {
	got, reason, message := answer.Decide(reply, reader, cut)
	return decision{got.Value, strategy, reason, message}
}

// read reads a reply.
func (k *key) read(candidate string) *answer.Reply {
	return answer.Read(candidate, k.question, k.options)
}

// noMarker is what a reply without the row's own marker is told.
const noMarker = "the last line does not contain the marker"

// marked reads a reply: of a row that has its own marker, what follows it in the last line.
func (k *key) marked(candidate string) (*answer.Reply, bool) {
	reply := k.read(candidate)
	if k.marker == "" || reply.Blank {
		return reply, true
	}
	if len(reply.Lines) == 0 {
		return nil, false
	}
	line := textmatch.Collapse(reply.Lines[len(reply.Lines)-1].Source)
	folded := k.fold(line)
	at := strings.Index(folded, k.marker)
	if at < 0 {
		return nil, false
	}
	if len(folded) == len(line) {
		folded = line // as it was written
	}
	return answer.Read("Answer: "+folded[at+len(k.marker):], k.question, answer.Options{}), true
}
