package workload

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"securebench/internal/digest"
	"securebench/internal/family"
	"securebench/internal/fault"
	"securebench/internal/pipeline/compile"
	"securebench/internal/pipeline/pack"
	"securebench/internal/rowset"
	"securebench/internal/source"
	"securebench/internal/task"
)

// Shots says how many rows of each family are shown to an agent with their solutions,
// and which can be.
type Shots struct {
	Count int
	Fits  func(task.AgentView) bool
}

// Example is a row that is shown with its own solution. What else the row hides stays
// hidden.
type Example struct {
	View     task.AgentView
	Solution string

	index int
	rank  [sha256.Size]byte
	asked [sha256.Size]byte
	raw   []byte // its line
}

// Examples are the rows of a pack that are shown with their solutions. No run that shows
// them is about them, nor about a row that asks the same.
type Examples struct {
	shots Shots
	of    map[string][]Example // by family, in the order in which they are shown
	same  map[int]string       // ids of other rows that ask the same as one of them, by position
	tasks string               // digest of the file of rows
	used  map[string]bool      // families of rows that are run
}

// ChooseExamples reads the rows of a pack and takes, of each family, the first that fit:
// the order is that of the SHA-256 of "few-shot", a zero byte and the row's id, so that
// it says nothing about the rows and is the same everywhere.
func ChooseExamples(ctx context.Context, loc pack.Location, reg family.Registry, shots Shots) (*Examples, error) {
	m, _, _, err := pack.ReadManifest(loc)
	if err != nil {
		return nil, fault.As(fault.Pack, err)
	}
	e := &Examples{shots: shots, of: map[string][]Example{}, same: map[int]string{}, used: map[string]bool{}}
	c := compile.New(m, reg)
	texts := compile.Texts(reg)
	if e.tasks, err = pack.Survey(ctx, loc, texts, func(row pack.Row) { e.consider(c, reg[row.Family], row) }); err == nil {
		var again string
		if again, err = pack.Survey(ctx, loc, texts, e.compare); err == nil {
			err = e.unchanged(loc.Tasks, again)
		}
	}
	if ctx.Err() != nil {
		return nil, fault.As(fault.Interrupted, errors.New("interrupted while reading the pack"))
	}
	return e, fault.As(fault.Pack, err)
}

// unchanged refuses rows that are not those that the examples were taken from.
func (e *Examples) unchanged(file, tasks string) error {
	if tasks == e.tasks {
		return nil
	}
	return fault.As(fault.Refused, &pack.ChangedError{Pos: source.Pos{File: file}, What: "the rows changed while examples were chosen:"})
}

// consider takes a row if it fits and comes before one that was taken.
func (e *Examples) consider(c *compile.Compiler, fam family.Family, row pack.Row) {
	taken, rank := e.of[row.Family], sha256.Sum256([]byte("few-shot\x00"+row.ID))
	if len(taken) == e.shots.Count && bytes.Compare(rank[:], taken[len(taken)-1].rank[:]) > 0 {
		return
	}
	t, err := c.Task(row)
	if err != nil {
		return // which the run refuses
	}
	text, ok := solved(fam, t)
	if !ok || len(t.Agent().Assets()) > 0 || !e.shots.Fits(t.Agent()) {
		return
	}
	taken = append(taken, Example{t.Agent(), text, row.Index, rank, asked(row), row.Whole})
	slices.SortFunc(taken, func(a, b Example) int {
		return cmp.Or(bytes.Compare(a.rank[:], b.rank[:]), cmp.Compare(a.index, b.index))
	})
	e.of[row.Family] = taken[:min(len(taken), e.shots.Count)]
}

// solved returns the solution of a row, if that is a text.
func solved(fam family.Family, t task.Task) (string, bool) {
	if fam.Reference == nil || fam.Presentations != nil {
		return "", false
	}
	s, ok := fam.Reference(t.Evaluator())
	if !ok || s.Command != nil || s.Candidate.Kind != task.Text {
		return "", false
	}
	text, err := s.Candidate.Bytes()
	return string(text), err == nil && utf8.Valid(text) && strings.TrimSpace(string(text)) != ""
}

// asked is a digest of what a row asks, whatever its case and spaces.
func asked(row pack.Row) [sha256.Size]byte {
	b, err := digest.Canonical(row.Input.Any())
	if err != nil {
		b = row.Input.JSON()
	}
	return sha256.Sum256([]byte(strings.Join(strings.Fields(strings.ToLower(string(b))), " ")))
}

// compare notes a row that asks the same as an example: its solution would be shown.
func (e *Examples) compare(row pack.Row) {
	taken := e.of[row.Family]
	if len(taken) == 0 || slices.ContainsFunc(taken, func(x Example) bool { return x.index == row.Index }) {
		return
	}
	if of := asked(row); slices.ContainsFunc(taken, func(x Example) bool { return x.asked == of }) {
		e.same[row.Index] = row.ID
	}
}

// use notes that a row is run. It returns what is wrong if its family has too few
// examples, once.
func (e *Examples) use(row pack.Row) error {
	if e == nil || e.used[row.Family] {
		return nil
	}
	e.used[row.Family] = true
	if n := len(e.of[row.Family]); n < e.shots.Count {
		return fmt.Errorf("the pack has %d rows of %s that can be shown as solved examples (a text as their own solution, and no files), want %d", n, row.Family, e.shots.Count)
	}
	return nil
}

// Of returns the examples for tasks of a family, in the order in which they are shown.
func (e *Examples) Of(family string) []Example {
	if e == nil {
		return nil
	}
	return e.of[family]
}

// LeavesOut reports whether a row is not run because it, or what it asks, is shown.
func (e *Examples) LeavesOut(index int) bool {
	if e == nil {
		return false
	}
	_, same := e.same[index]
	return same || slices.ContainsFunc(e.all(), func(x Example) bool { return x.index == index })
}

// all returns the examples of all families in the order of the pack.
func (e *Examples) all() (out []Example) {
	for _, taken := range e.of {
		out = append(out, taken...)
	}
	slices.SortFunc(out, func(a, b Example) int { return cmp.Compare(a.index, b.index) })
	return out
}

// Record returns what a run manifest says of the examples of the families that are run,
// nil if there are none.
func (e *Examples) Record() *rowset.Shown {
	if e == nil {
		return nil
	}
	out := &rowset.Shown{Count: e.shots.Count, Tasks: []string{}}
	for _, x := range e.all() {
		if e.used[x.View.Family()] {
			out.Tasks = append(out.Tasks, x.View.ID())
		}
	}
	for _, index := range slices.Sorted(maps.Keys(e.same)) {
		out.Same = append(out.Same, e.same[index])
	}
	return out
}

// Content returns the rows of the examples as the pack has them, for a digest.
func (e *Examples) Content() (out []byte) {
	for _, x := range e.all() {
		if e.used[x.View.Family()] {
			out = append(append(out, x.raw...), '\n')
		}
	}
	return out
}
