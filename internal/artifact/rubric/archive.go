package rubric

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"securebench/internal/artifact"
	"securebench/internal/source"
)

// archiveRule compares the members of archives by their names and digests.
type archiveRule struct {
	ignore []string
	extra  string
}

func readArchive(n *source.Node) (rule, source.Problems) {
	r := &archiveRule{extra: "refuse"}
	var ps source.Problems
	ps.Closed(n, "a rubric of type archive", "type", "ignore", "extra_members")
	source.Optional(&ps, n, "ignore", &r.ignore, texts)
	source.Optional(&ps, n, "extra_members", &r.extra, one("refuse", "allow"))
	return r, ps
}

func (r *archiveRule) official() string { return "" }

func (r *archiveRule) compare(got, want *artifact.File) (Result, error) {
	if len(want.Members) == 0 {
		return Result{}, errors.New("the reference is no archive with members to compare with")
	}
	have := make(map[string]string, len(got.Members))
	var d differences
	for _, m := range got.Members {
		if _, twice := have[m.Name]; twice {
			d.add("member %s comes twice", shown(m.Name))
		}
		have[m.Name] = m.SHA256
	}
	for _, m := range want.Members {
		sum, ok := have[m.Name]
		delete(have, m.Name)
		switch {
		case slices.Contains(r.ignore, m.Name):
		case !ok:
			d.add("member %s is missing", shown(m.Name))
		case sum != m.SHA256:
			d.add("member %s differs", shown(m.Name))
		}
	}
	if r.extra == "refuse" {
		for _, m := range got.Members {
			if _, left := have[m.Name]; left && !slices.Contains(r.ignore, m.Name) && !d.add("member %s is not wanted", shown(m.Name)) {
				break
			}
		}
	}
	return d.result(), nil
}

func (r *archiveRule) check(want *artifact.File) (faults []string) {
	if len(want.Members) == 0 {
		return []string{"the reference is no archive with members to compare with"}
	}
	for _, name := range r.ignore {
		if !slices.ContainsFunc(want.Members, func(m artifact.Member) bool { return m.Name == name }) {
			faults = append(faults, fmt.Sprintf("ignore names %s, which the reference lacks", shown(name)))
		}
	}
	if !slices.ContainsFunc(want.Members, func(m artifact.Member) bool { return !slices.Contains(r.ignore, m.Name) }) {
		faults = append(faults, "all members of the reference are ignored: any archive would pass")
	}
	return faults
}

// arrayRule compares arrays of numbers.
type arrayRule struct{ leniency }

func readArrayRule(n *source.Node) (rule, source.Problems) {
	r := &arrayRule{}
	var ps source.Problems
	ps.Closed(n, "a rubric of type array", "type", "tolerance", "relative_tolerance")
	r.read(&ps, n, "")
	return r, ps
}

func (r *arrayRule) official() string { return "" }

func (r *arrayRule) compare(got, want *artifact.File) (Result, error) {
	if want.Array == nil {
		return Result{}, errors.New("the reference is no array to compare with")
	}
	if got.Array == nil {
		return fail("the file is no array"), nil
	}
	if !slices.Equal(got.Array.Shape, want.Array.Shape) || len(got.Array.Values) != len(want.Array.Values) {
		return fail("its shape is %v, not %v", short(got.Array.Shape), short(want.Array.Shape)), nil
	}
	var d differences
	for i, w := range want.Array.Values {
		g := got.Array.Values[i]
		if g != w && !(math.IsNaN(g) && math.IsNaN(w)) && !(finite(g) && finite(w) && r.near(g, w)) && !d.add("number %d: %s is not %s", i+1, floatText(g), floatText(w)) {
			break
		}
	}
	return d.result(), nil
}

func short(shape []int) []int { return shape[:min(len(shape), 8)] }

func (r *arrayRule) check(want *artifact.File) []string {
	switch {
	case want.Array == nil:
		return []string{"the reference is no array to compare with"}
	case len(want.Array.Values) == 0:
		return []string{"the reference has no numbers: an empty array would pass"}
	}
	return nil
}
