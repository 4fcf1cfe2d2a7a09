package textmatch

import "strings"

// Retracts reports whether a sentence begins as one that takes back what was
// said before it, or offers something else.
func Retracts(s string) bool {
	words := Words(s, 4)
	if len(words) == 0 {
		return false
	}
	switch words[0] {
	case "or", "alternatively", "actually", "wait", "correction", "oops", "sorry", "hmm", "scratch", "maybe", "perhaps", "possibly",
		"otherwise", "unless", "else", "ignore", "disregard", "not", "nope", "nevermind", "though", "although", "but":
		return true
	case "no":
		rest := strings.TrimLeft(s, markup+"\"'“‘(")
		return len(rest) <= 2 || strings.ContainsRune(",.!;—–- ", rune(rest[2])) && (rest[2] != ' ' || len(words) > 1 && words[1] == "wait")
	}
	for _, opening := range [...]string{"on second thought", "just kidding", "i was wrong", "i made a", "that is wrong", "that's wrong", "this is wrong",
		"it is wrong", "it's wrong", "that is incorrect", "that's incorrect", "this is incorrect", "it could also", "it might also", "it may also",
		"it could be", "it might be", "it may be", "this could be", "that could be", "could be", "might be", "may be", "if not", "if that", "if wrong"} {
		if strings.HasPrefix(strings.Join(words, " ")+" ", opening+" ") {
			return true
		}
	}
	return false
}
