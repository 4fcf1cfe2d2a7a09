package calls

import "strings"

// nodeKind is the kind of a part of an expression.
type nodeKind uint8

const (
	otherNode nodeKind = iota // valid, and of no interest
	valueNode
	nameNode
	attributeNode
	subscriptNode
	callNode
	unaryNode
	binaryNode
	listNode
	tupleNode
	dictNode
	setNode
)

// node is a part of an expression in Python's syntax.
type node struct {
	kind       nodeKind
	start, end int    // in the source
	text       string // of a name, an attribute or an operator
	value      Value
	items      []node // of a list, the operands, the value of an attribute, the positional arguments of a call
	keys       []node // of a dict
	fn         *node  // of a call
	keywords   []keyword
}

type keyword struct {
	name  string // "" unpacks a dict
	value node
}

// reserved reports whether a word cannot be a name.
func reserved(word string) bool {
	switch word {
	case "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del", "elif", "else", "except",
		"finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try",
		"while", "with", "yield":
		return true
	}
	return false
}

// parser reads an expression. It only recognises: nothing is looked up or run.
type parser struct {
	scan  scanner
	token token // that comes next
	depth int
	parts int
	bad   bool // the source is no expression
	// free lets reserved words be the names of arguments and functions.
	free bool
}

// parse reads a source that is one expression, a tuple without brackets among them.
func parse(source string, free bool) (node, bool) {
	p := &parser{scan: scanner{text: source}, free: free}
	p.advance()
	n := p.list(otherNode, "")
	return n, !p.bad && p.token.kind == endToken
}

func (p *parser) advance() {
	p.token = p.scan.next()
	if p.token.kind == badToken {
		p.fail()
	}
}

// fail ends the reading.
func (p *parser) fail() {
	p.bad = true
	p.token = token{kind: endToken, start: p.token.start, end: p.token.start}
	p.scan.at = len(p.scan.text)
}

// op takes an operator or a word, if it comes next.
func (p *parser) op(text string) bool {
	if !p.sees(text) {
		return false
	}
	p.advance()
	return true
}

func (p *parser) sees(text string) bool {
	return (p.token.kind == opToken || p.token.kind == nameToken) && p.token.text == text
}

// need takes an operator or a word, or fails.
func (p *parser) need(text string) {
	if !p.op(text) {
		p.fail()
	}
}

// maxNesting bounds how deep the parts of an expression are nested, maxChain how many
// operators or names follow each other, and maxParts the numbers, texts and names in all.
const (
	maxNesting = 3 * MaxDepth
	maxChain   = 1000
	maxParts   = 1 << 16
)

// enter bounds the depth of the reading.
func (p *parser) enter() (leave func()) {
	p.depth++
	if p.depth > maxNesting {
		p.fail()
	}
	return func() { p.depth-- }
}

// list reads expressions with commas up to an end. Without a kind for several, one
// expression without a comma is itself.
func (p *parser) list(kind nodeKind, end string) node {
	start := p.token.start
	out := node{kind: kind, start: start}
	comma := false
	for !p.bad && !p.sees(end) && p.token.kind != endToken {
		item := p.element()
		if len(out.items) == 0 && p.clauses() {
			return node{start: start, end: p.token.start}
		}
		out.items = append(out.items, item)
		if comma = p.op(","); !comma {
			break
		}
	}
	out.end = p.token.start
	switch {
	case kind != otherNode:
		out.kind = kind
	case len(out.items) == 1 && !comma:
		return out.items[0]
	case len(out.items) == 0 && end == "":
		p.fail()
	default:
		out.kind = tupleNode
	}
	return out
}

// element reads an expression, or one with a star or a name before it.
func (p *parser) element() node {
	if start := p.token.start; p.op("*") {
		p.binary(bitwise)
		return node{start: start, end: p.token.start}
	}
	n := p.expression()
	if n.kind == nameNode && p.op(":=") {
		p.expression()
		return node{start: n.start, end: p.token.start}
	}
	return n
}

// clauses reads the clauses of a comprehension.
func (p *parser) clauses() (some bool) {
	for p.sees("for") || p.sees("async") {
		some = true
		p.op("async")
		p.need("for")
		p.targets()
		p.need("in")
		p.binary(disjunction)
		for p.op("if") {
			p.binary(disjunction)
		}
	}
	return some
}

// targets reads the names of a for.
func (p *parser) targets() {
	for {
		p.op("*")
		p.binary(bitwise)
		if !p.op(",") || p.sees("in") {
			return
		}
	}
}

// expression reads one expression.
func (p *parser) expression() node {
	defer p.enter()()
	start := p.token.start
	if p.op("lambda") {
		return p.lambda(start)
	}
	n := p.binary(disjunction)
	if p.op("if") {
		p.binary(disjunction)
		p.need("else")
		p.expression()
		return node{start: start, end: p.token.start}
	}
	return n
}

func (p *parser) lambda(start int) node {
	for !p.bad && !p.op(":") {
		switch {
		case p.op("*"), p.op("**"), p.op("/"), p.op(","):
		case p.token.kind == nameToken && !reserved(p.token.text):
			p.advance()
			if p.op("=") {
				p.expression()
			}
		default:
			p.fail()
		}
	}
	p.expression()
	return node{start: start, end: p.token.start}
}

// The levels of operators, the loosest first.
const (
	disjunction = 1 + iota
	conjunction
	negation
	comparison
	bitwise
	exclusive
	both
	shift
	sum
	product
)

// level is that of the operator with two operands that comes next, or 0.
func (p *parser) level() int {
	if p.token.kind != opToken && p.token.kind != nameToken {
		return 0
	}
	switch p.token.text {
	case "or":
		return disjunction
	case "and":
		return conjunction
	case "<", ">", "<=", ">=", "==", "!=", "in", "is", "not":
		return comparison
	case "|":
		return bitwise
	case "^":
		return exclusive
	case "&":
		return both
	case "<<", ">>":
		return shift
	case "+", "-":
		return sum
	case "*", "/", "//", "%", "@":
		return product
	}
	return 0
}

// binary reads operands and the operators that bind at least as tightly as a level.
func (p *parser) binary(least int) node {
	var left node
	if least <= negation && p.sees("not") {
		left = p.prefixed("not", func() node { return p.binary(negation) })
	} else {
		left = p.unary()
	}
	for range maxChain {
		level, op := p.level(), p.token.text
		if level == 0 || level < least {
			return left
		}
		p.advance()
		switch op {
		case "not":
			p.need("in")
		case "is":
			p.op("not")
		}
		right := p.binary(level + 1)
		n := node{kind: binaryNode, start: left.start, end: right.end, text: op, items: []node{left, right}}
		if level <= comparison {
			n.kind, n.items = otherNode, nil
		}
		left = n
	}
	p.fail()
	return left
}

// prefixed reads an operand with an operator before it.
func (p *parser) prefixed(op string, read func() node) node {
	defer p.enter()()
	start := p.token.start
	p.need(op)
	operand := read()
	return node{kind: unaryNode, start: start, end: operand.end, text: op, items: []node{operand}}
}

func (p *parser) unary() node {
	for _, op := range []string{"-", "+", "~"} {
		if p.sees(op) {
			return p.prefixed(op, p.unary)
		}
	}
	p.op("await")
	base := p.primary()
	if p.op("**") {
		defer p.enter()()
		exponent := p.unary()
		return node{kind: binaryNode, start: base.start, end: exponent.end, text: "**", items: []node{base, exponent}}
	}
	return base
}

// primary reads an operand with what is called, taken or looked up of it.
func (p *parser) primary() node {
	defer p.enter()()
	n := p.atom()
	for range maxChain {
		switch {
		case p.op("."):
			if p.token.kind != nameToken || !p.free && reserved(p.token.text) {
				p.fail()
				return n
			}
			n = node{kind: attributeNode, start: n.start, end: p.token.end, text: p.token.text, items: []node{n}}
			p.advance()
		case p.op("("):
			n = p.call(n)
		case p.op("["):
			p.slices()
			n = node{kind: subscriptNode, start: n.start, end: p.token.end, items: []node{n}}
			p.need("]")
		default:
			return n
		}
	}
	p.fail()
	return n
}

// slices reads what is between the brackets of a subscript.
func (p *parser) slices() {
	for some := false; !p.bad; some = true {
		if p.sees("]") && some {
			return
		}
		if !p.sees(":") {
			p.element()
		}
		for range 2 {
			if p.op(":") && !p.sees(":") && !p.sees("]") && !p.sees(",") {
				p.expression()
			}
		}
		if !p.op(",") {
			return
		}
	}
}

// call reads the arguments of a call.
func (p *parser) call(fn node) node {
	n := node{kind: callNode, start: fn.start, fn: &fn}
	for !p.bad && !p.sees(")") {
		switch start := p.token.start; {
		case p.op("**"):
			n.keywords = append(n.keywords, keyword{value: p.expression()})
		case p.op("*"):
			p.expression()
			n.items = append(n.items, node{start: start, end: p.token.start})
		default:
			p.argument(&n)
		}
		if !p.op(",") {
			break
		}
	}
	n.end = p.token.end
	p.need(")")
	return n
}

// argument reads an argument without a star. One without a name cannot follow one with.
func (p *parser) argument(n *node) {
	if word := p.token; word.kind == nameToken && (p.free || !reserved(word.text)) {
		ahead := p.scan
		if after := ahead.next(); after.kind == opToken && after.text == "=" {
			p.advance()
			p.advance()
			n.keywords = append(n.keywords, keyword{word.text, p.expression()})
			return
		}
	}
	if len(n.keywords) > 0 {
		p.fail()
		return
	}
	item := p.element()
	if p.clauses() {
		item = node{start: item.start, end: p.token.start}
	}
	n.items = append(n.items, item)
}

// atom reads the smallest parts.
func (p *parser) atom() node {
	t := p.token
	if p.parts++; p.parts > maxParts {
		p.fail()
	}
	switch {
	case t.kind == valueToken:
		return p.value()
	case t.kind == nameToken:
		return p.name()
	case p.op("..."):
		return node{kind: valueNode, start: t.start, end: t.end, value: Value{Kind: String, Text: "..."}}
	case p.op("("):
		n := p.list(otherNode, ")")
		n.start, n.end = t.start, p.token.end
		p.need(")")
		return n
	case p.op("["):
		n := p.list(listNode, "]")
		n.start, n.end = t.start, p.token.end
		p.need("]")
		return n
	case p.op("{"):
		return p.braces(t.start)
	}
	p.fail()
	return node{}
}

// value reads a number, or texts side by side, which are one.
func (p *parser) value() node {
	t := p.token
	n := node{kind: valueNode, start: t.start, end: t.end, value: t.value}
	isText := quoteAt(p.scan.text[t.start:]) >= 0
	if t.formatted {
		n.kind = otherNode
	}
	p.advance()
	var more strings.Builder
	for isText && p.token.kind == valueToken {
		if quoteAt(p.scan.text[p.token.start:]) < 0 {
			p.fail()
			return n
		}
		n.end = p.token.end
		switch {
		case p.token.formatted:
			n.kind = otherNode
		case p.token.value.Kind == String:
			more.WriteString(p.token.value.Text)
		default:
			n.value = Value{}
		}
		p.advance()
	}
	if n.value.Kind == String {
		n.value.Text += more.String()
	}
	return n
}

func (p *parser) name() node {
	t := p.token
	n := node{kind: nameNode, start: t.start, end: t.end, text: t.text}
	switch t.text {
	case "None":
		n.kind, n.value = valueNode, Value{Kind: Null}
	case "True", "False":
		n.kind, n.value = valueNode, Value{Kind: Bool, True: t.text == "True"}
	default:
		if !p.free && reserved(t.text) {
			p.fail()
			return n
		}
	}
	p.advance()
	return n
}

// braces reads a dict or a set.
func (p *parser) braces(start int) node {
	n := node{kind: dictNode, start: start}
	for first := true; !p.bad && !p.sees("}"); first = false {
		if p.op("**") {
			p.binary(bitwise)
			n.keys = append(n.keys, node{})
			n.items = append(n.items, node{})
		} else {
			key := p.element()
			if first && !p.sees(":") {
				return p.set(start)
			}
			p.need(":")
			n.keys = append(n.keys, key)
			n.items = append(n.items, p.expression())
			if p.clauses() {
				n.kind = otherNode
			}
		}
		if !p.op(",") {
			break
		}
	}
	n.end = p.token.end
	p.need("}")
	return n
}

// set reads the rest of a set.
func (p *parser) set(start int) node {
	if !p.clauses() && p.op(",") {
		p.list(setNode, "}")
	}
	end := p.token.end
	p.need("}")
	return node{kind: setNode, start: start, end: end}
}
