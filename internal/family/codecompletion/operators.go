package codecompletion

import (
	_ "embed" // the proxies
	"slices"
	"strings"

	"securebench/internal/family"
	"securebench/internal/value"
	"securebench/internal/verdict"
)

//go:embed proxies.py
var proxiesSource string

// allowsOperator reports whether a request is for an operator of an object, in
// the right form. The candidate never compares with what a test expects: the
// other side of a comparison is also an object.
func (r request) allowsOperator() bool {
	least, most, ok := operatorArguments(r.name)
	if !ok || r.op != "call" || r.mutates || r.on.Kind != value.KindHandle {
		return false
	}
	if most == anyArguments {
		return true
	}
	args, keywords := r.operand.Items[0].Items, r.operand.Items[1].Items
	return len(keywords) == 0 && len(args) >= least && len(args) <= most &&
		(!isComparison(r.name) || args[0].Kind == value.KindHandle)
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

// anyArguments marks an operator that takes what its call has.
const anyArguments = -1

// operatorArguments returns the least and the greatest number of arguments of an
// operator; ok is false for a name that no row may ask for.
func operatorArguments(name string) (least, most int, ok bool) {
	switch name {
	case "__len__", "__iter__", "__next__", "__reversed__", "__str__", "__repr__",
		"__hash__", "__bool__", "__enter__", "__neg__", "__pos__", "__invert__",
		"__abs__", "__int__", "__float__", "__complex__", "__index__", "__trunc__",
		"__floor__", "__ceil__":
		return 0, 0, true
	case "__round__":
		return 0, 1, true
	case "__exit__":
		return 0, 2, true
	case "__setitem__":
		return 2, 2, true
	case "__pow__", "__rpow__":
		return 1, 2, true
	case "__call__":
		return 0, anyArguments, true
	case "__getitem__", "__delitem__", "__contains__", "__format__", "__divmod__", "__rdivmod__":
		return 1, 1, true
	}
	return 1, 1, isComparison(name) || isArithmetic(name)
}

// isComparison reports whether an operator compares.
func isComparison(name string) bool {
	return slices.Contains([]string{"__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"}, name)
}

// isArithmetic reports whether a name is that of a binary operator: plain,
// reflected or in place.
func isArithmetic(name string) bool {
	inner, ok := strings.CutPrefix(name, "__")
	inner, ended := strings.CutSuffix(inner, "__")
	if !ok || !ended {
		return false
	}
	binary := []string{"add", "sub", "mul", "matmul", "truediv", "floordiv", "mod",
		"lshift", "rshift", "and", "or", "xor", "pow"}
	return slices.Contains(binary, inner) ||
		inner != "" && slices.Contains([]byte("ri"), inner[0]) && slices.Contains(binary, inner[1:])
}

// unsupportedOperation says which operation of the tests on an object of the
// candidate's is not supported. The label comes from the tests' process, so it is
// repeated only if it is a known one.
func unsupportedOperation(label string, operators bool) *family.Failure {
	what, of, _ := strings.Cut(label, " of a ")
	asked, advice := slices.Contains(askable(), what), ""
	if !asked && !slices.Contains(unaskable(), what) {
		what = "an operation"
	}
	switch of {
	case "class", "method", "function":
		of = "a " + of
	default:
		of = "an object"
		if asked && !operators {
			advice = "; tests.operators lets the candidate answer"
		}
	}
	return family.Fail(verdict.UnsupportedOperation, "the tests use %s on %s of the candidate, which is not supported%s", what, of, advice)
}

// askable lists the labels of the operations that tests.operators forwards.
func askable() []string {
	return []string{
		"len", "iter", "next", "reversed", "[]", "[] =", "del []", "in", "str", "repr",
		"format", "hash", "bool", "()", "with", "-", "+", "~", "abs", "int", "float",
		"complex", "index", "round", "trunc", "floor", "ceil", "*", "@", "/", "//", "%",
		"divmod", "**", "<<", ">>", "&", "|", "^", "+=", "-=", "*=", "@=", "/=", "//=",
		"%=", "**=", "<<=", ">>=", "&=", "|=", "^=", "==", "!=", "<", "<=", ">", ">=",
	}
}

// unaskable lists the labels of the operations that are never forwarded.
func unaskable() []string {
	return []string{
		"== with plain data", "!= with plain data", "< with plain data",
		"<= with plain data", "> with plain data", ">= with plain data",
		"await", "async for", "async with", "bytes", "memoryview", "fspath", "sizeof",
		"dir", "vars", "isinstance", "issubclass", "class", "type", "callable", "match",
		"a private name", "del attribute", "attributes",
		"with around an exception of its own",
	}
}
