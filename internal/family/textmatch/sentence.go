package textmatch

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Span is the part s[Start:End] of a text s.
type Span struct{ Start, End int }

// Sentences returns where the Sentences of a collapsed line begin and end. A
// sentence ends behind . ! ? and the quotes and brackets that follow, before a
// space. A full stop does not end one before a small letter, behind a known
// abbreviation, or, unless letters are labels, behind a single capital letter,
// as in "J. Smith".
func Sentences(line string, labels bool) []Span {
	var out []Span
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
		out = append(out, Span{start, end})
		start = end + len(line[end:]) - len(strings.TrimLeft(line[end:], " "))
	}
	if start < len(line) {
		out = append(out, Span{start, len(line)})
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
		return IsDigit(next)
	}
	return false
}
