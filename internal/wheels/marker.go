package wheels

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"securebench/internal/lazyregexp"
)

// variables are those of markers, with what a Python says.
func (p Python) variables() map[string]string {
	return map[string]string{
		"python_version": fmt.Sprintf("3.%d", p.Minor), "python_full_version": fmt.Sprintf("3.%d.%d", p.Minor, p.Patch),
		"implementation_version": fmt.Sprintf("3.%d.%d", p.Minor, p.Patch), "implementation_name": p.Implementation,
		"platform_python_implementation": map[string]string{"cpython": "CPython", "pypy": "PyPy"}[p.Implementation],
		"sys_platform":                   "linux", "platform_system": "Linux", "os_name": "posix", "platform_machine": p.Machine, "extra": "",
	}
}

var markerToken = lazyregexp.New(`^\s*(\(|\)|"[^"]*"|'[^']*'|not\s+in\b|[<>=!~]=|<|>|[a-z_]+)`)

// meets reports whether a Python is one that a marker is about.
func (p Python) meets(marker string) (bool, error) {
	if marker == "" {
		return true, nil
	}
	m := markerReader{rest: marker, python: p}
	ok, err := m.or(0)
	if err == nil && strings.TrimSpace(m.rest) != "" {
		err = errMarker
	}
	return ok && err == nil, err
}

var errMarker = errors.New("it has no form that is known")

// markerReader reads a marker: comparisons, joined by and, or and parentheses.
type markerReader struct {
	rest   string
	python Python
}

// next takes the next token, "" if there is none.
func (m *markerReader) next() string {
	t := m.peek()
	m.rest = strings.TrimLeft(m.rest, " \t")[len(t):]
	return t
}

func (m *markerReader) peek() string {
	if found := markerToken.FindStringSubmatch(m.rest); found != nil {
		return found[1]
	}
	return ""
}

// maxMarker bounds how deep parentheses lie in each other.
const maxMarker = 10

func (m *markerReader) or(depth int) (bool, error) {
	ok, err := m.and(depth)
	for err == nil && m.peek() == "or" {
		m.next()
		var more bool
		more, err = m.and(depth)
		ok = ok || more
	}
	return ok, err
}

func (m *markerReader) and(depth int) (bool, error) {
	ok, err := m.one(depth)
	for err == nil && m.peek() == "and" {
		m.next()
		var more bool
		more, err = m.one(depth)
		ok = ok && more
	}
	return ok, err
}

// one reads a comparison, or a marker in parentheses.
func (m *markerReader) one(depth int) (bool, error) {
	if m.peek() == "(" && depth < maxMarker {
		m.next()
		ok, err := m.or(depth + 1)
		if err == nil && m.next() != ")" {
			err = errMarker
		}
		return ok, err
	}
	left, version, err := m.value()
	if err != nil {
		return false, err
	}
	op := strings.Join(strings.Fields(m.next()), " ")
	right, also, err := m.value()
	if err != nil {
		return false, err
	}
	return compared(left, op, right, version || also)
}

// value reads a variable or a text, and reports whether it is a version of Python.
func (m *markerReader) value() (value string, version bool, err error) {
	t := m.next()
	if len(t) >= 2 && (t[0] == '"' || t[0] == '\'') {
		return t[1 : len(t)-1], false, nil
	}
	value, known := m.python.variables()[t]
	if !known {
		return "", false, errMarker
	}
	return value, strings.HasSuffix(t, "_version"), nil
}

// compared compares two values.
func compared(left, op, right string, version bool) (bool, error) {
	switch op {
	case "in":
		return strings.Contains(right, left), nil
	case "not in":
		return !strings.Contains(right, left), nil
	case "==", "!=":
		if !version {
			return (left == right) == (op == "=="), nil
		}
	}
	if !version {
		return false, errMarker
	}
	if prefix, wild := strings.CutSuffix(right, ".*"); wild && (op == "==" || op == "!=") {
		return strings.HasPrefix(left+".", prefix+".") == (op == "=="), nil
	}
	a, okA := numbers(left)
	b, okB := numbers(right)
	if !okA || !okB {
		return false, errMarker
	}
	order := compareNumbers(a, b)
	switch op {
	case "==":
		return order == 0, nil
	case "!=":
		return order != 0, nil
	case "<":
		return order < 0, nil
	case "<=":
		return order <= 0, nil
	case ">":
		return order > 0, nil
	case ">=":
		return order >= 0, nil
	case "~=":
		return len(b) > 1 && order >= 0 && len(a) >= len(b)-1 && compareNumbers(a[:len(b)-1], b[:len(b)-1]) == 0, nil
	}
	return false, errMarker
}

// numbers are those of a version that has nothing else.
func numbers(version string) (out []int, ok bool) {
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.ParseUint(part, 10, 20)
		if err != nil {
			return nil, false
		}
		out = append(out, int(n))
	}
	return out, true
}

// compareNumbers compares versions; what one does not have is 0.
func compareNumbers(a, b []int) int {
	for i := range max(len(a), len(b)) {
		var x, y int
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return x - y
		}
	}
	return 0
}
