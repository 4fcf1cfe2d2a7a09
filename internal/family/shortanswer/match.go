package shortanswer

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/reply"
	"securebench/internal/verdict"
)

// maxFocusWords is the most words of a focus that is searched for an answer.
const maxFocusWords = 12

// maxFocus is the maximum size of a focus in bytes; a longer one is not an answer.
const maxFocus = 64 << 10

// maxUnknown is how many words that are neither frame words nor the question's may
// stand in the subject of "the capital city of France is Paris".
const maxUnknown = 2

// match returns the first accepted answer that the focus gives as text and the
// strategy that found it, or "" for none. The index of a set is -1.
func (k *key) match(focus string) (index int, strategy string) {
	if i, strategy := k.whole(focus); strategy != "" || k.rule == bySet || len(focus) > maxFocus {
		return i, strategy
	}
	text := k.fold(focus)
	if lead, rest := cutPolar(text); lead != "" && k.rule == byDefault {
		i := slices.IndexFunc(k.accepted, func(a answer) bool { return a.text == lead })
		if i < 0 || k.long(focus) || slices.ContainsFunc(textmatch.Words(rest, -1), opposes) {
			return -1, ""
		}
		return i, "answer_span"
	}
	for i, a := range k.accepted {
		if !a.isNumber && a.text != "" && k.matchSpan(focus, text, a) {
			return i, "answer_span"
		}
	}
	return -1, ""
}

// whole returns the accepted answer that the focus is as a whole, or -1 and "set"
// for a list of all.
func (k *key) whole(focus string) (index int, strategy string) {
	switch {
	case k.rule == bySet && len(focus) <= maxFocus && k.matchSet(focus):
		return -1, "set"
	case k.rule == bySet:
		return -1, ""
	}
	return k.equal(focus)
}

// equal returns the accepted answer that equals the focus in normal form.
func (k *key) equal(focus string) (index int, strategy string) {
	if len(focus) > maxFocus {
		return -1, ""
	}
	text := k.normalize(focus)
	for i, a := range k.accepted {
		if !a.isNumber && a.text != "" && a.text == text {
			return i, "normalized_exact"
		}
	}
	return -1, ""
}

// matchSpan reports whether a stands in the focus next to nothing but words
// that may stand there. An answer without a word, such as closing brackets,
// must be all of it: the signs next to it could not be distinguished from its
// own.
func (k *key) matchSpan(focus, folded string, a answer) bool {
	if k.rule != byDefault && k.rule != bySpan || textmatch.CountWords(a.text, 1) == 0 {
		return false
	}
	before, after, ok := textmatch.FindSpan(folded, a.text)
	if !ok || strings.HasSuffix(strings.TrimSpace(folded), "?") {
		return false
	}
	if k.rule == bySpan {
		extra := append(textmatch.Words(before, k.extraWords+1), textmatch.Words(after, k.extraWords+1)...)
		return len(extra) <= k.extraWords && !slices.ContainsFunc(extra, func(w string) bool {
			return w == "or" || textmatch.IsNegator(w)
		})
	}
	if len(textmatch.Words(focus, maxFocusWords+1)) > maxFocusWords {
		return false
	}
	extra := append(textmatch.Words(before, -1), textmatch.Words(after, -1)...)
	own := textmatch.Words(a.text, -1)
	if all(own, textmatch.Frame.Has) {
		return !isLead(a.text) && all(extra, isLead)
	}
	unknown := func(w string) bool { return !textmatch.Frame.Has(w) && (a.asked || !k.question.Has(w)) }
	repeats := func(w string) bool { return !textmatch.Frame.Has(w) && slices.Contains(own, w) }
	if slices.ContainsFunc(extra, textmatch.IsBarred) || slices.ContainsFunc(extra, repeats) {
		return false
	}
	return !slices.ContainsFunc(extra, unknown) || !a.asked && k.isSubject(before, after, focus)
}

// isLead reports whether w is one of the frame words that may stand next to an answer that is made of
// frame words itself, such as "in" or "she", and that no other could be.
func isLead(w string) bool {
	switch w {
	case "the", "it", "it's", "is", "answer", "final", "i", "think", "believe", "so", "thus", "hence", "therefore":
		return true
	}
	return false
}

// isSubject reports whether an answer between before and after ends a sentence
// whose subject restates the question: "The capital city of France is Paris".
// All words that are not the question's stand before the verb, are few and in
// small letters, and none of them doubts.
func (k *key) isSubject(before, after, focus string) bool {
	subject, rest, is := textmatch.FindWord(before, "is", "was", "are", "were")
	fits := func(w string) bool { return textmatch.Frame.Has(w) || k.question.Has(w) }
	between := textmatch.Words(rest, -1)
	if n := len(between); n == 2 && between[1] == "by" && !textmatch.IsDoubtful(between[0]) {
		between = nil // was written by
	}
	if is == "" || !all(between, fits) || !all(textmatch.Words(after, -1), fits) {
		return false
	}
	fresh, known := 0, false
	for _, w := range textmatch.Words(subject, -1) {
		switch {
		case textmatch.Frame.Has(w):
		case k.question.Has(w):
			known = true
		case textmatch.IsDoubtful(w) || capital(focus, w):
			return false
		default:
			fresh++
		}
	}
	return known && fresh <= maxUnknown
}

func all(words []string, ok func(string) bool) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !ok(w) })
}

// capital reports whether the word w stands in s with a capital letter or
// anything but letters.
func capital(s, w string) bool {
	_, _, small := textmatch.FindSpan(s, w)
	return !small || strings.ContainsFunc(w, func(r rune) bool { return !unicode.IsLetter(r) || r >= utf8.RuneSelf && unicode.IsUpper(r) })
}

// explain says why a focus that matches nothing failed. It depends on the
// focus and the kind of the row alone: a reason that revealed whether an accepted
// answer was among several would help to guess it.
func (k *key) explain(focus string) (verdict.Reason, string) {
	if len(focus) > maxFocus {
		return verdict.AmbiguousAnswer, "the answer is longer than 64 KiB"
	}
	if k.rule == bySet {
		return verdict.WrongAnswer, "the list is not the expected one"
	}
	if lists(focus) {
		return verdict.AmbiguousAnswer, "the answer is a list or too long"
	}
	return verdict.WrongAnswer, "the answer is not the expected one"
}

// lists reports whether a focus is too long for one answer or names several.
func lists(focus string) bool {
	words := textmatch.Words(focus, maxFocusWords+1)
	return len(words) > maxFocusWords || strings.ContainsAny(focus, ",;") ||
		slices.Contains(words, "and") || slices.Contains(words, "or")
}

// cutPolar cuts "yes, it does" into the answer that it begins with, yes or no,
// true or false, and what follows a comma or dash.
func cutPolar(s string) (lead, rest string) {
	s = strings.TrimLeft(s, " *_"+quotes)
	for _, word := range [...]string{"yes", "no", "true", "false"} {
		after, ok := textmatch.CutFold(s, word)
		after = strings.TrimLeft(after, "*_"+quotes)
		for _, mark := range [...]string{",", " —", " –", " -", "—"} {
			if rest, found := strings.CutPrefix(after, mark); ok && found {
				return word, rest
			}
		}
	}
	return "", ""
}

// opposes reports whether a word retracts the polar answer before it. A negation
// does not: "No, it is not".
func opposes(w string) bool {
	switch w {
	case "yes", "no", "wait":
		return true
	}
	return (textmatch.IsDoubtful(w) || textmatch.IsBarred(w)) && w != "and" && !textmatch.IsNegator(w)
}

// minExplains is the fewest words of a sentence that explains an answer: a
// shorter one could be another answer.
const minExplains = 4

// explains reports whether a sentence after an answer only says more about it:
// "It lies on the Seine." It neither doubts, nor says again what something of
// the question is, nor begins with a name after its verb.
func (k *key) explains(s string) bool {
	if k.rule != byDefault || len(s) > maxFocus || textmatch.CountWords(s, minExplains) < minExplains || strings.HasSuffix(s, "?") ||
		reply.Retracts(s) || slices.ContainsFunc(textmatch.Words(s, -1), opposes) {
		return false
	}
	subject, rest, is := textmatch.FindWord(s, "is", "was", "are", "were", "be", "=")
	name, _ := utf8.DecodeRuneInString(strings.TrimLeft(rest, " *_(["+quotes))
	again := func(w string) bool { return !textmatch.Frame.Has(w) && k.question.Has(w) }
	return is == "" || !unicode.IsUpper(name) && !unicode.IsDigit(name) && !slices.ContainsFunc(textmatch.Words(subject, -1), again)
}
