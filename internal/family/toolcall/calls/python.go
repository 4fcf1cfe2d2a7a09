package calls

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// parseCalls parses a call, or a list or a tuple of calls.
func parseCalls(source string, free bool) ([]node, bool) {
	n, ok := parse(source, free)
	if !ok {
		return nil, false
	}
	items := n.items
	switch n.kind {
	case callNode:
		items = []node{n}
	case listNode, tupleNode:
	default:
		return nil, false
	}
	return items, len(items) <= MaxCalls && !slices.ContainsFunc(items, func(item node) bool { return item.kind != callNode })
}

// literalCalls reads a call, or a list of calls, whose arguments are literals with names.
// Any other argument makes those of its call invalid.
func literalCalls(source string) ([]Call, bool) {
	items, ok := parseCalls(source, true)
	if !ok {
		return nil, false
	}
	list := make([]Call, 0, len(items))
	for _, item := range items {
		name, ok := dotted(*item.fn)
		if !ok {
			return nil, false
		}
		args := Value{Kind: Dict}
		for _, k := range item.keywords {
			args = args.with(k.name, literal(k.value))
		}
		if len(item.items) > 0 {
			args = Value{}
		}
		list = append(list, Call{Name: name, Arguments: args, Source: true})
	}
	return list, true
}

// with adds a member. A name twice, none, or a value without a meaning makes all of it
// invalid.
func (v Value) with(name string, value Value) Value {
	if _, again := v.Get(name); again || name == "" || v.Kind != Dict || value.Kind == Invalid || len(v.Members) == maxMembers {
		return Value{}
	}
	v.Members = append(v.Members, Member{name, value})
	return v
}

// dotted returns the name of a function: words with dots.
func dotted(n node) (string, bool) {
	switch n.kind {
	case nameNode:
		return n.text, true
	case attributeNode:
		before, ok := dotted(n.items[0])
		return before + "." + n.text, ok
	}
	return "", false
}

// literal is the value of a literal; anything else has none.
func literal(n node) Value {
	switch n.kind {
	case valueNode:
		return n.value
	case unaryNode:
		v := literal(n.items[0])
		switch {
		case v.Kind != Int && v.Kind != Float, n.text == "~", n.text == "not":
			return Value{}
		case n.text == "-":
			return negative(v)
		}
		return v
	case listNode, tupleNode:
		return several(n, literal)
	case dictNode:
		out := Value{Kind: Dict}
		for i, key := range n.keys {
			if key.kind != valueNode || key.value.Kind != String || key.value.Text == "" {
				return Value{}
			}
			out = out.with(key.value.Text, literal(n.items[i]))
		}
		return out
	}
	return Value{}
}

// several is a list or a tuple of values.
func several(n node, value func(node) Value) Value {
	out, valid := Value{Kind: List}, true
	if n.kind == tupleNode {
		out.Kind = Tuple
	}
	for _, item := range n.items {
		v := value(item)
		if v.Kind == Invalid {
			valid = false
		}
		out.Items = append(out.Items, v)
	}
	if !valid {
		return Value{}
	}
	return out
}

func negative(v Value) Value {
	if text, ok := strings.CutPrefix(v.Text, "-"); ok {
		v.Text = text
	} else if v.Text != "0" {
		v.Text = "-" + v.Text
	}
	return v
}

// officialCalls reads calls as BFCL's scorer does: positional arguments are passed over, a
// name is its own text, and so is a call or a subscript; arithmetic of numbers is worked
// out. False means that the scorer cannot decode them.
func officialCalls(source string) ([]Call, bool) {
	items, ok := parseCalls(source, false)
	if !ok {
		return nil, false
	}
	r := &official{source: source}
	list := make([]Call, 0, len(items))
	for _, item := range items {
		list = append(list, r.call(item))
	}
	return list, !r.undecoded
}

// official resolves arguments as the scorer does.
type official struct {
	source    string
	undecoded bool
}

func (r *official) call(n node) Call {
	name, _ := dotted(*n.fn)
	args := Value{Kind: Dict}
	for _, k := range n.keywords {
		args = args.with(k.name, r.value(k.value))
	}
	return Call{Name: name, Arguments: args, Source: true}
}

func (r *official) value(n node) Value {
	switch n.kind {
	case valueNode:
		return n.value
	case nameNode:
		return Value{Kind: String, Text: n.text}
	case subscriptNode:
		return r.written(n)
	case callNode:
		if len(n.keywords) == 0 {
			return r.written(n)
		}
		c := r.call(n)
		return Value{Kind: Dict, Members: []Member{{c.Name, c.Arguments}}}
	case unaryNode: // whatever the operator is
		return r.negative(n.items[0])
	case binaryNode:
		v, ok := r.arithmetic(n)
		r.undecoded = r.undecoded || !ok
		return v
	case listNode, tupleNode:
		return several(n, r.value)
	case dictNode:
		return r.dict(n)
	}
	r.undecoded = true
	return Value{}
}

func (r *official) dict(n node) Value {
	out := Value{Kind: Dict}
	for i, key := range n.keys {
		k, v := r.value(key), r.value(n.items[i])
		if k.Kind != String {
			v = Value{}
		}
		out = out.with(k.Text, v)
	}
	return out
}

// written is the text of an expression.
func (r *official) written(n node) Value {
	return Value{Kind: String, Text: strings.Join(strings.Fields(r.source[n.start:n.end]), " ")}
}

func (r *official) negative(n node) Value {
	switch v := n.value; {
	case n.kind != valueNode:
	case v.Kind == Int, v.Kind == Float:
		return negative(v)
	case v.Kind == Bool && v.True:
		return Value{Kind: Int, Text: "-1"}
	case v.Kind == Bool:
		return Value{Kind: Int, Text: "0"}
	}
	r.undecoded = true
	return Value{}
}

// arithmetic works out sums and products of numbers.
func (r *official) arithmetic(n node) (Value, bool) {
	switch n.kind {
	case valueNode:
		return n.value, n.value.Kind == Int || n.value.Kind == Float
	case unaryNode:
		v, ok := r.arithmetic(n.items[0])
		if !ok || n.text != "-" {
			return v, ok && n.text == "+"
		}
		return negative(v), true
	case binaryNode:
		x, okX := r.arithmetic(n.items[0])
		y, okY := r.arithmetic(n.items[1])
		if !okX || !okY {
			return Value{}, false
		}
		if x.Kind == Int && y.Kind == Int && n.text != "/" {
			return integers(n.text, x, y)
		}
		return floats(n.text, x, y)
	}
	return Value{}, false
}

func integers(op string, x, y Value) (Value, bool) {
	a, okA := new(big.Int).SetString(x.Text, 10)
	b, okB := new(big.Int).SetString(y.Text, 10)
	if !okA || !okB || len(x.Text)+len(y.Text) > maxDigits {
		return Value{}, false
	}
	switch op {
	case "+":
		a.Add(a, b)
	case "-":
		a.Sub(a, b)
	case "*":
		a.Mul(a, b)
	default:
		return Value{}, false
	}
	return Value{Kind: Int, Text: a.String()}, true
}

func floats(op string, x, y Value) (Value, bool) {
	a, errA := strconv.ParseFloat(x.Text, 64)
	b, errB := strconv.ParseFloat(y.Text, 64)
	if errA != nil || errB != nil {
		return Value{}, false
	}
	switch op {
	case "+":
		a += b
	case "-":
		a -= b
	case "*":
		a *= b
	case "/":
		if b == 0 {
			return Value{}, false
		}
		a /= b
	default:
		return Value{}, false
	}
	text := strconv.FormatFloat(a, 'g', -1, 64)
	if strings.ContainsAny(text, "NI") { // no number
		return Value{}, false
	}
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return Value{Kind: Float, Text: text}, true
}
