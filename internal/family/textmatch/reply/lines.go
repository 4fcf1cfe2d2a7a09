package reply

import (
	"strings"
	"unicode/utf8"

	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/number"
	"securebench/internal/family/textmatch/vocabulary"
)

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
	return openEnds.Has(w) || vocabulary.IsNegator(w) || w != "one" && vocabulary.IsNumber(w)
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
