package textmatch

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Span is the part s[Start:End] of a text s.
type Span struct{ Start, End int }

// Sentences returns where the sentences of a collapsed line begin and end. A
// sentence ends after . ! ? and the quotes and brackets that follow, before a
// space. A full stop does not end one before a small letter, after a known
// abbreviation, or, unless letters are labels, after a single capital letter,
// as in "J. Smith".
func Sentences(line string, labels bool) []Span {
	var out []Span
	start := 0
	for i, r := range line {
		if i < start || !strings.ContainsRune(".!?。！？", r) {
			continue
		}
		end := i + utf8.RuneLen(r)
		end += len(line[end:]) - len(strings.TrimLeft(line[end:], closers))
		if end >= len(line) {
			break
		}
		wide := r >= utf8.RuneSelf // of Chinese or Japanese, which needs no space
		if !wide && line[end] != ' ' || r == '.' && continues(line[start:i], line[end:], labels) {
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

// continues reports whether a sentence continues after the full stop between
// before and after.
func continues(before, after string, labels bool) bool {
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
	word = strings.ToLower(word)
	return abbreviations.Has(word) || (word == "no" || word == "nr") && IsDigit(next)
}

const abbreviations List = " dr mr mrs ms prof st mt jr sr vs approx ca etc fig eq rs gen rev "

// closers may follow the full stop of a sentence and still belong to it.
const closers = "\"'”’»)]*_`.!?"
