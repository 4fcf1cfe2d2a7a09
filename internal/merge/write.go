package merge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"syscall"
	"time"

	"securebench/internal/digest"
	"securebench/internal/fault"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	files "securebench/internal/source"
	"securebench/internal/verdict"
)

const unfinished = verdict.Infrastructure

// none is the digest of no records.
var none = digest.Bytes(nil) //nolint:gochecknoglobals // a constant

// rank orders the records of one attempt by what was fixed before the attempt ran: what
// the run has wins, then the highest restart. An infrastructure error that the run has
// was for a shard to repeat.
func (m *merger) rank(e entry) int {
	switch {
	case e.source > 0:
		return m.sources[e.source].shard.Restart
	case e.unfinished:
		return 0
	}
	return math.MaxInt
}

// choose takes one record for each attempt, and finds out what is missing.
func (m *merger) choose() error {
	slices.SortFunc(m.chosen, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.row, b.row), cmp.Compare(a.attempt, b.attempt), cmp.Compare(m.rank(b), m.rank(a)))
	})
	kept := m.chosen[:0]
	for _, e := range m.chosen {
		part := &m.sources[e.source].part
		if n := len(kept); n > 0 && kept[n-1].row == e.row && kept[n-1].attempt == e.attempt {
			part.Superseded++
			continue
		}
		part.Kept++
		kept = append(kept, e)
	}
	m.chosen = kept
	at, missing := 0, map[int]bool{}
	for row := range m.manifest.Rows().All() {
		for n := 1; n <= m.manifest.Planned.Attempts; n++ {
			if at < len(kept) && int(kept[at].row) == row && int(kept[at].attempt) == n {
				at++
				continue
			}
			if shard, ok := m.division.Of(row, n); ok {
				missing[shard] = true
			}
		}
	}
	m.Missing = slices.Sorted(maps.Keys(missing))
	return nil
}

// has finds the record that was taken for an attempt.
func (m *merger) has(l *record.Line) (entry, bool) {
	i, ok := slices.BinarySearchFunc(m.chosen, l, func(e entry, l *record.Line) int {
		return cmp.Or(cmp.Compare(int(e.row), l.Index), cmp.Compare(int(e.attempt), l.Attempt))
	})
	if !ok {
		return entry{}, false
	}
	return m.chosen[i], true
}

// write makes the chosen records those of the run.
func (m *merger) write(ctx context.Context) (err error) {
	if m.aside, err = m.dir.NewHistory(); err != nil {
		return err
	}
	g := record.Merge{Aside: m.aside, Waiting: map[record.AttemptKey]*record.Line{},
		Named: map[string]bool{record.SaltName: true, record.PackName: true, record.ConfigName: true, record.AnswersName: true, record.SpentName: true}}
	if err := m.await(&g); err != nil {
		return err
	}
	if len(m.Missing) > 0 {
		if err := m.inherit(); err != nil {
			return err
		}
	}
	agents := pipeline.Agents{}
	g.Each = func(yield func(*record.Line) error) error {
		for some := range slices.Chunk(m.chosen, maxOpen) {
			lines, err := m.take(some, &g)
			if err != nil {
				return err
			}
			for _, l := range lines {
				if ctx.Err() != nil {
					return fault.Errorf(fault.Interrupted, "interrupted: merge again")
				}
				if err := yield(l); err != nil {
					return err
				}
				m.Summary.Add(pipeline.FinalOf(l))
				agents.Add(l)
			}
		}
		if m.Complete() {
			m.Broken = agents.NoneWorked()
		}
		m.manifest.AgentsFailed = m.Broken != nil
		return nil
	}
	m.describe()
	return m.dir.Merge(g, &m.manifest)
}

// take reads some records again, and takes over their files, several at the same time.
func (m *merger) take(some []entry, g *record.Merge) ([]*record.Line, error) {
	if err := m.enterAll(some); err != nil {
		return nil, err
	}
	lines := make([]*record.Line, len(some))
	err := atOnce(len(some), func(i int) (err error) {
		if lines[i], err = m.line(some[i]); err != nil {
			return err
		}
		return m.adopt(m.sources[some[i].source], lines[i])
	})
	if err != nil {
		return nil, err
	}
	for _, l := range lines {
		named(g, l)
	}
	return lines, nil
}

func named(g *record.Merge, l *record.Line) {
	for _, name := range l.Files() {
		g.Named[name] = true
	}
}

// line reads a record again, of a source whose records are open.
func (m *merger) line(c entry) (*record.Line, error) {
	raw := make([]byte, c.size)
	if _, err := m.sources[c.source].lines.ReadAt(raw, c.offset); err != nil {
		return nil, fmt.Errorf("reading a record again: %w", err)
	}
	e, err := record.Decode(raw)
	if err == nil && (!e.Authentic(m.dir.Salt()) || e.Index != int(c.row) || e.Attempt != int(c.attempt)) {
		err = errors.New("a record is another one")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the records changed while they were merged: %w", record.ErrIntegrity, err)
	}
	return e.Line, nil
}

// adopt takes over the files of a record from a source that is open.
func (m *merger) adopt(s *source, l *record.Line) error {
	if s.Dir == m.dir {
		return nil
	}
	for _, name := range l.Files() {
		if err := m.dir.Adopt(s.ShardFolder, name, m.aside); err != nil {
			return fmt.Errorf("taking over the record of %s: %w", redact.Quote(l.TaskID), err)
		}
	}
	return nil
}

// await finds the candidates that wait to be verified: of attempts without a record, and
// of those whose record says that the verification failed.
func (m *merger) await(g *record.Merge) error {
	for i, s := range slices.Backward(m.sources) { // of one shard, the latest runner first
		for key, l := range s.review.Unverified {
			c, recorded := m.has(l)
			if g.Waiting[key] != nil || recorded && int(c.source) != i {
				continue
			}
			if err := m.enter(s); err != nil {
				return err
			}
			if err := m.adopt(s, l); err != nil {
				return err
			}
			named(g, l)
			g.Waiting[key] = l
			g.Named[record.CapturedName] = true
		}
		s.review = nil
	}
	return nil
}

// inherit takes over what each shard noted of answers and usage.
func (m *merger) inherit() error {
	for _, name := range []string{record.AnswersName, record.SpentName} {
		h, err := m.dir.Heritage(name)
		if err != nil {
			return err
		}
		if err := errors.Join(m.inheritAll(h), h.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (m *merger) inheritAll(h *record.Heritage) error {
	shards := slices.Clone(m.sources[1:])
	slices.Reverse(shards) // of each index, the latest runner first
	for len(shards) > 0 {
		n := slices.IndexFunc(shards, func(s *source) bool { return s.shard.Index != shards[0].shard.Index })
		if n < 0 {
			n = len(shards)
		}
		if err := m.inheritFrom(h, shards[:n]); err != nil {
			return err
		}
		shards = shards[n:]
	}
	return nil
}

func (m *merger) inheritFrom(h *record.Heritage, runners []*source) error {
	m.close() // so that all of them can be open
	var folders []record.ShardFolder
	for _, s := range runners[:min(len(runners), maxOpen)] {
		if err := m.enter(s); err != nil {
			return err
		}
		folders = append(folders, s.ShardFolder)
	}
	return h.Add(folders...)
}

// describe writes into the manifest what was merged.
func (m *merger) describe() {
	run, is := m.sources[0], &m.manifest
	shards := *is.Shards
	shards.Parts = slices.DeleteFunc(slices.Clone(shards.Parts), func(p record.Part) bool {
		return slices.ContainsFunc(m.sources[1:], func(s *source) bool { return s.shard == p.Shard() })
	})
	for _, s := range m.sources[1:] {
		m.Parts = append(m.Parts, s.part)
	}
	shards.Parts = append(shards.Parts, m.Parts...)
	slices.SortFunc(shards.Parts, func(a, b record.Part) int { return a.Shard().InOrder(b.Shard()) })
	is.Shards = &shards
	is.LabelZone()
	if m.former.Records != none && (len(m.sources) > 1 || len(run.part.Dropped) > 0) {
		is.ResumedFrom = append(is.ResumedFrom, record.Resumption{At: time.Now().UTC().Format(time.RFC3339), Records: m.former.Records,
			Kept: run.part.Kept, Rerun: run.part.Dropped, Digests: m.former.Manifest.Digests})
	}
}

// classify assigns a fault kind to an error of the directory or of a shard.
func classify(err error) error {
	switch {
	case fault.KindOf(err) != fault.Internal:
		return err
	case errors.Is(err, record.ErrNoShard):
		return fault.As(fault.Refused, err)
	case errors.Is(err, record.ErrRunning):
		return fault.Errorf(fault.Refused, "%w: wait for its end, or end it", err)
	case errors.Is(err, record.ErrOtherRun):
		return fault.Errorf(fault.Refused, "%w: move it away", err)
	case errors.Is(err, record.ErrForeign), errors.Is(err, files.ErrNotRegular), errors.Is(err, record.ErrTwoShards):
		return fault.Errorf(fault.Refused, "%w (move it away)", err)
	case errors.Is(err, record.ErrIntegrity):
		return fault.As(fault.Integrity, err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fault.Errorf(fault.Infrastructure, "%w; free some space and merge again", err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrNotExist):
		return fault.As(fault.Refused, err)
	}
	return err
}
