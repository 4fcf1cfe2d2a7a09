package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"securebench/internal/candidate"
	"securebench/internal/fault"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/commit"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
	"securebench/internal/rowset"
	"securebench/internal/source"
	"securebench/internal/workload"
)

// share is the part of a run that a shard has.
type share struct {
	index   int
	of      record.Division
	rows    map[string]int // by task
	planned pipeline.Planned
}

// has reports whether an attempt of a row is the shard's.
func (s *share) has(row, attempt int) bool {
	at, ok := s.of.Of(row, attempt)
	return ok && at == s.index
}

// mine reports the same of a task; nil is every attempt.
func (s *share) mine() func(task string, attempt int) bool {
	if s == nil {
		return nil
	}
	return func(task string, attempt int) bool { return s.has(s.rows[task], attempt) }
}

// mine reports whether an attempt is one of this run or shard.
func (r *Run) mine(row workload.Row, attempt int) bool {
	return r.share == nil || r.share.has(row.Index, attempt)
}

// attempts returns how many attempts of a row are those of this run or shard.
func (r *Run) attempts(row workload.Row) (n int) {
	for attempt := 1; attempt <= r.Config.Attempts; attempt++ {
		if r.mine(row, attempt) {
			n++
		}
	}
	return n
}

// takeShare finds out what the shard has.
func (r *Run) takeShare(m record.Manifest) {
	r.share = &share{index: *r.Shard, of: m.Division(), rows: make(map[string]int, len(r.work.Rows))}
	for _, row := range r.work.Rows {
		r.share.rows[row.ID] = row.Index
		n := r.attempts(row)
		r.share.planned.All += n
		if row.Judged {
			r.share.planned.Judged += n
		}
	}
}

// divided returns how the run in a directory is divided; nil if there is none that is.
func divided(dir string) *record.Shards {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}
	defer root.Close()
	m, _, err := record.ReadManifest(source.FS(root))
	if err != nil {
		return nil
	}
	return m.Shards
}

// sharers returns how many shards share what the run may use; 0 is no shard.
func (r *Run) sharers() int {
	if s := divided(r.Config.OutputDir); r.Shard != nil && s != nil {
		return s.Count
	}
	return 0
}

// Shards says how the run is divided; nil if it is not, or complete.
func (r *Run) Shards() *record.Shards {
	if r.finished {
		return nil
	}
	return r.manifest.Shards
}

// divide writes into the manifest how the run is divided: as before, or anew into what
// has no record yet.
func (r *Run) divide(former *record.Shards) {
	m := &r.manifest
	m.Shards = former
	if r.Prepare > 0 {
		m.Shards = r.shards()
		if former != nil {
			m.Shards.Parts = former.Parts
		}
	}
	m.LabelZone()
}

// shards divides the rows that lack a record.
func (r *Run) shards() *record.Shards {
	done, rows := r.recorded(), []int{}
	for _, row := range r.work.Rows {
		if done[row.ID] < r.Config.Attempts {
			rows = append(rows, row.Index)
		}
	}
	slices.Sort(rows)
	s := &record.Shards{Count: r.Prepare, Unit: record.UnitOf(len(rows), r.Prepare)}
	if len(rows) < len(r.work.Rows) {
		s.Rows = rowset.Of(rows)
	}
	return s
}

// undivided refuses to go on with a run of which shards ran and are not merged, and with
// a shard as if it were a run.
func (r *Run) undivided(former *record.Former) error {
	if s := former.Manifest.Shard; s != nil {
		return fault.Errorf(fault.Refused, "%s is shard %d of a run: give the directory of the run, and --shard %d", redact.Quote(r.Config.OutputDir), s.Index, s.Index)
	}
	shards, err := r.dir.Shards()
	if err == nil && len(shards) > 0 {
		err = fault.Errorf(fault.Refused, "shards of this run are not merged: securebench merge %s", redact.Quote(r.Config.OutputDir))
	}
	return err
}

// lockShared opens the directory of the run that the shard is of.
func (r *Run) lockShared() (err error) {
	dir := r.Config.OutputDir
	if _, err := os.Stat(filepath.Join(dir, record.ManifestName)); errors.Is(err, fs.ErrNotExist) {
		return r.unprepared()
	}
	r.dir, err = record.OpenShared(dir)
	if errors.Is(err, record.ErrHeld) {
		return fault.As(fault.Refused, err)
	}
	return classify(err)
}

func (r *Run) unprepared() error {
	return fault.Errorf(fault.Refused, "%s holds no run that was prepared for shards: give the same command --prepare N first", redact.Quote(r.Config.OutputDir))
}

// openShard begins a shard, with what other runners of it have not done.
func (r *Run) openShard(ctx context.Context) (err error) {
	former, err := r.dir.Former()
	if err != nil {
		return &FormerError{err}
	}
	switch {
	case former == nil || former.Manifest.Shards == nil:
		return r.unprepared()
	case former.Manifest.Shard != nil:
		return r.undivided(former)
	case former.Sealed:
		return fault.Errorf(fault.Refused, "the run in %s is complete and signed: no shard of it is left to run", redact.Quote(r.Config.OutputDir))
	case *r.Shard >= former.Manifest.Shards.Count:
		return fault.Errorf(fault.Refused, "the run has %d shards: --shard is one of 0 to %d", former.Manifest.Shards.Count, former.Manifest.Shards.Count-1)
	}
	r.takeShare(former.Manifest)
	spared := r.agent.Facts().Spared
	if spared {
		r.produced = &former.Manifest
	}
	if err := r.sameAs(ctx, former); err != nil {
		return err
	}
	whole := r.dir
	defer func() {
		if r.dir != whole {
			err = errors.Join(err, whole.Close()) // another may have it for itself again
		}
	}()
	own, shard, err := whole.NewShard(*r.Shard, former.Manifest.Shards.Parts)
	if err != nil {
		return err
	}
	if err := r.takeOver(whole, own, former, shard); err != nil {
		return errors.Join(err, own.Close())
	}
	if spared && len(r.kept)+len(r.unverified) < r.planned().All {
		r.produced = nil
		if err := r.sameAs(ctx, former); err != nil {
			return errors.Join(err, own.Close())
		}
	}
	r.dir = own
	if r.store, err = candidate.OpenStore(own.StorePath()); err != nil {
		return err
	}
	s := former.Manifest.Shards
	m := &r.manifest
	m.Shards, m.Shard = &record.Shards{Count: s.Count, Unit: s.Unit, Rows: s.Rows}, &shard
	return errors.Join(r.writeInputs(), own.WriteManifest(m))
}

// sameAs prepares the agent, unless it may be spared, and refuses inputs that are not
// those of the run.
func (r *Run) sameAs(ctx context.Context, former *record.Former) (err error) {
	if r.produced == nil {
		if err := r.agent.Prepare(ctx, r.ground()); err != nil {
			return err
		}
	}
	if r.manifest, err = r.newManifest(); err != nil {
		return err
	}
	return r.sameInputs(former)
}

// takeOver finds what other runners of the shard, and the run, have a record of, and
// takes over the candidates that wait to be verified.
func (r *Run) takeOver(whole, own *record.Dir, former *record.Former, shard record.Shard) error {
	all, err := whole.Shards()
	if err != nil {
		return err
	}
	parts := []part{{record.ShardFolder{Dir: whole}, former, nil}}
	for _, s := range all {
		if s.Index != shard.Index || s.Restart >= shard.Restart {
			continue
		}
		folder, err := whole.OpenShard(s)
		if err != nil {
			return err
		}
		defer folder.Close()
		f, err := folder.Former()
		if f == nil || err != nil { // its runner ended before it began, or it is not of this run
			continue
		}
		parts = append(parts, part{folder, f, nil})
	}
	slices.Reverse(parts) // the latest first
	done := map[record.AttemptKey]bool{}
	for i := range parts {
		if err := r.count(&parts[i], done); err != nil {
			return err
		}
	}
	return r.adopt(own, parts, done)
}

// part is what a runner of the shard has, or the run.
type part struct {
	record.ShardFolder
	former *record.Former
	review *record.Review
}

// count counts the attempts of which a part has a good record.
func (r *Run) count(p *part, done map[record.AttemptKey]bool) (err error) {
	mine := r.share.mine()
	p.former.Only = func(e record.Entry) bool { return mine(e.TaskID, e.Attempt) }
	if p.review, err = r.review(p.former); err != nil {
		return err
	}
	return p.review.EachKept(func(e record.Entry) {
		if !done[e.Key()] {
			done[e.Key()] = true
			r.kept = append(r.kept, pipeline.FinalOf(e.Line))
		}
	})
}

// adopt takes over what no part has a record of: candidates, answers and usage.
func (r *Run) adopt(own *record.Dir, parts []part, done map[record.AttemptKey]bool) error {
	r.unverified = map[record.AttemptKey]*record.Line{}
	for _, p := range parts {
		for key, line := range p.review.Unverified {
			if done[key] || r.unverified[key] != nil {
				continue
			}
			for _, name := range line.Files() {
				if err := own.Adopt(p.ShardFolder, name, ""); err != nil {
					return fmt.Errorf("taking over the candidate of %s: %w", redact.Quote(key.Task), err)
				}
			}
			r.unverified[key] = line
		}
	}
	return errors.Join(r.inherit(own, parts, done), own.Await(r.unverified))
}

// inherit takes over what was answered and used: all that another runner of the shard
// noted, or else, of the run, what the shard's attempts have used and an equal share of
// what its records say.
func (r *Run) inherit(own *record.Dir, parts []part, done map[record.AttemptKey]bool) error {
	var folders []record.ShardFolder
	for _, p := range parts {
		folders = append(folders, p.ShardFolder)
	}
	last := len(folders) - 1 // the run
	if _, err := own.Inherit(record.AnswersName, nil, folders...); err != nil {
		return err
	}
	if found, err := own.Inherit(record.SpentName, nil, folders[:last]...); found || err != nil {
		return err
	}
	used := map[string]int64{}
	for name, n := range parts[last].review.Used {
		used[name] = n / int64(r.share.of.Count())
	}
	if err := own.Earlier(used); err != nil {
		return err
	}
	mine := r.share.mine()
	_, err := own.Inherit(record.SpentName, func(key record.AttemptKey) bool {
		return !done[key] && key.Task != "" && mine(key.Task, key.Attempt)
	}, folders[last])
	return err
}

// endShard notes that every attempt of the shard has its record.
func (r *Run) endShard() error {
	r.manifest.Shard.Ended = now()
	if err := r.dir.WriteManifest(&r.manifest); err != nil {
		return fmt.Errorf("%w: %w", commit.ErrOutput, err)
	}
	return nil
}
