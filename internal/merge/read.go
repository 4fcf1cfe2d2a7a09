package merge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json"

	"securebench/internal/fault"
	"securebench/internal/pipeline/record"
	"securebench/internal/sandbox"
)

// source is what records are taken from: the run, with what it has already, or a shard.
type source struct {
	record.ShardFolder // of a shard; of the run only its content
	shard              record.Shard
	former             *record.Former
	review             *record.Review
	found              []entry  // of good records
	lines              *os.File // while its folder is open
	part               record.Part
}

// entry is the place of a record. There is one for each, so it is small.
type entry struct {
	offset       int64
	row, attempt int32
	size, number int32
	source       int32
	unfinished   bool // it ended in an infrastructure error
}

// readAll reads the run and all shards that are not merged yet.
func (m *merger) readAll(ctx context.Context) error {
	m.sources = []*source{{ShardFolder: record.ShardFolder{Dir: m.dir}, former: m.former}}
	shards, err := m.dir.Shards()
	if err != nil {
		return err
	}
	m.done = shards
	for i, s := range shards {
		latest := i+1 == len(shards) || shards[i+1].Index != s.Index
		if err := m.look(s, latest); err != nil {
			return fmt.Errorf("%s: %w", s.Path(), err)
		}
	}
	if err := m.agree(); err != nil {
		return err
	}
	err = atOnce(len(m.sources), func(i int) error {
		if ctx.Err() != nil {
			return fault.Errorf(fault.Interrupted, "interrupted before anything was merged")
		}
		err := m.review(i)
		if err != nil && i > 0 {
			err = fmt.Errorf("%s: %w", m.sources[i].shard.Path(), err)
		}
		return err
	})
	for _, s := range m.sources {
		m.chosen = append(m.chosen, s.found...)
		s.found = nil
	}
	return err
}

// merged reports whether the records already have those of a shard, and a merge was
// killed before it moved the folder.
func (m *merger) merged(s record.Shard) bool {
	return m.former.Records == m.manifest.Shards.Records &&
		slices.ContainsFunc(m.manifest.Shards.Parts, func(p record.Part) bool { return p.Shard() == s })
}

// look opens a shard, and refuses one that is not of this run or at work.
func (m *merger) look(s record.Shard, latest bool) error {
	if m.merged(s) {
		return nil
	}
	folder, err := m.dir.OpenShard(s)
	if err != nil {
		return err
	}
	defer folder.Close()
	if err := folder.Foreign(); err != nil {
		return err
	}
	if held, err := folder.Held(); err != nil || held && latest {
		return errors.Join(err, record.ErrRunning)
	}
	f, err := folder.Former()
	if f == nil || err != nil { // without a manifest, its runner was killed before it began
		return err
	}
	was, err := m.manifest.Plan()
	is, other := f.Manifest.Plan()
	if err := errors.Join(err, other); err != nil {
		return err
	}
	if at := f.Manifest.Shard; at == nil || at.Index != s.Index || at.Restart != s.Restart || was != is {
		return fault.Errorf(fault.Refused, "its %s differs from that of the run in inputs, plan or number: move it away", record.ManifestName)
	}
	m.sources = append(m.sources, &source{shard: s, former: f, part: record.Part{Index: s.Index, Restart: s.Restart, Lines: f.Records,
		Dropped: map[string]int{}, Engine: f.Manifest.Engine, Started: f.Manifest.Started, Ended: f.Manifest.Shard.Ended}})
	return nil
}

// review checks the records of a source, and notes those that are good.
func (m *merger) review(i int) (err error) {
	s := m.sources[i]
	if i > 0 {
		folder, err := m.dir.OpenShard(s.shard)
		if err != nil {
			return err
		}
		defer folder.Close()
		if err := folder.Fence(); err != nil {
			return err
		}
		if s.former, err = folder.Former(); err != nil { // in the folder that is open now
			return err
		}
		s.part.Lines = s.former.Records
	}
	s.former.Final = true
	s.review, err = s.former.Review(s.former.Stored, func(e record.Entry) string {
		reason := m.misplaced(s, e)
		if n := len(s.found); reason == "" && e.Number > 0 && (n == 0 || s.found[n-1].number != int32(e.Number)) {
			s.found = append(s.found, entry{e.Offset, int32(e.Index), int32(e.Attempt), int32(e.Size), int32(e.Number), int32(i), e.Outcome == unfinished})
		}
		return reason
	})
	if err != nil {
		return fmt.Errorf("%w: %w", record.ErrIntegrity, err)
	}
	s.part.Dropped = s.review.Rerun
	s.found = slices.DeleteFunc(s.found, func(e entry) bool { return !s.review.Keeps(int(e.number)) })
	return nil
}

// atOnce calls a function for each of so many things, some at the same time, and returns
// the first error in order.
func atOnce(n int, do func(i int) error) error {
	errs := make([]error, n)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				errs[i] = do(i)
			}
		})
	}
	workers.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// maxOpen is how many folders of shards are open at the same time: there may be thousands.
const maxOpen = 128

// enter opens the folder of a shard, unless it is open.
func (m *merger) enter(s *source) (err error) {
	if s.Dir != nil {
		return nil
	}
	if m.opened == maxOpen {
		m.close()
	}
	if s.ShardFolder, err = m.dir.OpenShard(s.shard); err != nil {
		return err
	}
	m.opened++
	return nil
}

// enterAll opens what some records are read from, which are of no more than [maxOpen]
// sources.
func (m *merger) enterAll(some []entry) error {
	needed := map[int32]bool{}
	for _, c := range some {
		needed[c.source] = true
	}
	if m.opened+len(needed) > maxOpen {
		m.close()
	}
	for i := range needed {
		s := m.sources[i]
		if err := m.enter(s); err != nil {
			return err
		}
		if s.lines != nil {
			continue
		}
		var err error
		if s.lines, err = s.Open(record.LinesName); err != nil {
			return err
		}
	}
	return nil
}

// close closes the folders that are open.
func (m *merger) close() {
	for _, s := range m.sources {
		if s.lines != nil {
			_ = s.lines.Close() // it was only read
			s.lines = nil
		}
		if s.Dir != nil && s.Dir != m.dir {
			_ = s.Close()
			s.ShardFolder = record.ShardFolder{}
		}
	}
	m.opened = 0
}

// misplaced returns why a record cannot be one of the run, or "".
func (m *merger) misplaced(s *source, e record.Entry) string {
	is := m.manifest
	at, divided := m.division.Of(e.Index, e.Attempt)
	own := s == m.sources[0]
	switch {
	case !is.Rows().Has(e.Index) || e.Attempt < 1 || e.Attempt > is.Planned.Attempts,
		e.RunID != is.RunID || e.Agent != is.Agent || e.BenchmarkID != is.Pack.ID,
		!own && (!divided || at != s.shard.Index):
		return record.NotPlanned
	case slices.ContainsFunc(e.Restricted, func(f record.RawFile) bool { return path.Dir(f.Path) == record.RestrictedName }):
		return record.Damaged // it names what only the run itself has
	case !bound(is, e.Digests):
		return record.InputsChanged
	case s.former.Manifest.AgentsFailed && e.AgentFailed():
		return record.AgentsFailed
	}
	return ""
}

// bound reports whether a record is bound to inputs of the run.
func bound(m record.Manifest, d record.Digests) bool {
	of := func(r record.RunDigests) bool {
		return d.Pack == r.Pack && d.Assets == r.Assets && d.Config == r.Config && d.Verifier == r.Verifier
	}
	image := d.Image == "" || slices.Contains(slices.Collect(maps.Values(m.Images)), d.Image)
	return image && (of(m.Digests) || slices.ContainsFunc(m.ResumedFrom, func(r record.Resumption) bool { return of(r.Digests) }))
}

// agree refuses shards whose engines differ in more than the kernel, and makes their
// common description that of the run.
func (m *merger) agree() error {
	parts := slices.DeleteFunc(slices.Clone(m.manifest.Shards.Parts), func(p record.Part) bool { return slices.Contains(m.done, p.Shard()) && !m.merged(p.Shard()) })
	for _, s := range m.sources[1:] {
		if s.former.Records != none {
			parts = append(parts, s.part)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	var kernels []string
	first, err := engine(parts[0])
	for _, p := range parts {
		is, bad := engine(p)
		if err = errors.Join(err, bad); err != nil {
			return err
		}
		if own, others := first.Unlike(is); own != others || (parts[0].Engine == nil) != (p.Engine == nil) {
			return fault.Errorf(fault.Refused, "the engines of shards differ: %s ran with %s, and %s with %s: move one of them away and run it again on a machine like the others",
				parts[0].Shard(), described(parts[0], first), p.Shard(), described(p, is))
		}
		if is.Kernel != "" {
			kernels = append(kernels, is.Kernel)
		}
	}
	m.manifest.Engine = parts[0].Engine
	if known, ok := m.manifest.Engine.(map[string]any); ok {
		all := maps.Clone(known)
		slices.Sort(kernels)
		all["kernel"] = strings.Join(slices.Compact(kernels), ", ")
		m.manifest.Engine = all
	}
	return nil
}

// engine reads what a shard recorded of its engine.
func engine(p record.Part) (info sandbox.Info, err error) {
	b, err := json.Marshal(p.Engine)
	if err == nil {
		err = json.Unmarshal(b, &info)
	}
	if err != nil {
		return info, fault.Errorf(fault.Refused, "the engine that the shard %s ran with cannot be read: %w", p.Shard(), err)
	}
	return info, nil
}

// described says what of the engine of a shard has to be that of the others.
func described(p record.Part, info sandbox.Info) string {
	if p.Engine == nil {
		return "no engine"
	}
	out := info.Name + " " + info.Version
	for _, t := range info.Traits()[2:] {
		out += fmt.Sprintf(", %s %q", t.What, t.Value)
	}
	return out
}
