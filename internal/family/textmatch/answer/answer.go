// Package answer reads what a model wrote. It answers the first two of the three
// questions about a text, for every family alike: where the answer is, and whether what
// is stated there is understood whole. Whether it is the right one is the third, which
// package compare answers.
//
// # Where the answer is
//
// [Read] finds the statements of a reply, without a look at what is accepted. Forms are
// found first, because they need no language: \boxed{…}, a line that begins with ####,
// a member of a JSON object, <answer>…</answer>. Then the marks of a language, which
// come from package vocabulary: a noun such as "answer" with a link to what follows it.
// Every statement has a [Rank], and the highest rank at which one says something decides.
//
// # Whether it is understood
//
// Inside a form, and in a sentence without one, the world is closed: beside the value
// only words may stand that are known to change nothing, words of the question, known
// units and punctuation, and all of them must be known in one language ([Question.Closed]).
// Around a form any words may stand but those that deny, doubt, bound or multiply in any
// language ([Question.Opposes]). Either way a word that nobody knows changes nothing for
// the better: it is never what makes a text pass.
package answer

import (
	"regexp"
	"slices"
	"strings"

	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/vocabulary"
)

// A Rank says how strongly a statement is marked as the answer.
type Rank uint8

// The ranks. The highest at which something is stated decides.
const (
	Unmarked Rank = iota
	Marked        // "answer", a member of JSON, <answer>, what a pack declares
	Final         // "final answer", <final_answer>
	Hashes        // ####
	Boxed         // \boxed{…}
)

// A Statement is a part of a reply that may give the answer, and what surrounds it.
type Statement struct {
	Rank Rank
	// Form says that brackets or tags enclose the statement, so that it is known where
	// it ends.
	Form bool
	// Line is the number of its line in [Reply.Lines].
	Line int
	// Text is what is stated, without typesetting: to the end of the sentence, or of the
	// form. Rest is the same to the end of the line, and Raw is Text as it was written.
	Text, Rest, Raw string
	// Source is Rest as it was written.
	Source string
	// Before and After are the rest of the sentence that a form stands in. Before a mark
	// that is what precedes it.
	Before, After string
	// Praised says that it precedes a mark or its praise: "25 is the answer".
	Praised bool
	// Weak says that nothing links the mark to it: "answer B".
	Weak bool

	sentence int // in its line
}

// A Sentence is a sentence of a line.
type Sentence struct {
	Text, Raw string
	Words     []Word
	// Void says that the sentence has a mark that leads to nothing, so that it states
	// nothing without one either.
	Void bool
	span textmatch.Span // of the line
}

// A Line is a line of a reply without headings and bullets.
type Line struct {
	Source    string // as it was written
	Text      string
	Sentences []Sentence
}

// A Reply is what a candidate says, read.
type Reply struct {
	Lines      []Line
	Statements []Statement // those with a mark, in order
	Question   *Question
	Blank      bool // it says nothing
}

// Options say how a family reads replies.
type Options struct {
	Labels  bool           // single letters are labels, not initials, and "A:" begins no answer
	Lists   bool           // boxes that are joined are one list: \boxed{1} and \boxed{2}
	Marks   []string       // marks of the pack
	Pattern *regexp.Regexp // a mark of the pack whose first group is the answer
}

// Read finds the statements of a candidate.
func Read(candidate string, q *Question, o Options) *Reply {
	r := &reader{Reply: &Reply{Question: q}, o: o}
	text := Wide(end(Said(visible(candidate))))
	r.Blank = isBlank(text)
	if o.Pattern != nil {
		for _, m := range o.Pattern.FindAllStringSubmatch(text, -1) {
			if strings.TrimSpace(m[1]) != "" {
				r.enclosed(Boxed, m[1])
			}
		}
	}
	text = r.members(text)
	last := lines(encloseForms(text))
	for _, l := range join(q, last[max(0, len(last)-maxLines):], o) {
		r.line(l)
	}
	return r.Reply
}

// What is read of a long reply is its end: so many bytes, in whole lines, and so many lines.
const (
	maxRead  = 128 << 10
	maxLines = 4096
)

// end returns what is read of a text.
func end(s string) string {
	if len(s) <= maxRead {
		return s
	}
	s = s[len(s)-maxRead:]
	return s[max(0, strings.IndexFunc(s, textmatch.IsLineBreak)):]
}

// isBlank reports whether a text has nothing but spaces and the fences of code.
func isBlank(s string) bool {
	for line := range strings.FieldsFuncSeq(s, textmatch.IsLineBreak) {
		if line = textmatch.Strip(line); line != "" && !isFence(line) {
			return false
		}
	}
	return true
}

// A reader builds a reply.
type reader struct {
	*Reply
	o        Options
	plain    plain // the line that is read
	sentence int   // the number of its sentence that is read
}

// enclosed adds what a form says that is found before lines are.
func (r *reader) enclosed(rank Rank, content string) {
	text := Plain(content)
	r.Statements = append(r.Statements, Statement{Rank: rank, Form: true, Text: text, Rest: text, Raw: content})
}

// line reads one line.
func (r *reader) line(source string) {
	body, level := cutHeading(source)
	p := plainly(cutBullet(body))
	r.plain, r.sentence = p, 0
	l := Line{Source: source, Text: strings.Map(unform, p.text)}
	switch {
	case level == 4 && p.text != "":
		r.Statements = append(r.Statements, r.led(Statement{Rank: Hashes}, 0, len(p.text)))
	case len(p.text) > maxLine:
		l.Sentences = []Sentence{{Text: p.text[:maxLine], Void: true}}
	default:
		words := r.Question.Words(p.text)
		for _, span := range sentences(p.text, r.o.Labels) {
			k := 0
			for k < len(words) && words[k].Start < span.End {
				k++
			}
			s := Sentence{Raw: p.raw(span.Start, span.End), Words: words[:k:k], span: span}
			words = words[k:]
			r.forms(&s)
			s.Text = strings.Map(unform, p.text[span.Start:span.End])
			l.Sentences = append(l.Sentences, s)
			r.sentence++
		}
		if l.Sentences == nil {
			return
		}
	}
	r.Lines = append(r.Lines, l)
}

// maxLine is the most bytes of a line that is read for sentences; a longer one states
// nothing.
const maxLine = maxRead - 1

// maxRest is the most bytes of a line that may belong to what a mark leads to beyond its
// sentence.
const maxRest = 1 << 10

// led returns st with what it states, the bytes of the line from start to end.
func (r *reader) led(st Statement, start, end int) Statement {
	p := r.plain
	st.Line, st.sentence = len(r.Lines), r.sentence
	st.Text = strings.Map(unform, strings.TrimSpace(p.text[start:end]))
	st.Raw = strings.Map(unform, p.raw(start, end))
	st.Rest, st.Source = st.Text, st.Raw
	if len(p.text)-end <= maxRest {
		st.Rest = strings.Map(unform, strings.TrimSpace(p.text[start:]))
		st.Source = strings.Map(unform, p.raw(start, len(p.text)))
	}
	return st
}

// forms finds the forms of a sentence, or else its marks.
func (r *reader) forms(s *Sentence) {
	text := r.plain.text
	forms, last := 0, -1 // where the last form ended
	for i := 0; i < len(s.Words); i++ {
		rank, ok := formRank[s.Words[i].Sign()]
		if !ok {
			continue
		}
		depth, j := 1, i+1
		if forms++; forms > maxMarks {
			j = len(s.Words) // what follows is read as one
		}
		for ; j < len(s.Words) && depth > 0; j++ {
			if _, opens := formRank[s.Words[j].Sign()]; opens {
				depth++
			} else if _, closes := formRank[s.Words[j].Sign()-1]; closes {
				depth--
			}
		}
		end, after := s.span.End, s.span.End
		if depth == 0 {
			end, after = s.Words[j-1].Start, s.Words[j-1].End
		}
		st := r.led(Statement{Rank: rank, Form: true}, s.Words[i].End, end)
		st.Before = strings.Map(unform, text[s.span.Start:s.Words[i].Start])
		st.After = strings.Map(unform, text[after:max(s.span.End, after)])
		switch n := len(r.Statements) - 1; {
		case st.Text == "":
		case r.o.Lists && last >= 0 && rank == Boxed && r.Statements[n].Rank == Boxed && r.Question.lists(s.Words[last:i]):
			r.Statements[n].list(st)
			last = j
		default:
			r.Statements = append(r.Statements, st)
			last = j
		}
		i = j - 1
	}
	if last < 0 {
		r.marks(s)
	}
}

// lists reports whether the words between two forms only join them: a comma, or "and".
func (q *Question) lists(between []Word) bool {
	return len(between) > 0 && !slices.ContainsFunc(between, func(w Word) bool { return !q.Is(w, vocabulary.And) && !w.OneOf(",;") })
}

// list makes a statement that of a list with what another one states, which follows it.
func (st *Statement) list(next Statement) {
	if textmatch.Normalize(st.Text) != textmatch.Normalize(next.Text) {
		st.Text, st.Raw = st.Text+", "+next.Text, st.Raw+", "+next.Raw
	}
	st.Rest, st.Source, st.After = st.Text, st.Raw, next.After
}

// The characters that stand for the beginning of a form; the next one stands for its
// end. Replies cannot hold them.
const (
	openBox, openTag, openFinal = '\ue000', '\ue002', '\ue004'
)

var formRank = map[rune]Rank{openBox: Boxed, openTag: Marked, openFinal: Final} //nolint:gochecknoglobals // a constant

// unform removes the characters that stand for forms.
func unform(r rune) rune {
	if r >= openBox && r < openFinal+2 {
		return -1
	}
	return r
}

// encloseForms writes the boxes and tags of a text as characters that stand for them,
// and what they enclose on one line.
func encloseForms(s string) string {
	s = joinFormulas(encloseTags(s))
	var b strings.Builder
	at := 0
	for _, x := range findBoxes(s) {
		b.WriteString(s[at:x.start])
		b.WriteRune(openBox)
		b.WriteString(oneLine(s[x.open : x.end-1]))
		b.WriteRune(openBox + 1)
		at = x.end
	}
	b.WriteString(s[at:])
	return b.String()
}

// oneLine writes spaces for line breaks.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if textmatch.IsLineBreak(r) {
			return ' '
		}
		return r
	}, s)
}

func encloseTags(s string) string {
	var b strings.Builder
	for {
		before, after, name, closing, ok := cutTag(s, enclosing...)
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		b.WriteByte('\n')
		if s = after; closing {
			continue
		}
		open := openTag
		if name != "answer" {
			open = openFinal
		}
		if inside, rest, _, closed, found := cutTag(s, enclosing...); found && closed {
			b.WriteRune(open)
			b.WriteString(strings.TrimSpace(oneLine(inside)))
			b.WriteRune(open + 1)
			b.WriteByte('\n')
			s = rest
		}
	}
}
