package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"securebench/internal/evidence"
	"securebench/internal/family"
	"securebench/internal/fault"
	"securebench/internal/merge"
	"securebench/internal/pipeline"
	"securebench/internal/pipeline/record"
	"securebench/internal/sandbox/sandboxtest"
	"securebench/internal/verdict"
)

// prepare plans the run of a bench in shards.
func (b *bench) prepare(n int) *record.Shards {
	b.t.Helper()
	b.opts.Mode, b.opts.Prepare = Fresh, n
	defer func() { b.opts.Prepare = 0 }()
	r, err := Open(b.t.Context(), b.opts)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		b.t.Fatal(err)
	}
	return r.Shards()
}

// shard runs a shard, and counts the agents of that.
func (b *bench) shard(i int) (pipeline.Summary, int32) {
	b.t.Helper()
	b.opts.Shard = &i
	defer func() { b.opts.Shard = nil }()
	b.reset()
	sum, _ := b.run(Fresh)
	return sum, b.agents.Load()
}

// merge merges the shards.
func (b *bench) merge() *merge.Result {
	b.t.Helper()
	res, err := merge.Run(b.t.Context(), merge.Options{Dir: b.opts.Config.OutputDir, Keyring: b.opts.Keyring, Notice: func(string) {}})
	if err != nil {
		b.t.Fatal(err)
	}
	return res
}

// refused wants that a run does not begin, for a reason.
func (b *bench) refused(says string) {
	b.t.Helper()
	r, err := Open(b.t.Context(), b.opts)
	if err == nil {
		b.t.Fatalf("it began: %v", r.Close())
	}
	if fault.KindOf(err) != fault.Refused || !strings.Contains(err.Error(), says) {
		b.t.Errorf("%v, want %s", err, says)
	}
}

// verified verifies the run and returns its records by attempt, without what differs
// from one run to another.
func (b *bench) verified(finished bool) map[record.AttemptKey]string {
	b.t.Helper()
	run, err := evidence.OpenRun(b.opts.Config.OutputDir)
	if err != nil {
		b.t.Fatal(err)
	}
	defer run.Close()
	out := map[record.AttemptKey]string{}
	res, err := run.Verify(b.t.Context(), evidence.Options{Each: func(e record.Entry) {
		out[e.Key()] = fmt.Sprint(e.Status, e.Outcome, e.Labels, e.ProducerStdout, e.Candidate, e.Digests.Candidate, len(e.Restricted))
	}})
	if err != nil || len(res.Problems) > 0 || res.Unfinished == finished {
		b.t.Fatalf("%+v, %v", res, err)
	}
	return out
}

// TestShards runs what is planned in shards, each attempt in one of them, and merges them
// to what one process records.
func TestShards(t *testing.T) {
	whole := newBench(t)
	if sum, _ := whole.run(Fresh); sum.Of(verdict.Computed).Passed != 6 {
		t.Fatalf("%+v", sum)
	}
	for _, n := range []int{1, 3, 7} {
		b := newBench(t)
		if s := b.prepare(n); s.Count != n || s.Rows != nil || s.Unit != record.UnitAttempt {
			t.Fatalf("%+v", s)
		}
		total := 0
		for i := range n {
			sum, agents := b.shard(i)
			if total += sum.Total; sum.Total != sum.Planned.All || sum.Of(verdict.Computed).Passed != sum.Total || int(agents) != sum.Total {
				t.Errorf("shard %d of %d: %+v after %d agents", i, n, sum, agents)
			}
		}
		if res := b.merge(); total != 6 || !res.Complete() || len(res.Parts) != n || res.Summary.Of(verdict.Computed).Passed != 6 {
			t.Errorf("%+v", res)
		}
		if got := b.verified(true); !maps.Equal(got, whole.verified(true)) {
			t.Errorf("merged from %d: %v", n, got)
		}
		if sum, _ := b.run(Resume); sum.Of(verdict.Computed).Passed != 6 {
			t.Errorf("%+v", sum)
		}
		i := 0
		b.opts.Shard = &i
		b.refused("complete and signed")
	}
}

// TestShardGoesOn: a shard that is started again repeats only what no earlier start of it
// has done.
func TestShardGoesOn(t *testing.T) {
	b := newBench(t)
	b.prepare(2)
	b.broken.Store(true)
	if sum, agents := b.shard(0); sum.Infrastructure != 3 || agents != 3 {
		t.Fatalf("%+v after %d agents", sum, agents)
	}
	b.broken.Store(false)
	for start, agents := range []int32{0, 0} { // verified again, and then nothing is left
		if sum, n := b.shard(0); sum.Of(verdict.Computed).Passed != 3 || n != agents {
			t.Errorf("start %d: %+v after %d agents", start+2, sum, n)
		}
	}
	b.shard(1)
	res := b.merge()
	var kept []int
	for _, p := range res.Parts {
		kept = append(kept, p.Kept)
	}
	if !res.Complete() || res.Summary.Of(verdict.Computed).Passed != 6 || !slices.Equal(kept, []int{0, 3, 0, 3}) {
		t.Errorf("%+v", res)
	}
	b.verified(true)
}

// TestShardKilled: of a shard whose runner is killed while it verifies, another start
// verifies what was captured; without one, the resume of the merged run does.
func TestShardKilled(t *testing.T) {
	for name, again := range map[string]bool{"started again": true, "merged and resumed": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.opts.Config.MaxWorkers = 1
			b.prepare(2)
			b.shard(1)
			left := filepath.Join(t.TempDir(), "left")
			captured := int32(0)
			once := sync.OnceFunc(func() { captured = b.agents.Load(); b.copyTo(left) })
			fam := b.opts.Families["short_answer"]
			honest := fam.NewVerifier
			fam.NewVerifier = func(r family.Resources) family.Verifier { return onVerify{honest(r), once} }
			b.opts.Families["short_answer"] = fam
			b.shard(0)
			b.opts.Config.OutputDir = left
			if again {
				if sum, n := b.shard(0); sum.Of(verdict.Computed).Passed != 3 || n != 3-captured {
					t.Errorf("%+v after %d agents, %d had a candidate", sum, n, captured)
				}
			}
			res := b.merge()
			if res.Complete() != again || !again && !slices.Equal(res.Missing, []int{0}) {
				t.Fatalf("%+v", res)
			}
			if !again {
				b.verified(false)
				b.reset()
				if sum, _ := b.run(Resume); sum.Of(verdict.Computed).Passed != 6 || b.agents.Load() != 3-captured {
					t.Errorf("%+v after %d agents, %d had a candidate", sum, b.agents.Load(), captured)
				}
			}
			b.verified(true)
		})
	}
}

// TestMergedInfrastructure: attempts whose verification failed everywhere are recorded as
// such, and a resume of the merged run verifies them.
func TestMergedInfrastructure(t *testing.T) {
	b := newBench(t)
	b.prepare(2)
	b.broken.Store(true)
	b.shard(0)
	b.shard(1)
	if res := b.merge(); !res.Complete() || res.Summary.Infrastructure != 6 {
		t.Fatalf("%+v", res)
	}
	b.verified(true)
	b.broken.Store(false)
	b.reset()
	if sum, _ := b.run(Resume); sum.Of(verdict.Computed).Passed != 6 || b.agents.Load() != 0 {
		t.Errorf("%+v after %d agents", sum, b.agents.Load())
	}
	b.verified(true)
}

// TestPreparedAgain: what is missing after a merge is planned in shards anew.
func TestPreparedAgain(t *testing.T) {
	b := newBench(t)
	b.prepare(6)
	b.shard(0)
	b.shard(1) // all of the first row
	b.opts.Mode = Resume
	b.refused("shards of this run are not merged: securebench merge")
	b.opts.Prepare = 2
	b.refused("shards of this run are not merged")
	b.opts.Prepare, b.opts.Mode = 0, Fresh
	b.refused("already holds a run")
	if res := b.merge(); res.Complete() || !slices.Equal(res.Missing, []int{2, 3, 4, 5}) || res.Summary.Total != 2 {
		t.Fatalf("%+v", res)
	}
	if sum, n := b.shard(0); sum.Of(verdict.Computed).Passed != 1 || n != 0 {
		t.Errorf("a shard that is merged ran again: %+v after %d agents", sum, n)
	}
	b.merge()
	if s := b.prepare(2); s.Count != 2 || s.Rows.Len() != 2 || len(s.Parts) != 3 {
		t.Fatalf("%+v", s)
	}
	agents := int32(0)
	for i := range 2 {
		_, n := b.shard(i)
		agents += n
	}
	if res := b.merge(); agents != 4 || !res.Complete() || len(res.Parts) != 2 {
		t.Errorf("%+v after %d agents", res, agents)
	}
	b.verified(true)
}

// TestShardRefused: a shard of what was not prepared, or prepared with other inputs, does
// not run.
func TestShardRefused(t *testing.T) {
	b := newBench(t)
	i := 2
	b.opts.Shard = &i
	b.refused("holds no run that was prepared for shards")
	if _, err := os.Stat(b.opts.Config.OutputDir); err == nil {
		t.Error("it made the output directory")
	}
	b.opts.Shard = nil
	b.prepare(2)
	b.opts.Shard = &i
	b.refused("the run has 2 shards: --shard is one of 0 to 1")
	i = 0
	b.opts.Config.Attempts++
	b.refused("attempts per task: was 2, is 3")
	b.opts.Config.Attempts--
	b.opts.Config.Limits.Memory++
	b.refused("setting limits.memory")
	b.opts.Config.Limits.Memory--
	if entries, _ := os.ReadDir(filepath.Join(b.opts.Config.OutputDir, record.ShardsName)); len(entries) != 0 {
		t.Errorf("a refused shard left %v", entries)
	}
	d, err := record.Open(b.opts.Config.OutputDir)
	if err != nil {
		t.Fatal(err)
	}
	b.refused("another securebench process is using the output directory")
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	b.shard(0)
	b.opts.Config.OutputDir = filepath.Join(b.opts.Config.OutputDir, "shards", "0.1")
	b.opts.Mode = Resume
	b.refused("is shard 0 of a run")
}

// TestShardsOfBrokenAgent: a shard of one attempt whose agent fails runs to its end,
// and if no agent of the run worked, nothing is signed unless that is to be scored.
func TestShardsOfBrokenAgent(t *testing.T) {
	b := newBench(t)
	b.opts.OpenEngine = openerOf(sandboxtest.New(sandboxtest.Config{Programs: map[string]sandboxtest.Program{
		"agent": func(context.Context, *sandboxtest.Process) int { return 1 },
	}}))
	b.prepare(6)
	for i := range 6 {
		if sum, _ := b.shard(i); sum.Of(verdict.Computed).Failed != 1 {
			t.Errorf("%+v", sum)
		}
	}
	res := b.merge()
	if !res.Complete() || res.Broken == nil {
		t.Fatalf("%+v", res)
	}
	b.verified(false)
	b.opts.KeepGoing = true
	b.run(Resume)
	if len(b.verified(true)) != 6 {
		t.Error("it is not the whole run")
	}
}

// TestShardsShareTheBudget: each shard may use its share of the run's budget, also if it is
// started again, and a resume of the merged run goes on from what all of them used.
func TestShardsShareTheBudget(t *testing.T) {
	a := newAgents(t, "codex", "model: gpt-1\nbudget: {total: {requests: 4}}\n")
	a.opts.Config.MaxWorkers = 1
	a.prepare(2)
	start := func(i int) (sum pipeline.Summary) {
		a.opts.Shard = &i
		defer func() { a.opts.Shard = nil }()
		sum, err := a.drive(Fresh)
		if spent := (*pipeline.SpentError)(nil); !errors.As(err, &spent) {
			t.Errorf("shard %d: %v", i, err)
		}
		return sum
	}
	for i, want := range []int{2, 2} {
		if sum := start(i); sum.Total != want {
			t.Errorf("shard %d: %+v", i, sum)
		}
	}
	if sum := start(0); sum.Total != 2 || a.asked() != 4 {
		t.Errorf("started again: %+v after %d requests", sum, a.asked())
	}
	if res := a.merge(); res.Complete() || res.Summary.Total != 4 {
		t.Fatalf("%+v", res)
	}
	if sum, err := a.drive(Resume); err == nil || sum.Total != 4 || a.asked() != 4 {
		t.Errorf("resumed: %+v, %v after %d requests", sum, err, a.asked())
	}
}

// TestInfrastructureAgain: an infrastructure error that the run has from a merge is
// repeated by its shard, and the record of that replaces it.
func TestInfrastructureAgain(t *testing.T) {
	for name, lost := range map[string]bool{"verified again": false, "run again": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.prepare(2)
			b.broken.Store(true)
			b.shard(0)
			b.broken.Store(false)
			if res := b.merge(); res.Complete() || res.Summary.Infrastructure != 3 || !slices.Equal(res.Missing, []int{1}) {
				t.Fatalf("%+v", res)
			}
			b.verified(false)
			want := int32(0)
			if lost {
				want = 3
				if err := os.Remove(filepath.Join(b.opts.Config.OutputDir, record.CapturedName)); err != nil {
					t.Fatal(err)
				}
			}
			if sum, n := b.shard(0); sum.Of(verdict.Computed).Passed != 3 || n != want {
				t.Errorf("%+v after %d agents, want %d", sum, n, want)
			}
			b.shard(1)
			if res := b.merge(); !res.Complete() || res.Summary.Of(verdict.Computed).Passed != 6 || res.Parts[0].Kept != 3 {
				t.Errorf("%+v", res)
			}
			b.verified(true)
		})
	}
}
