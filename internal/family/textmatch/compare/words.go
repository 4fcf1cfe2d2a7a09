package compare

import (
	"strings"

	"securebench/internal/family/textmatch/answer"
	"securebench/internal/family/textmatch/vocabulary"
)

// MaxSentence is the most bytes of a sentence that is searched for an answer, or for others
// beside it: the work may grow with the square.
const MaxSentence = 4096

// maxWords is the most words before an answer, or of a sentence that may be one as a whole.
const maxWords = 40

// lastIndex returns the index of the last element that is wanted, or -1.
func lastIndex[T any](of []T, wanted func(T) bool) int {
	i := len(of) - 1
	for i >= 0 && !wanted(of[i]) {
		i--
	}
	return i
}

// reasoned reports whether words give a reason.
func reasoned(q *answer.Question, words []answer.Word) bool {
	words = skipSigns(words)
	return len(words) > 0 && q.Is(words[0], vocabulary.Reason)
}

// opens reports whether an explanation may begin with a sign of s, also with one of also.
func opens(s string, w answer.Word, also string) bool {
	if answer.IsDash(w.Sign()) && w.Start > 0 && w.End < len(s) && s[w.Start-1] == ' ' && s[w.End] == ' ' {
		return true
	}
	return w.OneOf(",;:(—–.、，；：。،؛"+also) || w.Sign() == '-' && strings.HasPrefix(s[w.End:], "-")
}

// skipSigns returns words from the first that is no sign.
func skipSigns(words []answer.Word) []answer.Word {
	for len(words) > 0 && words[0].Kind == vocabulary.Sign {
		words = words[1:]
	}
	return words
}
