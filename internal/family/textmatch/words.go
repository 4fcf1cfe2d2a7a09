package textmatch

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// isBound reports whether r may stand next to an answer inside a line: a space, a
// quote, or one of . , ; : ! ? ( ) [ ] *.
func isBound(r rune) bool {
	return strings.ContainsRune(".,;:!?()[]\"*`“”‘", r) || IsApostrophe(r) || IsSpace(r)
}

// IsApostrophe reports whether r is ' or ’.
func IsApostrophe(r rune) bool { return r == '\'' || r == '’' }

// FoldWord returns a word in lower case with every apostrophe written ': also the
// modifier letter (U+02BC) and the full-width one (U+FF07), which are not bounds
// but count as apostrophes inside a word. At its ends they are quotes.
func FoldWord(word string) string {
	apostrophe := func(r rune) rune {
		if IsApostrophe(r) || r == 'ʼ' || r == '＇' {
			return '\''
		}
		return r
	}
	return strings.Trim(strings.Map(apostrophe, Lower(word)), "'")
}

// CountWords counts the runs of letters, marks and numbers of s, up to limit.
func CountWords(s string, limit int) int {
	n, inside := 0, false
	for _, r := range s {
		now := IsLetterOrNumber(r)
		if now && !inside {
			if n++; n == limit {
				break
			}
		}
		inside = now
	}
	return n
}

// FindSpan returns the text before and after the leftmost place where span
// stands in s with a bound, or an end of s, on both sides.
func FindSpan(s, span string) (before, after string, ok bool) {
	return find(s, span, isBound)
}

// HasPhrase reports whether phrase stands in s with no word character next to
// it.
func HasPhrase(s, phrase string) bool {
	_, _, ok := find(s, phrase, func(r rune) bool { return !IsWordRune(r) })
	return ok
}

// find looks for span in s between two characters that bound accepts.
func find(s, span string, bound func(rune) bool) (before, after string, ok bool) {
	if span == "" {
		return "", "", false
	}
	_, first := utf8.DecodeRuneInString(span)
	for at := 0; at <= len(s)-len(span); at += first {
		i := strings.Index(s[at:], span)
		if i < 0 {
			break
		}
		at += i
		before, after = s[:at], s[at+len(span):]
		l, _ := utf8.DecodeLastRuneInString(before)
		r, _ := utf8.DecodeRuneInString(after)
		if (before == "" || bound(l)) && (after == "" || bound(r)) {
			return before, after, true
		}
	}
	return "", "", false
}

// A List is a fixed set of lower-case words, or of word=value pairs, with a
// space before and after each.
type List string

// Has reports whether w is a word of the list.
func (l List) Has(w string) bool {
	return !strings.Contains(w, " ") && strings.Contains(string(l), " "+w+" ")
}

// Value returns the value that the list pairs with w.
func (l List) Value(w string) (string, bool) {
	_, value, ok := strings.Cut(string(l), " "+w+"=")
	value, _, _ = strings.Cut(value, " ")
	return value, ok
}

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
		if !wide && line[end] != ' ' || r == '.' && continues(line[start:i], line[end:], labels) || r == '?' && quoted(line[i:end], line[end:]) {
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

// quoted reports whether a question ends within quotes and the sentence goes on.
func quoted(closing, after string) bool {
	next, _ := utf8.DecodeRuneInString(strings.TrimLeft(after, " "))
	return strings.ContainsAny(closing, "\"”») ") && unicode.IsLower(next)
}

// continues reports whether a sentence continues after the full stop between
// before and after.
func continues(before, after string, labels bool) bool {
	next, _ := utf8.DecodeRuneInString(strings.TrimLeft(after, " \"'“‘(*_`"))
	if unicode.IsLower(next) {
		item := strings.TrimLeft(after, " (")
		return len(item) < 2 || item[1] != ')' // "(b) …" begins another part
	}
	word := before[strings.LastIndexAny(before, " (\"'“‘*_`")+1:]
	if word == "" {
		return false
	}
	if strings.ContainsFunc(word, unicode.IsLetter) && strings.Contains(word, ".") && !strings.ContainsFunc(word, unicode.IsDigit) {
		return !labels || utf8.RuneCountInString(word) > 1 // U.S, e.g
	}
	if r, size := utf8.DecodeRuneInString(word); size == len(word) && unicode.IsUpper(r) {
		return !labels
	}
	lower := strings.ToLower(word)
	return titles.Has(lower) && word != lower || // "ms." are milliseconds
		abbreviations.Has(lower) || (lower == "no" || lower == "nr") && IsDigit(next) ||
		(lower == "v" || lower == "n") && strings.HasPrefix(after, " Chr")
}

const (
	titles        List = " dr mr mrs ms prof st mt jr sr gen rev "
	abbreviations List = " vs approx ca fig eq rs "
)

// closers may follow the full stop of a sentence and still belong to it.
const closers = "\"'”’»)]*_`.!?"
