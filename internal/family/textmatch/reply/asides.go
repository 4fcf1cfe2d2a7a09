package reply

import (
	"slices"
	"strings"

	"securebench/internal/family/textmatch"
)

// Retracts reports whether a sentence begins as one that takes back what was
// said before it, or offers something else.
func Retracts(s string) bool {
	words := textmatch.Words(s, 4)
	if len(words) == 0 {
		return false
	}
	if retractions.Has(words[0]) {
		return true
	}
	if words[0] == "no" {
		rest := strings.TrimLeft(s, textmatch.Markup+"\"'“‘(")
		return len(rest) <= 2 || strings.ContainsRune(",.!;—–- ", rune(rest[2])) && (rest[2] != ' ' || len(words) > 1 && words[1] == "wait")
	}
	return opens(words, "on second thought", "just kidding", "i was wrong", "i made a", "that is wrong", "that's wrong", "this is wrong",
		"it is wrong", "it's wrong", "that is incorrect", "that's incorrect", "this is incorrect", "it could also", "it might also", "it may also",
		"it could be", "it might be", "it may be", "this could be", "that could be", "could be", "might be", "may be", "if not", "if that", "if wrong")
}

// retractions lists words that begin a sentence that takes something back.
const retractions textmatch.List = " or alternatively actually wait correction oops sorry hmm scratch maybe perhaps possibly otherwise" +
	" unless else ignore disregard not nope nevermind though although but "

// opens reports whether words begin with one of phrases.
func opens(words []string, phrases ...string) bool {
	s := strings.Join(words, " ") + " "
	return slices.ContainsFunc(phrases, func(p string) bool { return strings.HasPrefix(s, p+" ") })
}

// IsCourtesy reports whether a sentence is only a closing phrase: it begins like
// one, is short and contains no digit.
func IsCourtesy(s string) bool {
	s = strings.TrimLeft(s, " *_`\"'(")
	if len(s) > 200 || strings.ContainsFunc(s, textmatch.IsDigit) {
		return false
	}
	return opens(textmatch.Words(s, 8), "hope this", "hope that", "i hope this", "i hope that", "hopefully this", "let me know", "please let me know",
		"feel free", "please feel free", "if you have any", "if you need", "if you'd like", "if you would like", "is there anything",
		"do you", "would you like", "thank you", "thanks", "you're welcome", "good luck", "happy to help", "i'm happy to", "glad to help",
		"have a", "cheers", "enjoy")
}

// IsInterjection reports whether a sentence only opens a reply, like "Sure!".
func IsInterjection(s string) bool {
	switch strings.Join(textmatch.Words(s, 3), " ") {
	case "sure", "sure thing", "certainly", "of course", "absolutely", "great question", "good question", "okay", "ok":
		return true
	}
	return false
}
