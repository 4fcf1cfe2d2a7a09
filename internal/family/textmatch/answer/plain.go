package answer

import (
	"strings"
	"unicode/utf8"

	"securebench/internal/family/textmatch"
)

// plain is a text without typesetting, and where each of its bytes comes from.
type plain struct {
	source, text string
	from         []int
}

// after returns where the source continues after the first bytes of the text.
func (p plain) after(bytes int) int {
	if bytes == 0 {
		return 0
	}
	last := p.from[bytes-1]
	_, n := utf8.DecodeRuneInString(p.source[last:])
	return last + n
}

// raw returns what the bytes from start to end were written as, with the delimiters around
// them.
func (p plain) raw(start, end int) string {
	if start >= end {
		return ""
	}
	stop := len(p.source)
	if end < len(p.from) {
		stop = max(p.after(end), p.from[end])
	}
	return strings.TrimSpace(p.source[min(p.after(start), p.from[start]):stop])
}

// Plain returns a text without typesetting: Markdown emphasis, delimiters of formulas,
// and LaTeX commands for fonts and spaces. LaTeX commands for signs become the sign, and
// a simple fraction becomes a/b. Unknown commands stay.
func Plain(s string) string { return plainly(s).text }

// PlainAfter returns [Plain] of a text, and what returns, as it was written, all that
// follows the first bytes of it.
func PlainAfter(s string) (text string, after func(bytes int) string) {
	p := plainly(s)
	return p.text, func(bytes int) string { return s[p.after(bytes):] }
}

// The commands of LaTeX that are known.
const (
	// wrappers are the commands that only format their argument.
	wrappers textmatch.List = " boxed fbox text textbf textit textrm textsf texttt textup mathrm mathbf mathit mathsf mathtt mbox hbox" +
		" operatorname underline emph bm boldsymbol "
	// signs pairs commands with the sign that they stand for.
	signs textmatch.List = " times=× cdot=· div=÷ pm=± mp=∓ ne=≠ neq=≠ leq=≤ le=≤ geq=≥ ge=≥ lt=< gt=> approx=≈ simeq=≈ sim=~ cong=≅" +
		" equiv=≡ sqrt=√ circ=° degree=° pounds=£ euro=€ pi=π infty=∞ in=∈ cup=∪ cap=∩ emptyset=∅ varnothing=∅ theta=θ alpha=α beta=β" +
		" rightarrow=→ Rightarrow=→ to=→ implies=→ therefore=∴ longrightarrow=→ ldots=… dots=… cdots=…" +
		" left= right= displaystyle= textstyle= bf= rm= large= Large= big= Big= bigl= bigr= limits=" +
		" quad=\u00a0 qquad=\u00a0 hspace=\u00a0 newline=\u00a0 "
	fractions textmatch.List = " frac dfrac tfrac cfrac "
	silent    textmatch.List = " phantom hphantom vphantom label tag "
)

// A typesetter writes a text without its typesetting.
type typesetter struct {
	s       string
	b       strings.Builder
	from    []int
	drop    map[int]int // bytes that are left out, by where they begin
	closers []bool      // of the open braces: whether the closing one is dropped
}

func plainly(s string) plain {
	t := &typesetter{s: s, from: make([]int, 0, len(s))}
	t.b.Grow(len(s))
	if strings.IndexByte(s, '$') >= 0 {
		t.dropDollars()
	}
	if strings.ContainsAny(s, "*_`") {
		t.dropEmphasis()
	}
	for i := 0; i < len(s); {
		if n := t.drop[i]; n > 0 {
			i += n
			continue
		}
		i = t.step(i)
	}
	text := strings.TrimRight(t.b.String(), " ")
	return plain{s, text, t.from[:len(text)]}
}

// write adds what stands at s[i] for a part of the source. Spaces run together.
func (t *typesetter) write(part string, i int) {
	for _, r := range part {
		if textmatch.IsSpace(r) {
			if n := len(t.from); n == 0 || t.b.String()[n-1] == ' ' {
				continue
			}
			r = ' '
		}
		for range utf8.RuneLen(r) {
			t.from = append(t.from, i)
		}
		t.b.WriteRune(r)
	}
}

// step writes what s[i] begins and returns where it ends.
func (t *typesetter) step(i int) int {
	s := t.s
	switch c := s[i]; {
	case c == '\\' && i+1 < len(s):
		return t.command(i)
	case strings.HasPrefix(s[i:], "{,}"):
		t.write(",", i)
		return i + 3
	case strings.HasPrefix(s[i:], "{}"):
		return i + 2
	case strings.HasSuffix(s[:i], "^") && strings.HasPrefix(s[i:], `{\circ}`):
		t.closers = append(t.closers, true)
	case c == '{':
		t.closers = append(t.closers, false)
		t.write("{", i)
	case c == '}' && len(t.closers) > 0:
		n := len(t.closers) - 1
		if !t.closers[n] {
			t.write("}", i)
		}
		t.closers = t.closers[:n]
	case c == '^' && (strings.HasPrefix(s[i+1:], `\circ`) || strings.HasPrefix(s[i+1:], `{\circ}`) || strings.HasPrefix(s[i+1:], "°")):
	case c == '~' && i > 0 && i+1 < len(s) && s[i-1] != ' ' && s[i+1] != ' ' && strings.Contains(s, `\`):
		t.write(" ", i)
	case isASCIILetter(c):
		for i < len(s) && isASCIILetter(s[i]) {
			t.from = append(t.from, i)
			t.b.WriteByte(s[i])
			i++
		}
		return i
	default:
		_, n := utf8.DecodeRuneInString(s[i:])
		t.write(s[i:i+n], i)
		return i + n
	}
	return i + 1
}

// command writes what the command at s[i] stands for and returns where the scan
// continues.
func (t *typesetter) command(i int) int {
	s := t.s
	end := i + 1
	for end < len(s) && isASCIILetter(s[end]) {
		end++
	}
	name := s[i+1 : end]
	if name == "" {
		return t.escape(i)
	}
	rest := strings.TrimLeft(s[end:], " ")
	at := len(s) - len(rest)
	sign, known := signs.Value(name)
	out := s[i:end]
	switch {
	case wrappers.Has(name) && strings.HasPrefix(rest, "{"):
		t.closers = append(t.closers, true)
		return at + 1
	case silent.Has(name) && strings.HasPrefix(rest, "{") && strings.Contains(rest, "}"):
		return at + strings.IndexByte(rest, '}') + 1
	case fractions.Has(name):
		if over, under, after, ok := fraction(rest); ok {
			if n := len(t.from); n > 0 && textmatch.IsDigit(rune(t.b.String()[n-1])) {
				over = " " + over // a mixed number
			}
			t.write(over+"/"+under, i)
			return len(s) - len(after)
		}
		out = `\frac`
	case known:
		out = sign
	}
	t.write(out, i)
	return end
}

// escape writes what a backslash and the character after it stand for.
func (t *typesetter) escape(i int) int {
	switch c := t.s[i+1]; c {
	case '!':
	case ',':
		space, digits := " ", t.b.String()
		if digits != "" && textmatch.IsDigit(rune(digits[len(digits)-1])) && textmatch.DigitsEnd(t.s[i+2:], 0) == 3 {
			space = "," // of a group of thousands
		}
		t.write(space, i)
	case '(', ')', '[', ']', ';', ':', '/', ' ':
		t.write(" ", i)
	case '\\':
		t.write("; ", i)
	case '%', '#', '&', '_', '{', '}', '$':
		t.write(string(c), i)
	default:
		t.write(`\`, i)
		return i + 1
	}
	return i + 2
}

// fraction reads {a}{b} where both are letters, digits, powers, points and spaces, or the
// two digits of \frac12.
func fraction(s string) (over, under, after string, ok bool) {
	if len(s) >= 2 && textmatch.DigitsEnd(s, 0) == 2 {
		return s[:1], s[1:2], s[2:], true
	}
	part := func(s string) (string, string, bool) {
		inside, ok := strings.CutPrefix(s, "{")
		end := strings.IndexByte(inside, '}')
		if !ok || end < 1 {
			return "", "", false
		}
		content := strings.TrimSpace(strings.ReplaceAll(inside[:end], `\pi`, "π"))
		if strings.ContainsFunc(content, func(r rune) bool { return r != '.' && r != '^' && !textmatch.IsLetterOrNumber(r) }) || content == "" {
			return "", "", false
		}
		return content, inside[end+1:], true
	}
	if over, after, ok = part(s); ok {
		under, after, ok = part(after)
	}
	return over, under, after, ok
}

func isASCIILetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

func (t *typesetter) leave(i, n int) {
	if t.drop == nil {
		t.drop = map[int]int{}
	}
	t.drop[i] = n
}

// dropDollars leaves out the dollar signs that enclose a formula: as in Markdown, the
// first has no space after it, the second none before it and no digit after it. An
// escaped one is a currency sign.
func (t *typesetter) dropDollars() {
	s := t.s
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case strings.HasPrefix(s[i:], "$$"):
			t.leave(i, 2)
			i++
		case s[i] == '$':
			end := closingDollar(s, i+1)
			if end < 0 {
				return
			}
			if end > 0 {
				t.leave(i, 1)
				t.leave(end, 1)
				i = end
			}
		}
	}
}

// closingDollar returns where the formula that begins at s[i] ends, 0 where none begins
// there, or -1 where s contains no further dollar sign.
func closingDollar(s string, i int) int {
	j := i
	for {
		n := strings.IndexByte(s[j:], '$')
		if n < 0 {
			return -1
		}
		if j += n; s[j-1] != '\\' {
			break
		}
		j++
	}
	inside := s[i:j]
	if inside == "" || strings.HasPrefix(inside, " ") != strings.HasSuffix(inside, " ") || strings.TrimSpace(inside) == "" ||
		j+1 < len(s) && textmatch.IsDigit(rune(s[j+1])) || s[i-1] == '$' && strings.HasPrefix(inside, " ") && !strings.Contains(inside, `\`) {
		return 0
	}
	return j
}

// dropEmphasis leaves out runs of * _ ` that enclose a part of s: each at the edge of
// a word and with a partner.
func (t *typesetter) dropEmphasis() {
	s := t.s
	type run struct{ at, n int }
	var open []run
	for i := 0; i < len(s); {
		c := s[i]
		if c != '*' && c != '_' && c != '`' {
			i++
			continue
		}
		n := 1
		for i+n < len(s) && s[i+n] == c {
			n++
		}
		before, _ := utf8.DecodeLastRuneInString(s[:i])
		after, _ := utf8.DecodeRuneInString(s[i+n:])
		opens := (i == 0 || !textmatch.IsWordRune(before) || before > 0x2e7f) && i+n < len(s) && !textmatch.IsSpace(after)
		closes := i > 0 && !textmatch.IsSpace(before) && (i+n == len(s) || !textmatch.IsLetterOrNumber(after) || after > 0x2e7f)
		if k := len(open) - 1; closes && k >= 0 && s[open[k].at] == c && open[k].n == n {
			t.leave(open[k].at, n)
			t.leave(i, n)
			open = open[:k]
		} else if opens {
			open = append(open, run{i, n})
		}
		i += n
	}
}
