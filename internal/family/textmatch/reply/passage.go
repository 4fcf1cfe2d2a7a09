package reply

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/number"
)

// A Rank says how strongly a passage is marked as the answer.
type Rank uint8

// The ranks. The highest that is present decides.
const (
	Unmarked    Rank = iota
	Answer           // "answer"
	finalAnswer      // "final answer"
	Hashes           // ####
	Boxed            // \boxed{…}
)

// A Passage is a sentence of a reply, or the part of one that a mark leads to.
type Passage struct {
	Rank Rank
	// Text is what is stated, in [textmatch.Plain] form: of an unmarked passage the whole
	// sentence, of a marked one what follows the mark and its link.
	Text string
	// Led is what follows the mark as it stands; of a box its content.
	Led string
	// Before is what the sentence holds before the mark or box, After what it
	// holds after a box.
	Before, After string
	// Line counts the lines of the reply; First is set for the first passage of
	// one, and Last for its last.
	Line        int
	First, Last bool
	// Whole is the line as it was written and Item the same without bullet or
	// heading; both are set for the first passage of a line. Rest is what of the
	// line follows its first mark, for the passage of that mark.
	Whole, Item, Rest string
	// Void is set for a sentence whose mark leads to nothing or is denied. It
	// states nothing by that mark, nor is it an unmarked answer. Where only a
	// link is missing, Led is set.
	Void bool
}

// RawRest is Rest as it was written, or "" where that is not known.
func (p Passage) RawRest() string {
	if p.Rest == "" || p.Whole == "" {
		return ""
	}
	rest := strings.TrimLeft(p.Item, textmatch.Markup)
	if p.Rank != Hashes {
		_, rest, _ = textmatch.FindWord(p.Whole, "final answer", "answer")
	}
	if textmatch.CountWords(textmatch.Plain(rest), -1) != textmatch.CountWords(p.Rest, -1) {
		return "" // the mark is another one
	}
	return rest
}

// Options say how a family reads replies.
type Options struct {
	Labels bool // single letters are labels, not initials
	ColonA bool // "A:" begins an answer
}

// Passages reads a reply to q: the sentences of its lines, in order.
// A line that ends in the middle of a statement, such as one that ends in
// "answer:" or in a number word, is read with the next one.
func Passages(q *number.Question, text string, o Options) []Passage {
	var out []Passage
	for i, line := range joinLines(textmatch.Lines(text), o) {
		from := len(out)
		out = appendLine(q, out, line, o)
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

func appendLine(q *number.Question, out []Passage, line string, o Options) []Passage {
	rest, level := cutHeading(line)
	line = cutBullet(rest)
	if boxes := findBoxes(line); len(boxes) > 0 {
		return appendBoxes(out, line, boxes, o)
	}
	line = textmatch.Plain(line)
	if level == 4 && line != "" {
		p, marked := findMark(q, line, o)
		if !marked {
			p = Passage{Led: rest, Text: textmatch.Plain(rest), Void: p.Void}
		}
		p.Rank, p.Rest = Hashes, p.Led
		return append(out, p)
	}
	first := true
	for _, s := range textmatch.Sentences(line, o.Labels) {
		o.ColonA = o.ColonA && s.Start == 0
		p, marked := findMark(q, line[s.Start:s.End], o)
		if marked && first {
			p.Rest = line[s.End-len(p.Led):]
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
	for _, s := range textmatch.Sentences(string(masked), o.Labels) {
		n := len(out)
		for len(boxes) > 0 && boxes[0].start < s.End {
			b := boxes[0]
			boxes = boxes[1:]
			content := line[b.open : b.end-1]
			p := Passage{Rank: Boxed, Led: content, Text: textmatch.Plain(content)}
			p.Before, p.After = cutDelimiters(line[max(s.Start, b.start-maxAround):b.start], line[b.end:min(s.End, b.end+maxAround)])
			out = append(out, p)
		}
		if n == len(out) {
			out = append(out, Passage{Text: textmatch.Plain(line[s.Start:s.End])})
		}
	}
	return out
}

// cutDelimiters removes the dollar signs that enclose a formula with a box.
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

// cutHeading removes the # of a Markdown heading from a line; four are a mark.
func cutHeading(line string) (rest string, level int) {
	rest = strings.TrimLeft(strings.TrimLeft(line, textmatch.Markup), "#")
	level = strings.Count(line[:len(line)-len(rest)], "#")
	if level == 0 || level != 4 && !strings.HasPrefix(rest, " ") {
		return line, 0
	}
	return strings.TrimLeft(rest, " "), level
}

// cutBullet removes the bullet or the number of a list item from a line. A hyphen
// before a number may be its sign and stays.
func cutBullet(line string) string {
	if mark := bullet.FindString(line); letterFollows(line[len(mark):]) {
		return line[len(mark):]
	}
	return line
}

var bullet = regexp.MustCompile(`^([*•–‣▪-]|[0-9]{1,2}[.)]) `)

// letterFollows reports whether s begins with a letter, ignoring quotes,
// brackets and markup.
func letterFollows(s string) bool {
	r, _ := utf8.DecodeRuneInString(strings.TrimLeft(s, " *_`\"'“‘([{"))
	return unicode.IsLetter(r)
}

// joinLines joins an incomplete line with the next one: it ends in a mark, or in
// a word or sign that belongs to what follows, or the next one begins with
// something that belongs to it.
func joinLines(lines []string, o Options) []string {
	var out []string
	var open []string
	for i, line := range lines {
		open = append(open, line)
		if i+1 < len(lines) {
			if endsOpen(line) && !beginsWithMark(lines[i+1], o) || beginsOpen(lines[i+1]) {
				continue
			}
			if endsInMark(line) {
				if !strings.HasSuffix(strings.TrimRight(line, textmatch.Markup), ":") {
					open[len(open)-1] = strings.TrimRight(line, textmatch.Markup+"#") + ":"
				}
				continue
			}
		}
		out = append(out, strings.Join(open, " "))
		open = nil
	}
	return out
}

// maxLineEnd is how many bytes are read at either end of a line.
const maxLineEnd = 64

// endsOpen reports whether a line ends in something that belongs to the next one.
func endsOpen(line string) bool {
	tail := strings.TrimRight(line, textmatch.Markup+"$")
	tail = tail[max(0, len(tail)-maxLineEnd):]
	r, _ := utf8.DecodeLastRuneInString(tail)
	if number.IsSign(r) || number.IsMath(r) || number.IsDash(r) || r == '/' || r == '≈' || r == '~' {
		return true
	}
	w := tail[strings.LastIndexByte(tail, ' ')+1:]
	if !textmatch.IsWordRune(r) {
		return false
	}
	w = textmatch.FoldWord(w)
	return openEnds.Has(w) || textmatch.IsNegator(w) || w != "one" && textmatch.IsNumber(w)
}

const (
	// openEnds at the end of a line belong to the next one.
	openEnds textmatch.List = " minus negative plus not or than about approximately except "
	// openBeginnings at the beginning of a line belong to the one before.
	openBeginnings textmatch.List = " or percent squared cubed factorial hundred thousand million billion trillion dozen "
)

// beginsWithMark reports whether a line begins with a mark of its own.
func beginsWithMark(line string, o Options) bool {
	if _, level := cutHeading(line); level == 4 {
		return true
	}
	line = strings.TrimLeft(line, textmatch.Markup)
	_, marked := textmatch.CutAny(line, "answer", "final answer")
	return marked || o.ColonA && strings.HasPrefix(line, "A:")
}

// beginsOpen reports whether a line begins with something that belongs to the
// one before.
func beginsOpen(line string) bool {
	head := strings.TrimLeft(line[:min(len(line), maxLineEnd)], textmatch.Markup)
	r, _ := utf8.DecodeRuneInString(head)
	if strings.ContainsRune("^!%/±×", r) {
		return true
	}
	words := textmatch.Words(head, 1)
	return len(words) > 0 && textmatch.IsWordRune(r) && openBeginnings.Has(words[0])
}

// endsInMark reports whether a line ends in a mark, or its link, that leads to
// nothing.
func endsInMark(line string) bool {
	tail := strings.TrimRight(textmatch.Plain(line), " *_`:#=")
	tail = tail[max(0, len(tail)-maxLineEnd):]
	i := strings.LastIndexAny(tail, " *_`(#")
	last := strings.ToLower(tail[i+1:])
	switch last {
	case "answer": // with a colon, or as a heading
		return strings.HasSuffix(strings.TrimRight(line, textmatch.Markup), ":") || textmatch.CountWords(line, 5) < 5
	case "is", "be":
		before := strings.TrimRight(tail[:max(i, 0)], " ")
		for _, aux := range [...]string{" would", " should", " must", " will"} {
			before = strings.TrimSuffix(before, aux)
		}
		return strings.HasSuffix(strings.ToLower(before), "answer")
	}
	return false
}
