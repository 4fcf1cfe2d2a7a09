package testrunner

import (
	"strings"

	"securebench/internal/testrunner/results"
)

// index finds tests by the ids of a row.
type index struct {
	tests  []results.Test
	byID   map[string][]int
	byName map[string][]int
}

func newIndex(tests []results.Test) *index {
	x := &index{tests, map[string][]int{}, map[string][]int{}}
	for i, t := range tests {
		x.byID[t.ID] = append(x.byID[t.ID], i)
		for _, name := range t.Names {
			x.byName[name] = append(x.byName[name], i)
		}
	}
	return x
}

// statuses returns what became of the tests that an id means: the test that
// has it, else all tests that have it as another name, else all tests whose id
// begins with it, if it has an unclosed bracket. (Lists of ids exist that were
// cut at the first space.) Twice the same id is a contradiction, for which
// there is no status.
func (x *index) statuses(id string) []results.Status {
	if found := x.byID[id]; len(found) > 0 {
		if len(found) > 1 {
			return nil
		}
		return []results.Status{x.tests[found[0]].Status}
	}
	var out []results.Status
	for _, i := range x.byName[id] {
		out = append(out, x.tests[i].Status)
	}
	if len(out) > 0 || strings.Count(id, "[") <= strings.Count(id, "]") {
		return out
	}
	for _, t := range x.tests {
		if strings.HasPrefix(t.ID, id) {
			out = append(out, t.Status)
		}
	}
	return out
}

// kept reports whether a named test did what it must: all that the id means
// agree, and they passed or have the status that the row expects instead.
func (x *index) kept(id, instead string) bool {
	found := x.statuses(id)
	for _, s := range found {
		if s != found[0] {
			return false
		}
	}
	return len(found) > 0 && (found[0] == results.Passed || found[0] != "" && string(found[0]) == instead)
}
