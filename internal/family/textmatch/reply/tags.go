// Package reply reads what a model wrote: it removes reasoning and stop tokens,
// splits the rest into passages, and finds the marks, such as "the answer is",
// that lead to an answer.
package reply

import (
	"strings"

	"securebench/internal/family/textmatch"
)

// Text returns the part of a candidate that is read for a marked answer: what
// [Said] leaves, with <answer>…</answer> as a line "Answer: …" and what
// \boxed{…} or a displayed formula spreads over several lines on one.
func Text(candidate string) string {
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

// reasoning lists the names of the tags that enclose reasoning.
const reasoning textmatch.List = " think thinking thought thoughts reasoning reflection scratchpad seed:think "

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
			return reasoning.Has(n) && (block == "" || n == block)
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

// cutStops removes the stop tokens of chat models from the end of s. One that
// stands where an answer is expected stays: it may be the answer.
func cutStops(s string) string {
	for {
		t := strings.TrimRightFunc(s, textmatch.IsSpace)
		n := stopLen(t)
		if n == 0 {
			return s
		}
		t = strings.TrimRightFunc(t[:len(t)-n], textmatch.IsSpace)
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
			if i >= 0 && textmatch.CountWords(body[from+i:], 1) > 0 && !strings.ContainsAny(body[from+i:], "\n ") {
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
		b.WriteString(tagMark(name))
		if inside, rest, _, closed, found := cutTag(s, isTag); found && closed {
			b.WriteString(textmatch.Collapse(inside) + "\n")
			s = rest
		}
	}
}
