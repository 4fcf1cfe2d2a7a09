package merge

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"securebench/internal/attest"
	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/evidence"
	"securebench/internal/pipeline/pack"
	"securebench/internal/pipeline/record"
	"securebench/internal/task"
	"securebench/internal/verdict"
)

// kit makes a run that is prepared for shards, and what shards of it record.
type kit struct {
	t        testing.TB
	dir      string
	manifest record.Manifest
	keys     *attest.Keyring
}

var plain = pack.Digests{Manifest: digest.Bytes([]byte("m")), Tasks: digest.Bytes([]byte("t")),
	PublicAssets: digest.Bytes([]byte("p")), EvalAssets: digest.Bytes([]byte("e"))}

const settings = `{"agent":"command"}`

func newKit(t testing.TB, rows, attempts, shards int) *kit {
	t.Helper()
	dir := t.TempDir()
	k := &kit{t: t, dir: filepath.Join(dir, "out"), keys: attest.OpenKeyring(filepath.Join(dir, "keys"))}
	d, err := record.Open(k.dir)
	k.check(err)
	k.check(d.Begin(false))
	salt := d.Salt()
	k.manifest = record.Manifest{
		Format: record.ManifestFormat, RunID: "run", Started: "2026-01-02T03:04:05Z", Agent: "command",
		Pack: record.PackInfo{ID: "pack", Version: 1}, Planned: record.Planned{Tasks: rows, Attempts: attempts},
		Digests: record.RunDigests{Manifest: plain.Manifest, Public: digest.Bytes([]byte("public")), Config: digest.Bytes([]byte(settings)),
			Pack: salt.Keyed("pack", "", []byte(plain.Sum())), Assets: salt.Keyed("assets", "", []byte(plain.PublicAssets+plain.EvalAssets)), Verifier: digest.Bytes([]byte("v"))},
		Images: map[string]string{"img": "sha256:1"}, Labels: []string{}, Version: "test", SaltDigest: d.SaltDigest(), ResumedFrom: []record.Resumption{},
		Shards: &record.Shards{Count: shards, Unit: record.UnitOf(rows, shards)},
	}
	k.check(k.inputs(d), d.WriteManifest(&k.manifest), d.Close())
	return k
}

func (k *kit) inputs(d *record.Dir) error {
	return errors.Join(d.WriteConfig([]byte(settings)), d.WritePack(record.PackDigests{Pack: plain.Sum(), Tasks: plain.Tasks, PublicAssets: plain.PublicAssets, EvalAssets: plain.EvalAssets}))
}

func (k *kit) check(errs ...error) {
	k.t.Helper()
	if err := errors.Join(errs...); err != nil {
		k.t.Fatal(err)
	}
}

// runner is a runner of a shard.
type runner struct {
	*record.Dir
	k        *kit
	shard    record.Shard
	manifest record.Manifest
	store    *candidate.Store
	change   func(*record.Line) // makes its first record another
	done     map[record.AttemptKey]bool
}

// start begins a shard as run does.
func (k *kit) start(index int) *runner {
	k.t.Helper()
	whole, err := record.OpenShared(k.dir)
	k.check(err)
	former, err := whole.Former()
	k.check(err)
	r := &runner{k: k, manifest: former.Manifest}
	r.Dir, r.shard, err = whole.NewShard(index, former.Manifest.Shards.Parts)
	k.check(err, whole.Close())
	s := former.Manifest.Shards
	r.manifest.Shards, r.manifest.Shard = &record.Shards{Count: s.Count, Unit: s.Unit, Rows: s.Rows}, &r.shard
	r.manifest.Engine = map[string]any{"name": "docker", "version": "1", "kernel": "6.1"}
	r.store, err = candidate.OpenStore(r.StorePath())
	k.check(err, k.inputs(r.Dir), r.WriteManifest(&r.manifest))
	return r
}

// all records every attempt of the shard, with what its runner says.
func (r *runner) all(says string) *runner {
	r.k.t.Helper()
	division := r.manifest.Division()
	for row := range r.manifest.Rows().All() {
		for n := 1; n <= r.manifest.Planned.Attempts; n++ {
			if at, _ := division.Of(row, n); at == r.shard.Index {
				l := r.line(row, n, says)
				if r.change != nil {
					r.change(l)
					r.change = nil
				}
				r.k.check(r.Append(l))
			}
		}
	}
	return r
}

// end closes what is open.
func (r *runner) end() *runner {
	r.k.t.Helper()
	r.shard.Ended = "2026-01-02T04:04:05Z"
	r.k.check(r.Settled(false), r.WriteManifest(&r.manifest), r.store.Close(), r.Close())
	return r
}

// path is the place of one of its files.
func (r *runner) path(name string) string { return filepath.Join(r.k.dir, r.shard.Path(), name) }

// line is an attempt's record, whose candidate and raw output are stored.
func (r *runner) line(row, attempt int, says string) *record.Line {
	r.k.t.Helper()
	id := fmt.Sprintf("task/%d", row)
	data := fmt.Sprintf("%s: %s, %d", says, id, row%7)
	c, err := r.store.Put(task.Text, candidate.Stdout, strings.NewReader(data))
	r.k.check(err)
	raw, _, err := r.Restrict(id, fmt.Sprintf("task_%d/%d/agent-stdout", row, attempt), []byte(data))
	r.k.check(err)
	d := r.manifest.Digests
	return &record.Line{
		RunID: "run", TaskID: id, BenchmarkID: "pack", TaskType: "short_answer", Status: verdict.StatusPassed, Outcome: verdict.Passed,
		Candidate: record.Candidate{Kind: task.Text, Shown: data}, ProducerStdout: data, ProducerMetadata: verdict.Metadata{},
		Summary:  []task.ResourceSummary{},
		Verified: true, Passed: true, VerifierMetadata: verdict.Metadata{},
		Index: row, Attempt: attempt, Agent: "command", Containment: "passive", Labels: []string{"unpinned_image"},
		Digests: record.Digests{Pack: d.Pack, Assets: d.Assets, Config: d.Config, Verifier: d.Verifier,
			Row: r.Salt().Keyed("row", id, []byte(id)), Image: "sha256:1", Candidate: c.Digest},
		Timings: map[verdict.Phase]int64{}, Restricted: []record.RawFile{raw},
	}
}

// merge merges the shards of the run, and those elsewhere.
func (k *kit) merge(elsewhere ...string) (*Result, error) {
	return Run(k.t.Context(), Options{Dir: k.dir, Shards: elsewhere, Keyring: k.keys, Notice: func(string) {}})
}

// merged merges and wants no error.
func (k *kit) merged(elsewhere ...string) *Result {
	k.t.Helper()
	res, err := k.merge(elsewhere...)
	k.check(err)
	return res
}

// said verifies the run, and returns what its records say by row and attempt, in order.
func (k *kit) said(finished bool) (out []string) {
	k.t.Helper()
	run, err := evidence.OpenRun(k.dir)
	k.check(err)
	defer run.Close()
	res, err := run.Verify(k.t.Context(), evidence.Options{Each: func(e record.Entry) {
		says, _, _ := strings.Cut(e.ProducerStdout, ":")
		out = append(out, fmt.Sprintf("%d/%d %s", e.Index, e.Attempt, says))
	}})
	k.check(err)
	if len(res.Problems) > 0 || res.Unfinished == finished {
		k.t.Fatalf("finished: %v, want %v; %v", !res.Unfinished, finished, res.Problems)
	}
	return out
}
