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

func fail(reason verdict.Reason, message string) decision {
	return decision{index: -1, reason: reason, message: message}
}

// decide scores a reply. Numbers are decided first: which number is the answer depends
// on the reply and the question only.
func (k *key) decide(candidate string, cut bool) decision {
	reply := answer.Read(candidate, k.question, k.options)
	if reply.Blank() {
		return fail(verdict.EmptyCandidate, "the candidate is blank")
	}
	if k.marker != "" {
		var ok bool
		if reply, ok = k.afterMarker(reply); !ok {
			return fail(verdict.WrongAnswer, "the last line does not contain the marker")
		}
	}
	if k.rule == bySet {
		return k.accept(reply, k.members, "set", cut)
	}
	d := fail(verdict.WrongAnswer, "the answer is not the expected one")
	if k.has(true) {
		if d = k.number(reply, cut); d.strategy != "" {
			return d
		}
	}
	if k.has(false) {
		if t := k.accept(reply, k.texts, "answer_span", cut); t.strategy != "" || !k.has(true) {
			return t
		}
	}
	return d
}

// Silent reports whether a reply states no answer by the row's rule.
func (k *key) Silent(candidate string) bool {
	reply := answer.Read(candidate, k.question, k.options)
	switch {
	case k.rule == bySet:
		return answer.Silent(reply, k.members)
	case k.has(true) && !answer.Silent(reply, k.numbers):
		return false
	}
	return !k.has(false) || answer.Silent(reply, k.texts)
}

// has reports whether an accepted answer is compared as a number, or as text.
func (k *key) has(number bool) bool {
	for _, a := range k.accepted {
		if (a.number != nil) == number {
			return true
		}
	}
	return false
}

// number decides about a reply to a question that accepts numbers.
func (k *key) number(reply *answer.Reply, cut bool) decision {
	got, reason, message := answer.Decide(reply, k.numbers, cut)
	if reason != "" {
		return fail(reason, message)
	}
	for i, a := range k.accepted {
		if a.number != nil && a.number.Matches(got.Value, k.tolerance, k.question) {
			return decision{index: i, strategy: "numeric_tolerance"}
		}
	}
	return fail(verdict.WrongAnswer, "the answer is not the expected one")
}

// accept decides about a reply by a reader that knows the accepted answers.
func (k *key) accept(reply *answer.Reply, reader answer.Reader[int], strategy string, cut bool) decision {
	got, reason, message := answer.Decide(reply, reader, cut)
	if reason != "" {
		return fail(reason, message)
	}
	return decision{index: got.Value, strategy: strategy}
}

// afterMarker returns what follows the row's own marker in the last line as a reply.
func (k *key) afterMarker(reply *answer.Reply) (*answer.Reply, bool) {
	if len(reply.Lines) == 0 {
		return nil, false
	}
	line := textmatch.Collapse(reply.Lines[len(reply.Lines)-1].Source)
	at := strings.Index(k.fold(line), k.marker)
	if at < 0 {
		return nil, false
	}
	folded := k.fold(line)
	rest := folded[at+len(k.marker):]
	if len(folded) == len(line) {
		rest = line[at+len(k.marker):]
	}
	return answer.Read("Answer: "+rest, k.question, answer.Options{}), true
}
