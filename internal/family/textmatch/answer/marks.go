package answer

import (
	"slices"
	"strings"

	"securebench/internal/family/textmatch/vocabulary"
)

// marks finds the marks of a sentence and what they lead to. What follows one ends
// where the next begins.
func (r *reader) marks(s *Sentence) {
	q := r.Question
	first := len(r.Statements)
	var last Statement
	lead := 0                                    // where the last one begins
	add := func(st Statement, from, start int) { // from is where its mark begins
		if n := len(r.Statements); n > first && from >= lead {
			r.Statements[n-1] = r.led(last, lead, from)
			r.Statements[n-1].Rest = r.Statements[n-1].Text
		}
		last, lead = st, start
		r.Statements = append(r.Statements, r.led(st, start, s.span.End))
	}
	tried := 0
	for i := 0; i < len(s.Words); i++ {
		w := s.Words[i]
		declared := r.o.mark(r.plain.text[w.Start:])
		if declared > 0 || q.Is(w, vocabulary.Answer|vocabulary.Choose) {
			tried++
		}
		switch {
		case tried > maxMarks:
			r.Statements, s.Void = r.Statements[:first], true
			return
		case !r.o.Labels && i == 0 && s.span.Start == 0 && w.Text == "a" && len(s.Words) > 2 &&
			s.Words[1].Sign() == ':' && s.Words[1].Start == w.End:
			add(Statement{Rank: Marked}, w.Start, s.Words[1].End)
			i = 1
		case declared > 0:
			add(Statement{Rank: Marked}, w.Start, w.Start+declared)
		case q.Is(w, vocabulary.Answer):
			if st, from, start, ok := r.marked(s, i); ok {
				add(st, from, start)
			} else if !st.Praised {
				s.Void = true
			}
		case r.o.Labels && q.Is(w, vocabulary.Choose) && !q.Is(w, vocabulary.Answer):
			k, _ := r.link(s.Words, i+1)
			if k < len(s.Words) && q.Prefix(s.Words[:i]) {
				add(Statement{Rank: Unmarked}, w.Start, s.Words[k].Start)
			}
		}
	}
	if len(r.Statements) > first {
		s.Void = true
	}
	r.praised(s)
}

// maxMarks is the most marks of a sentence; one with more states nothing.
const maxMarks = 32

// mark returns the length of the longest mark of the pack that a text begins with, in any
// case, and of the signs that link it; or 0.
func (o Options) mark(s string) (n int) {
	for _, m := range o.Marks {
		if len(m) > n && len(m) <= len(s) && strings.EqualFold(s[:len(m)], m) {
			n = len(m)
		}
	}
	if n == 0 {
		return 0
	}
	return len(s) - len(strings.TrimLeft(s[n:], " :="))
}

// marked reads the noun of a mark at the word i, and returns what it leads to, and where
// the mark and that start. It reports false where it leads to nothing, because no link follows or
// because the words before it deny it.
func (r *reader) marked(s *Sentence, i int) (st Statement, from, start int, ok bool) {
	q, words := r.Question, s.Words
	st.Rank = Marked
	head := i // where the noun and its adjectives begin
	for head > 0 && q.Is(words[head-1], vocabulary.Final|vocabulary.Option) && !q.Is(words[head-1], vocabulary.Link) {
		head--
	}
	if slices.ContainsFunc(words[head:i+1], isLast) {
		st.Rank = Final
	}
	if q.endsIn(words, i) {
		st.Praised = true // "25 is the answer"
		return st, 0, 0, false
	}
	k, linked := r.link(words, i+1)
	colon := i+1 < len(words) && words[i+1].Sign() == ':'
	st.Weak = !linked
	if k == len(words) || st.Weak && !r.weak(words, head, k) ||
		!q.Prefix(words[:head]) && (!colon || head > 0 && !parts(words[head-1].Sign())) {
		return st, 0, 0, false
	}
	st.Before = r.plain.text[s.span.Start:words[head].Start]
	return st, words[head].Start, words[k].Start, true
}

// isLast reports whether a word says that an answer is the last one.
func isLast(w Word) bool {
	v, ok := w.Value(vocabulary.Final|vocabulary.Answer, vocabulary.Every)
	return ok && v == "final"
}

// weak reports whether a mark without a link may lead to what the word k begins: it
// begins its clause and a value follows.
func (r *reader) weak(words []Word, head, k int) bool {
	w := words[k]
	if w.Kind == vocabulary.Digits || w.OneOf("([{\"“«「$€£-−+") {
		return true
	}
	return r.o.Labels && (head == 0 || words[head-1].Kind == vocabulary.Sign || r.Question.Is(words[head-1], vocabulary.Frame|vocabulary.Conclusion)) && len(words)-k <= 6
}

// endsIn reports whether the noun at i ends its clause after a link: "25 is the answer".
func (q *Question) endsIn(words []Word, i int) bool {
	after := words[i+1:]
	for len(after) > 0 && (after[0].Kind == vocabulary.Sign && after[0].Sign() != ':' && after[0].Sign() != '=' || q.Is(after[0], vocabulary.Particle)) {
		if after[0].Sign() == ',' || IsDash(after[0].Sign()) {
			after = nil
			break
		}
		after = after[1:]
	}
	if len(after) > 0 && q.Is(after[0], vocabulary.Link) && !slices.ContainsFunc(after[1:], func(w Word) bool { return w.Kind != vocabulary.Sign }) {
		after = nil // が正解です
	}
	if len(after) > 0 && !q.Is(after[0], vocabulary.Reason) {
		return false
	}
	k := i - 1
	for k >= 0 && q.Is(words[k], vocabulary.Frame|vocabulary.Final|vocabulary.Option) && !q.Is(words[k], vocabulary.Link) {
		k--
	}
	return k > 0 && q.Is(words[k], vocabulary.Link|vocabulary.Particle)
}

// link skips what may stand between a mark and the answer, from the word k on, and
// reports whether a link was among it.
func (r *reader) link(words []Word, k int) (rest int, linked bool) {
	q := r.Question
	for k < len(words) {
		w := words[k]
		arrow := k+1 < len(words) && words[k+1].Sign() == '>'
		switch c := w.Sign(); {
		case !linked && w.OneOf("*_`\"”’»)]】』」"), linked && w.OneOf("*_"):
			linked = linked || c == '】' || c == ']' || c == '」' || c == '』'
		case c == ':' || c == '=' || c == '→' || c == '⇒' || c == '.' && !linked && k+1 < len(words) && words[k-1].Text == "ans":
			linked = true
		case IsDash(c) && !linked && k+1 < len(words) && words[k+1].Start > w.End, c == '-' && arrow:
			linked = true
			if arrow {
				k++
			}
		case c == '(' && k+1 < len(words):
			end := closing(words, k)
			if end < 0 || linked && !q.offers(words[k+1:end]) || end+1 >= len(words) || !linked && !q.leadsOn(words[end+1:]) {
				return k, linked
			}
			k = end
		case c == ',' && !linked:
			end := q.aside(words, k)
			if end < 0 {
				return k, linked
			}
			k = end
		case c != 0:
			return k, linked
		case !linked && q.links(w) && !q.Is(w, vocabulary.Negator):
			linked = true
		case !linked && q.Is(w, vocabulary.Final|vocabulary.Option) && !q.Is(w, vocabulary.Restrictive):
		case linked && q.Is(w, vocabulary.Conclusion) && q.Is(words[k-1], vocabulary.Link) && words[k-1].Kind == vocabulary.Letters:
		case !linked:
			end := q.about(words, k)
			if end < 0 {
				return k, linked
			}
			k = end - 1
		default:
			return k, linked
		}
		k++
	}
	return k, linked
}

// links reports whether a word joins a mark with its answer. A single Latin letter never
// does: it may be a label.
func (q *Question) links(w Word) bool {
	return q.Is(w, vocabulary.Link|vocabulary.Particle) && (len(w.Text) > 1 || w.Kind == vocabulary.Sign)
}

// closing returns the bracket that closes the one at k, or -1.
func closing(words []Word, k int) int {
	after := words[k+1 : min(len(words), k+maxAbout)]
	if i := slices.IndexFunc(after, func(w Word) bool { return w.Sign() == ')' }); i >= 0 {
		return k + 1 + i
	}
	return -1
}

// offers reports whether the words in brackets offer answers, as the question does:
// "(yes or no)".
func (q *Question) offers(words []Word) bool {
	return slices.ContainsFunc(words, func(w Word) bool { return q.Is(w, vocabulary.Or) || w.Sign() == '/' })
}

// leadsOn reports whether a link follows brackets after a mark, directly or as a colon.
func (q *Question) leadsOn(words []Word) bool {
	return slices.ContainsFunc(words[:min(len(words), 3)], func(w Word) bool { return w.OneOf(":=") || q.Is(w, vocabulary.Link) })
}

// aside returns where an aside between commas ends, such as ", I think,", or -1.
func (q *Question) aside(words []Word, k int) int {
	rest := words[k+1 : min(len(words), k+6)]
	i := slices.IndexFunc(rest, func(w Word) bool {
		return w.Sign() == ',' || !q.Is(w, vocabulary.Frame|vocabulary.Conclusion)
	})
	if i < 0 || rest[i].Sign() != ',' {
		return -1
	}
	return k + 1 + i
}

// maxAbout is the most words of what an answer is said to be about.
const maxAbout = 60

// about returns where "to the question …" ends, before a link, or -1. Its words frame
// or are the question's; what is quoted from the question may hold links itself.
func (q *Question) about(words []Word, k int) int {
	quoted := false
	for j := k; j < len(words) && j < k+maxAbout; j++ {
		w := words[j]
		c := w.Sign()
		switch {
		case c == '"' || c == '“' || c == '”':
			quoted = !quoted
		case quoted && (w.Asked || c != 0):
		case c == ':', c == '=', j > k && q.links(w) && q.Is(w, vocabulary.Link):
			return j
		case c == '(' && closing(words, j) > 0 && q.offers(words[j:closing(words, j)]):
			j = closing(words, j)
		case c == ',' || c == '\'' || c == '(' || c == ')':
		case c != 0:
			return -1
		case q.Is(w, vocabulary.Answer) && !w.Asked:
			return -1
		case w.Asked || w.Excused:
		case q.Is(w, vocabulary.Frame|vocabulary.Noun|vocabulary.Option) && len(w.Text) > 1:
		default:
			return -1
		}
	}
	return -1
}

// Prefix reports whether the words before a mark leave what it leads to as it is. Its
// clause is closed; what comes before that must not deny, unless it is a premise of a
// conclusion.
func (q *Question) Prefix(words []Word) bool {
	c := len(words) - 1
	for c >= 0 && !parts(words[c].Sign()) && !q.Is(words[c], vocabulary.Conclusion) {
		c--
	}
	if !q.Closed(words[c+1:], vocabulary.Conclusion) {
		return false
	}
	if c < 0 || q.Is(words[c], vocabulary.Conclusion) || c+1 < len(words) && q.Is(words[c+1], vocabulary.Conclusion) {
		return true
	}
	const denying = vocabulary.Restrictive &^ (vocabulary.Scale | vocabulary.Limit | vocabulary.Approx)
	return !q.denies(words[:c], nil, denying) ||
		c == 1 && q.Is(words[0], vocabulary.No) // it only opens the sentence
}

// parts reports whether a sign parts two clauses.
func parts(c rune) bool {
	return c != 0 && strings.ContainsRune(",;:.!?，、；：。،؛—–…", c)
}

// praised finds what a sentence calls right: "B is correct", "25 is the answer".
func (r *reader) praised(s *Sentence) {
	q, words := r.Question, s.Words
	from := 0
	if n := len(words); n == 0 || words[n-1].Sign() == '?' {
		return
	}
	for k := 1; k < len(words); k++ {
		dash := IsDash(words[k].Sign()) && k > from // 25 — правильный ответ
		if !dash && parts(words[k].Sign()) && words[k].Sign() != ':' || q.Is(words[k], vocabulary.Conclusion) {
			from = k + 1
			continue
		}
		if k == from || !dash && (!q.links(words[k]) || words[k].Kind == vocabulary.Sign) {
			continue
		}
		rest := words[k:]
		if dash {
			rest = rest[1:]
		}
		rank, ok := q.praise(rest, r.o.Labels)
		if !ok {
			if dash {
				from = k + 1
			}
			continue
		}
		if s.Void = true; q.Prefix(words[:from]) {
			st := r.led(Statement{Rank: rank, Praised: true}, words[from].Start, words[k].Start)
			st.Rest = st.Text
			st.Before = r.plain.text[s.span.Start:words[from].Start]
			r.Statements = append(r.Statements, st)
		}
		return
	}
}

// maxPraise is the most words that call a value right: each link may begin them.
const maxPraise = 40

// praise reports whether the words after a value, from a link on, call it right and say
// nothing else, and with which rank.
func (q *Question) praise(words []Word, labels bool) (Rank, bool) {
	rank, right := Unmarked, false
	for k, w := range words {
		switch {
		case k == maxPraise:
			return 0, false
		case parts(w.Sign()) && w.Sign() != ':', k > 0 && q.Is(w, vocabulary.Reason):
			return rank, right && (labels || rank == Marked)
		case w.OneOf("*_`\"')"):
		case q.Is(w, vocabulary.Restrictive) && !w.Excused && (k > 0 || !q.links(w) || w.restricts(q, vocabulary.Restrictive)):
			return 0, false
		case q.Is(w, vocabulary.Answer):
			rank, right = Marked, true
		case q.Is(w, vocabulary.Final):
			right = true
		case q.Is(w, vocabulary.Link|vocabulary.Frame|vocabulary.Option|vocabulary.Particle), w.Asked:
		default:
			return 0, false
		}
	}
	return rank, right && (labels || rank == Marked)
}
