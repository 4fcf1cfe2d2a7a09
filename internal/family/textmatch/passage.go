package textmatch

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Rank says how strongly a passage is marked as the answer.
type Rank uint8

// The ranks. The highest that is present decides.
const (
	Unmarked    Rank = iota
	Answer           // "answer"
	FinalAnswer      // "final answer"
	Hashes           // ####
	Boxed            // \boxed{…}
)

// A Passage is a sentence of a reply, or the part of one that a mark leads to.
type Passage struct {
	Rank Rank
	// Text is what is stated, in [Plain] form: of an unmarked passage the whole
	// sentence, of a marked one what follows the mark and its link.
	Text string
	// Led is what follows the mark as it stands; of a box its content.
	Led string
	// Before is what the sentence holds before the mark or box, After what it
	// holds behind a box.
	Before, After string
	// Line counts the lines of the reply; First is set for the first passage of
	// one, and Last for its last.
	Line        int
	First, Last bool
	// Whole is the line as it was written and Item the same without bullet or
	// heading; both are set for the first passage of a line. Rest is what of the
	// line follows its first mark, for the passage of that mark.
	Whole, Item, Rest string
	// Spent is set for a sentence whose mark leads to nothing or is denied. It
	// states nothing by that mark, and is no unmarked answer either. Where only a
	// link is missing, Led is set.
	Spent bool
}

// RawRest is Rest as it was written, or "" where that is not known.
func (p Passage) RawRest() string {
	if p.Rest == "" || p.Whole == "" {
		return ""
	}
	rest := strings.TrimLeft(p.Item, markup)
	if p.Rank != Hashes {
		_, rest, _ = FindWord(p.Whole, "final answer", "answer")
	}
	if CountWords(Plain(rest), -1) != CountWords(p.Rest, -1) {
		return "" // the mark is another one
	}
	return rest
}

// Options say how a family reads replies.
type Options struct {
	Labels bool // single letters are labels, not initials
	ColonA bool // "A:" begins an answer
}

// Passages reads a reply: its lines, and in each the sentences in their order.
// A line that ends in the middle of a statement, such as one that ends in
// "answer:" or in a number word, is read with the next one.
func (q *Question) Passages(reply string, o Options) []Passage {
	var out []Passage
	for i, line := range joinLines(Lines(reply), o) {
		from := len(out)
		out = q.appendLine(out, line, o)
		if from == len(out) {
			continue
		}
		for j := from; j < len(out); j++ {
			out[j].Line = i
		}
		out[from].First, out[from].Whole, out[from].Item = true, line, item(line)
		out[len(out)-1].Last = true
	}
	return out
}

func (q *Question) appendLine(out []Passage, line string, o Options) []Passage {
	rest, level := cutHeading(line)
	line = cutBullet(rest)
	if boxes := findBoxes(line); len(boxes) > 0 {
		return appendBoxes(out, line, boxes, o)
	}
	line = Plain(line)
	if level == 4 && line != "" {
		p, marked := q.mark(line, o)
		if !marked {
			p = Passage{Led: rest, Text: Plain(rest), Spent: p.Spent}
		}
		p.Rank, p.Rest = Hashes, p.Led
		return append(out, p)
	}
	first := true
	for _, s := range sentences(line, o.Labels) {
		o.ColonA = o.ColonA && s.start == 0
		p, marked := q.mark(line[s.start:s.end], o)
		if marked && first {
			p.Rest = line[s.end-len(p.Led):]
			first = false
		}
		out = append(out, p)
	}
	return out
}

// appendBoxes adds the passages of a line with boxes. A box hides what is in it
// from the search for sentences.
func appendBoxes(out []Passage, line string, boxes []box, o Options) []Passage {
	masked := []byte(line)
	for _, b := range boxes {
		for i := b.start; i < b.end; i++ {
			masked[i] = 'x'
		}
	}
	boxes = boxes[max(0, len(boxes)-maxBoxes):]
	for _, s := range sentences(string(masked), o.Labels) {
		n := len(out)
		for len(boxes) > 0 && boxes[0].start < s.end {
			b := boxes[0]
			boxes = boxes[1:]
			content := line[b.open : b.end-1]
			out = append(out, Passage{
				Rank: Boxed, Led: content, Text: Plain(content)})
			p := &out[len(out)-1]
			p.Before, p.After = cutDelimiters(line[max(s.start, b.start-maxAround):b.start], line[b.end:min(s.end, b.end+maxAround)])
		}
		if n == len(out) {
			out = append(out, Passage{Text: Plain(line[s.start:s.end])})
		}
	}
	return out
}

// cutDelimiters takes the dollar signs off that enclose a formula with a box.
func cutDelimiters(before, after string) (string, string) {
	bare := strings.ReplaceAll(strings.ReplaceAll(before, `\$`, ""), "$$", "")
	if strings.Count(bare, "$")%2 == 0 {
		return before, after
	}
	i := strings.LastIndexByte(before, '$')
	return before[:i] + before[i+1:], strings.Replace(after, "$", "", 1)
}

// item returns a line without heading and bullet.
func item(line string) string {
	rest, _ := cutHeading(line)
	return cutBullet(rest)
}

// cutHeading takes the # of a Markdown heading off a line; four are a mark.
func cutHeading(line string) (rest string, level int) {
	rest = strings.TrimLeft(strings.TrimLeft(line, markup), "#")
	level = strings.Count(line[:len(line)-len(rest)], "#")
	if level == 0 || level != 4 && !strings.HasPrefix(rest, " ") {
		return line, 0
	}
	return strings.TrimLeft(rest, " "), level
}

// markup may stand between a mark and what it marks.
const markup = " *_`"

// cutBullet takes the bullet or the number of a list item off a line. A hyphen
// before a number may be its sign and stays.
func cutBullet(line string) string {
	for _, bullet := range [...]string{"* ", "• ", "- ", "– ", "‣ ", "▪ "} {
		if rest, ok := strings.CutPrefix(line, bullet); ok && letterFollows(rest) {
			return rest
		}
	}
	end := digitsEnd(line, 0)
	if end > 0 && end < 3 && end < len(line) && (line[end] == '.' || line[end] == ')') {
		if rest, ok := strings.CutPrefix(line[end+1:], " "); ok && letterFollows(rest) {
			return rest
		}
	}
	return line
}

// letterFollows reports whether s begins with a letter, quotes, brackets and
// markup aside.
func letterFollows(s string) bool {
	r, _ := utf8.DecodeRuneInString(strings.TrimLeft(s, " *_`\"'“‘([{"))
	return unicode.IsLetter(r)
}

// mark finds the mark of a plain sentence and what it leads to. It reports
// whether the sentence has one that leads to something.
func (q *Question) mark(s string, o Options) (Passage, bool) {
	if o.ColonA {
		if rest, ok := strings.CutPrefix(strings.TrimLeft(s, markup), "A:"); ok && strings.Trim(rest, " ") != "" {
			return Passage{Rank: Answer, Led: rest, Text: strings.TrimLeft(rest, markup)}, true
		}
	}
	spent := Passage{Text: s}
	at := 0
	for range maxMarks {
		_, rest, word := FindWord(s[at:], "final answer", "answer")
		if word == "" {
			break
		}
		before := s[:len(s)-len(rest)-len(word)]
		at = len(s) - len(rest)
		if text, ok := cutEnding(before, rest); ok {
			return Passage{Rank: Answer, Led: text, Text: text}, true
		}
		text, linked := q.CutLink(rest)
		denied := q.Denied(before)
		if begins(before, s[len(before):]) {
			denied = q.doubts(before)
		}
		if !spent.Spent {
			spent.Spent = true
			if !denied {
				spent.Led, spent.Before = rest, before
			}
		}
		if !linked || strings.HasPrefix(rest, "'") || strings.HasPrefix(rest, "’") {
			continue
		}
		if denied {
			return Passage{Text: s, Spent: true}, false
		}
		p := Passage{Rank: Answer, Led: rest, Text: text, Before: before}
		if _, _, inner := FindWord(text, "final answer"); inner != "" || word == "final answer" {
			p.Rank = FinalAnswer
		}
		return p, true
	}
	return spent, false
}

// Bounds on what is read of one line, so that reading takes time linear in the
// reply.
const (
	maxMarks  = 8    // word marks of a sentence
	maxBoxes  = 16   // boxes of a line: its last ones
	maxAround = 4096 // bytes on either side of a box
)

// begins reports whether a mark with a capital letter behind a small one begins
// a sentence although nothing ended the one before.
func begins(before, mark string) bool {
	last := strings.TrimRight(before, markup)
	last = last[strings.LastIndexByte(last, ' ')+1:]
	a, _ := utf8.DecodeRuneInString(last)
	b, _ := utf8.DecodeRuneInString(mark)
	return unicode.IsUpper(b) && (unicode.IsLower(a) || isDigit(a))
}

// cutEnding returns the answer of "25 is the answer".
func cutEnding(before, after string) (string, bool) {
	if CountText(strings.Trim(after, ")!")) > 0 {
		return "", false
	}
	words := Words(before, -1)
	i := len(words) - 1
	for i >= 0 && isPraise(words[i]) {
		i--
	}
	if i < 2 || words[i] != "the" && words[i] != "my" && words[i] != "our" || words[i-1] != "is" {
		return "", false
	}
	head, _, word := FindWord(before, "is the", "is my", "is our")
	return strings.TrimSpace(head), word != "" && head != ""
}

// CutLink takes off what may link a mark to what it marks: "is" and its like, a
// colon, an equals sign, or a hyphen or dash that a space follows and that
// therefore is no sign; before it words of the question that begin with "to" or
// "for". Without a link, what begins with a digit, a sign, a currency or a
// bracket is marked, and so is the rest of a sentence that begins with a mark.
func (q *Question) CutLink(s string) (rest string, linked bool) {
	rest = strings.TrimLeft(s, markup+"\"”’)")
	for _, w := range [...]string{"choice", "option", "number", "value", "letter"} {
		if after, ok := CutFold(rest, w); ok {
			rest = strings.TrimLeft(after, markup)
			break
		}
	}
	rest = q.cutAbout(rest)
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
		rest = strings.TrimLeft(after, markup)
	}
	if r, _ := utf8.DecodeRuneInString(rest); !linked && rest != "" {
		linked = isDigit(r) || isSign(r) || isDash(r) || isCurrency(r) || strings.ContainsRune("([{\"“", r)
	}
	return rest, linked && CountText(rest) > 0
}

// CountText counts the characters of s that say something.
func CountText(s string) int { return utf8.RuneCountInString(strings.Trim(s, edges+"*")) }

// CutCopula takes "is" or one of its like off s.
func CutCopula(s string) (string, bool) {
	for _, c := range [...]string{
		"is", "was", "are", "were", "would be", "should be", "must be", "will be", "has to be", "can only be", "comes to", "equals",
		"turns out to be", "becomes", "comes out to be", "works out to",
	} {
		if after, ok := CutFold(s, c); ok {
			return after, true
		}
	}
	return s, false
}

func cutPunctuation(s string, linked bool) (string, bool) {
	for _, p := range [...]string{":", "：", "=>", "->", "→", "⇒", "= "} {
		if after, ok := strings.CutPrefix(s, p); ok {
			return after, true
		}
	}
	if !linked {
		for _, p := range [...]string{"- ", "– ", "— "} {
			if after, ok := strings.CutPrefix(s, p); ok {
				return after, true
			}
		}
	}
	return s, false
}

// CutAdverb takes an adverb off s that leaves a statement what it is.
func CutAdverb(s string) (string, bool) {
	for _, a := range [...]string{"therefore", "thus", "hence", "then", "clearly", "simply", "just", "exactly", "definitely", "indeed", "obviously"} {
		if after, ok := CutFold(s, a); ok {
			return strings.TrimLeft(after, ","), true
		}
	}
	return s, false
}

// maxAbout is how many bytes behind a mark may say what it answers.
const maxAbout = 512

// cutAbout takes "to the question …" off s, up to a link, where the question or
// the frame words have all of its words.
func (q *Question) cutAbout(s string) string {
	head := s[:min(len(s), maxAbout)]
	_, ok := CutFold(head, "to")
	for _, w := range [...]string{"for", "of", "here", "in"} {
		if !ok {
			_, ok = CutFold(head, w)
		}
	}
	if !ok {
		return s
	}
	end := strings.IndexByte(head, ':')
	for _, c := range [...]string{"is", "was", "are", "would be", "should be", "must be"} {
		if before, _, word := FindWord(head, c); word != "" && (end < 0 || len(before) < end) {
			end = len(before)
		}
	}
	if end < 0 {
		return s
	}
	for _, w := range Words(head[:end], -1) {
		if IsDoubt(w) || !IsFrame(w) && !q.Has(w) && w != "question" && w != "problem" {
			return s
		}
	}
	return s[end:]
}

// Denied reports whether what stands before a mark, or a lead, takes away what
// it leads to: a word of doubt, a sign or a half in its clause, an adjective
// that is not known to leave an answer an answer, or "of" and its like before
// its article.
func (q *Question) Denied(before string) bool {
	if q.doubts(before) {
		return true
	}
	words := words(LastClause(before))
	i := len(words) - 1
	for i >= 0 && (isPraise(words[i]) || q.Has(words[i]) && !IsFrame(words[i])) {
		i--
	}
	if i < 0 {
		return false
	}
	switch words[i] {
	case "a", "an", "the", "my", "our", "this", "that", "its":
		naming := i > 1 && (words[i-2] == "letter" || words[i-2] == "label" || words[i-2] == "number" || words[i-2] == "option")
		return i > 0 && isTurn(words[i-1]) && (!naming || words[i-1] != "of")
	}
	return !IsFrame(words[i]) && !isLeadVerb(words[i])
}

// doubts reports whether the clause that s ends in holds a word of doubt, a sign
// or a half.
func (q *Question) doubts(s string) bool {
	for _, w := range words(LastClause(s)) {
		switch {
		case IsDoubt(w), isSoftDoubt(w) && !q.Has(w), isFactor(w) && !q.Has(w):
			return true
		case w == "half", w == "minus", w == "negative", w == "than", w == "except":
			return true
		}
	}
	return false
}

// words returns the words of s that hold a letter or a number.
func words(s string) []string {
	return slices.DeleteFunc(Words(s, -1), func(w string) bool { return w != "=" && w != "→" && CountWords(w, 1) == 0 })
}

// isPraise reports the adjectives that leave an answer an answer.
func isPraise(w string) bool {
	switch w {
	case "correct", "right", "best", "final", "proper", "true", "accurate", "appropriate", "suitable", "likely", "most", "only", "single", "overall",
		"logical", "chosen", "selected", "ultimate", "definitive", "short", "simple", "direct", "numeric", "numerical", "exact", "complete",
		"resulting", "desired", "required", "closest", "better", "multiple-choice", "letter", "obvious", "clear", "one":
		return true
	}
	return false
}

// isTurn reports the words before "the answer" that make something else of it.
func isTurn(w string) bool {
	switch w {
	case "of", "to", "from", "than", "unlike", "like", "near", "beyond", "under", "over", "below", "above", "against", "twice", "double", "all":
		return true
	}
	return false
}

// isLeadVerb reports the words that may stand directly before a mark.
func isLeadVerb(w string) bool {
	switch w {
	case "get", "gives", "give", "gave", "got", "have", "has", "obtain", "with", "and", "mark", "select", "choose", "reach", "find", "means",
		"finally", "overall", "ultimately", "conclusion", "summary", "clearly", "obviously", "→", "because", "since", "which", "q", "question":
		return true
	}
	return false
}

// LastClause returns the clause that s ends in: what follows the last
// punctuation that ends a clause, or a conjunction that begins one.
func LastClause(s string) string {
	if i := strings.LastIndexAny(s, ".,;!?—–"); i >= 0 {
		_, size := utf8.DecodeRuneInString(s[i:])
		s = s[i+size:]
	}
	for {
		_, after, word := FindWord(s, "so", "but", "therefore", "thus", "hence")
		if word == "" {
			return s
		}
		s = after
	}
}

// joinLines joins a line that is not complete with the next one: it ends in a
// mark, or in a word or sign that belongs to what follows, or the next one
// begins with what belongs to it.
func joinLines(lines []string, o Options) []string {
	var out []string
	var open []string
	for i, line := range lines {
		open = append(open, line)
		if i+1 < len(lines) {
			if hangs(line) && !beginsWithMark(lines[i+1], o) || leans(lines[i+1]) {
				continue
			}
			if endsInMark(line) {
				if !strings.HasSuffix(strings.TrimRight(line, markup), ":") {
					open[len(open)-1] = strings.TrimRight(line, markup+"#") + ":"
				}
				continue
			}
		}
		out = append(out, strings.Join(open, " "))
		open = nil
	}
	return out
}

// maxHang is how many bytes at an end of a line are looked at.
const maxHang = 64

// hangs reports whether a line ends in what belongs to the next.
func hangs(line string) bool {
	tail := strings.TrimRight(line, markup+"$")
	tail = tail[max(0, len(tail)-maxHang):]
	r, _ := utf8.DecodeLastRuneInString(tail)
	if isSign(r) || isMath(r) || isDash(r) || r == '/' || r == '≈' || r == '~' {
		return true
	}
	w := tail[strings.LastIndexByte(tail, ' ')+1:]
	if !isWordRune(r) {
		return false
	}
	w = plain(w)
	switch w {
	case "minus", "negative", "plus", "not", "or", "than", "about", "approximately", "except":
		return true
	}
	return IsNegator(w) || w != "one" && isNumberWord(w)
}

// beginsWithMark reports whether a line begins with a mark of its own.
func beginsWithMark(line string, o Options) bool {
	if _, level := cutHeading(line); level == 4 {
		return true
	}
	line = strings.TrimLeft(line, markup)
	_, a := CutFold(line, "answer")
	_, f := CutFold(line, "final answer")
	return a || f || o.ColonA && strings.HasPrefix(line, "A:")
}

// leans reports whether a line begins with what belongs to the one before.
func leans(line string) bool {
	head := strings.TrimLeft(line[:min(len(line), maxHang)], markup)
	r, _ := utf8.DecodeRuneInString(head)
	if r == '^' || r == '!' || r == '%' || r == '/' || r == '±' || r == '×' {
		return true
	}
	words := Words(head, 1)
	if len(words) == 0 || !isWordRune(r) {
		return false
	}
	switch words[0] {
	case "or", "percent", "squared", "cubed", "factorial", "hundred", "thousand", "million", "billion", "trillion", "dozen":
		return true
	}
	return false
}

// endsInMark reports whether a line ends in a mark, or its link, that leads to
// nothing.
func endsInMark(line string) bool {
	tail := strings.TrimRight(Plain(line), " *_`:#=")
	tail = tail[max(0, len(tail)-maxHang):]
	i := strings.LastIndexAny(tail, " *_`(#")
	last := strings.ToLower(tail[i+1:])
	switch last {
	case "answer": // with a colon, or as a heading
		return strings.HasSuffix(strings.TrimRight(line, markup), ":") || CountWords(line, 5) < 5
	case "is", "be":
		before := strings.TrimRight(tail[:max(i, 0)], " ")
		for _, aux := range [...]string{" would", " should", " must", " will"} {
			before = strings.TrimSuffix(before, aux)
		}
		return strings.HasSuffix(strings.ToLower(before), "answer")
	}
	return false
}
