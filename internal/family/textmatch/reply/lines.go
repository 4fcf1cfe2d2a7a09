package reply

import (
	"strings"
	"unicode/utf8"

	"securebench/internal/family/textmatch"
	"securebench/internal/family/textmatch/number"
	"securebench/internal/family/textmatch/vocabulary"
)

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

// maxHang is how many bytes at an end of a line are looked at.
const maxHang = 64

// hangs reports whether a line ends in what belongs to the next.
func hangs(line string) bool {
	tail := strings.TrimRight(line, textmatch.Markup+"$")
	tail = tail[max(0, len(tail)-maxHang):]
	r, _ := utf8.DecodeLastRuneInString(tail)
	if number.IsSign(r) || number.IsMath(r) || number.IsDash(r) || r == '/' || r == '≈' || r == '~' {
		return true
	}
	w := tail[strings.LastIndexByte(tail, ' ')+1:]
	if !textmatch.IsWordRune(r) {
		return false
	}
	w = textmatch.FoldWord(w)
	return hanging.Has(w) || vocabulary.IsNegator(w) || w != "one" && vocabulary.IsNumber(w)
}

const (
	// hanging words at the end of a line belong to the next one.
	hanging textmatch.List = " minus negative plus not or than about approximately except "
	// leaning words at the beginning of a line belong to the one before.
	leaning textmatch.List = " or percent squared cubed factorial hundred thousand million billion trillion dozen "
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

// leans reports whether a line begins with what belongs to the one before.
func leans(line string) bool {
	head := strings.TrimLeft(line[:min(len(line), maxHang)], textmatch.Markup)
	r, _ := utf8.DecodeRuneInString(head)
	if strings.ContainsRune("^!%/±×", r) {
		return true
	}
	words := textmatch.Words(head, 1)
	return len(words) > 0 && textmatch.IsWordRune(r) && leaning.Has(words[0])
}

// endsInMark reports whether a line ends in a mark, or its link, that leads to
// nothing.
func endsInMark(line string) bool {
	tail := strings.TrimRight(textmatch.Plain(line), " *_`:#=")
	tail = tail[max(0, len(tail)-maxHang):]
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
