package mapping

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"securebench/internal/source"
)

// condition is one of --where.
type condition struct {
	given, column, op, value string
	pattern                  *regexp.Regexp
	number                   float64
}

// operators are those of conditions; of two at the same place the longer one counts.
func operators() []string { return []string{"!=", "<=", ">=", "!~", "=", "<", ">", "~"} }

// parseConditions reads conditions such as subject=law.
func parseConditions(given []string) ([]condition, error) {
	var out []condition
	for _, text := range given {
		c := condition{given: text}
		at := strings.IndexAny(text, "!=<>~")
		for _, op := range operators() {
			if at > 0 && strings.HasPrefix(text[at:], op) {
				c.column, c.op, c.value = strings.TrimSpace(text[:at]), op, text[at+len(op):]
				break
			}
		}
		if c.column == "" {
			return nil, fmt.Errorf("--where is %q: write COLUMN=VALUE, or != < <= > >= ~PATTERN !~PATTERN", text)
		}
		var err error
		switch c.op {
		case "~", "!~":
			if c.pattern, err = regexp.Compile(c.value); err != nil {
				return nil, fmt.Errorf("--where is %q: the pattern cannot be read: %w", text, err)
			}
		case "<", "<=", ">", ">=":
			if c.number, err = strconv.ParseFloat(strings.TrimSpace(c.value), 64); err != nil {
				return nil, fmt.Errorf("--where is %q: %s compares numbers, and %q is none", text, c.op, c.value)
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// holds reports whether a condition holds for the value of its column.
func (c condition) holds(n *source.Node) (bool, *source.Problem) {
	if c.op[0] == '<' || c.op[0] == '>' {
		return c.compares(n)
	}
	text := n.Text
	if !blank(n) && (n.Kind == source.List || n.Kind == source.Map) {
		text = string(n.JSON())
	}
	switch c.op {
	case "=":
		return text == c.value, nil
	case "!=":
		return text != c.value, nil
	case "~":
		return c.pattern.MatchString(text), nil
	}
	return !c.pattern.MatchString(text), nil
}

// compares compares numbers. What is missing is none of them.
func (c condition) compares(n *source.Node) (bool, *source.Problem) {
	if blank(n) {
		return false, nil
	}
	x, err := strconv.ParseFloat(strings.TrimSpace(n.Text), 64)
	if err != nil {
		return false, &source.Problem{Pos: n.Pos, Message: fmt.Sprintf("the column %q is no number, which --where %s compares", c.column, c.given), Fix: "compare it with = or ~"}
	}
	switch c.op {
	case "<":
		return x < c.number, nil
	case "<=":
		return x <= c.number, nil
	case ">":
		return x > c.number, nil
	}
	return x >= c.number, nil
}
