// Package selection chooses the rows of a pack that a run is about, and the order
// in which they run. What it chose is in the run manifest, so that the score of
// some rows cannot pass as that of all.
package selection

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"securebench/internal/earlier"
	"securebench/internal/family"
	"securebench/internal/fault"
	"securebench/internal/pipeline/compile"
	"securebench/internal/pipeline/pack"
	"securebench/internal/redact"
	"securebench/internal/rowset"
	"securebench/internal/source"
	"securebench/internal/workload"
)

// Choice says which rows are wanted: those that meet every condition that is
// given, of them a sample, of that the first.
type Choice struct {
	Tasks    []string // patterns of ids; one matches
	Families []string // the row has one of them
	Tags     []string // the row has one of them
	// FailedIn is a run in which not every attempt at the task passed.
	FailedIn *earlier.Run
	Sample   int // the number of rows that are drawn; 0 takes all
	Seed     uint64
	// Shuffle runs the rows in an order that follows from the seed.
	Shuffle bool
	// Examples, unless nil, are shown to a model, and so not among the rows.
	Examples *workload.Examples
}

// Any reports whether anything is asked for.
func (c Choice) Any() bool {
	return len(c.Tasks)+len(c.Families)+len(c.Tags)+c.Sample > 0 || c.FailedIn != nil || c.Shuffle || c.Examples != nil
}

// Check refuses patterns that cannot be read.
func (c Choice) Check() error {
	for _, pattern := range c.Tasks {
		if _, err := match(pattern, ""); err != nil {
			return fault.As(fault.Usage, fmt.Errorf("--task %s is not a pattern: after [ there must be characters and ]", redact.Quote(pattern)))
		}
	}
	return nil
}

// match reports whether an id matches a pattern, in which * means any
// characters, ? for one, and [a-z] for one of these. No character is special in
// an id, so none separates its parts.
func match(pattern, id string) (bool, error) {
	whole := strings.NewReplacer("/", "\x00")
	return path.Match(whole.Replace(pattern), whole.Replace(id))
}

// Rows are the rows that were chosen.
type Rows struct {
	choice Choice
	set    rowset.Set
	tasks  string // digest of the file of rows
	gone   int    // tasks that did not pass in the earlier run and are not in the pack
}

// maxRanges keeps the list of rows in a run manifest readable.
const maxRanges = 500_000

// Choose reads the rows of a pack and chooses; first is the number of rows to
// which the choice is cut, or negative for all.
func Choose(ctx context.Context, loc pack.Location, reg family.Registry, c Choice, first int) (*Rows, error) {
	s := &survey{choice: c, used: map[string]bool{}, there: map[string]*names{"--task": {}, "--family": {}, "--tag": {}}}
	if c.FailedIn != nil {
		s.failed = map[string]bool{}
		for _, t := range c.FailedIn.Tasks {
			if t.Passed < t.Attempts {
				s.failed[t.ID] = true
			}
		}
	}
	tasks, err := pack.Survey(ctx, loc, compile.Texts(reg), s.row)
	if ctx.Err() != nil {
		return nil, fault.As(fault.Interrupted, errors.New("interrupted while reading the pack"))
	}
	if err = errors.Join(err, s.problems.Err()); err != nil {
		return nil, fault.As(fault.Pack, err)
	}
	if err := s.unused(); err != nil {
		return nil, err
	}
	chosen := s.sample()
	if first >= 0 {
		chosen = chosen[:min(first, len(chosen))]
	}
	r := &Rows{choice: c, set: rowset.Of(chosen), tasks: tasks, gone: len(s.failed) - s.again}
	if len(r.set) > maxRanges {
		return nil, fault.As(fault.Usage, fmt.Errorf("the chosen rows are in %d places of the pack, want at most %d: choose fewer, or all", len(r.set), maxRanges))
	}
	return r, nil
}

// Has reports whether the row at a position was chosen.
func (r *Rows) Has(index int) bool { return r.set.Has(index) }

// Gone is how many tasks did not pass in the run of FailedIn and are not in the
// pack.
func (r *Rows) Gone() int { return r.gone }

// Of refuses a pack whose rows changed since they were chosen, or that is not the
// one of the run of FailedIn; its version may be another.
func (r *Rows) Of(p *pack.Pack) error {
	if before := r.choice.FailedIn; before != nil && before.Manifest.Pack.ID != p.Manifest.ID {
		return fault.As(fault.Refused, fmt.Errorf("%s is a run of another pack, %s: give a run of %s", redact.Quote(before.Name), redact.Quote(before.Manifest.Pack.ID), redact.Quote(p.Manifest.ID)))
	}
	if p.Digests.Tasks == r.tasks {
		return nil
	}
	return fault.As(fault.Refused, &pack.ChangedError{Pos: source.Pos{File: p.Tasks}, What: "the rows changed while they were chosen:"})
}

// Record returns what a run manifest says of the choice, nil if there was none.
func (r *Rows) Record() *rowset.Selection {
	if r == nil {
		return nil
	}
	c := r.choice
	out := &rowset.Selection{Tasks: c.Tasks, Families: c.Families, Tags: c.Tags, Sample: c.Sample, Shuffle: c.Shuffle, FewShot: c.Examples.Record(), Rows: r.set}
	if c.Sample > 0 || c.Shuffle {
		out.Seed = strconv.FormatUint(c.Seed, 10)
	}
	if c.FailedIn != nil {
		out.FailedIn = &rowset.FormerRun{RunID: c.FailedIn.Manifest.RunID, Records: c.FailedIn.Root}
	}
	return out
}

// Order returns the function by which rows are sorted, by id and position: by
// position, or shuffled.
func (r *Rows) Order() func(id string, index int) [sha256.Size]byte {
	return func(id string, index int) (key [sha256.Size]byte) {
		if r.choice.Shuffle {
			return rank("shuffle", r.choice.Seed, id)
		}
		copy(key[:], fmt.Appendf(nil, "%020d", index))
		return key
	}
}

// rank orders rows at random, as far as anybody can see, and the same on every
// machine: SHA-256 of the use, the seed and the id, with zero bytes between them. So a smaller sample is part
// of a larger one, and a sample stays the same where rows are added that are not
// in it.
func rank(use string, seed uint64, id string) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%s", use, seed, id))
}

// survey collects the rows that meet the conditions.
type survey struct {
	choice   Choice
	failed   map[string]bool // ids
	again    int             // rows of failed
	shown    int             // rows that would be wanted and are shown as examples
	found    []found
	used     map[string]bool   // conditions that some row meets
	there    map[string]*names // what rows have instead, by flag
	problems source.Problems
}

type found struct {
	index int
	rank  [sha256.Size]byte
}

// maxProblems is how many problems of rows are reported together.
const maxProblems = 10

func (s *survey) row(row pack.Row) {
	c, tags := s.choice, []string(nil)
	if len(c.Tags) > 0 {
		var err *source.Problem
		if tags, err = row.Tags(); err != nil && len(s.problems) < maxProblems {
			s.problems = append(s.problems, err)
			return
		}
	}
	s.there["--task"].add(row.ID, c.Tasks)
	s.there["--family"].add(row.Family, c.Families)
	for _, tag := range tags {
		s.there["--tag"].add(tag, c.Tags)
	}
	wanted := s.meets("--task", c.Tasks, func(pattern string) bool { ok, _ := match(pattern, row.ID); return ok })
	wanted = s.meets("--family", c.Families, func(name string) bool { return name == row.Family }) && wanted
	wanted = s.meets("--tag", c.Tags, func(name string) bool { return slices.Contains(tags, name) }) && wanted
	if s.failed != nil {
		if s.failed[row.ID] {
			s.used["--failed-in"] = true
			s.again++
		}
		wanted = wanted && s.failed[row.ID]
	}
	if wanted && c.Examples.LeavesOut(row.Index) {
		s.shown++
		return
	}
	if wanted {
		f := found{index: row.Index}
		if c.Sample > 0 {
			f.rank = rank("sample", c.Seed, row.ID)
		}
		s.found = append(s.found, f)
	}
}

// names are some that rows have, for whoever misspelt one.
type names struct {
	near, some []string
	more       bool
}

// maxNames is how many names an error suggests.
const maxNames = 6

// add notes a name. One that has the letters of a wanted one, in any case, is likely
// to be meant.
func (n *names) add(name string, wanted []string) {
	for _, w := range wanted {
		w = strings.ToLower(strings.Trim(w, "*?"))
		if w != "" && strings.Contains(strings.ToLower(name), w) {
			n.near = noted(n.near, name)
		}
	}
	if len(n.some) == maxNames && !slices.Contains(n.some, name) {
		n.more = true
	}
	n.some = noted(n.some, name)
}

func noted(all []string, name string) []string {
	if len(all) == maxNames || slices.Contains(all, name) {
		return all
	}
	return append(all, name)
}

// String says what there is instead.
func (n *names) String() string {
	text, all := " (did you mean %s?)", n.near
	if len(all) == 0 {
		text, all = " (it has %s)", n.some
	}
	if len(all) == 0 {
		return " (it has none)"
	}
	var quoted []string
	for _, name := range all {
		quoted = append(quoted, redact.QuoteShort(name, maxName))
	}
	list := strings.Join(quoted, ", ")
	if len(n.near) == 0 && n.more {
		list += " and others"
	}
	return fmt.Sprintf(text, list)
}

// maxName bounds a name in an error, in characters.
const maxName = 48

// meets reports whether one of the conditions holds, or none was given, and notes
// those that hold.
func (s *survey) meets(flag string, conditions []string, holds func(string) bool) bool {
	met := len(conditions) == 0
	for _, c := range conditions {
		if holds(c) {
			s.used[flag+" "+c] = true
			met = true
		}
	}
	return met
}

// unused refuses a condition that no row meets: it is misspelt, or of another
// pack.
func (s *survey) unused() error {
	c := s.choice
	for flag, names := range map[string][]string{"--task": c.Tasks, "--family": c.Families, "--tag": c.Tags} {
		for _, name := range names {
			if !s.used[flag+" "+name] {
				return fault.As(fault.Usage, fmt.Errorf("%s %s matches no row of the pack%s", flag, redact.Quote(name), s.there[flag]))
			}
		}
	}
	switch {
	case s.failed != nil && len(s.failed) == 0:
		return fault.As(fault.Refused, fmt.Errorf("every task of %s passed: there is nothing to run again", redact.Quote(c.FailedIn.Name)))
	case s.failed != nil && !s.used["--failed-in"]:
		return fault.As(fault.Refused, fmt.Errorf("none of the tasks that did not pass in %s is in this pack", redact.Quote(c.FailedIn.Name)))
	case len(s.found) == 0 && s.shown > 0:
		return fault.As(fault.Usage, errors.New("all of these rows are shown as solved examples: ask for fewer, or choose other rows"))
	case len(s.found) == 0 && len(s.used) > 0:
		return fault.As(fault.Usage, errors.New("no row of the pack meets all of these conditions"))
	}
	return nil
}

// sample draws from what was found, and returns positions in ascending order.
func (s *survey) sample() []int {
	if n := s.choice.Sample; n > 0 && n < len(s.found) {
		slices.SortFunc(s.found, func(a, b found) int {
			return cmp.Or(bytes.Compare(a.rank[:], b.rank[:]), cmp.Compare(a.index, b.index))
		})
		s.found = s.found[:n]
	}
	out := make([]int, len(s.found))
	for i, f := range s.found {
		out[i] = f.index
	}
	slices.Sort(out)
	return out
}
