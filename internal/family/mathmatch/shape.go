package mathmatch

import (
	"slices"
	"strings"
)

// finish finds the shape of an expression, of which only tokens of mathematics are
// left, and what of it is compared.
func (e stated) finish(tokens []token, asked *Asked, gold *stated) (stated, refusal) {
	tokens = trim(tokens)
	if len(tokens) == 0 {
		return stated{}, blank
	}
	if !balanced(tokens) {
		return stated{}, unbalanced
	}
	if gold != nil && e.percent && !gold.percent && !asked.percent {
		return stated{}, otherPercent
	}
	if gold == nil || gold.shape != equation {
		var r refusal
		if sides := split(tokens, "="); gold != nil && len(sides) > 2 && !has(tokens, ",") {
			for _, side := range sides[1 : len(sides)-1] {
				e.also = append(e.also, join(side))
			}
		}
		if tokens, r = assigned(tokens, gold); r != "" {
			return stated{}, r
		}
	}
	for _, b := range [][2]string{{"(", ")"}, {"[", "]"}} {
		if inner, ok := bracketed(tokens, b[0], b[1]); ok && scalar(inner) == matrix && !has(inner, ",") {
			tokens = trim(inner)
		}
	}
	switch shape := shapeOf(tokens); {
	case gold == nil && shape == equation:
		e.value = e.assigns(tokens, asked)
	case gold == nil && shape == inequality:
		e.value = e.bounds(tokens, asked)
	case gold != nil && gold.inOrder && shape == set && has(tokens, ","):
		tokens = slices.Concat([]token{{'(', "("}}, tokens, []token{{')', ")"}})
	}
	e.shape, e.text = shapeOf(tokens), join(tokens)
	if inner, ok := bracketed(tokens, `\{`, `\}`); ok {
		e.text = `\{` + join(inner) + `\}`
	} else if inner, ok := bracketed(tokens, "{", "}"); ok && len(split(inner, ",")) > 1 {
		e.text = `\{` + join(inner) + `\}`
	}
	return e, ""
}

// assigned is the side of an assignment that states: x = 5, f(x) = 2x, x \in (1,2), and of
// several, as in x = 1, y = 2, the list of them. What equates something else states
// nothing.
func assigned(tokens []token, gold *stated) ([]token, refusal) {
	sides := split(tokens, "=")
	if in := split(tokens, `\in`); len(in) == 2 && isName(in[0]) {
		return trim(in[1]), ""
	}
	if len(sides) == 1 || gold == nil && shapeOf(tokens) == equation {
		return tokens, ""
	}
	if items := split(tokens, ","); len(items) > 1 && isName(split(items[0], "=")[0]) {
		return values(items, gold)
	}
	if !isName(sides[0]) {
		return nil, notAssigned
	}
	return trim(sides[len(sides)-1]), ""
}

// values lists what several names are assigned. Of one name they are a set, and of
// different ones a tuple: of a gold in its order, and of an answer in the order of the
// alphabet, if the gold is one. An item without a name goes on with the one before.
func values(items [][]token, gold *stated) (out []token, r refusal) {
	var names []string
	for i, item := range items {
		sides := split(item, "=")
		switch {
		case len(sides) == 2 && (isName(sides[0]) || gold == nil && isNamed(sides[0])):
			names = append(names, join(sides[0]))
		case len(sides) > 1:
			return nil, notAssigned
		}
		if i > 0 {
			out = append(out, token{',', ","}, token{'s', " "})
		}
		out = append(out, trim(sides[len(sides)-1])...)
	}
	said := slices.Clone(names)
	slices.Sort(names)
	switch one := names[0] == names[len(names)-1]; {
	case one:
		return out, ""
	case len(slices.Compact(slices.Clone(names))) != len(items):
		return nil, notAssigned
	case gold == nil:
	case gold.shape != pair && gold.shape != tuple || !slices.Equal(said, names):
		return nil, notAssigned
	}
	return slices.Concat([]token{{'(', "("}}, out, []token{{')', ")"}}), ""
}

// isName reports whether tokens are what a value is assigned to: a symbol, one with an
// index, a function of symbols, or a tuple of symbols.
func isName(tokens []token) bool {
	letters := 0
	for _, t := range trim(tokens) {
		switch {
		case t.kind == 'w' && len(t.text) == 1, t.kind == 'c' && len(t.text) > 3 && commands[t.text] && !slices.Contains([]string{`\frac`, `\sqrt`, `\infty`, `\cdot`, `\times`, `\circ`}, t.text):
			letters++
		case t.kind == 'w' && len(t.text) <= 3:
			letters++
		case t.kind == '(' || t.kind == ')' || t.kind == '_' || t.kind == '{' || t.kind == '}' || t.kind == 's' || t.kind == ',' || t.kind == 'n' && letters > 0 || t.kind == '\'':
		default:
			return false
		}
	}
	return letters > 0
}

// assigns returns what a gold equation assigns to a name, or the set of what it assigns
// to one name, or nil.
func (e stated) assigns(tokens []token, asked *Asked) *stated {
	sides := split(tokens, "=")
	v := stated{known: e.known, unit: e.unit}
	var rest []token
	switch items := split(tokens, ","); {
	case len(sides) == 2 && len(items) == 1 && isNamed(sides[0]):
		rest = sides[1]
	case len(items) > 1 && isNamed(split(items[0], "=")[0]):
		list, r := values(items, nil)
		if r != "" {
			return nil
		}
		rest, v.inOrder = list, list[0].kind == '('
	default:
		return nil
	}
	if v, r := v.finish(rest, asked, nil); r == "" {
		return &v
	}
	return nil
}

// bounds returns the interval of a gold inequality, or nil.
func (e stated) bounds(tokens []token, asked *Asked) *stated {
	between, ok := betweenBounds(tokens)
	if !ok {
		return nil
	}
	v := stated{known: e.known, unit: e.unit}
	if v, r := v.finish(between, asked, nil); r == "" {
		return &v
	}
	return nil
}

// An end is what a relation says of the interval between its sides.
type end struct {
	less   bool // the left side is less
	closed bool
}

var ends = map[string]end{"<": {true, false}, `\le`: {true, true}, `\leq`: {true, true}, ">": {false, false}, `\ge`: {false, true}, `\geq`: {false, true}} //nolint:gochecknoglobals // a constant

// betweenBounds writes an inequality of one name as the interval that it is in: x < 3,
// 1 \le x < 3.
func betweenBounds(tokens []token) (out []token, ok bool) {
	var sides [][]token
	var relations []end
	from, depth := 0, 0
	for i, t := range tokens {
		depth += brackets[t.text]
		if e, related := ends[t.text]; related && depth == 0 {
			sides, relations, from = append(sides, trim(tokens[from:i])), append(relations, e), i+1
		}
	}
	sides = append(sides, trim(tokens[from:]))
	infinite := []token{{'c', `\infty`}}
	low, high := append([]token{{'-', "-"}}, infinite...), infinite
	left, right := end{}, end{}
	switch {
	case has(tokens, ",", "=", `\cup`, `\ne`):
		return nil, false
	case len(sides) == 2 && isName(sides[0]) == isName(sides[1]), len(sides) > 3, len(sides) == 1:
		return nil, false
	case len(sides) == 2 && isName(sides[0]) != relations[0].less:
		low, left = sides[0], relations[0]
		if isName(sides[0]) {
			low = sides[1]
		}
	case len(sides) == 2:
		high, right = sides[1], relations[0]
		if isName(sides[1]) {
			high = sides[0]
		}
	case !isName(sides[1]) || relations[0].less != relations[1].less:
		return nil, false
	case relations[0].less:
		low, high, left, right = sides[0], sides[2], relations[0], relations[1]
	default:
		low, high, left, right = sides[2], sides[0], relations[1], relations[0]
	}
	open, shut := token{'(', "("}, token{')', ")"}
	if left.closed {
		open = token{'[', "["}
	}
	if right.closed {
		shut = token{']', "]"}
	}
	return slices.Concat([]token{open}, low, []token{{',', ","}}, high, []token{shut}), true
}

// isNamed reports whether tokens are a name, a measure of one, such as |AB|, or the ratio
// of two.
func isNamed(tokens []token) bool {
	tokens = trim(tokens)
	if n := len(tokens); n > 2 && tokens[0].kind == '|' && tokens[n-1].kind == '|' {
		tokens = tokens[1 : n-1]
	}
	if len(tokens) > 1 && tokens[0].text == `\frac` {
		tokens = tokens[1:]
	}
	for _, sign := range []string{":", "/"} {
		if parts := split(tokens, sign); len(parts) == 2 {
			return isName(parts[0]) && isName(parts[1])
		}
	}
	return isName(tokens)
}

// brackets are what opens and closes, each by its token.
var brackets = map[string]int{"(": 1, "[": 1, "{": 1, `\{`: 1, `\begin`: 1, ")": -1, "]": -1, "}": -1, `\}`: -1, `\end`: -1} //nolint:gochecknoglobals // a constant

// maxNest is how deep brackets may be.
const maxNest = 40

// balanced reports whether everything that opens is closed, and not too deep. Round and square brackets
// may close each other, as in an interval.
func balanced(tokens []token) bool {
	var open []string
	for _, t := range tokens {
		switch brackets[t.text] {
		case 1:
			if open = append(open, t.text); len(open) > maxNest {
				return false
			}
		case -1:
			if len(open) == 0 {
				return false
			}
			last := open[len(open)-1]
			open = open[:len(open)-1]
			round := strings.Contains("([", last) && strings.Contains(")]", t.text)
			if !round && map[string]string{"{": "}", `\{`: `\}`, `\begin`: `\end`}[last] != t.text {
				return false
			}
		}
	}
	return len(open) == 0
}

// split cuts tokens at a sign that stands in no brackets.
func split(tokens []token, at string) (out [][]token) {
	depth, from := 0, 0
	for i, t := range tokens {
		switch depth += brackets[t.text]; {
		case depth == 0 && t.text == at:
			out = append(out, tokens[from:i])
			from = i + 1
		}
	}
	return append(out, tokens[from:])
}

// trim removes spaces at either end.
func trim(tokens []token) []token {
	for len(tokens) > 0 && tokens[0].kind == 's' {
		tokens = tokens[1:]
	}
	for len(tokens) > 0 && tokens[len(tokens)-1].kind == 's' {
		tokens = tokens[:len(tokens)-1]
	}
	return tokens
}

// bracketed returns what is inside of brackets that enclose all.
func bracketed(tokens []token, open, shut string) ([]token, bool) {
	n := len(tokens)
	if n < 2 || tokens[0].text != open || tokens[n-1].text != shut {
		return nil, false
	}
	depth := 0
	for i, t := range tokens {
		if depth += brackets[t.text]; depth == 0 && i < n-1 {
			return nil, false
		}
	}
	return tokens[1 : n-1], true
}

// has reports whether one of the signs stands outside of brackets.
func has(tokens []token, signs ...string) bool {
	return slices.ContainsFunc(signs, func(s string) bool { return len(split(tokens, s)) > 1 })
}

// shapeOf says what tokens state.
func shapeOf(tokens []token) shape {
	tokens = trim(tokens)
	switch {
	case has(tokens, "=", `\ne`):
		return equation
	case has(tokens, "<", ">", `\le`, `\ge`, `\leq`, `\geq`):
		return inequality
	case has(tokens, ":"):
		return ratio
	case has(tokens, `\cup`, `\cap`, `\setminus`):
		return interval
	case has(tokens, ","), len(tokens) == 1 && tokens[0].text == `\emptyset`, has(tokens, `\pm`), has(tokens, `\mp`):
		return set
	}
	if _, ok := bracketed(tokens, `\{`, `\}`); ok {
		return set
	}
	if inner, ok := bracketed(tokens, "{", "}"); ok {
		if has(inner, ",") {
			return set
		}
		return shapeOf(inner)
	}
	for _, b := range [][2]string{{"(", ")"}, {"[", "]"}, {"(", "]"}, {"[", ")"}} {
		inner, ok := bracketed(tokens, b[0], b[1])
		if !ok {
			continue
		}
		switch n := len(split(inner, ",")); {
		case n == 1 && b[0] == "(" && b[1] == ")":
			return shapeOf(inner)
		case n == 2 && b[0] == "(" && b[1] == ")":
			return pair
		case n == 2:
			return interval
		}
		return tuple
	}
	return scalar(tokens)
}

// scalar tells matrices, numbers and expressions of symbols apart.
func scalar(tokens []token) shape {
	out := number
	for i, t := range tokens {
		switch {
		case t.kind == '_' && i > 0 && tokens[i-1].kind == 'n':
			return based
		case t.kind == 'e':
			return matrix
		case t.kind == 'w' && t.text != "e" && t.text != "i", t.kind == 'c' && isGreek(t.text):
			out = expression
		}
	}
	return out
}

// isGreek reports whether a command is a letter that stands for something.
func isGreek(name string) bool {
	switch name {
	case `\alpha`, `\beta`, `\gamma`, `\delta`, `\epsilon`, `\theta`, `\lambda`, `\mu`, `\phi`, `\omega`, `\sigma`, `\tau`, `\rho`, `\varphi`:
		return true
	}
	return false
}
