package rubric

import (
	"strconv"
	"strings"

	"securebench/internal/source"
)

// What rubrics say about order.
const (
	asIs     = "as_is"
	anyOrder = "any"
)

// one reads a word out of some.
func one(words ...string) func(n *source.Node, what string) (string, *source.Problem) {
	return func(n *source.Node, what string) (string, *source.Problem) {
		for _, w := range words {
			if n.Kind == source.String && n.Text == w {
				return w, nil
			}
		}
		return "", &source.Problem{Pos: n.Pos, Message: what + " is " + string(n.JSON()), Fix: "use " + strings.Join(words, " or ")}
	}
}

// share reads a number that is 0 or more.
func share(n *source.Node, what string) (*float64, *source.Problem) {
	if n.Kind == source.Number {
		if v, err := strconv.ParseFloat(n.Text, 64); err == nil && v >= 0 {
			return &v, nil
		}
	}
	return nil, source.Problemf(n.Pos, "%s must be a number that is 0 or more, not %s", what, n.JSON())
}

// texts reads a list of strings that are not empty.
func texts(n *source.Node, what string) ([]string, *source.Problem) {
	if n.Kind != source.List || len(n.Items) == 0 {
		return nil, source.Problemf(n.Pos, "%s must be a list of strings", what)
	}
	out := make([]string, len(n.Items))
	for i, item := range n.Items {
		if item.Kind != source.String {
			return nil, source.Problemf(item.Pos, "%s must be a list of strings", what)
		}
		out[i] = item.Text
	}
	return out, nil
}

// read reads how values may differ into l, which has the defaults.
func (l *leniency) read(ps *source.Problems, n *source.Node, at string) {
	source.Optional(ps, n, at+"tolerance", &l.tolerance, share)
	source.Optional(ps, n, at+"relative_tolerance", &l.relative, share)
	source.Optional(ps, n, at+"ignore_case", &l.ignoreCase, (*source.Node).Boolean)
	source.Optional(ps, n, at+"ignore_space", &l.ignoreSpace, (*source.Node).Boolean)
}

// leniencyKeys are the keys that a leniency is read from, and more.
func leniencyKeys(more ...string) []string {
	return append([]string{"tolerance", "relative_tolerance", "ignore_case", "ignore_space"}, more...)
}
