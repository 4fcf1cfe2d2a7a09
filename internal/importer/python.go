package importer

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// pyToken is a name or a punctuation character of Python source. Strings,
// comments and space are left out, so that a bracket or a name inside a
// string is never taken for code.
type pyToken struct {
	text      string
	start     int  // byte offset
	lineStart bool // the token is the first character of its line
}

// pyTokens splits src. It is not a Python parser: it knows names, strings and
// comments, which is all that finding a definition's header needs.
func pyTokens(src string) []pyToken {
	var out []pyToken
	for i := 0; i < len(src); {
		r, size := utf8.DecodeRuneInString(src[i:])
		switch {
		case r == '#':
			i += lineLen(src[i:])
		case r == '"' || r == '\'':
			i += stringLen(src[i:])
		case unicode.IsSpace(r):
			i += size
		default:
			n := max(nameLen(src[i:]), size)
			if !isStringPrefix(src[i:], n) {
				out = append(out, pyToken{src[i : i+n], i, i == 0 || src[i-1] == '\n'})
			}
			i += n
		}
	}
	return out
}

// lineLen is the number of bytes before the end of the line.
func lineLen(s string) int {
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		return i
	}
	return len(s)
}

// nameLen is the length of the run of letters, digits and _ that s begins with.
func nameLen(s string) int {
	for i, r := range s {
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return i
		}
	}
	return len(s)
}

// isStringPrefix reports whether the name of n bytes at the start of s is the
// prefix of a string, as in r"...".
func isStringPrefix(s string, n int) bool {
	return n <= 2 && n < len(s) && (s[n] == '"' || s[n] == '\'') &&
		strings.Trim(strings.ToLower(s[:n]), "rbfu") == ""
}

// stringLen is the length of the string literal that s begins with. A string
// that is not closed ends with its line, or with s where it is tripled.
func stringLen(s string) int {
	quote := s[:1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(s, triple) {
		quote = triple
	}
	for i := len(quote); i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case strings.HasPrefix(s[i:], quote):
			return i + len(quote)
		case s[i] == '\n' && len(quote) == 1:
			return i
		}
	}
	return len(s)
}

// headersOf returns how code defines the names that tests use, in the order of
// the code: `def f(a, b)`, `class C` with its constructor, or a bare name that
// is assigned. Of a name that is defined again, the last definition counts.
func headersOf(code, tests string) []string {
	used := make(map[string]bool)
	for _, t := range pyTokens(tests) {
		used[t.text] = true
	}
	tokens := pyTokens(code)
	headers := make(map[string]string)
	var names []string
	for i, t := range tokens {
		if !t.lineStart {
			continue
		}
		name, header := definition(code, tokens[i:])
		if !used[name] || name == "" {
			continue
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		headers[name] = header
	}
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = headers[name]
	}
	return out
}

// needsOperators reports whether tests use a class of code that overloads
// operators: one with special methods other than those that create an object.
func needsOperators(code, tests string) bool {
	used := make(map[string]bool)
	for _, t := range pyTokens(tests) {
		used[t.text] = true
	}
	inUse := false
	tokens := pyTokens(code)
	for i, t := range tokens[:max(0, len(tokens)-1)] {
		next := tokens[i+1].text
		if t.lineStart {
			inUse = t.text == "class" && used[next]
		}
		if inUse && t.text == "def" && isOperator(next) {
			return true
		}
	}
	return false
}

func isOperator(name string) bool {
	making := []string{"__init__", "__new__", "__post_init__", "__init_subclass__", "__del__"}
	return strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__") && !slices.Contains(making, name)
}

// definition returns the name that the statement at the start of tokens
// defines, and its header; both are empty if it defines none.
func definition(code string, tokens []pyToken) (name, header string) {
	at := func(i int) string {
		if i < len(tokens) {
			return tokens[i].text
		}
		return ""
	}
	switch {
	case at(0) == "def":
		return at(1), headerText(code, tokens)
	case at(0) == "async" && at(1) == "def":
		return at(2), headerText(code, tokens)
	case at(0) == "class":
		return at(1), headerText(code, tokens) + constructor(code, tokens)
	case at(1) == "=" && at(2) != "=" && nameLen(at(0)) == len(at(0)):
		return at(0), at(0)
	}
	return "", ""
}

// headerText is the source up to the colon that ends the header, on one line.
func headerText(code string, tokens []pyToken) string {
	depth, end := 0, len(code)
	for _, t := range tokens {
		switch t.text {
		case "(", "[", "{":
			depth++
		case ")", "]", "}":
			depth--
		case ":":
			if depth == 0 {
				end = t.start
			}
		}
		if end < len(code) {
			break
		}
	}
	return strings.Join(strings.Fields(code[tokens[0].start:end]), " ")
}

// constructor says how the class at the start of tokens is made, as a phrase
// after its header; it is empty for a class without __init__.
func constructor(code string, tokens []pyToken) string {
	for i, t := range tokens {
		if i > 0 && t.lineStart {
			break
		}
		if t.text == "__init__" && i > 0 && tokens[i-1].text == "def" {
			return ": " + headerText(code, tokens[i-1:])
		}
	}
	return ""
}
