package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"securebench/internal/verdict"
)

// rowOrder sorts attempts in the order of the pack's rows.
func rowOrder(a, b Attempt) int {
	return cmp.Or(cmp.Compare(a.Index, b.Index), strings.Compare(a.TaskID, b.TaskID), cmp.Compare(a.Attempt, b.Attempt))
}

// task is what is recorded of one task.
type task struct {
	attempts []*Attempt // at least one
	missing  int        // planned attempts without a record
}

// byTask groups attempts by task, in the order of the first one of each. Further
// records of the same attempt become repeated: one good attempt must not count
// for another. A record of another basis than the task's first one contradicts that.
func byTask(attempts []Attempt, planned int) []*task {
	type key struct {
		task    *task
		attempt int
	}
	var out []*task
	byID, seen := map[string]*task{}, map[key]bool{}
	for i := range attempts {
		a := &attempts[i]
		t := byID[a.TaskID]
		if t == nil {
			t = &task{missing: planned}
			byID[a.TaskID] = t
			out = append(out, t)
		}
		k := key{t, a.Attempt}
		switch {
		case seen[k]:
			a.Passed, a.Outcome = false, repeated
		case len(t.attempts) > 0 && t.attempts[0].Basis != a.Basis:
			a.Passed, a.Outcome = false, inconsistent
		}
		if !seen[k] && a.Attempt >= 1 && a.Attempt <= planned {
			t.missing--
		}
		seen[k] = true
		t.attempts = append(t.attempts, a)
	}
	return out
}

// tally counts the task's attempts, recorded and missing.
func (t *task) tally() Tally {
	out := Tally{Attempts: t.missing, Missing: t.missing}
	for _, a := range t.attempts {
		out.count(a)
	}
	return out
}

func (t *Tally) count(a *Attempt) {
	t.Attempts++
	switch {
	case a.Passed:
		t.Passed++
	case a.Outcome == verdict.Infrastructure:
		t.Infrastructure++
	case a.Outcome == verdict.Pending || a.Status == verdict.StatusPending:
		t.Pending++
	default:
		t.Failed++
	}
}

// sums adds up tasks.
type sums struct {
	Tally
	rates float64 // sum of the tasks' rates
}

// add adds one task; t has at least one attempt.
func (s *sums) add(t Tally) {
	s.Tasks++
	s.Attempts += t.Attempts
	s.Passed += t.Passed
	s.Failed += t.Failed
	s.Pending += t.Pending
	s.Infrastructure += t.Infrastructure
	s.Missing += t.Missing
	s.rates += float64(t.Passed) / float64(t.Attempts)
}

func (s *sums) addMissing(tasks, attempts int) {
	s.Tasks += tasks
	s.Attempts += tasks * attempts
	s.Missing += tasks * attempts
}

// tally returns the sum with its rate.
func (s *sums) tally() Tally {
	t := s.Tally
	rate := 0.0
	if t.Tasks > 0 {
		rate = s.rates / float64(t.Tasks)
	}
	t.PassRate, t.Interval = Rounded(rate), Wilson(rate, t.Tasks).Rounded()
	return t
}

// addTask adds t to the groups of its attempts. A task whose attempts belong to
// several groups counts in each of them, with its attempts there.
func addTask[K ~string](to map[K]*sums, t *task, name func(*Attempt) K, ofMissing K) {
	parts := map[K]*Tally{}
	part := func(n K) *Tally {
		if parts[n] == nil {
			parts[n] = &Tally{}
		}
		return parts[n]
	}
	for _, a := range t.attempts {
		part(name(a)).count(a)
	}
	if t.missing > 0 {
		p := part(ofMissing)
		p.Attempts += t.missing
		p.Missing += t.missing
	}
	for n, p := range parts {
		group(to, n).add(*p)
	}
}

func group[K ~string](in map[K]*sums, name K) *sums {
	if in[name] == nil {
		in[name] = &sums{}
	}
	return in[name]
}

// groups lists the sums: those in first, then the others by name, and the one
// without a name last.
func groups[K ~string](by map[K]*sums, first ...K) []Group {
	var named, nameless []Group
	for _, n := range ordered(by, first...) {
		s := by[n]
		switch {
		case s == nil: // known, and not in this run
		case n == "":
			nameless = append(nameless, Group{Tally: s.tally()})
		default:
			named = append(named, Group{Name: string(n), Tally: s.tally()})
		}
	}
	return append(named, nameless...)
}

// ordered lists first, whether or not they are in by, then by's other keys in
// alphabetical order.
func ordered[K ~string, V any](by map[K]V, first ...K) []K {
	for _, n := range slices.Sorted(maps.Keys(by)) {
		if !slices.Contains(first, n) {
			first = append(first, n)
		}
	}
	return first
}

func slowest(attempts []Attempt) []Slow {
	const most = 5
	byTime := slices.Clone(attempts)
	slices.SortStableFunc(byTime, func(a, b Attempt) int {
		return cmp.Or(cmp.Compare(b.TotalMS, a.TotalMS), strings.Compare(a.TaskID, b.TaskID), cmp.Compare(a.Attempt, b.Attempt))
	})
	var out []Slow
	for _, a := range byTime[:min(most, len(byTime))] {
		out = append(out, Slow{TaskID: a.TaskID, Attempt: a.Attempt, TotalMS: a.TotalMS, Outcome: a.Outcome})
	}
	return out
}

func unpassed(tasks []*task) []Unpassed {
	var out []Unpassed
	for _, t := range tasks {
		sum, first := t.tally(), t.attempts[0]
		if sum.Passed == sum.Attempts {
			continue
		}
		u := Unpassed{TaskID: first.TaskID, Basis: first.Basis, Index: first.Index, Attempts: sum.Attempts, Passed: sum.Passed, Missing: sum.Missing}
		for _, a := range t.attempts {
			if !a.Passed {
				u.Failures = append(u.Failures, Failure{Attempt: a.Attempt, Outcome: a.Outcome, Reason: a.Reason})
			}
		}
		out = append(out, u)
	}
	return out
}
