package merge

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"securebench/internal/pipeline/record"
)

// spending records every attempt of a shard but the last ones, each of which has used
// what a provider was asked for. Of one more the usage is known, and no record.
func (r *runner) spending(left int) *runner {
	r.k.t.Helper()
	accounts, _, err := r.Accounts(nil)
	r.k.check(err)
	division := r.manifest.Division()
	for row := range r.manifest.Rows().All() {
		for n := 1; n <= r.manifest.Planned.Attempts; n++ {
			if at, _ := division.Of(row, n); at != r.shard.Index {
				continue
			}
			l := r.line(row, n, "says")
			if r.done[l.Key()] {
				continue
			}
			former, note := accounts.Begin(l.TaskID, n)
			for used := range int64(3) {
				r.k.check(note(record.SumUsage(former, map[string]int64{"requests": used})))
			}
			if row >= r.manifest.Planned.Tasks-left {
				return r
			}
			r.k.check(r.Append(l))
		}
	}
	return r
}

// goesOn begins a shard that takes over what the run knows of its attempts.
func (k *kit) goesOn(index int) *runner {
	k.t.Helper()
	r := k.start(index)
	whole, err := record.OpenShared(k.dir)
	k.check(err)
	r.done = map[record.AttemptKey]bool{}
	lines, err := os.ReadFile(filepath.Join(k.dir, record.LinesName))
	k.check(err)
	for line := range bytes.Lines(lines) {
		e, err := record.Decode(bytes.TrimSpace(line))
		k.check(err)
		r.done[e.Key()] = true
	}
	k.check(r.Earlier(map[string]int64{"requests": 5})) // its share, which the run counts as well
	_, err = r.Inherit(record.SpentName, func(key record.AttemptKey) bool { return key.Task != "" && !r.done[key] }, record.ShardFolder{Dir: whole})
	k.check(err, whole.Close())
	return r
}

// used is what the run knows of what its attempts have used.
func (k *kit) used() map[string]int64 {
	k.t.Helper()
	d, err := record.Open(k.dir)
	k.check(err)
	_, err = d.Former() // reads the salt
	k.check(err)
	_, used, err := d.Accounts(nil)
	k.check(err, d.Close())
	return used
}

// TestSpentOnce kills a merge of a part of the shards when it has taken over what they
// used, and before the records are those of the run. Whatever is merged afterwards, and
// in how many steps, each use counts once, also when a shard goes on with what the run
// has.
func TestSpentOnce(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) *kit {
		k := newKit(t, 12, 2, 4)
		k.start(0).spending(6).end()
		k.start(2).spending(0).end()
		return k
	}
	killed := func(k *kit) {
		k.t.Helper()
		m := &merger{Options: Options{Dir: k.dir, Keyring: k.keys, Notice: func(string) {}}}
		k.check(m.open(), m.readAll(k.t.Context()), m.choose())
		if err := m.write(&limited{context.Background(), 3}); err == nil {
			k.t.Fatal("it was not interrupted")
		}
		m.close()
		k.check(m.dir.Close())
	}
	late := func(k *kit) { k.start(1).spending(3).end() } // between the shards that are there
	cut := func(k *kit) {
		name := filepath.Join(k.dir, record.SpentName)
		text, err := os.ReadFile(name)
		k.check(err, os.Truncate(name, int64(len(text)*2/3)))
	}
	for name, steps := range map[string][]func(*kit){
		"undisturbed": {}, "killed": {killed}, "killed twice": {killed, killed}, "killed while it took over": {killed, cut, killed},
		"killed, and another shard": {killed, late}, "another shard, killed": {late, killed, cut},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := begin(t)
			for _, step := range steps {
				step(k)
			}
			shards, err := os.ReadDir(filepath.Join(k.dir, "shards"))
			k.check(err)
			late := len(shards) == 3
			k.merged()
			want := map[string]int64{"requests": 2 * (4 + 6)} // the third's attempts, and the first's up to the one that was cut off
			if late {
				want["requests"] += 2 * 6
			}
			if d := cmp.Diff(want, k.used()); d != "" {
				t.Errorf("used (-want +got):\n%s", d)
			}
			k.goesOn(0).spending(0).end()
			want["requests"] += 2 * 3 // the one that was cut off is paid again
			k.merged()
			if d := cmp.Diff(want, k.used()); d != "" {
				t.Errorf("used when a shard had gone on (-want +got):\n%s", d)
			}
		})
	}
}
