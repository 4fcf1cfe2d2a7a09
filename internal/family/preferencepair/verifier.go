// Package preferencepair is the preference_pair family: two candidates for a prompt, of
// which an agent says which is better. The agent is the judge that is measured.
//
// A judge that always names the first one is right half of the time. So a pair is shown
// in both orders, to two agents that do not know of one another, and by default both have
// to name the right candidate.
//
// What a text states is read as in multiple_choice, with the choices A, B and tie, and in
// the forms that judges use: [[A]], [[A>B]], Output (a), {"preference": "A"}. Marks of
// the highest rank that differ are no verdict.
package preferencepair

import (
	"context"
	"fmt"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/compare"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// newVerifier returns the family's verifier. It needs no sandbox.
func newVerifier(resources family.Resources) family.Verifier {
	r, err := newReader()
	return textmatch.NewVerifier(func(c family.Case) (textmatch.Scorer, error) {
		s := scorer{goldOf(c.Evaluator), r, isBoth(c.Sandbox), chosen(c.Seed), longer(pair(c.Sandbox))}
		if isJudged(c.Evaluator) && resources.Judge != nil && err == nil {
			return newByJudge(resources.Judge, c, s)
		}
		return s, err
	})
}

// scorer decides about the candidates of a row.
type scorer struct {
	gold
	reader reader
	both   bool
	chosen int         // the order that counts, if only one does
	longer compare.Set // as written
}

// Score scores a candidate. Of one that was cut off only what is marked counts.
func (s scorer) Score(_ context.Context, candidate string, cut bool) (family.Verdict, error) {
	return s.match(candidate, cut), nil
}

// told is what one presentation came to: a verdict in terms of the row, or why there is
// none.
type told struct {
	order   int
	verdict compare.Set
	reason  verdict.Reason
	message string
}

func (s scorer) match(text string, cut bool) family.Verdict {
	metadata := map[string]any{"expected_answer": task.Redacted, "orders": s.orders()}
	if textmatch.Strip(text) == "" {
		return textmatch.Fail(verdict.EmptyCandidate, "the candidate is blank", metadata)
	}
	texts, err := candidate.SplitTexts([]byte(text), 2)
	if err != nil {
		return textmatch.Fail(verdict.WrongAnswer, err.Error(), metadata)
	}
	all := s.read(texts, cut)
	if len(all) == 0 {
		return textmatch.Fail(verdict.EmptyCandidate, "the candidate has no text for a presentation", metadata)
	}
	s.describe(all, metadata)
	if reason, message := s.wrong(all); reason != "" {
		return textmatch.Fail(reason, message, metadata)
	}
	return textmatch.Pass(metadata)
}

// orders names the presentations that count.
func (s scorer) orders() string {
	if s.both {
		return bothOrders
	}
	return "one"
}

// read reads the texts that count. With one order that is the one that the attempt was
// to make; a replayed candidate may have only the other.
func (s scorer) read(texts []*string, cut bool) (out []told) {
	if !s.both {
		other := texts[1-s.chosen]
		if texts[s.chosen] != nil {
			other = nil
		}
		texts = []*string{texts[0], texts[1]}
		texts[1-s.chosen] = other
	}
	for i, text := range texts {
		if text == nil && !s.both {
			continue
		}
		t := told{order: i, reason: verdict.EmptyCandidate, message: "the text is missing"}
		if text != nil {
			t.verdict, t.reason, t.message = s.reader.verdict(*text, cut)
		}
		if i == 1 {
			t.verdict = exchanged(t.verdict)
		}
		out = append(out, t)
	}
	return out
}

// describe adds to the metadata what the texts say, and what may have decided instead of
// the candidates' worth: the place of one, or its length.
func (s scorer) describe(all []told, metadata map[string]any) {
	var names []string
	for _, t := range all {
		said := t.verdict
		if t.order == 1 {
			said = exchanged(said)
		}
		names = append(names, label(said))
	}
	metadata["candidate_answer"] = names
	same := true
	for _, t := range all {
		same = same && t.verdict == all[0].verdict && t.verdict != 0
	}
	biases := map[string]bool{}
	if s.both {
		metadata["consistent"] = same
		biases["position"] = names[0] == names[1] && named(names[0])&(first|second) != 0
	}
	if v := all[0].verdict; same && v != tie && s.longer != 0 {
		biases["length"] = v == s.longer
	}
	metadata[verdict.BiasesKey] = biases
}

// wrong says why the texts do not give the right verdict, or "".
func (s scorer) wrong(all []told) (verdict.Reason, string) {
	switch s.decide {
	case bySum:
		sum := 0
		for _, t := range all {
			switch t.verdict {
			case s.right:
				sum++
			case exchanged(s.right):
				sum--
			}
		}
		if sum > 0 {
			return "", ""
		}
	case byFirst:
		all = all[:1]
	}
	for _, t := range all {
		if t.reason != "" {
			return t.reason, t.say()
		}
	}
	if s.decide != bySum && all[len(all)-1].verdict != all[0].verdict {
		return verdict.WrongAnswer, "the verdict changes with the order of the candidates"
	}
	if s.decide == bySum || all[0].verdict != s.right {
		return verdict.WrongAnswer, "the candidate gives another verdict"
	}
	return "", ""
}

// say says what is wrong with a presentation's text.
func (t told) say() string { return fmt.Sprintf("presentation %d: %s", t.order+1, t.message) }
