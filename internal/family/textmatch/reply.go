package textmatch

import (
	"strings"
	"unicode/utf8"
)

// Reply returns the part of a candidate that is read for a marked answer: what
// [Said] leaves, with <answer>…</answer> as a line "Answer: …" and what
// \boxed{…} or a displayed formula spreads over several lines on one.
func Reply(candidate string) string {
	return joinFormulas(openTags(Said(candidate)))
}

// Said returns a candidate without reasoning blocks (<think>…</think> and their
// like) and without stop tokens at its end. A block that is never closed reaches
// to the end, and a closing tag alone closes one that began before the text.
func Said(candidate string) string { return cutStops(cutReasoning(plainTags(candidate))) }

// plainTags writes the other ways in which chat models fence their reasoning,
// channels among them, as <think>…</think>.
func plainTags(s string) string {
	return strings.NewReplacer(
		"[THINK]", "<think>", "[/THINK]", "</think>",
		"◁think▷", "<think>", "◁/think▷", "</think>",
		"<|channel|>analysis<|message|>", "<think>", "<|channel|>final<|message|>", "</think>",
	).Replace(s)
}

// isReasoning reports the names of the tags that enclose reasoning.
func isReasoning(name string) bool {
	switch name {
	case "think", "thinking", "thought", "thoughts", "reasoning", "reflection", "scratchpad", "seed:think":
		return true
	}
	return false
}

// tagMark returns the mark that a tag around an answer is, or "".
func tagMark(name string) string {
	switch name {
	case "answer":
		return "Answer: "
	case "final_answer", "finalanswer":
		return "Final answer: "
	}
	return ""
}

// maxTag is the most bytes of a tag's name.
const maxTag = 16

// cutTag returns the text before and after the first tag of s, < or </ and one
// of names and >, in any case.
func cutTag(s string, names func(string) bool) (before, after, name string, closing, ok bool) {
	for at := 0; ; {
		i := strings.IndexByte(s[at:], '<')
		if i < 0 {
			return s, "", "", false, false
		}
		at += i + 1
		rest, closes := strings.CutPrefix(s[at:], "/")
		end := strings.IndexByte(rest[:min(len(rest), maxTag+1)], '>')
		if end < 0 {
			continue
		}
		if name = strings.ToLower(rest[:end]); names(name) {
			return s[:at-1], rest[end+1:], name, closes, true
		}
	}
}

func cutReasoning(s string) string {
	var kept strings.Builder
	block := "" // the open one
	for {
		before, after, name, closing, ok := cutTag(s, func(n string) bool {
			return isReasoning(n) && (block == "" || n == block)
		})
		switch {
		case block == "" && !ok:
			if kept.Len() == 0 {
				return s
			}
			kept.WriteString(s)
			return kept.String()
		case !ok:
			return kept.String()
		case closing && block == "":
			kept.Reset()
		case closing:
			block = ""
		case block == "":
			kept.WriteString(before)
			kept.WriteByte('\n')
			block = name
		}
		s = after
	}
}

// cutStops takes the stop tokens of chat models off the end of s. One that
// stands where an answer is expected stays: it may be the answer.
func cutStops(s string) string {
	for {
		t := strings.TrimRightFunc(s, isSpace)
		n := stopLen(t)
		if n == 0 {
			return s
		}
		t = strings.TrimRightFunc(t[:len(t)-n], isSpace)
		if t == "" || strings.HasSuffix(strings.TrimRight(t, " *_`\"'"), ":") {
			return s
		}
		s = t
	}
}

// stopLen returns the length of the stop token that s ends in, or 0.
func stopLen(s string) int {
	for _, stop := range [...]string{"</s>", "<eos>", "<EOT>", "[EOS]", "[/INST]", "<end_of_turn>"} {
		if strings.HasSuffix(s, stop) {
			return len(stop)
		}
	}
	for _, bar := range [...]string{"|", "｜"} {
		const maxName = 40
		if body, ok := strings.CutSuffix(s, bar+">"); ok {
			from := max(0, len(body)-maxName)
			i := strings.LastIndex(body[from:], "<"+bar)
			if i >= 0 && CountWords(body[from+i:], 1) > 0 && !strings.ContainsAny(body[from+i:], "\n ") {
				return len(s) - from - i
			}
		}
	}
	return 0
}

// openTags writes <answer>…</answer> as a line with a mark. What it encloses
// is one line, so that a list in it stays a list.
func openTags(s string) string {
	var b strings.Builder
	isTag := func(n string) bool { return tagMark(n) != "" }
	for {
		before, after, name, closing, ok := cutTag(s, isTag)
		if !ok {
			if b.Len() == 0 {
				return s
			}
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(before)
		b.WriteByte('\n')
		if s = after; closing {
			continue
		}
		inside, rest, _, closed, found := cutTag(s, isTag)
		if found && closed {
			inside = Collapse(inside)
			s = rest
		} else {
			inside = ""
		}
		b.WriteString(tagMark(name))
		b.WriteString(inside)
		if found && closed {
			b.WriteByte('\n')
		}
	}
}

// joinFormulas replaces line breaks inside boxes and displayed formulas by
// spaces.
func joinFormulas(s string) string {
	if !strings.Contains(s, `\`) && !strings.Contains(s, "$$") {
		return s
	}
	out := []byte(s)
	join := func(from, to int) {
		for i := from; i < to; i++ {
			if out[i] < utf8.RuneSelf && isLineBreak(rune(out[i])) {
				out[i] = ' '
			}
		}
	}
	end := 0 // of what is joined
	for _, b := range findBoxes(s) {
		if b.end > end {
			join(b.start, b.end)
			end = b.end
		}
	}
	for _, pair := range [...][2]string{{`\[`, `\]`}, {`\(`, `\)`}, {"$$", "$$"}} {
		for at := 0; ; {
			i := strings.Index(s[at:], pair[0])
			if i < 0 {
				break
			}
			from := at + i + len(pair[0])
			j := strings.Index(s[from:], pair[1])
			if j < 0 {
				break
			}
			if at = from + j + len(pair[1]); j <= maxFormula {
				join(from, from+j)
			}
		}
	}
	return string(out)
}

// maxFormula is the most bytes of a formula whose lines are joined.
const maxFormula = 4096

// A box is a \boxed{…} in a text.
type box struct{ start, open, end int } // of the whole; its content is s[open:end-1]

// findBoxes returns the boxes of s that are closed and lie in no other.
func findBoxes(s string) []box {
	var out []box
	var braces []box
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if n := boxStart(s[i:]); n > 0 {
				braces = append(braces, box{start: i, open: i + n})
				i += n - 1
			} else {
				i++ // an escaped brace is none
			}
		case '{':
			braces = append(braces, box{start: -1})
		case '}':
			if len(braces) == 0 {
				continue
			}
			b := braces[len(braces)-1]
			braces = braces[:len(braces)-1]
			if b.start < 0 {
				continue
			}
			for len(out) > 0 && out[len(out)-1].start > b.start {
				out = out[:len(out)-1]
			}
			b.end = i + 1
			out = append(out, b)
		}
	}
	return out
}

// boxStart returns the length of the \boxed{ that s begins with, or 0.
func boxStart(s string) int {
	for _, name := range [...]string{`\boxed`, `\fbox`} {
		if rest, ok := strings.CutPrefix(s, name); ok {
			bare := strings.TrimLeft(rest, " ")
			if strings.HasPrefix(bare, "{") {
				return len(s) - len(bare) + 1
			}
		}
	}
	return 0
}
