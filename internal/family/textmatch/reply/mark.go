package reply

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/number"
)

// findMark finds the mark of a plain sentence and what it leads to. It reports
// whether the sentence has one that leads to something.
func findMark(q *number.Question, s string, o Options) (Passage, bool) {
	if o.ColonA {
		if rest, ok := strings.CutPrefix(strings.TrimLeft(s, textmatch.Markup), "A:"); ok && strings.Trim(rest, " ") != "" {
			return Passage{Rank: Answer, Led: rest, Text: strings.TrimLeft(rest, textmatch.Markup)}, true
		}
	}
	void := Passage{Text: s}
	at := 0
	for range maxMarks {
		_, rest, word := textmatch.FindWord(s[at:], "final answer", "answer")
		if word == "" {
			break
		}
		before := s[:len(s)-len(rest)-len(word)]
		at = len(s) - len(rest)
		if text, ok := cutEnding(before, rest); ok {
			return Passage{Rank: Answer, Led: text, Text: text}, true
		}
		text, linked := CutLink(q, rest)
		denied := Denied(q, before)
		if begins(before, s[len(before):]) {
			denied = doubts(q, before)
		}
		if !void.Void {
			void.Void = true
			if !denied {
				void.Led, void.Before = rest, before
			}
		}
		if !linked || strings.HasPrefix(rest, "'") || strings.HasPrefix(rest, "’") {
			continue
		}
		if denied {
			return Passage{Text: s, Void: true}, false
		}
		p := Passage{Rank: Answer, Led: rest, Text: text, Before: before}
		if _, _, inner := textmatch.FindWord(text, "final answer"); inner != "" || word == "final answer" {
			p.Rank = finalAnswer
		}
		return p, true
	}
	return void, false
}

// Bounds on what is read of one line, so that reading takes time linear in the
// reply.
const (
	maxMarks  = 8    // word marks of a sentence
	maxBoxes  = 16   // boxes of a line: its last ones
	maxAround = 4096 // bytes on either side of a box
)

// begins reports whether a mark begins a sentence although no full stop ended the
// one before: it has a capital letter and follows a small one.
func begins(before, mark string) bool {
	last := strings.TrimRight(before, textmatch.Markup)
	last = last[strings.LastIndexByte(last, ' ')+1:]
	a, _ := utf8.DecodeRuneInString(last)
	b, _ := utf8.DecodeRuneInString(mark)
	return unicode.IsUpper(b) && (unicode.IsLower(a) || textmatch.IsDigit(a))
}

// cutEnding returns the answer of "25 is the answer".
func cutEnding(before, after string) (string, bool) {
	if !isBlank(strings.Trim(after, ")!")) {
		return "", false
	}
	words := textmatch.Words(before, -1)
	i := len(words) - 1
	for i >= 0 && praise.Has(words[i]) {
		i--
	}
	if i < 2 || words[i] != "the" && words[i] != "my" && words[i] != "our" || words[i-1] != "is" {
		return "", false
	}
	head, _, word := textmatch.FindWord(before, "is the", "is my", "is our")
	return strings.TrimSpace(head), word != "" && head != ""
}

// CutLink removes what may link a mark to its answer: "is" and the like, a colon,
// an equals sign, or a hyphen or dash that a space follows, so that it is not a
// sign. Words of the question that begin with "to" or "for" may come first.
// Without a link, only text that begins with a digit, a sign, a currency, a quote
// or a bracket is an answer.
func CutLink(q *number.Question, s string) (rest string, linked bool) {
	rest = strings.TrimLeft(s, textmatch.Markup+"\"”’)")
	if after, ok := textmatch.CutAny(rest, "choice", "option", "number", "value", "letter"); ok {
		rest = strings.TrimLeft(after, textmatch.Markup)
	}
	rest = cutAbout(q, rest)
	for {
		after, ok := CutCopula(rest)
		if !ok {
			after, ok = cutPunctuation(rest, linked)
		}
		if !ok && linked {
			after, ok = CutAdverb(rest)
		}
		if !ok {
			break
		}
		linked = true
		rest = strings.TrimLeft(after, textmatch.Markup)
	}
	if r, _ := utf8.DecodeRuneInString(rest); !linked && rest != "" {
		linked = textmatch.IsDigit(r) || number.IsSign(r) || number.IsDash(r) || number.IsCurrency(r) || strings.ContainsRune("([{\"“", r)
	}
	return rest, linked && !isBlank(rest)
}

// isBlank reports whether s says nothing.
func isBlank(s string) bool { return strings.Trim(s, textmatch.Edges+"*") == "" }

// CutCopula removes "is" or one of its like from s.
func CutCopula(s string) (string, bool) {
	return textmatch.CutAny(s, "is", "was", "are", "were", "would be", "should be", "must be", "will be", "has to be", "can only be", "comes to",
		"equals", "turns out to be", "becomes", "comes out to be", "works out to")
}

// cutPunctuation takes a colon, an arrow or, as the first link, a dash off s.
func cutPunctuation(s string, linked bool) (string, bool) {
	signs := []string{":", "：", "=>", "->", "→", "⇒", "= ", "- ", "– ", "— "}
	if linked {
		signs = signs[:7]
	}
	for _, sign := range signs {
		if after, ok := strings.CutPrefix(s, sign); ok {
			return after, true
		}
	}
	return s, false
}

// CutAdverb removes an adverb that does not change a statement from s.
func CutAdverb(s string) (string, bool) {
	after, ok := textmatch.CutAny(s, "therefore", "thus", "hence", "then", "clearly", "simply", "just", "exactly", "definitely", "indeed", "obviously")
	if ok {
		after = strings.TrimLeft(after, ",")
	}
	return after, ok
}

// maxAbout is how many bytes after a mark may name the question.
const maxAbout = 512

// cutAbout removes "to the question …" from s, up to a link, if all of its words
// are frame words or the question's.
func cutAbout(q *number.Question, s string) string {
	head := s[:min(len(s), maxAbout)]
	if _, ok := textmatch.CutAny(head, "to", "for", "of", "here", "in"); !ok {
		return s
	}
	end := strings.IndexByte(head, ':')
	before, _, link := textmatch.FindWord(head, "is", "was", "are", "would be", "should be", "must be")
	if link != "" && (end < 0 || len(before) < end) {
		end = len(before)
	}
	if end < 0 {
		return s
	}
	for _, w := range textmatch.Words(head[:end], -1) {
		if textmatch.IsDoubt(w) || !textmatch.Frame.Has(w) && !q.Has(w) && w != "question" && w != "problem" {
			return s
		}
	}
	return s[end:]
}

const (
	// praise lists the adjectives that do not change what an answer is.
	praise textmatch.List = " correct right best final proper true accurate appropriate suitable likely most only single overall" +
		" logical chosen selected ultimate definitive short simple direct numeric numerical exact complete resulting desired" +
		" required closest better multiple-choice letter obvious clear one "
	// turns lists the words before "the answer" that give it another meaning.
	turns textmatch.List = " of to from than unlike like near beyond under over below above against twice double all "
	// leadVerbs lists what may stand directly before a mark.
	leadVerbs textmatch.List = " get gives give gave got have has obtain with and mark select choose reach find means finally overall" +
		" ultimately conclusion summary clearly obviously → because since which q question "
	determiners textmatch.List = " a an the my our this that its "
	labelNames  textmatch.List = " letter label number option "
	// negatives are words that doubts finds besides words of doubt.
	negatives textmatch.List = " half minus negative than except "
)

// Denied reports whether the text before a mark, or another lead, changes what it
// leads to: a word of doubt, a sign or a half in its clause, an adjective that is
// not known to be harmless, or "of" and the like before its article.
func Denied(q *number.Question, before string) bool {
	if doubts(q, before) {
		return true
	}
	words := words(lastClause(before))
	i := len(words) - 1
	for i >= 0 && (praise.Has(words[i]) || q.Has(words[i]) && !textmatch.Frame.Has(words[i])) {
		i--
	}
	if i < 0 {
		return false
	}
	if determiners.Has(words[i]) {
		naming := i > 1 && labelNames.Has(words[i-2])
		return i > 0 && turns.Has(words[i-1]) && (!naming || words[i-1] != "of")
	}
	return !textmatch.Frame.Has(words[i]) && !leadVerbs.Has(words[i])
}

// doubts reports whether the clause that s ends in holds a word of doubt, a sign
// or a half.
func doubts(q *number.Question, s string) bool {
	return slices.ContainsFunc(words(lastClause(s)), func(w string) bool {
		return textmatch.IsDoubt(w) || negatives.Has(w) || (textmatch.SoftDoubt.Has(w) || textmatch.Factor.Has(w)) && !q.Has(w)
	})
}

// words returns the words of s that hold a letter or a number.
func words(s string) []string {
	return slices.DeleteFunc(textmatch.Words(s, -1), func(w string) bool { return w != "=" && w != "→" && textmatch.CountWords(w, 1) == 0 })
}

// lastClause returns the clause that s ends in: what follows the last
// punctuation that ends a clause, or a conjunction that begins one.
func lastClause(s string) string {
	if i := strings.LastIndexAny(s, ".,;!?—–"); i >= 0 {
		_, size := utf8.DecodeRuneInString(s[i:])
		s = s[i+size:]
	}
	for {
		_, after, word := textmatch.FindWord(s, "so", "but", "therefore", "thus", "hence")
		if word == "" {
			return s
		}
		s = after
	}
}
