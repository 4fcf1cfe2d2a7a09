package forms

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"securebench/internal/candidate"
	"securebench/internal/family"
	"securebench/internal/lazyregexp"
	"securebench/internal/verdict"
)

// The ways in which code is taken from an agent's text, as records name them.
const (
	asIs      = "as_is"      // all of it, and not a byte is changed
	allText   = "text"       // all that is left without reasoning and stop tokens
	oneFence  = "fence"      // the one fenced block
	lastFence = "last_fence" // the last of several that is in the row's language
	openFence = "open_fence" // a block that has no end
	inTags    = "tags"       // the last between tags such as [PYTHON] and [/PYTHON]
	fromLines = "lines"      // what is left without sentences in front and behind
)

var (
	// reasoningEnd closes what a model thought before it answered.
	reasoningEnd = lazyregexp.New(`(?i)</(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad|seed:think)>|\[/THINK\]|◁/think▷|<\|channel\|>final<\|message\|>`)
	// reasoningStart is one that nothing closes.
	reasoningStart = lazyregexp.New(`(?i)\A\s*(?:<(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad|seed:think)>|\[THINK\]|◁think▷)`)
	// stop is a token with which a model ends its answer.
	stop = lazyregexp.New(`(?:<\|[A-Za-z0-9_]{1,40}\|>|</s>|<eos>|<EOT>|<end_of_turn>|\[EOS\])\s*\z`)
	// tagged is code between tags, of which the first begins a line. Either end of the
	// text can take the place of a tag.
	tagged = lazyregexp.New(`(?ms)^[ \t]*(?:\[(?:PYTHON|CODE|BEGIN)\]|<code(?:[ \t][^<>\n]{0,80})?>)(.*?)(?:\[/(?:PYTHON|CODE)\]|\[(?:DONE|END)\]|</code>|\z)`)
	done   = lazyregexp.New(`(?m)^[ \t]*(?:\[/(?:PYTHON|CODE)\]|\[DONE\]|</code>)[ \t]*$`)
	// sentence is a line that no program has: words that begin with a capital letter and
	// end as a sentence, or a heading.
	sentence = lazyregexp.New(`^(?:[A-Z][\pL\d,'’/-]*(?: [\pL\d,'’"` + "`" + `./()-]+){2,} ?[.:!?]|\*\*[^*]+\*\*:?)$`)
	// fenceLine begins or ends a fenced block.
	fenceLine = lazyregexp.New("^ {0,3}(```+|~~~+)[ \t]*([^\\s`]*)[^`\r\n]*\r?\n?$")
)

// source is the text of a candidate's program.
type source struct {
	Text  []byte
	How   string // the extraction
	Taken []byte // what was extracted; nil is the whole candidate
}

// read returns the program of a candidate: of one that an agent printed, what
// [take] takes. A [family.Failure] needs no sandbox.
func read(c candidate.Candidate, language string) (source, error) {
	out := source{How: asIs}
	if c.Size > candidate.MaxBytes {
		return out, family.Fail(verdict.CandidateTooLarge, "the candidate is larger than %d MiB", candidate.MaxBytes>>20)
	}
	var err error
	if out.Text, err = c.Bytes(); err != nil {
		return out, err
	}
	if c.Said() {
		if !utf8.Valid(out.Text) {
			return out, family.Fail(verdict.InvalidUTF8, "the candidate is not valid UTF-8")
		}
		if out.How, out.Taken = take(language, string(out.Text)); out.Taken != nil {
			out.Text = out.Taken
		}
	}
	if len(bytes.TrimSpace(out.Text)) == 0 {
		return out, family.Fail(verdict.EmptyCandidate, "the candidate is blank")
	}
	return out, nil
}

// take takes a program from what an agent printed. Which block is taken depends
// only on the text and the language. Code is nil if all of the text is the
// program, unchanged.
func take(language, text string) (how string, code []byte) {
	rest := text
	if ends := reasoningEnd.FindAllStringIndex(rest, -1); ends != nil {
		rest = rest[ends[len(ends)-1][1]:]
	}
	if start := reasoningStart.FindStringIndex(rest); start != nil {
		rest = rest[start[1]:]
	}
	for {
		found := stop.FindStringIndex(rest)
		if found == nil {
			break
		}
		rest = rest[:found[0]]
	}
	blocks := fenced(rest)
	if len(blocks) == 0 {
		if code := between(rest); code != nil {
			return inTags, code
		}
		if code := withoutProse(rest); code != nil {
			return fromLines, code
		}
	}
	switch {
	case len(blocks) == 0 && rest == text:
		return asIs, nil
	case len(blocks) == 0:
		return allText, []byte(rest)
	case len(blocks) == 1:
		how = oneFence
		if blocks[0].open {
			how = openFence
		}
		return how, blocks[0].code
	}
	return lastFence, pick(blocks, language).code
}

// between returns the last code between tags that is not blank, nil if there is none.
func between(text string) (code []byte) {
	for _, m := range tagged.FindAllStringSubmatch(text, -1) {
		if strings.TrimSpace(m[1]) != "" {
			code = []byte(strings.Trim(m[1], "\n"))
		}
	}
	if at := done.FindStringIndex(text); code == nil && at != nil && strings.TrimSpace(text[:at[0]]) != "" {
		code = []byte(text[:at[0]])
	}
	return code
}

// withoutProse returns a text without the paragraphs of sentences at its two ends, nil if
// it has none or nothing else.
func withoutProse(text string) []byte {
	lines := strings.SplitAfter(text, "\n")
	begin, end := 0, len(lines)
	for at := begin; at < end; at++ {
		line := strings.TrimSpace(lines[at])
		if line != "" && !sentence.MatchString(line) {
			break
		}
		if line == "" {
			begin = at + 1 // a paragraph has ended
		}
	}
	for at := end - 1; at >= begin; at-- {
		line := strings.TrimSpace(lines[at])
		if line != "" && !sentence.MatchString(line) {
			break
		}
		if line == "" {
			end = at
		}
	}
	code := strings.Join(lines[begin:max(begin, end)], "")
	if strings.TrimSpace(code) == "" || len(strings.TrimSpace(code)) == len(strings.TrimSpace(text)) {
		return nil
	}
	return []byte(code)
}

// block is a fenced block that is not blank.
type block struct {
	word string // behind the fence
	code []byte
	open bool // it has no end
}

// pick returns the last block in a language; else the last that says no language;
// else the last.
func pick(blocks []block, name string) block {
	l, out, rank := languages[name], block{}, -1
	for _, b := range blocks {
		r := 0
		switch {
		case l.calls(b.word, name):
			r = 2
		case b.word == "":
			r = 1
		}
		if r >= rank {
			out, rank = b, r
		}
	}
	return out
}

// fenced finds the fenced blocks of a text.
func fenced(text string) (out []block) {
	var b block
	var code bytes.Buffer
	mark := "" // of the open block
	end := func(open bool) {
		if len(bytes.TrimSpace(code.Bytes())) > 0 {
			b.code, b.open = bytes.Clone(code.Bytes()), open
			out = append(out, b)
		}
		mark = ""
		code.Reset()
	}
	for line := range strings.Lines(text) {
		m := fenceLine.FindStringSubmatch(line)
		switch {
		case mark == "" && m != nil:
			mark, b = m[1], block{word: m[2]}
		case mark == "":
		case m != nil && m[2] == "" && strings.HasPrefix(m[1], mark):
			end(false)
		default:
			code.WriteString(line)
		}
	}
	if mark != "" {
		end(true)
	}
	return out
}
