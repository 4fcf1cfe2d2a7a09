package merge

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"securebench/internal/evidence"
	"securebench/internal/fault"
	"securebench/internal/pipeline/record"
	"securebench/internal/rowset"
	"securebench/internal/verdict"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestMerge does something to shards of a run and merges them. Shards are good, or
// dropped in part with a reason, or refused.
func TestMerge(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		harm    func(t *testing.T, k *kit, r *runner) // to shard 1, before it records
		then    func(t *testing.T, k *kit, r *runner) // before it ends
		after   func(t *testing.T, k *kit, r *runner) // and afterwards
		refused fault.Kind                            // of the error
		says    string                                // in the error
		dropped map[string]int
	}{
		"nothing":            {},
		"an edited line":     {after: edit(`says`, `lies`), dropped: map[string]int{record.Damaged: 1}},
		"a line cut short":   {after: cut, dropped: map[string]int{record.Torn: 1}},
		"a lost candidate":   {after: lose(record.CandidatesName), dropped: map[string]int{record.LostCandidate: 2}},
		"a lost output":      {after: lose("restricted/task_1/1"), dropped: map[string]int{record.LostOutput: 1}},
		"another's attempt":  {then: foreignAttempt, dropped: map[string]int{record.NotPlanned: 1}},
		"a changed input":    {harm: change(func(l *record.Line) { l.Digests.Config = l.Digests.Verifier }), dropped: map[string]int{record.InputsChanged: 1}},
		"an agent that died": {harm: func(_ *testing.T, _ *kit, r *runner) { r.manifest.AgentsFailed, r.change = true, agentFailed }, dropped: map[string]int{record.AgentsFailed: 1}},
		"another kernel":     {harm: manifest(func(m *record.Manifest) { engineOf(m)["kernel"] = "6.2" })},
		"another engine":     {harm: manifest(func(m *record.Manifest) { engineOf(m)["version"] = "2" }), refused: fault.Refused, says: "the engines of shards differ: 0.1 ran with docker 1"},
		"another machine":    {harm: manifest(func(m *record.Manifest) { engineOf(m)["arch"] = "arm64" }), refused: fault.Refused, says: `architecture "arm64"`},
		"no engine":          {harm: manifest(func(m *record.Manifest) { m.Engine = nil }), refused: fault.Refused, says: "and 1.1 with no engine"},
		"a strange engine":   {harm: manifest(func(m *record.Manifest) { engineOf(m)["name"] = 7 }), refused: fault.Refused, says: "cannot be read"},
		"other limits":       {harm: manifest(func(m *record.Manifest) { m.Limits.Memory++ }), refused: fault.Refused, says: "shards/1.1: its run.json differs from that of the run"},
		"another number":     {harm: manifest(func(m *record.Manifest) { m.Shard.Restart++ }), refused: fault.Refused, says: "shards/1.1: its run.json differs"},
		"an edited manifest": {after: replace(record.ManifestName, `"version":"test"`, `"version":"best"`), refused: fault.Integrity, says: "its MAC is wrong"},
		"another run":        {after: otherRun, refused: fault.Refused, says: "shards/1.1: it is of another run"},
		"still running":      {after: running, refused: fault.Refused, says: "shards/1.1: it is still running"},
		"a runner that was killed before it began": {after: func(t *testing.T, k *kit, _ *runner) {
			k.check(os.Mkdir(filepath.Join(k.dir, "shards", "2.2"), 0o755))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKit(t, 12, 2, 3)
			k.start(0).all("first").end()
			r := k.start(1)
			for _, step := range []func(*testing.T, *kit, *runner){tt.harm, func(*testing.T, *kit, *runner) { r.all("says") }, tt.then, func(*testing.T, *kit, *runner) { r.end() }} {
				if step != nil {
					step(t, k, r)
				}
			}
			k.start(2).all("third").end()
			if tt.after != nil {
				tt.after(t, k, r)
			}
			res, err := k.merge()
			if tt.says != "" {
				if fault.KindOf(err) != tt.refused || !strings.Contains(err.Error(), tt.says) {
					t.Fatalf("%v, want %v", err, tt.says)
				}
				return
			}
			k.check(err)
			lost := 0
			for reason, n := range tt.dropped {
				if reason != record.NotPlanned {
					lost += n
				}
			}
			if got := res.Parts[1].Dropped; fmt.Sprint(got) != fmt.Sprint(tt.dropped) || res.Summary.Total != 24-lost || res.Complete() != (lost == 0) {
				t.Fatalf("dropped %v, want %v; %+v", got, tt.dropped, res.Summary)
			}
			if said := k.said(lost == 0); len(said) != 24-lost || !slices.IsSortedFunc(said, byPlace) {
				t.Errorf("%d records: %q", len(said), said)
			}
			if lost == 0 {
				return
			}
			if !slices.Equal(res.Missing, []int{1}) {
				t.Errorf("missing: %v", res.Missing)
			}
			k.start(1).all("again").end() // what the run has already counts
			if res := k.merged(); !res.Complete() || res.Parts[0].Kept != lost || res.Parts[0].Restart != 2 {
				t.Errorf("after another start: %+v", res)
			}
			k.said(true)
		})
	}
}

func byPlace(a, b string) int {
	var x, y [2]int
	_, _ = fmt.Sscanf(a, "%d/%d", &x[0], &x[1])
	_, _ = fmt.Sscanf(b, "%d/%d", &y[0], &y[1])
	return slices.Compare(x[:], y[:])
}

func engineOf(m *record.Manifest) map[string]any { return m.Engine.(map[string]any) }

func manifest(change func(*record.Manifest)) func(*testing.T, *kit, *runner) {
	return func(_ *testing.T, _ *kit, r *runner) { change(&r.manifest) }
}

func replace(name, was, is string) func(*testing.T, *kit, *runner) {
	return func(t *testing.T, k *kit, r *runner) {
		t.Helper()
		text, err := os.ReadFile(r.path(name))
		k.check(err)
		if !bytes.Contains(text, []byte(was)) {
			t.Fatalf("%s does not have %s", name, was)
		}
		k.check(os.WriteFile(r.path(name), bytes.Replace(text, []byte(was), []byte(is), 1), 0o600))
	}
}

func edit(was, is string) func(*testing.T, *kit, *runner) { return replace(record.LinesName, was, is) }

func cut(t *testing.T, k *kit, r *runner) {
	info, err := os.Stat(r.path(record.LinesName))
	k.check(err)
	k.check(os.Truncate(r.path(record.LinesName), info.Size()-1))
}

// lose removes one file below a folder of the shard.
func lose(folder string) func(*testing.T, *kit, *runner) {
	return func(t *testing.T, k *kit, r *runner) {
		entries, err := os.ReadDir(r.path(folder))
		k.check(err)
		k.check(os.Remove(filepath.Join(r.path(folder), entries[0].Name())))
	}
}

func foreignAttempt(_ *testing.T, k *kit, r *runner) { k.check(r.Append(r.line(0, 1, "mine"))) }

// change makes the first record of the shard another.
func change(to func(*record.Line)) func(*testing.T, *kit, *runner) {
	return func(_ *testing.T, _ *kit, r *runner) { r.change = to }
}

func agentFailed(l *record.Line) {
	l.Status, l.Passed, l.Outcome, l.FailureReason, l.FailurePhase = verdict.StatusFailed, false, verdict.NoCandidate, verdict.AgentFailed, verdict.PhaseProduce
	l.Verified, l.Candidate, l.Digests.Candidate = false, record.Candidate{}, ""
}

// otherRun puts the shard of another run in the place of the shard.
func otherRun(t *testing.T, k *kit, r *runner) {
	other := newKit(t, 12, 2, 3).start(1).all("other").end()
	k.check(os.RemoveAll(r.path(".")))
	k.check(os.CopyFS(r.path("."), os.DirFS(other.path("."))))
}

// running locks the shard as its runner does.
func running(t *testing.T, k *kit, r *runner) {
	d, err := record.Open(r.path("."))
	k.check(err)
	t.Cleanup(func() { k.check(d.Close()) })
}

// TestFromElsewhere merges folders of shards that were copied, once each.
func TestFromElsewhere(t *testing.T) {
	t.Parallel()
	k := newKit(t, 12, 2, 3)
	copied := filepath.Join(t.TempDir(), "copy")
	k.check(os.CopyFS(copied, os.DirFS(k.dir)))
	other := &kit{t: t, dir: copied, manifest: k.manifest, keys: k.keys}
	k.start(0).all("first").end()
	k.start(2).all("third").end()
	r := other.start(1).all("second")
	if _, err := k.merge(r.path(".")); fault.KindOf(err) != fault.Refused || !strings.Contains(err.Error(), "it is still running: wait") {
		t.Errorf("a shard that runs: %v", err)
	}
	r.end()
	twin := other.start(1)
	twin.shard.Restart = 1
	twin.all("twin").end()
	if _, err := k.merge(r.path("."), filepath.Join(copied, "shards/1.2")); fault.KindOf(err) != fault.Refused || !strings.Contains(err.Error(), "shards/1.1: there is another folder of that name, with other records") {
		t.Errorf("two shards of one name: %v", err)
	}
	for range 2 {
		if res := k.merged(r.path(".")); !res.Complete() {
			t.Fatalf("%+v", res)
		}
		k.said(true)
	}
	if _, err := k.merge(filepath.Join(k.dir, "shards/0.1")); err == nil {
		t.Error("a shard that is not there was merged")
	}
	if _, err := os.Stat(r.path(record.LinesName)); err != nil {
		t.Error(err)
	}
	if _, err := k.merge(t.TempDir()); fault.KindOf(err) != fault.Refused || !strings.Contains(err.Error(), "it is not the folder of a shard") {
		t.Errorf("a folder of nothing: %v", err)
	}
}

// TestShardsBesideStatement: what is not merged does not count for a run that is under way,
// and is a problem of one that is signed, which a merge leaves alone.
func TestShardsBesideStatement(t *testing.T) {
	t.Parallel()
	k := newKit(t, 12, 2, 3)
	for i := range 3 {
		k.start(i).all("says").end()
	}
	if said := k.said(false); len(said) != 0 {
		t.Errorf("%q", said)
	}
	k.merged()
	k.start(0).all("late").end()
	if _, err := k.merge(); fault.KindOf(err) != fault.Refused || !strings.Contains(err.Error(), "the run is complete and signed: move shards/0.2 away") {
		t.Errorf("%v", err)
	}
	run, err := evidence.OpenRun(k.dir)
	k.check(err)
	defer run.Close()
	res, err := run.Verify(t.Context(), evidence.Options{})
	k.check(err)
	if len(res.Problems) != 1 || res.Problems[0].File != record.ShardsName {
		t.Errorf("%v", res.Problems)
	}
	k.check(os.RemoveAll(filepath.Join(k.dir, record.ShardsName)))
	k.said(true)
}

// TestUnits: every attempt is one shard's, rows stay together if there are enough, and
// shards have about as much to do.
func TestUnits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rows, tries, shards int
		chosen              []int
		unit                string
	}{
		{12, 2, 3, nil, record.UnitRow}, {11, 2, 3, nil, record.UnitAttempt}, {1, 1, 7, nil, record.UnitAttempt}, {40, 3, 10, nil, record.UnitRow},
		{20, 3, 2, []int{1, 2, 3, 7, 8, 9, 12, 19}, record.UnitRow}, {20, 3, 3, []int{1, 4, 19}, record.UnitAttempt},
	} {
		m := record.Manifest{Planned: record.Planned{Tasks: c.rows, Attempts: c.tries}, Shards: &record.Shards{Count: c.shards}}
		divided := c.rows
		if c.chosen != nil {
			m.Shards.Rows, divided = rowset.Of(c.chosen), len(c.chosen)
		}
		if m.Shards.Unit = record.UnitOf(divided, c.shards); m.Shards.Unit != c.unit {
			t.Errorf("%+v: the unit is %s", c, m.Shards.Unit)
		}
		division, load := m.Division(), make([]int, c.shards)
		for row := range c.rows {
			first := -1
			for n := 1; n <= c.tries; n++ {
				at, ok := division.Of(row, n)
				if ok != (c.chosen == nil || slices.Contains(c.chosen, row)) {
					t.Errorf("%+v: row %d, attempt %d: %v", c, row, n, ok)
				}
				if !ok {
					continue
				}
				if load[at]++; first < 0 {
					first = at
				}
				if c.unit == record.UnitRow && at != first {
					t.Errorf("%+v: row %d is divided", c, row)
				}
			}
			if _, ok := division.Of(row, c.tries+1); ok {
				t.Errorf("%+v: an attempt that is not planned has a shard", c)
			}
		}
		if spread := slices.Max(load) - slices.Min(load); spread > c.tries || c.unit == record.UnitAttempt && spread > 1 {
			t.Errorf("%+v: %v", c, load)
		}
	}
}

// TestManyShards merges more shards than are open at the same time.
func TestManyShards(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short; the race detector makes it many times slower")
	}
	t.Parallel()
	const n = maxOpen + 5
	k := newKit(t, n, 2, n)
	for i := range n {
		k.start(i).all(fmt.Sprint(i)).end()
	}
	if res := k.merged(); !res.Complete() || len(res.Parts) != n {
		t.Fatalf("%+v", res.Summary)
	}
	for i, said := range k.said(true) {
		if want := fmt.Sprintf("%d/%d %d", i/2, i%2+1, i%n); said != want {
			t.Errorf("record %d is %q, want %q", i, said, want)
		}
	}
}
