package textmatch

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Plain returns a line without typesetting: Markdown emphasis, delimiters of
// formulas, and LaTeX commands for fonts and spaces. LaTeX commands for signs
// become the sign, and a simple fraction becomes a/b. Unknown commands stay.
func Plain(s string) string {
	if strings.IndexByte(s, '\\') >= 0 || strings.Contains(s, "{,}") {
		s = untex(s)
	}
	if strings.IndexByte(s, '$') >= 0 {
		s = cutDollars(s)
	}
	if strings.ContainsAny(s, "*_`") {
		s = cutEmphasis(s)
	}
	return Collapse(s)
}

// The commands of LaTeX that are known.
const (
	// wrappers are the commands that only format their argument.
	wrappers List = " boxed fbox text textbf textit textrm textsf texttt textup mathrm mathbf mathit mathsf mathtt mbox hbox" +
		" operatorname underline emph bm boldsymbol "
	// signs pairs commands with the sign that they stand for.
	signs List = " times=× cdot=· div=÷ pm=± mp=∓ ne=≠ neq=≠ leq=≤ le=≤ geq=≥ ge=≥ lt=< gt=> approx=≈ simeq=≈ sim=~ cong=≅" +
		" equiv=≡ sqrt=√ circ=° degree=° pounds=£ euro=€ pi=π infty=∞ rightarrow=→ Rightarrow=→ to=→ implies=→ therefore=→" +
		" longrightarrow=→ left= right= displaystyle= textstyle= bf= rm= large= Large= big= Big= bigl= bigr= "
	spaces    List = " quad qquad hspace newline "
	fractions List = " frac dfrac tfrac "
)

// untex replaces the commands of LaTeX that are known.
func untex(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	var closers []bool // of the open braces: whether the closing one is dropped
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			n := 0
			for j := i + 1; j < len(s) && isASCIILetter(s[j]); j++ {
				n++
			}
			if n == 0 {
				if s[i+1] == ',' && isGroup(b.String(), s[i+2:]) {
					b.WriteByte(',')
				} else {
					b.WriteString(escaped(s[i+1]))
				}
				i += 2
				if s[i-1] >= utf8.RuneSelf {
					i-- // a letter, not a LaTeX sign
				}
				continue
			}
			i = command(&b, s, i, s[i+1:i+1+n], &closers)
		case c == '{' && strings.HasPrefix(s[i:], "{,}"):
			b.WriteByte(',')
			i += 3
		case c == '{':
			closers = append(closers, false)
			b.WriteByte(c)
			i++
		case c == '}' && len(closers) > 0:
			if !closers[len(closers)-1] {
				b.WriteByte(c)
			}
			closers = closers[:len(closers)-1]
			i++
		default:
			b.WriteByte(c)
			i++
		}
	}
	return strings.ReplaceAll(strings.ReplaceAll(b.String(), "^{°}", "°"), "^°", "°")
}

// command writes what the command name at s[i] stands for and returns where
// the scan continues.
func command(b *strings.Builder, s string, i int, name string, closers *[]bool) int {
	end := i + 1 + len(name)
	rest := strings.TrimLeft(s[end:], " ")
	sign, known := signs.Value(name)
	if spaces.Has(name) {
		sign, known = " ", true
	}
	switch {
	case wrappers.Has(name) && strings.HasPrefix(rest, "{"):
		*closers = append(*closers, true)
		return len(s) - len(rest) + 1
	case fractions.Has(name):
		if over, under, after, ok := fraction(rest); ok {
			b.WriteString(over + "/" + under)
			return len(s) - len(after)
		}
	case known:
		b.WriteString(sign)
		return end
	}
	b.WriteString(s[i:end])
	return end
}

// escaped returns what a backslash and c stand for.
func escaped(c byte) string {
	switch c {
	case '(', ')', '[', ']', ',', ';', ':', '/', '\\', ' ':
		return " "
	case '!':
		return ""
	case '%', '#', '&', '_', '{', '}':
		return string(c)
	case '$':
		return "\\$" // a currency sign, not the end of a formula
	}
	return `\`
}

// isGroup reports whether a thin space between before and after parts the
// thousands of a number.
func isGroup(before, after string) bool {
	return before != "" && IsDigit(rune(before[len(before)-1])) && DigitsEnd(after, 0) == 3
}

// fraction reads {a}{b} where both are letters, digits and points.
func fraction(s string) (over, under, after string, ok bool) {
	part := func(s string) (string, string, bool) {
		inside, ok := strings.CutPrefix(s, "{")
		end := strings.IndexByte(inside, '}')
		if !ok || end < 1 || strings.ContainsFunc(inside[:end], func(r rune) bool { return r != '.' && !IsLetterOrNumber(r) }) {
			return "", "", false
		}
		return inside[:end], inside[end+1:], true
	}
	if over, after, ok = part(s); ok {
		under, after, ok = part(after)
	}
	return over, under, after, ok
}

func isASCIILetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// cutDollars removes the dollar signs that enclose a formula: as in Markdown,
// the first has no space after it, the second none before it and no digit
// after it. An escaped one is a currency sign.
func cutDollars(s string) string {
	s = strings.ReplaceAll(s, "$$", " ")
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		switch {
		case strings.HasPrefix(s[i:], `\$`):
			b.WriteByte('$')
			i += 2
		case s[i] == '$':
			end := closingDollar(s, i+1)
			if end < 0 {
				b.WriteString(strings.ReplaceAll(s[i:], `\$`, "$"))
				return b.String()
			}
			if end == 0 { // this one opens nothing
				b.WriteByte('$')
				i++
				continue
			}
			b.WriteString(strings.ReplaceAll(s[i+1:end], `\$`, "$"))
			i = end + 1
		default:
			b.WriteByte(s[i])
			i++
		}
	}
	return b.String()
}

// closingDollar returns where the formula that begins at s[i] ends, 0 where
// none begins there, or -1 where s contains no further dollar sign.
func closingDollar(s string, i int) int {
	j := i
	for {
		n := strings.IndexByte(s[j:], '$')
		if n < 0 {
			return -1
		}
		if j += n; j == 0 || s[j-1] != '\\' {
			break
		}
		j++
	}
	inside := s[i:j]
	if inside == "" || strings.HasPrefix(inside, " ") || strings.HasSuffix(inside, " ") || j+1 < len(s) && IsDigit(rune(s[j+1])) {
		return 0
	}
	return j
}

// cutEmphasis removes runs of * _ ` that enclose a part of s: each at the edge of
// a word and with a partner.
func cutEmphasis(s string) string {
	type run struct{ at, n int }
	var open []run
	drop := map[int]int{}
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
		opens := (i == 0 || !IsWordRune(before)) && i+n < len(s) && !IsSpace(after)
		closes := i > 0 && !IsSpace(before) && (i+n == len(s) || !IsLetterOrNumber(after))
		partner := -1
		if closes && len(open) > 0 {
			last := open[len(open)-1]
			if s[last.at] == c && last.n == n {
				partner = last.at
			}
		}
		switch {
		case partner >= 0:
			drop[partner], drop[i] = n, n
			open = open[:len(open)-1]
		case opens:
			open = append(open, run{i, n})
		}
		i += n
	}
	if len(drop) == 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		if n := drop[i]; n > 0 {
			i += n - 1
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// IsInvisible reports whether r has no width or changes the writing direction.
func IsInvisible(r rune) bool { return unicode.Is(unicode.Cf, r) }
