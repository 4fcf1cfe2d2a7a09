package answer

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"securebench/internal/family/textmatch"
	"securebench/internal/lazyregexp"
)

// Said returns what a candidate says: without reasoning (<think>…</think> and its
// like) and without the tokens that start and stop the turns of a chat. A block of
// reasoning that is never closed reaches to the end, and a closing tag without an opening
// one closes a block that began before the text.
func Said(candidate string) string { return cutTurns(WithoutReasoning(candidate)) }

// fences writes the other ways in which models fence their reasoning and their answers
// as tags.
var fences = strings.NewReplacer( //nolint:gochecknoglobals // a constant
	"[THINK]", "<think>", "[/THINK]", "</think>",
	"◁think▷", "<think>", "◁/think▷", "</think>",
	"<|begin_of_thought|>", "<think>", "<|end_of_thought|>", "</think>",
	"<|begin_of_solution|>", "\n", "<|end_of_solution|>", "\n",
	"<|channel|>analysis<|message|>", "<think>", "<|channel|>final<|message|>", "</think>",
	"[ANSWER]", "<answer>", "[/ANSWER]", "</answer>",
)

// terminal are the sequences that color the text of a terminal.
var terminal = lazyregexp.New("\x1b\\[[0-9;]*[A-Za-z]")

// visible removes characters without width and control characters. They stay between two
// letters or digits, where they part what looks whole.
func visible(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	s = terminal.ReplaceAllString(s, "")
	var b strings.Builder
	last, end := ' ', 0 // the last character that is visible, and where it ends
	for i, r := range s {
		if hidden(r) {
			continue
		}
		if end < i && textmatch.IsLetterOrNumber(last) && textmatch.IsLetterOrNumber(r) {
			b.WriteString(s[end:i])
		}
		b.WriteRune(r)
		last, end = r, i+utf8.RuneLen(r)
	}
	return b.String()
}

// hidden reports whether r cannot be seen and does not change how others are shown.
func hidden(r rune) bool {
	return r > utf8.RuneSelf && unicode.Is(unicode.Cf, r) && !reverses(r) || r < ' ' && !textmatch.IsSpace(r) || r == 0x7f
}

// reverses reports whether r shows what follows in another order.
func reverses(r rune) bool { return r == '\u202d' || r == '\u202e' }

// reasoning are the names of the tags that enclose reasoning.
var reasoning = []string{"think", "thinking", "thought", "thoughts", "reasoning", "reflection", "scratchpad", "seed:think"} //nolint:gochecknoglobals // a constant

// enclosing are the names of the tags that enclose an answer.
var enclosing = []string{"answer", "final_answer", "finalanswer"} //nolint:gochecknoglobals // a constant

// maxTag is the most bytes of a tag's name.
const maxTag = 16

// cutTag returns the text before and after the first tag of s, < or </ and one of
// names and >, in any case.
func cutTag(s string, names ...string) (before, after, name string, closing, ok bool) {
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
		if name = strings.ToLower(rest[:end]); slices.Contains(names, name) {
			return s[:at-1], rest[end+1:], name, closes, true
		}
	}
}

// WithoutReasoning returns what a candidate says without reasoning, with the tokens of a chat.
func WithoutReasoning(candidate string) string {
	s := fences.Replace(candidate)
	var kept strings.Builder
	for {
		before, after, name, closing, ok := cutTag(s, reasoning...)
		switch {
		case !ok:
			return kept.String() + s
		case closing:
			kept.Reset()
		default:
			kept.WriteString(before)
			for ok && !closing {
				_, after, _, closing, ok = cutTag(after, name)
			}
		}
		kept.WriteByte('\n')
		if s = after; !ok {
			return kept.String()
		}
	}
}

// startTokens begin a turn, and stopTokens end one. What follows a token that ends a
// turn in the middle of a text is another turn.
var (
	startTokens = lazyregexp.New(`(?i)^(<s>|<bos>|<\|(assistant|im_start|start_header_id|begin_of_text)[^|>\n]*\|>(assistant\n)?|assistant:)`)
	turnTokens  = lazyregexp.New(`<\|(im_end|eot_id|endoftext|end_of_text|return|user|endofturn)\|>|<\|(im_start|start_header_id)\|>\s*(user|system)\b`)
	stopTokens  = lazyregexp.New(`(?i)(</s>|<(eos|eot|eoa|pad|bos|eos_token|eot_token|end_of_turn|endoftext)>|\[(eos|/inst|end of text)\]|<[|｜][^|｜<>\s]{1,40}[|｜]>)\s*$`)
)

// cutTurns removes the tokens of a chat around its last turn. One that stands where an
// answer is expected stays: it may be the answer.
func cutTurns(s string) string {
	trimmed := strings.TrimLeftFunc(s, unicode.IsSpace)
	if m := startTokens.FindStringIndex(trimmed[:min(len(trimmed), maxStop)]); m != nil {
		s = trimmed[m[1]:]
	}
	if m := turnTokens.FindStringIndex(s); m != nil && says(s[:m[0]]) {
		s = s[:m[0]]
	}
	for range maxStops {
		tail := max(0, len(s)-maxStop)
		m := stopTokens.FindStringIndex(s[tail:])
		if m == nil || !says(s[:tail+m[0]]) {
			return s
		}
		s = s[:tail+m[0]]
	}
	return s
}

// maxStops is the most stop tokens at the end of a text that are dropped.
const maxStops = 4096

// maxStop is how many bytes at either end of a text are searched for such a token.
const maxStop = 128

// says reports whether a text before a token ends in something other than what leads
// to an answer.
func says(s string) bool {
	s = strings.TrimRight(s[max(0, len(s)-maxStop):], " \n\t*_`\"'")
	return s != "" && !strings.HasSuffix(s, ":")
}

// Wide is what [Read] does to the characters of a text before anything else, and to a row's
// texts: NFC, with full-width forms, and the digits and punctuation of other scripts, as
// ASCII. No other character stands for a form, or shows what follows in another order.
func Wide(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < utf8.RuneSelf:
			return r
		case unform(r) < 0, reverses(r):
			return '\ufffd'
		case r >= 0xff01 && r <= 0xff5e:
			return r - 0xfee0
		case r == 0x3000:
			return ' '
		case r >= 0x660 && unicode.Is(unicode.Nd, r):
			return digit(r)
		case r == '।', r == '॥', r == '۔':
			return '.'
		}
		if i := strings.IndexRune("،؛؟", r); i >= 0 {
			return rune(",;?"[i/2])
		}
		return r
	}, textmatch.NFC(s))
}

// digit is the ASCII digit with the value of r, a decimal digit of any script: their
// digits are in blocks of ten.
func digit(r rune) rune {
	before := rune(0)
	for unicode.Is(unicode.Nd, r-before-1) {
		before++
	}
	return '0' + before%10
}

// Collapsed is a text as [Read] sees it before typesetting is removed, on one line.
func Collapsed(s string) string { return textmatch.Collapse(strings.Map(unform, s)) }
