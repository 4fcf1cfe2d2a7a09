// Package operators knows the special methods of Python's objects: which of them
// the tests of a row may call on an object of the candidate's, in which form, and
// how messages name them.
package operators

import (
	"slices"
	"strings"

	"securebench/internal/family"
	"securebench/internal/verdict"
)

// AnyArguments marks an operator that takes what its call has.
const AnyArguments = -1

// Arguments returns the least and the greatest number of arguments of an
// operator; ok is false for a name that no row may ask for.
func Arguments(name string) (least, most int, ok bool) {
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
		return 0, AnyArguments, true
	case "__getitem__", "__delitem__", "__contains__", "__format__", "__divmod__", "__rdivmod__":
		return 1, 1, true
	}
	return 1, 1, IsComparison(name) || isArithmetic(name)
}

// IsComparison reports whether an operator compares.
func IsComparison(name string) bool {
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

// Unsupported says which operation of the tests on an object of the
// candidate's is not supported. The label comes from the tests' process, so it is
// repeated only if it is a known one.
func Unsupported(label string, operators bool) *family.Failure {
	what, of, _ := strings.Cut(label, " of a ")
	asked, advice := slices.Contains(Askable(), what), ""
	if !asked && !slices.Contains(unanswered(), what) {
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

// Askable lists the labels of the operations that tests.operators forwards.
func Askable() []string {
	return []string{
		"len", "iter", "next", "reversed", "[]", "[] =", "del []", "in", "str", "repr",
		"format", "hash", "bool", "()", "with", "-", "+", "~", "abs", "int", "float",
		"complex", "index", "round", "trunc", "floor", "ceil", "*", "@", "/", "//", "%",
		"divmod", "**", "<<", ">>", "&", "|", "^", "+=", "-=", "*=", "@=", "/=", "//=",
		"%=", "**=", "<<=", ">>=", "&=", "|=", "^=", "==", "!=", "<", "<=", ">", ">=",
	}
}

// unanswered lists the labels of the operations that are never forwarded.
func unanswered() []string {
	return []string{
		"== with plain data", "!= with plain data", "< with plain data",
		"<= with plain data", "> with plain data", ">= with plain data",
		"await", "async for", "async with", "bytes", "memoryview", "fspath", "sizeof",
		"dir", "vars", "isinstance", "issubclass", "class", "type", "callable", "match",
		"a private name", "del attribute", "attributes",
		"with around an exception of its own",
	}
}
