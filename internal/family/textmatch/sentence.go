package textmatch

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A span is a part of a text.
type span struct{ start, end int }

// sentences returns where the sentences of a collapsed line begin and end. A
// sentence ends behind . ! ? and the quotes and brackets that follow, before a
// space. A full stop does not end one before a small letter, behind a known
// abbreviation, or, unless letters are labels, behind a single capital letter,
// as in "J. Smith".
func sentences(line string, labels bool) []span {
	var out []span
	start := 0
	for i, r := range line {
		if i < start || !endsSentence(r) {
			continue
		}
		end := i + utf8.RuneLen(r)
		end += len(line[end:]) - len(strings.TrimLeftFunc(line[end:], closesSentence))
		if end >= len(line) {
			break
		}
		wide := r >= utf8.RuneSelf // of Chinese or Japanese, which needs no space
		if !wide && line[end] != ' ' || r == '.' && goesOn(line[start:i], line[end:], labels) {
			continue
		}
		out = append(out, span{start, end})
		start = end + len(line[end:]) - len(strings.TrimLeft(line[end:], " "))
	}
	if start < len(line) {
		out = append(out, span{start, len(line)})
	}
	return out
}

func endsSentence(r rune) bool {
	switch r {
	case '.', '!', '?', '。', '！', '？':
		return true
	}
	return false
}

// closesSentence reports what may stand behind the stop of a sentence and still
// belong to it.
func closesSentence(r rune) bool {
	switch r {
	case '"', '\'', '”', '’', '»', ')', ']', '*', '_', '`', '.', '!', '?':
		return true
	}
	return false
}

// goesOn reports whether the full stop behind before does not end a sentence.
func goesOn(before, after string, labels bool) bool {
	next, _ := utf8.DecodeRuneInString(strings.TrimLeft(after, " \"'“‘(*_`"))
	if unicode.IsLower(next) {
		return true
	}
	word := before[strings.LastIndexAny(before, " (\"'“‘*_`")+1:]
	if word == "" {
		return false
	}
	if strings.ContainsFunc(word, unicode.IsLetter) && strings.Contains(word, ".") {
		return !labels || utf8.RuneCountInString(word) > 1 // U.S, e.g
	}
	if r, size := utf8.DecodeRuneInString(word); size == len(word) && unicode.IsUpper(r) {
		return !labels
	}
	switch strings.ToLower(word) {
	case "dr", "mr", "mrs", "ms", "prof", "st", "mt", "jr", "sr", "vs", "approx", "ca", "etc", "fig", "eq", "rs", "gen", "rev":
		return true
	case "no", "nr":
		return isDigit(next)
	}
	return false
}

// IsCourtesy reports whether a sentence only takes leave: it begins as such
// sentences do, is short and holds no digit.
func IsCourtesy(s string) bool {
	s = strings.TrimLeft(s, " *_`\"'(")
	if len(s) > 200 || strings.ContainsFunc(s, isDigit) {
		return false
	}
	s = strings.Join(Words(s, 8), " ") + " "
	for _, opening := range [...]string{
		"hope this", "hope that", "i hope this", "i hope that", "hopefully this", "let me know", "please let me know",
		"feel free", "please feel free", "if you have any", "if you need", "if you'd like", "if you would like", "is there anything",
		"do you", "would you like", "thank you", "thanks", "you're welcome", "good luck", "happy to help", "i'm happy to", "glad to help",
		"have a", "cheers", "enjoy",
	} {
		if strings.HasPrefix(s, opening+" ") {
			return true
		}
	}
	return false
}

// IsInterjection reports a sentence such as "Sure!" that only opens a reply.
func IsInterjection(s string) bool {
	switch strings.Join(Words(s, 3), " ") {
	case "sure", "sure thing", "certainly", "of course", "absolutely", "great question", "good question", "okay", "ok":
		return true
	}
	return false
}
