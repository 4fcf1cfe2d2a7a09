package codecompletion

import (
	_ "embed" // the proxies

	"securebench/internal/family/codecompletion/operators"
	"securebench/internal/value"
)

//go:embed proxies.py
var proxiesSource string

// allowsOperator reports whether a request is for an operator of an object, in
// the right form. The candidate never compares with what a test expects: the
// other side of a comparison is an object, too.
func (r request) allowsOperator() bool {
	least, most, ok := operators.Arguments(r.name)
	if !ok || r.op != "call" || r.mutates || r.on.Kind != value.KindHandle {
		return false
	}
	if most == operators.AnyArguments {
		return true
	}
	args, keywords := r.operand.Items[0].Items, r.operand.Items[1].Items
	return len(keywords) == 0 && len(args) >= least && len(args) <= most &&
		(!operators.IsComparison(r.name) || args[0].Kind == value.KindHandle)
}

// answeredBy reports whether a value of a kind answers a request: some operators
// return one type only. A kind of 0 is a value whose error is reported elsewhere.
func (r request) answeredBy(k value.Kind) bool {
	if r.on.Kind != value.KindHandle || k == 0 {
		return true
	}
	switch r.name {
	case "__len__", "__hash__", "__int__", "__index__":
		return k == value.KindInt
	case "__str__", "__repr__", "__format__":
		return k == value.KindString
	case "__bool__", "__contains__", "__exit__":
		return k == value.KindTrue || k == value.KindFalse
	case "__float__":
		return k == value.KindFloat
	case "__complex__":
		return k == value.KindComplex
	case "__iter__":
		return k == value.KindIterator || k == value.KindHandle
	}
	return true
}
