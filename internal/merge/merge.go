// Package merge joins the shards of a run: it checks what each of them recorded, takes
// one record for each attempt, and signs the run if none is missing.
package merge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"securebench/internal/attest"
	"securebench/internal/evidence"
	"securebench/internal/fault"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/record"
	"securebench/internal/redact"
)

// Options say what is merged.
type Options struct {
	Dir     string   // of the run
	Shards  []string // folders of shards elsewhere, besides those in the run's directory
	Keyring *attest.Keyring
	// Notice receives lines for the operator.
	Notice func(string)
}

// Result is what came of a merge.
type Result struct {
	Summary  pipeline.Summary
	Parts    []record.Part // that were merged now
	LeftOut  int           // rows
	Attempts int           // at each task
	Missing  []int         // shards with attempts that have no record, ascending
	Records  string        // their path
	// Broken says that no agent worked: nothing is signed.
	Broken error
}

// Complete reports whether every attempt has a record.
func (r *Result) Complete() bool { return r.Summary.Total == r.Summary.Planned.All }

// merger is a merge in progress.
type merger struct {
	Options
	dir      *record.Dir
	former   *record.Former
	manifest record.Manifest
	division record.Division
	sources  []*source // the run itself first
	opened   int       // folders of them
	done     []record.Shard
	chosen   []entry
	aside    string // a folder of history/
	Result
}

// Run merges the shards of a run. It can be killed and repeated.
func Run(ctx context.Context, o Options) (_ *Result, err error) {
	m := &merger{Options: o}
	if err := m.open(); err != nil {
		return nil, err
	}
	defer func() { m.close(); err = errors.Join(err, m.dir.Close()) }()
	if err := m.join(ctx); err != nil {
		return nil, classify(err)
	}
	return &m.Result, nil
}

// open locks the run and reads what it has.
func (m *merger) open() (err error) {
	where := redact.Quote(m.Dir)
	if _, err := os.Stat(filepath.Join(m.Dir, record.ManifestName)); errors.Is(err, fs.ErrNotExist) {
		return fault.Errorf(fault.Usage, "%s is not the directory of a run: it has no %s", where, record.ManifestName)
	}
	if m.dir, err = record.Open(m.Dir); err != nil {
		return fault.Errorf(fault.Refused, "%s: %w", where, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.dir.Close())
		}
	}()
	if m.former, err = m.dir.Former(); err != nil {
		return classify(err)
	}
	switch {
	case m.former == nil || m.former.Manifest.Shards == nil:
		return fault.Errorf(fault.Refused, "the run in %s was not prepared for shards (see securebench run --prepare)", where)
	case m.former.Manifest.Shard != nil:
		return fault.Errorf(fault.Refused, "%s is the folder of a shard: give the directory of its run first", where)
	}
	m.manifest, m.division = m.former.Manifest, m.former.Manifest.Division()
	p := m.manifest.Planned
	m.Summary = pipeline.Summary{RunID: m.manifest.RunID, Planned: pipeline.Planned{All: p.Tasks * p.Attempts, Judged: p.Judged * p.Attempts}}
	m.LeftOut, m.Records, m.Attempts = p.LeftOut, m.dir.LinesPath(), max(1, p.Attempts)
	return m.dir.Tidy()
}

// join goes through the steps of a merge.
func (m *merger) join(ctx context.Context) error {
	for _, dir := range m.Shards {
		if err := m.dir.Import(dir, m.manifest.Shards.Parts); err != nil {
			return fmt.Errorf("%s: %w", redact.Quote(dir), err)
		}
	}
	if err := m.dir.Foreign(); err != nil {
		return err
	}
	if err := m.readAll(ctx); err != nil {
		return err
	}
	if err := m.choose(); err != nil {
		return err
	}
	if m.former.Sealed {
		return m.signed()
	}
	if err := m.write(ctx); err != nil {
		return err
	}
	m.close()
	if err := atOnce(len(m.done), func(i int) error { return m.dir.Archive(m.done[i], m.aside) }); err != nil {
		return err
	}
	if err := m.dir.EndShards(); err != nil {
		return err
	}
	if !m.Complete() || m.Broken != nil {
		return m.dir.Tidy()
	}
	return m.sign()
}

// signed ends a merge of a run that is complete: there must be nothing to merge.
func (m *merger) signed() error {
	if len(m.done) > 0 {
		return fault.Errorf(fault.Refused, "the run is complete and signed: move %s away", m.done[0].Path())
	}
	if err := m.enterAll(m.chosen); err != nil {
		return err
	}
	for _, c := range m.chosen {
		l, err := m.line(c)
		if err != nil {
			return err
		}
		m.Summary.Add(pipeline.FinalOf(l))
	}
	return nil
}

// sign signs the complete run.
func (m *merger) sign() error {
	key, created, err := m.Keyring.Signing()
	if err != nil {
		return evidence.KeyringError(err)
	}
	if created {
		m.Notice("generated a key to sign runs with: " + key.Public().ID + " (see securebench key)")
	}
	if err := m.dir.Settled(m.manifest.Judge != nil); err != nil {
		return err
	}
	// A complete run is signed even if it is interrupted now.
	return evidence.Seal(context.Background(), m.dir, m.manifest, key)
}
