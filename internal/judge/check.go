package judge

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"securebench/internal/verdict"
)

// openers are answers that say nothing and that judges are known to let pass, without
// blanks and marks at their ends.
func openers() []string {
	return []string{
		"thought process", "thought process:", "let's solve this problem step by step", "let us solve this problem step by step",
		"let's solve this step by step", "let's think step by step", "let us think step by step", "let's begin", "solution", "answer",
		"the answer is", "final answer", "step 1", "reasoning", "explanation", "here is my answer", "i will answer the question",
		"解", "解答", "答案", "かいせつ", "解説", "respuesta", "lösung", "réponse", "ответ", "정답",
	}
}

// unasked decides about candidates that need no judge, and reports whether this is one.
func unasked(q Question) (Decision, bool) {
	fail := func(reason verdict.Reason, message string) (Decision, bool) {
		return Decision{Outcome: verdict.Failed, Reason: reason, Message: message}, true
	}
	switch {
	case !utf8.ValidString(q.Candidate):
		return fail(verdict.InvalidUTF8, "the candidate is not valid UTF-8")
	case !strings.ContainsFunc(q.Candidate, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }):
		return fail(verdict.EmptyCandidate, "the candidate has neither letters nor digits")
	case isOpener(q.Candidate):
		return fail(verdict.WrongAnswer, "the candidate only says that an answer follows")
	case len(q.Candidate) > bytesPerWord*q.Rubric.MaxWords || words(q.Candidate) > q.Rubric.MaxWords:
		return fail(verdict.WrongAnswer, "the candidate is longer than the rubric allows")
	}
	return Decision{}, false
}

// bytesPerWord bounds candidates in scripts without blanks, or without any.
const bytesPerWord = 64

// words counts words.
func words(s string) (n int) {
	for range strings.FieldsSeq(s) {
		n++
	}
	return n
}

// maxOpener is how long an opener can be, in bytes.
const maxOpener = 200

// isOpener reports whether a text is nothing but an opener, however it is spaced.
func isOpener(s string) bool {
	s = strings.TrimFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	var words []string
	size := 0
	for word := range strings.FieldsSeq(s) {
		if size += len(word) + 1; size > maxOpener {
			return false
		}
		words = append(words, word)
	}
	return slices.Contains(openers(), strings.ToLower(strings.ReplaceAll(strings.Join(words, " "), "’", "'")))
}
