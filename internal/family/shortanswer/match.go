package shortanswer

import (
	"slices"
	"strings"

	"securebench/internal/family"
	"securebench/internal/family/textmatch"
)

// maxFocusWords is the most words of a focus in which an answer is looked for.
const maxFocusWords = 12

// maxFocus is the most bytes of a focus that is looked at; more is no answer.
const maxFocus = 64 << 10

// markup may stand between a marker and what it marks.
const markup = " *_`"

// focus returns what of the last line is the answer. It reports false where
// the row's own marker is missing.
func (k *key) focus(line string) (string, bool) {
	if k.marker != "" {
		_, after, ok := strings.Cut(k.fold(line), k.marker)
		return textmatch.Strip(after), ok
	}
	bare := strings.TrimLeft(line, markup)
	rest, ok := strings.CutPrefix(bare, "####")
	if ok {
		rest = strings.TrimLeft(rest, "#")
	} else if rest, ok = strings.CutPrefix(bare, "A:"); !ok {
		var word string
		_, rest, word = textmatch.FindWord(line, "final answer", "answer")
		ok = word != ""
	}
	if ok {
		rest = trimMarker(rest)
	}
	if !ok || textmatch.CountWords(rest, 1) == 0 {
		return line, true
	}
	return rest, true
}

// trimMarker takes off what belongs to a marker: "is", a colon, and a hyphen
// or dash that a space follows and that therefore is no sign.
func trimMarker(s string) string {
	s = strings.TrimLeft(s, markup)
	if after, ok := textmatch.CutFold(s, "is"); ok {
		s = strings.TrimLeft(after, markup)
	}
	for _, mark := range []string{":", "- ", "– ", "— "} {
		if after, ok := strings.CutPrefix(s, mark); ok {
			s = after
			break
		}
	}
	return strings.TrimLeft(s, markup)
}

// match returns the first accepted answer that the focus gives and the
// strategy that found it, or "" for none. The index of a set is -1.
func (k *key) match(line, focus string) (index int, strategy string) {
	if len(focus) > maxFocus {
		return -1, ""
	}
	if k.rule == bySet {
		if k.matchSet(focus) {
			return -1, "set"
		}
		return -1, ""
	}
	found, finding := textmatch.FindNumber(focus)
	text := k.fold(focus)
	part, whole := textmatch.Tidy(text), ""
	if k.marker == "" && len(line) <= maxFocus {
		whole = k.normalize(line)
	}
	for i, a := range k.accepted {
		switch {
		case a.isNumber:
			if finding == textmatch.OneNumber && a.number.Matches(found, k.tolerance) {
				return i, k.numberStrategy()
			}
		case a.text == "":
		case a.text == part, a.text == whole:
			return i, "normalized_exact"
		case k.matchSpan(text, a):
			return i, "answer_span"
		}
	}
	return -1, ""
}

func (k *key) numberStrategy() string {
	if k.tolerance != nil {
		return "numeric_tolerance"
	}
	return "numeric_exact"
}

// matchSpan reports whether a stands in the focus beside nothing but words that
// may stand there.
func (k *key) matchSpan(focus string, a answer) bool {
	if k.rule != byDefault && k.rule != bySpan {
		return false
	}
	before, after, ok := textmatch.FindSpan(focus, a.text)
	if !ok {
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
	return !slices.ContainsFunc(extra, func(w string) bool {
		return textmatch.IsBarred(w) || !textmatch.IsFrame(w) && (a.asked || !k.question[w])
	})
}

// explain says why a focus that matches nothing failed. It depends on the
// focus and the kind of the row alone: a reason that told whether an accepted
// answer was among several would help to guess it.
func (k *key) explain(focus string) (family.Reason, string) {
	if len(focus) > maxFocus {
		return family.AmbiguousAnswer, "the answer is longer than 64 KiB"
	}
	if k.rule == bySet {
		return family.WrongAnswer, "the list is not the expected one"
	}
	_, finding := textmatch.FindNumber(focus)
	if k.accepted[0].isNumber {
		switch finding {
		case textmatch.NoNumber:
			return family.WrongAnswer, "the answer holds no number"
		case textmatch.SeveralNumbers:
			return family.AmbiguousAnswer, "the answer holds more than one number"
		case textmatch.UnclearNumber:
			return family.AmbiguousAnswer, "something beside the number changes it or may change it"
		}
		return family.WrongAnswer, "the number is not the expected one"
	}
	if lists(focus) {
		return family.AmbiguousAnswer, "the answer is not one answer"
	}
	return family.WrongAnswer, "the answer is not the expected one"
}

// lists reports whether a focus is too long for one answer or names several.
func lists(focus string) bool {
	words := textmatch.Words(focus, maxFocusWords+1)
	return len(words) > maxFocusWords || strings.ContainsAny(focus, ",;") ||
		slices.Contains(words, "and") || slices.Contains(words, "or")
}
