package mathmatch

import (
	"slices"
	"strings"

	"securebench/internal/family/textmatch"
	"securebench/internal/lazyregexp"
)

// shape is what kind of thing an expression states. An answer's must be the gold's.
type shape string

const (
	number     shape = "number"
	expression shape = "expression" // of symbols
	set        shape = "set"        // also a bare list
	tuple      shape = "tuple"
	pair       shape = "pair in round brackets" // a tuple of two, or an open interval
	interval   shape = "interval"
	matrix     shape = "matrix"
	equation   shape = "equation"
	inequality shape = "inequality"
	ratio      shape = "ratio"
	based      shape = "number in a base" // which the parser does not know
	words      shape = "text"
)

// stated is an expression as it is compared.
type stated struct {
	text    string // LaTeX for the parser; for words, their normal form
	shape   shape
	percent bool
	// unit are the words that stood beside the value.
	unit []string
	// also are the other sides of a chain, x = 6/8 = 3/4, which have to be equal as well.
	also []string
	// value is what an equation assigns, or the interval of an inequality, if there is any;
	// only a gold has it.
	value *stated
	// inOrder are the values of several names: an answer may list them without brackets.
	inOrder bool
	// known are the commands and runs of letters that it has.
	known map[string]bool
}

// refusal is a rule that an expression breaks; its text is for the verdict.
type refusal string

// The rules. What breaks one never reaches a sandbox.
const (
	tooLong      refusal = "the expression is longer than 2000 bytes"
	longNumber   refusal = "the expression has a number of more than 400 digits"
	blank        refusal = "there is no expression"
	unknownText  refusal = "the text in the expression is no unit that the question asks for"
	unknownSign  refusal = "the expression has a sign or command that is not understood"
	denied       refusal = "the expression denies a value or is only about it"
	sideBySide   refusal = "the expression has numbers side by side"
	otherPercent refusal = "the expression is a percentage, and the answer is not"
	notAssigned  refusal = "the expression equates values instead of stating one"
	unbalanced   refusal = "the brackets of the expression do not match, or are too deep"
	manyLines    refusal = "the expression has several lines"
)

const (
	maxStated = 2000
	maxDigits = 400
)

// token is a part of an expression.
type token struct {
	kind byte // 'c' command, 'e' environment, 'w' letters, 'n' number, 't' words in \text, 's' space, else the sign itself
	text string
}

var (
	grouped = lazyregexp.New(`^[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?`) // in thousands
	simple  = lazyregexp.New(`^(?:\d+(?:\.\d+)?|\.\d+)`)
	comma   = lazyregexp.New(`^(-?)(\d+|[1-9]\d{0,2}(?:\.\d{3})+),(\d+)([^\d,]\D*)?$`) // a decimal one
)

// scan cuts an expression into tokens. In brackets, and where a list is asked for, a
// comma is never that of thousands.
func scan(s string, lists bool) (out []token) {
	depth := 0
	for i := 0; i < len(s); {
		c := s[i]
		n := i + 1
		switch {
		case c == '\\':
			for n < len(s) && isLetter(s[n]) {
				n++
			}
			if n = max(n, min(i+2, len(s))); isTextual(s[i:n]) {
				end := closing(s, n)
				inner := strings.TrimSpace(strings.Trim(s[n:end], "{} "))
				if end > n {
					kind := byte('t')
					if len(inner) == 1 && isLetter(inner[0]) && !strings.HasPrefix(s[i:n], `\text`) {
						kind = 'w' // \mathrm{e}
					}
					out = append(out, token{kind, inner})
					i = end
					continue
				}
			}
			out = append(out, token{'c', s[i:n]})
			if name := s[i:n]; name == `\begin` || name == `\end` {
				if end := closing(s, n); end > n {
					out, n = append(out, token{'e', strings.TrimSpace(s[n:end])}), end
				}
			}
		case c == ' ' || c == '\t':
			for n < len(s) && (s[n] == ' ' || s[n] == '\t') {
				n++
			}
			out = append(out, token{'s', " "})
		case isDigit(c) || c == '.' && n < len(s) && isDigit(s[n]):
			text := simple.FindString(s[i:])
			if long := grouped.FindString(s[i:]); long != "" && depth == 0 && !lists && !isDigits(s, i+len(long)) {
				text = long
			}
			n = i + len(text)
			out = append(out, token{'n', text})
		case isLetter(c):
			for n < len(s) && isLetter(s[n]) {
				n++
			}
			out = append(out, token{'w', s[i:n]})
		default:
			out = append(out, token{c, s[i:n]})
		}
		if t := out[len(out)-1].text; t != "{" && t != "}" {
			depth += brackets[t]
		}
		i = n
	}
	return out
}

// isDigits reports whether a digit is at a place.
func isDigits(s string, i int) bool { return i < len(s) && isDigit(s[i]) }

// isList reports whether an expression has several elements.
func (e *stated) isList() bool {
	return e.shape == set || e.shape == tuple || e.shape == pair || e.shape == interval
}

// join writes tokens as LaTeX. A number loses the commas between its thousands.
func join(tokens []token) string {
	var b strings.Builder
	for _, t := range tokens {
		if t.kind == 'n' {
			t.text = strings.ReplaceAll(t.text, ",", "")
		}
		b.WriteString(t.text)
	}
	return strings.TrimSpace(b.String())
}

// commands are what an expression may have, whatever the gold has.
var commands = func() map[string]bool { //nolint:gochecknoglobals // a constant
	out := map[string]bool{}
	for _, name := range strings.Fields(`frac sqrt cdot times div pm mp pi infty cup cap in emptyset circ le ge leq geq ne approx
		sin cos tan cot sec csc ln log lg exp arcsin arccos arctan sinh cosh tanh binom dbinom tbinom begin end max min gcd lcm
		alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi rho sigma tau phi varphi chi psi omega
		Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega lfloor rfloor lceil rceil mid vert lvert rvert
		overline bar vec hat sum prod int lim to mathbb setminus prime ell imath over`) {
		out[`\`+name] = true
	}
	for _, sign := range []string{`\{`, `\}`, `\%`, `\$`, `\\`, `\|`, `\_`} {
		out[sign] = true
	}
	return out
}()

// environments are those of matrices; brackets around one change nothing.
var environments = map[string]bool{"{matrix}": true, "{pmatrix}": true, "{bmatrix}": true, "{Bmatrix}": true, "{smallmatrix}": true} //nolint:gochecknoglobals // a constant

// denials are relations that say what a value is not, or is only near to.
var denials = lazyregexp.New(`\\(?:ne|not|approx|sim|simeq|cong|propto|lesssim|gtrsim|nless|ngtr|notin|nsim|doteq)(?:[^a-zA-Z]|$)|!=|<>|≉|≁|≃|∝`)

// expansion is what may follow an exact value: what it is about, in digits.
var expansion = lazyregexp.New(`^(.+?)\s*\\approx\s*[-+]?\d[\d,]*(?:\.\d+)?\s*$`)

// list of words that join values.
var joins = map[string]bool{"and": true, "or": true, ",": true, ", and": true, ", or": true, "und": true, "et": true, "y": true} //nolint:gochecknoglobals // a constant

// read reads an expression. Of gold, words are taken as they are; gold is nil for the
// gold itself.
func read(s string, asked *Asked, gold *stated) (stated, refusal) {
	if len(s) > maxStated {
		return stated{}, tooLong
	}
	if strings.HasPrefix(strings.TrimLeft(unwrap(s), " $"), "~") {
		return stated{}, denied
	}
	s = plain(s)
	switch {
	case s == "":
		return stated{}, blank
	case strings.ContainsAny(s, "\n\r") && !strings.Contains(s, `\begin`):
		return stated{}, manyLines
	}
	s = strings.NewReplacer("\n", " ", "\r", " ").Replace(s)
	if m := expansion.FindStringSubmatch(s); m != nil && strings.ContainsAny(m[1], `\/^`) && !denials.MatchString(m[1]) {
		s = strings.TrimSpace(m[1])
	}
	if denials.MatchString(s) && (gold == nil || !sameDenials(s, gold.text)) && gold != nil {
		return stated{}, denied
	}
	if m := comma.FindStringSubmatch(s); m != nil && gold != nil && gold.shape == number && !grouped.MatchString(strings.TrimPrefix(s, "-")) {
		s = m[1] + strings.ReplaceAll(m[2], ".", "") + "." + m[3] + m[4]
	}
	tokens := scan(s, gold != nil && gold.isList())
	if t, ok := onlyWords(tokens, gold); ok && (gold == nil || gold.shape == words) {
		return stated{text: t, shape: words}, ""
	}
	e := stated{known: map[string]bool{}}
	tokens, r := e.take(tokens, asked, gold)
	if r != "" {
		return stated{}, r
	}
	if tokens, r = beside(tokens); r != "" {
		return stated{}, r
	}
	return e.finish(tokens, asked, gold)
}

// sameDenials reports whether two expressions deny with the same signs.
func sameDenials(a, b string) bool {
	return slices.Equal(denials.FindAllString(a, -1), denials.FindAllString(b, -1))
}

// onlyWords returns the words of an expression that is nothing but text.
func onlyWords(tokens []token, gold *stated) (string, bool) {
	var out []string
	for _, t := range tokens {
		switch {
		case t.kind == 't':
			out = append(out, t.text)
		case t.kind == 'w' && (len(t.text) > 1 || gold != nil):
			out = append(out, t.text)
		case t.kind != 's' && t.kind != '(' && t.kind != ')':
			return "", false
		}
	}
	text := strings.Trim(textmatch.Tidy(textmatch.Lower(strings.Join(out, " "))), "() ")
	return text, text != ""
}

// take checks every token, and takes units, percent signs and words that join values
// out of an expression.
func (e *stated) take(tokens []token, asked *Asked, gold *stated) (out []token, r refusal) {
	behind := false // a unit stands behind a value, and no value behind it
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		switch {
		case behind && gold != nil && (t.kind == 'n' || t.kind == 'c' && t.text != `\}` && t.text != `\circ` && t.text != `\%`):
			return nil, unknownText
		case t.kind == 'n' && len(t.text) > maxDigits:
			return nil, longNumber
		case t.text == `\%`, t.kind == '%', (t.kind == 'w' || t.kind == 't') && IsPercent(t.text):
			e.percent = true
			continue
		case t.text == `\$` || t.kind == '$':
			if gold != nil && !asked.allows("$", "$€£¥", "dollar") {
				return nil, unknownText
			}
			e.unit = append(e.unit, "$")
			continue
		case t.text == `\circ` && degrees(out):
			if gold != nil && !asked.allows("degree", "°", "degree") {
				return nil, unknownText
			}
			e.unit = append(e.unit, "degree")
			braced := i+1 < len(tokens) && tokens[i+1].kind == '}' && out[len(out)-1].kind == '{'
			if out = out[:len(out)-1]; braced { // ^{\circ}
				out, i = out[:len(out)-1], i+1
			}
			continue
		case t.kind == 'w' && len(trim(out)) == 0 && isSegment(t.text) && names(tokens[i+1:]): // AB = 5
		case t.kind == 't' || t.kind == 'w' && !isSymbols(t.text, gold):
			if joins[strings.ToLower(strings.TrimSpace(t.text))] {
				behind = false
				out = joined(out)
				continue
			}
			if gold != nil && (len(trim(out)) == 0 || !asked.isUnit(t.text)) {
				return nil, unknownText
			}
			behind = true
			e.unit = append(e.unit, strings.Fields(textmatch.Lower(t.text))...)
			i += power(tokens[i+1:])
			continue
		case t.kind == 'c' && !commands[t.text] && (gold == nil || !gold.known[t.text]):
			if gold != nil {
				return nil, unknownSign
			}
		case t.kind >= 0x80 || strings.IndexByte("?\"@#`~", t.kind) >= 0:
			return nil, unknownSign
		case t.kind == 'e' && !environments[t.text]:
			return nil, unknownSign
		case t.kind == ':' && gold != nil && !gold.known[":"]:
			return nil, unknownSign
		case t.kind == ';':
			t = token{',', ","}
		}
		behind = behind && t.kind != ','
		e.known[t.text] = true
		out = append(out, t)
	}
	return out, ""
}

// joined adds a comma to what does not end in one.
func joined(out []token) []token {
	if before := trim(out); len(before) == 0 || before[len(before)-1].kind == ',' {
		return out
	}
	return append(out, token{',', ","}, token{'s', " "})
}

// isSegment reports whether letters name something of a figure, such as AB.
func isSegment(s string) bool { return len(s) <= 3 && s == strings.ToUpper(s) }

// names reports whether an equals sign follows.
func names(rest []token) bool {
	rest = trim(rest)
	return len(rest) > 0 && rest[0].kind == '='
}

// degrees reports whether a circle stands where degrees do: behind ^ or ^{.
func degrees(before []token) bool {
	n := len(before)
	return n > 1 && (before[n-1].kind == '^' || before[n-1].kind == '{' && n > 2 && before[n-2].kind == '^')
}

// IsPercent reports whether a word or sign says that a value is a percentage.
func IsPercent(s string) bool {
	switch strings.ToLower(strings.Trim(s, ` \`)) {
	case "%", "percent", "per cent", "percentage", "pct":
		return true
	}
	return false
}

// isSymbols reports whether letters are a product of symbols and no word: one letter,
// or letters that the gold has.
func isSymbols(s string, gold *stated) bool {
	if len(s) == 1 {
		return true
	}
	if gold == nil {
		return len(s) <= 3 && !joins[strings.ToLower(s)]
	}
	if gold.known[s] {
		return true
	}
	for i := range len(s) {
		if !gold.known[s[i:i+1]] {
			return false
		}
	}
	return true
}

// power is the number of tokens of a unit's power: ^2 or ^{2}.
func power(tokens []token) int {
	text := func(i int) string {
		if i < len(tokens) {
			return tokens[i].text
		}
		return ""
	}
	switch {
	case text(0) != "^":
		return 0
	case text(1) == "2" || text(1) == "3":
		return 2
	case text(1) == "{" && (text(2) == "2" || text(2) == "3") && text(3) == "}":
		return 4
	}
	return 0
}

// beside joins the thousands of numbers that spaces separate, writes a number with a
// fraction behind it as LaTeX does, and refuses other numbers side by side: a parser
// adds or multiplies them.
func beside(tokens []token) (out []token, r refusal) {
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		if t.kind != 'n' || i+2 >= len(tokens) || tokens[i+1].kind != 's' || tokens[i+2].kind != 'n' {
			if t.kind == 'n' && i+1 < len(tokens) && tokens[i+1].kind == 'n' {
				return nil, sideBySide
			}
			out = append(out, t)
			continue
		}
		next := tokens[i+2].text
		switch {
		case i+4 < len(tokens) && tokens[i+3].kind == '/' && tokens[i+4].kind == 'n' && isWhole(t.text) && isWhole(next):
			out = append(out, token{'n', t.text}, token{'f', `\frac{` + next + "}{" + tokens[i+4].text + "}"})
			i += 4
		case len(t.text) <= 3 && isWhole(t.text):
			j := i + 2
			for ; j < len(tokens) && tokens[j].kind == 'n' && tokens[j-1].kind == 's' && len(tokens[j].text) >= 3 && isWhole(tokens[j].text[:3]); j += 2 {
				if len(tokens[j].text) != 3 && tokens[j].text[3] != '.' {
					return nil, sideBySide
				}
				t.text += tokens[j].text
			}
			if j == i+2 || j < len(tokens) && tokens[j].kind == 'n' {
				return nil, sideBySide
			}
			out, i = append(out, t), j-2
		default:
			return nil, sideBySide
		}
	}
	return out, ""
}

func isWhole(s string) bool {
	return strings.Trim(s, "0123456789") == ""
}
