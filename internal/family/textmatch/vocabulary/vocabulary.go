// Package vocabulary knows what words of twelve languages say around an answer: that one
// follows, that it is denied, doubted, bounded or multiplied, or that they only frame it;
// and which words are numbers, months, units and the like.
//
// The vocabularies are data: a file for each language, one line for each word or phrase
// with its classes, and a table of Unicode CLDR that tools/cldr generates. They apply at
// once, because an answer may come in another language than its question. What a word of
// one language says and what the same letters say in another are kept apart as [Meaning]
// values with their [Languages]:
//
//   - [Word.Permits] serves texts of which every word must be known. There must be one
//     language in which each of them is harmless: "O resultado é" is Portuguese, although
//     "o" joins two choices in Spanish, and "120 die" is not English, although "die" is an
//     article in German.
//   - [Denying] finds the word that denies, doubts or multiplies in a text of any words. A
//     word that does so in any language counts, unless the text is plainly written in
//     languages in which it is harmless, such as "fast" in English and in German (almost).
//
// The tables are read when the first word is looked up, not when the program starts.
package vocabulary

import (
	"fmt"
	"math/bits"
	"strings"
)

// Languages is a set of languages.
type Languages uint16

// tags are the languages, by their bit.
var tags = [...]string{"en", "zh", "de", "fr", "es", "pt", "ru", "ja", "ko", "ar", "hi", "id"} //nolint:gochecknoglobals // a constant

// Every is the set of all languages that have a vocabulary.
const Every = Languages(1<<len(tags) - 1)

// Parse returns the set of the languages with these tags, [Every] where there are none.
func Parse(names ...string) (Languages, error) {
	if len(names) == 0 {
		return Every, nil
	}
	var set Languages
	for _, name := range names {
		l, ok := parseTag(name)
		if !ok {
			return 0, fmt.Errorf("%q is no language with a vocabulary: use one of %s", name, strings.Join(tags[:], ", "))
		}
		set |= l
	}
	return set, nil
}

func parseTag(name string) (Languages, bool) {
	for i, tag := range tags {
		if tag == name {
			return 1 << i, true
		}
	}
	return 0, false
}

// String lists the tags of the set.
func (l Languages) String() string {
	var out []string
	for ; l != 0; l &= l - 1 {
		out = append(out, tags[bits.TrailingZeros16(uint16(l))])
	}
	return strings.Join(out, " ")
}

// Class is a set of things that a word may say.
type Class uint32

// The classes of words. The words of the first group lead to an answer or frame it, those
// of the second restrict it, those of the third are values or parts of one.
const (
	Answer     Class = 1 << iota // a noun that announces an answer; the value is final for one that does so at the end: answer, final answer
	Final                        // an adjective of one, also as praise; the value is final for those that say so: final, correct
	Choose                       // a verb that states a choice: choose, pick
	Option                       // a noun before a label: option, choice
	Conclusion                   // begins a conclusion: so, therefore
	Link                         // joins a subject with its value: is, equals
	Frame                        // stands beside an answer without changing it: the, of, I think
	Noun                         // says what kind of thing an answer is: number, author, city
	Particle                     // is attached to a word without changing it, in Korean and Japanese
	Reason                       // begins an explanation: because, since
	And                          // joins two parts of one answer: and
	Ordinary                     // another common word, listed because another language restricts with it

	Negator // denies: not, never, none
	Wrong   // calls an answer wrong: wrong, false
	Hedge   // doubts: maybe, probably
	Or      // offers another answer: or
	Except  // leaves something out: except, without
	Limit   // bounds a number; the value is <, <=, > or >=: less than, at least
	Approx  // makes a number inexact: about
	Scale   // multiplies; the value is the factor: million, dozen, half
	Refusal // gives no answer: cannot be determined
	Retract // takes back what was said: wait

	Number    // a number word; the value is its decimal
	Ordinal   // a number word that counts; the value is its decimal
	Month     // the value is 1 to 12
	Weekday   // the value is 1, Monday, to 7
	Era       // the value is bc or ad
	DayPeriod // the value is am, pm, noon, midnight, morning, afternoon, evening or night
	Unit      // the value is the name that CLDR has for the unit, such as length-kilometer
	Yes       // agrees, or says that something is true
	No        // disagrees, or says that something is false

	classes = iota
)

// Sets of classes.
const (
	// Harmless are the classes of words that may stand beside an answer.
	Harmless = Answer | Final | Choose | Option | Conclusion | Link | Frame | Noun | Particle
	// Restrictive are the classes of words that change, deny or doubt one.
	Restrictive = Negator | Wrong | Hedge | Or | Except | Limit | Approx | Scale | Refusal | Retract
)

// names are the classes as the tables write them, by their bit.
var names = [classes]string{"answer", "final", "choose", "option", "conclusion", "link", "frame", "noun", "particle", "reason", "and", //nolint:gochecknoglobals // a constant
	"ordinary", "negator", "wrong", "hedge", "or", "except", "limit", "approx", "scale", "refusal", "retract", "number", "ordinal",
	"month", "weekday", "era", "dayperiod", "unit", "yes", "no"}

// String lists the names of the classes.
func (c Class) String() string {
	var out []string
	for ; c != 0; c &= c - 1 {
		out = append(out, names[bits.TrailingZeros32(uint32(c))])
	}
	return strings.Join(out, ",")
}

// A Meaning is what a word says in some languages.
type Meaning struct {
	Class     Class
	Value     string
	Languages Languages
	// Near says that the word has its restrictive meaning only directly beside a value, as
	// in "about 5", unlike "I think about it".
	Near bool
}

// Kind says what a word consists of.
type Kind uint8

// The kinds of words.
const (
	Letters Kind = iota
	Digits       // with signs of groups and decimals between them
	Sign         // one character that is neither
)

// A Word is a word, phrase, number or sign of a text, s[Start:End].
type Word struct {
	Start, End int
	Kind       Kind
	// Meanings are shared and not to be written. Unknown words have none.
	Meanings []Meaning

	atom int32 // what the tables call it, 0 for none
}

// known returns the languages that know the word.
func (w Word) known() (l Languages) {
	for _, m := range w.Meanings {
		l |= m.Languages
	}
	return l
}

// In returns the languages in which the word has one of the classes.
func (w Word) In(c Class) (l Languages) {
	for _, m := range w.Meanings {
		if m.Class&c != 0 {
			l |= m.Languages
		}
	}
	return l
}

// Value returns the value that the word has with a class in one of the languages.
func (w Word) Value(c Class, in Languages) (string, bool) {
	for _, m := range w.Meanings {
		if m.Class&c != 0 && m.Languages&in != 0 {
			return m.Value, true
		}
	}
	return "", false
}

// restricts returns the languages in which the word restricts an answer; beside says
// whether it stands directly beside one.
func (w Word) restricts(c Class, beside bool) (l Languages) {
	for _, m := range w.Meanings {
		if m.Class&c != 0 && (beside || !m.Near) {
			l |= m.Languages
		}
	}
	return l
}

// Permits returns the languages of in in which the word is harmless, or of a class of
// also, and does not restrict otherwise. A text of which every word counts is understood
// in the languages that all of its words permit.
func (w Word) Permits(also Class, in Languages) Languages {
	return in & w.In(Harmless|also) &^ w.In(Restrictive&^also)
}

// Denying returns the word before or after an answer that restricts it with one of the
// classes in a language of in.
func Denying(before, after []Word, c Class, in Languages) (Word, bool) {
	main := spoken(before, after) & in
	if main == 0 {
		main = in
	}
	for i, words := range [...][]Word{before, after} {
		for j, w := range words {
			beside := i == 0 && j == len(before)-1 || i == 1 && j == 0
			r := w.restricts(c, beside) & in
			harmless := w.known() &^ r
			if r != 0 && main&^harmless != 0 {
				return w, true
			}
		}
	}
	return Word{}, false
}

// spoken returns the languages that know the most words of a text.
func spoken(texts ...[]Word) (l Languages) {
	var count [len(tags)]int
	most := 1
	for _, words := range texts {
		for _, w := range words {
			if w.Kind != Letters {
				continue
			}
			for k := w.known(); k != 0; k &= k - 1 {
				i := bits.TrailingZeros16(uint16(k))
				count[i]++
				most = max(most, count[i])
			}
		}
	}
	for i, n := range count {
		if n == most {
			l |= 1 << i
		}
	}
	return l
}
