package vocabulary

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// longest is the most bytes of a word that is looked up; a longer one is unknown.
const longest = 96

// Words appends the words of s to dst and returns it. Each is the longest word or phrase of
// the tables that begins there; a hyphen, and the full stop of a short abbreviation, join
// the words of a phrase as a space does. White space and characters without width
// make no word. With room in dst, nothing is allocated unless letters must be composed.
func Words(dst []Word, s string) []Word {
	t := load()
	start := len(dst)
	return t.merge(t.split(dst, s), start, s)
}

// split appends the single words of s: runs of letters of one script, numbers, signs, and
// single characters of Chinese and Japanese.
func (t *tables) split(dst []Word, s string) []Word {
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch script := scriptOf(r); {
		case script == none && (unicode.IsSpace(r) || isInvisible(r)):
			i += size
		case script == none && unicode.IsDigit(r):
			end := digitsEnd(s, i)
			dst = append(dst, Word{Start: i, End: end, Kind: Digits, atom: t.atom(s[i:end])})
			i = end
		case script == ideographic:
			dst = append(dst, Word{Start: i, End: i + size, atom: t.atom(s[i : i+size])})
			i += size
		case script != none:
			end := lettersEnd(s, i, script)
			dst = t.word(dst, s, i, end, script)
			i = end
		default:
			dst = append(dst, Word{Start: i, End: i + size, Kind: Sign, atom: t.atom(s[i : i+size])})
			i += size
		}
	}
	return dst
}

// A script is what letters of a run have in common.
type script uint8

const (
	none        script = iota
	alphabetic         // of any alphabet but the next
	arabic             // joins articles and prepositions to a word
	hangul             // joins particles to a word
	ideographic        // has no spaces
)

// blocks are where letters and marks of the common scripts lie, without gaps.
var blocks = [...]struct { //nolint:gochecknoglobals // a constant
	first, last rune
	script      script
}{
	{'À', 'Ö', alphabetic}, {'Ø', 'ö', alphabetic}, {'ø', 'ɏ', alphabetic},
	{'\u0300', '\u036f', alphabetic}, {'Ѐ', 'ҁ', alphabetic}, {'Ҋ', 'ӿ', alphabetic}, {'ؠ', '\u065f', arabic}, {'ٮ', 'ۓ', arabic},
	{'\u0900', '\u0963', alphabetic}, {'ぁ', 'ゖ', ideographic}, {'ァ', 'ヺ', ideographic}, {'ー', 'ー', ideographic},
	{'々', '〇', ideographic}, {'㐀', '䶿', ideographic}, {'一', '鿿', ideographic}, {'가', '힣', hangul},
}

// scriptOf returns the script of a letter or mark, none for anything else.
func scriptOf(r rune) script {
	if r < utf8.RuneSelf {
		if r |= 0x20; r >= 'a' && r <= 'z' {
			return alphabetic
		}
		return none
	}
	for _, b := range blocks {
		if r >= b.first && r <= b.last {
			return b.script
		}
	}
	switch {
	case !unicode.In(r, unicode.L, unicode.M, unicode.Nl):
		return none
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
		return ideographic
	case unicode.Is(unicode.Hangul, r):
		return hangul
	case unicode.Is(unicode.Arabic, r):
		return arabic
	}
	return alphabetic
}

// lettersEnd returns where the run of letters of one script that begins at s[i] ends.
// Marks, characters without width and apostrophes before another letter belong to it.
func lettersEnd(s string, i int, of script) int {
	for i < len(s) {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch script := scriptOf(r); {
		case script == of, r == '²' || r == '³', script == alphabetic && r >= '\u0300' && unicode.Is(unicode.M, r), script == none && isInvisible(r):
		case isApostrophe(r):
			if next, _ := utf8.DecodeRuneInString(s[i+size:]); scriptOf(next) != of {
				return i
			}
		default:
			return i
		}
		i += size
	}
	return i
}

// digitsEnd returns where the number that begins at s[i] ends: digits of any script, with
// single signs of groups and decimals between them.
func digitsEnd(s string, i int) int {
	for i < len(s) {
		r, size := utf8.DecodeRuneInString(s[i:])
		if !unicode.IsDigit(r) {
			next, _ := utf8.DecodeRuneInString(s[i+size:])
			if !strings.ContainsRune(".,'’٫٬\u00a0\u202f\u2009", r) || !unicode.IsDigit(next) {
				return i
			}
		}
		i += size
	}
	return i
}

// isInvisible reports whether a character has no width or changes the writing direction.
func isInvisible(r rune) bool { return r >= 0xad && unicode.Is(unicode.Cf, r) }

func isApostrophe(r rune) bool {
	return r == '\'' || r == '’' || r == 'ʼ' || r == '＇' || r == '‘'
}

// word appends the word s[i:end]. One that the tables do not know is appended as its parts
// where they know those.
func (t *tables) word(dst []Word, s string, i, end int, of script) []Word {
	var buffer [longest]byte
	folded := foldInto(buffer[:0], s[i:end])
	if atom := t.atoms[string(folded)]; atom != 0 || len(folded) == 0 {
		return append(dst, Word{Start: i, End: end, atom: atom})
	}
	switch of {
	case hangul:
		if out := t.chain(dst, s, i, end, Particle|Link); len(out) > len(dst) {
			return out
		}
		return t.number(dst, s, i, end)
	case arabic:
		return t.prefixed(dst, s, i, end)
	}
	for at, r := range s[i:end] {
		if isApostrophe(r) {
			return t.elided(dst, s, i, i+at, end, utf8.RuneLen(r))
		}
	}
	if stem, ok := bytes.CutSuffix(folded, []byte("nya")); ok { // Indonesian: its, the
		if atom := t.atoms[string(stem)]; atom != 0 {
			return append(dst, Word{Start: i, End: end, atom: atom})
		}
	}
	return t.number(dst, s, i, end)
}

// elided appends the parts of a word with an apostrophe at s[at]: "n'est", "isn't", "it's".
func (t *tables) elided(dst []Word, s string, i, at, end, size int) []Word {
	var buffer [longest]byte
	if at > i && (s[at-1] == 'n' || s[at-1] == 'N') {
		if atom := t.atoms[string(foldInto(buffer[:0], s[at-1:end]))]; atom != 0 {
			return append(dst, Word{Start: i, End: end, atom: atom})
		}
	}
	if atom := t.atoms[string(foldInto(buffer[:0], s[i:at+size]))]; atom != 0 {
		return t.word(append(dst, Word{Start: i, End: at + size, atom: atom}), s, at+size, end, alphabetic)
	}
	if atom := t.atoms[string(foldInto(buffer[:0], s[at:end]))]; atom != 0 {
		return append(t.word(dst, s, i, at, alphabetic), Word{Start: at, End: end, atom: atom})
	}
	return append(dst, Word{Start: i, End: end})
}

// prefixed appends an Arabic word without the article, prepositions and conjunctions that
// are written together with it. Those that mean "and" and "so" are words of their own.
func (t *tables) prefixed(dst []Word, s string, i, end int) []Word {
	var buffer [longest]byte
	for _, p := range [...]string{"ال", "و", "ف", "ب", "ل", "ك", "وال", "فال", "بال", "لل", "كال"} {
		rest, ok := strings.CutPrefix(s[i:end], p)
		if !ok || utf8.RuneCountInString(rest) < 2 {
			continue
		}
		atom := t.atoms[string(foldInto(buffer[:0], rest))]
		if atom == 0 {
			continue
		}
		at := i
		if conjunction := t.atoms[p[:len("و")]]; conjunction != 0 && (p[:len("و")] == "و" || p[:len("ف")] == "ف") {
			at += len("و")
			dst = append(dst, Word{Start: i, End: at, atom: conjunction})
		}
		return append(dst, Word{Start: at, End: end, atom: atom})
	}
	return append(dst, Word{Start: i, End: end})
}

// chain appends s[i:end] as the longest known word and what is attached to it: known words
// of the classes. It appends nothing where these do not make up the rest.
func (t *tables) chain(dst []Word, s string, i, end int, attached Class) []Word {
	for at := end; at > i; {
		_, size := utf8.DecodeLastRuneInString(s[i:at])
		if at -= size; at == i {
			break
		}
		if atom := t.atom(s[i:at]); atom != 0 {
			if out, ok := t.attach(append(dst, Word{Start: i, End: at, atom: atom}), s, at, end, attached); ok {
				return out
			}
		}
	}
	return dst
}

// attach appends the rest of a word, s[i:end], as known words of the classes.
func (t *tables) attach(dst []Word, s string, i, end int, attached Class) ([]Word, bool) {
	for at := end; at > i; {
		if atom := t.atom(s[i:at]); atom != 0 && t.is(atom, attached) {
			out := append(dst, Word{Start: i, End: at, atom: atom})
			if at == end {
				return out, true
			}
			if out, ok := t.attach(out, s, at, end, attached); ok {
				return out, true
			}
		}
		_, size := utf8.DecodeLastRuneInString(s[i:at])
		at -= size
	}
	return dst, false
}

// number appends s[i:end] as the number words that it is put together from, as in
// "zweihundertfünf" and "백이십", or else as an unknown word. Of other words in Latin letters
// none is put together so.
func (t *tables) number(dst []Word, s string, i, end int) []Word {
	word := s[i:end]
	if len(word) <= longest && (word[0] >= utf8.RuneSelf || strings.Contains(word, "undert") || strings.Contains(word, "ausend")) {
		if out, ok := t.attach(dst, s, i, end, Number|Scale); ok {
			return out
		}
	}
	return append(dst, Word{Start: i, End: end})
}

// atom looks up a single word or sign.
func (t *tables) atom(s string) int32 {
	var buffer [longest]byte
	return t.atoms[string(foldInto(buffer[:0], s))]
}

// foldInto appends a word as the tables have it, nothing where it is too long: small
// letters, apostrophes as ', without full width, characters without width, and marks that
// writers leave out.
func foldInto(b []byte, s string) []byte {
	if len(s) > cap(b) {
		return b
	}
	for _, r := range s {
		switch {
		case r < utf8.RuneSelf:
			if r >= 'A' && r <= 'Z' {
				r += 'a' - 'A'
			}
			b = append(b, byte(r))
			continue
		case r >= '\u0300' && r <= '\u036f':
			return appendFolded(b[:0], norm.NFC.String(s))
		case r >= '！' && r <= '～':
			r = unicode.ToLower(r - ('！' - '!'))
		}
		if r = foldRune(r); r != 0 {
			b = utf8.AppendRune(b, r)
		}
	}
	return b
}

// appendFolded is foldInto for text that composing has shortened as far as it can be.
func appendFolded(b []byte, s string) []byte {
	for _, r := range s {
		if r = foldRune(r); r != 0 && (r < '\u0300' || r > '\u036f') {
			b = utf8.AppendRune(b, r)
		}
	}
	return b
}

// foldRune returns a letter as the tables have it, 0 for one that is left out.
func foldRune(r rune) rune {
	switch {
	case isApostrophe(r):
		return '\''
	case r == 'ё' || r == 'Ё':
		return 'е'
	case r == 'أ' || r == 'إ' || r == 'آ' || r == 'ٱ':
		return 'ا'
	case r == 'ى':
		return 'ي'
	case r == 'ة':
		return 'ه'
	case r == 'ـ' || r >= '\u064b' && r <= '\u065f' || r == '\u0670' || r == '\u093c' || isInvisible(r):
		return 0
	}
	if r >= '\u0600' && r < '\u1c80' || r >= '\u2e80' && r < '\ua640' {
		return r // scripts without capitals
	}
	return unicode.ToLower(r)
}

// merge replaces the words from dst[start] on by the longest phrases that they make up, and
// sets their meanings.
func (t *tables) merge(dst []Word, start int, s string) []Word {
	out := start
	for i := start; i < len(dst); {
		n, at := t.phrase(dst[i:], s)
		w := dst[i]
		w.End, w.Meanings = dst[i+n-1].End, t.nodes[at].meanings
		if n > 1 {
			w.Kind = Letters // also of "3月"
		}
		dst[out] = w
		out++
		i += n
	}
	return dst[:out]
}

// phrase returns how many words the longest phrase has that begins with the first, and its
// node.
func (t *tables) phrase(words []Word, s string) (n int, at int32) {
	n = 1
	node := words[0].atom // the root's children have the numbers of their words
	if node == 0 {
		return 1, 0
	}
	at = node
	for i := 0; t.nodes[node].next; {
		next := i + 1
		for next+1 < len(words) && joins(words[i], words[next], s) && t.edges[edge{node, words[next].atom}] == 0 {
			next++
		}
		if next == len(words) || words[next].atom == 0 {
			break
		}
		if node = t.edges[edge{node, words[next].atom}]; node == 0 {
			break
		}
		if i = next; t.nodes[node].meanings != nil {
			n, at = i+1, node
		}
	}
	if t.nodes[at].meanings == nil {
		return 1, 0
	}
	return n, at
}

// shortForm is the most characters of a word that a full stop may shorten.
const shortForm = 5

// joins reports whether a sign joins the words of a phrase: a hyphen, or a full stop after
// a short form.
func joins(before, sign Word, s string) bool {
	if sign.Kind != Sign || before.Kind == Sign || sign.Start-before.End > 1 {
		return false
	}
	switch s[sign.Start:sign.End] {
	case "-", "‐", "‑":
		return true
	case ".":
		return sign.Start == before.End && utf8.RuneCountInString(s[before.Start:before.End]) <= shortForm
	}
	return false
}
