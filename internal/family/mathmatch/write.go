package mathmatch

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"securebench/internal/lazyregexp"
)

// signs are written as LaTeX writes them. Spaces keep a command apart from a letter
// behind it.
var signs = strings.NewReplacer( //nolint:gochecknoglobals // a constant
	"−", "-", "–", "-", "—", "-", "×", `\times `, "·", `\cdot `, "⋅", `\cdot `, "∙", `\cdot `, "÷", `\div `,
	"∞", `\infty `, "π", `\pi `, "∪", `\cup `, "∩", `\cap `, "∈", `\in `, "∅", `\emptyset `, "±", `\pm `,
	"!=", `\ne `, "<=", `\le `, ">=", `\ge `, "≤", `\le `, "≥", `\ge `, "⩽", `\le `, "⩾", `\ge `, "≠", `\ne `, "≈", `\approx `, "°", `^\circ `, "º", `^\circ `,
	"²", "^{2}", "³", "^{3}", "½", `\frac{1}{2}`, "¼", `\frac{1}{4}`, "¾", `\frac{3}{4}`,
	"α", `\alpha `, "β", `\beta `, "γ", `\gamma `, "θ", `\theta `, "λ", `\lambda `, "φ", `\phi `, "ω", `\omega `,
	"€", `\text{€}`, "£", `\text{£}`, "¥", `\text{¥}`, "\u00a0", " ", "\u202f", " ", "\u2009", " ",
)

// layout is what LaTeX commands say of layout only.
var layout = strings.NewReplacer( //nolint:gochecknoglobals // a constant
	`\\`, `\\`, `\left`, "", `\right`, "", `\bigl`, "", `\bigr`, "", `\Bigl`, "", `\Bigr`, "", `\big`, "", `\Big`, "",
	`\displaystyle`, " ", `\textstyle`, " ", `\dfrac`, `\frac`, `\tfrac`, `\frac`, `\cfrac`, `\frac`,
	`\qquad`, " ", `\quad`, " ", `\,`, " ", `\;`, " ", `\:`, " ", `\!`, "", `\ `, " ", "~", " ",
	`\leqslant`, `\le `, `\geqslant`, `\ge `, `\neq`, `\ne `, `\lt`, "<", `\gt`, ">", `\degree`, `^\circ `,
	`\varnothing`, `\emptyset `, `\land`, `\text{ and }`, `\lor`, `\text{ or }`, `\lbrace`, `\{`, `\rbrace`, `\}`,
	`\cdotp`, `\cdot `, `\colon`, ":", `\hspace{1cm}`, " ",
)

// thousands are the commas of a number that is set without the space behind them.
var thousands = lazyregexp.New(`,\\!\s*|\s*\{\s*,\s*\}\s*`)

// backslashes are those that stand in a row.
var backslashes = lazyregexp.New(`\\+[a-zA-Z]?`)

// unescape undoes the escapes of a text that was taken from JSON or a program as it
// stands there: every backslash is twice, and one begins a command.
func unescape(s string) string {
	command := false
	for _, run := range backslashes.FindAllString(s, -1) {
		n := strings.Count(run, `\`)
		if n%2 != 0 {
			return s
		}
		command = command || n == 2 && n < len(run)
	}
	if !command {
		return s
	}
	return strings.ReplaceAll(s, `\\`, `\`)
}

// arrays are matrices whose columns are described.
var arrays = lazyregexp.New(`\\(begin|end)\{array\}(?:\s*\{[clr|\s]*\})?`)

// guarded are commands that begin like one of layout's.
var guarded = strings.NewReplacer(`\leftarrow`, "\x01", `\rightarrow`, "\x02", `\leftrightarrow`, "\x03", `\ltimes`, "\x04", `\lfloor`, `\lfloor`, `\bigcup`, `\cup `, `\bigcap`, `\cap `) //nolint:gochecknoglobals // a constant

// plain writes an expression in one way: LaTeX without layout, in ASCII where it can be.
func plain(s string) string {
	s = signs.Replace(unwrap(unescape(s)))
	s = norm.NFKC.String(s)
	s = layout.Replace(guarded.Replace(thousands.ReplaceAllString(s, ",")))
	s = arrays.ReplaceAllString(strings.ReplaceAll(s, "**", "^"), `\$1{matrix}`)
	return unwrap(functions(roots(s)))
}

// wrappers enclose a formula as a whole.
var wrappers = [][2]string{{"$$", "$$"}, {"$", "$"}, {`\(`, `\)`}, {`\[`, `\]`}, {"**", "**"}, {`\boxed{`, "}"}, {`\fbox{`, "}"}} //nolint:gochecknoglobals // a constant

// unwrap removes what encloses a formula as a whole, and what ends a sentence.
func unwrap(s string) string {
	for {
		was := s
		s = strings.TrimSpace(s)
		s = strings.TrimSpace(strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(s, "."), ";"), ","))
		for _, w := range wrappers {
			inner, ok := strings.CutPrefix(s, w[0])
			if !ok || len(inner) < len(w[1]) {
				continue
			}
			if inner, ok = strings.CutSuffix(inner, w[1]); ok && encloses(inner, w[1]) {
				s = inner
			}
		}
		if s == was {
			return s
		}
	}
}

// encloses reports whether what is between two marks does not end before the second.
func encloses(inner, end string) bool {
	if end != "}" {
		return !strings.Contains(inner, end)
	}
	depth := 0
	for i := 0; i < len(inner); i++ {
		switch inner[i] {
		case '\\':
			i++
		case '{':
			depth++
		case '}':
			if depth--; depth < 0 {
				return false
			}
		}
	}
	return depth == 0
}

// roots writes √3, √(x+1) and sqrt(3) as \sqrt{…}.
func roots(s string) string {
	var b strings.Builder
	for s != "" {
		at, size := strings.Index(s, "√"), len("√")
		if i := strings.Index(s, "sqrt("); i >= 0 && (at < 0 || i < at) && (i == 0 || s[i-1] != '\\' && !isLetter(s[i-1])) {
			at, size = i, len("sqrt")
		} else if i := strings.Index(s, `\sqrt(`); i >= 0 && (at < 0 || i < at) {
			at, size = i, len(`\sqrt`)
		}
		if at < 0 {
			break
		}
		b.WriteString(s[:at])
		s = strings.TrimLeft(s[at+size:], " ")
		n := operand(s)
		b.WriteString(`\sqrt{` + strings.TrimSuffix(strings.TrimPrefix(s[:n], "("), ")") + "}")
		s = s[n:]
	}
	return b.String() + s
}

// operand is the length of what a root without braces covers: a pair of brackets, a
// number, a command or a letter.
func operand(s string) int {
	if strings.HasPrefix(s, "(") {
		depth := 0
		for i := range len(s) {
			switch s[i] {
			case '(':
				depth++
			case ')':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
		return len(s)
	}
	n := 0
	for n < len(s) && (isDigit(s[n]) || s[n] == '.' && n > 0) {
		n++
	}
	if n > 0 || s == "" {
		return n
	}
	if s[0] == '\\' {
		for n = 1; n < len(s) && isLetter(s[n]); n++ {
		}
		return n
	}
	_, n = utf8.DecodeRuneInString(s)
	return n
}

// named are functions and constants that people write without a backslash.
var named = map[string]string{"pi": `\pi `, "infinity": `\infty `, "infty": `\infty `, "inf": `\infty `, "oo": `\infty `, //nolint:gochecknoglobals // a constant
	"sin": `\sin `, "cos": `\cos `, "tan": `\tan `, "cot": `\cot `, "sec": `\sec `, "csc": `\csc `, "ln": `\ln `, "log": `\log `, "exp": `\exp `,
	"arcsin": `\arcsin `, "arccos": `\arccos `, "arctan": `\arctan `}

// functions writes the names of functions as commands, outside of commands and \text.
func functions(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		switch {
		case s[i] == '\\':
			n := i + 1
			for n < len(s) && isLetter(s[n]) {
				n++
			}
			n = max(n, min(i+2, len(s)))
			if name := s[i:n]; isTextual(name) || name == `\begin` || name == `\end` {
				if end := closing(s, n); end > n {
					n = end
				}
			}
			b.WriteString(s[i:n])
			i = n
		case isLetter(s[i]):
			n := i
			for n < len(s) && isLetter(s[n]) {
				n++
			}
			if command, ok := named[s[i:n]]; ok {
				b.WriteString(command)
			} else {
				b.WriteString(s[i:n])
			}
			i = n
		default:
			b.WriteByte(s[i])
			i++
		}
	}
	return b.String()
}

// isTextual reports whether a command's argument is words.
func isTextual(name string) bool {
	switch name {
	case `\text`, `\textnormal`, `\textbf`, `\textit`, `\textrm`, `\mbox`, `\mathrm`, `\operatorname`, `\mathit`, `\mathbf`, `\mathbb`:
		return true
	}
	return false
}

// closing returns the place behind the group in braces that begins at i, or i.
func closing(s string, i int) int {
	for i < len(s) && s[i] == ' ' {
		i++
	}
	if i >= len(s) || s[i] != '{' {
		return i
	}
	depth := 0
	for n := i; n < len(s); n++ {
		switch s[n] {
		case '\\':
			n++
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return n + 1
			}
		}
	}
	return i
}

func isLetter(c byte) bool { return c < utf8.RuneSelf && unicode.IsLetter(rune(c)) }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// Same reports whether two expressions are written alike, but for layout.
func Same(a, b string) bool {
	return strings.ReplaceAll(plain(a), " ", "") == strings.ReplaceAll(plain(b), " ", "")
}
