package merge

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"securebench/internal/pipeline/record"
)

// shards makes a run of three shards. One of them had a runner before, which was given up.
func shards(t *testing.T) *kit {
	k := newKit(t, 12, 2, 3)
	k.start(0).all("first").end()
	k.start(1).all("zombie").end()
	k.start(1).all("second").end()
	k.start(2).all("third").end()
	return k
}

// TestZombieShard has two runners of one shard at work. Each has a folder of its own, and
// the record of the later one counts. The one that was given up can write nothing any
// more when the shards are merged.
func TestZombieShard(t *testing.T) {
	t.Parallel()
	k := newKit(t, 12, 2, 3)
	k.start(0).all("first").end()
	zombie := k.start(1)
	heir := k.start(1)
	if zombie.shard.String() != "1.1" || heir.shard.String() != "1.2" {
		t.Fatalf("%s and %s", zombie.shard, heir.shard)
	}
	heir.all("heir").end()
	zombie.all("zombie") // its records are as good, and later
	k.start(2).all("third").end()
	late := zombie.line(0, 1, "late") // in files of its own
	res := k.merged()
	if !res.Complete() || res.Parts[1].Superseded != 8 || res.Parts[1].Kept != 0 || res.Parts[2].Kept != 8 {
		t.Fatalf("%+v", res)
	}
	if err := zombie.Append(late); !errors.Is(err, record.ErrIntegrity) {
		t.Errorf("a record after the merge: %v", err)
	}
	if _, err := zombie.AppendCaptured(late); !errors.Is(err, record.ErrIntegrity) {
		t.Errorf("a candidate after the merge: %v", err)
	}
	if _, err := zombie.store.Put("text", "stdout", strings.NewReader("late")); err == nil {
		t.Error("a candidate was stored after the merge")
	}
	for i, said := range k.said(true) {
		if want := []string{"first", "heir", "third"}[i/2%3]; said != fmt.Sprintf("%d/%d %s", i/2, i%2+1, want) {
			t.Errorf("record %d is %q", i, said)
		}
	}
	k.check(zombie.store.Close(), zombie.Close())
	k.said(true)
}

// TestKilledRunners merges shards of runners that were killed: the socket at which each took
// orders is still there. One shard comes from elsewhere.
func TestKilledRunners(t *testing.T) {
	t.Parallel()
	k := newKit(t, 12, 2, 3)
	var elsewhere string
	for index, says := range []string{"first", "second", "third"} {
		r := k.start(index).all(says)
		k.check(r.store.Close(), r.Close(), unix.Mknod(r.path(record.ControlName), unix.S_IFSOCK|0o600, 0))
		if index == 2 {
			elsewhere = filepath.Join(t.TempDir(), "third")
			k.check(os.Rename(filepath.Join(k.dir, r.shard.Path()), elsewhere))
		}
	}
	if res := k.merged(elsewhere); !res.Complete() {
		t.Fatalf("%+v", res)
	}
	if said := k.said(true); len(said) != 24 {
		t.Errorf("%q", said)
	}
	k.check(filepath.WalkDir(k.dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && e.Type() == fs.ModeSocket {
			t.Errorf("%s is left", name)
		}
		return err
	}))
}

// limited is a context that is cancelled when it was asked so many times.
type limited struct {
	context.Context
	left int
}

func (l *limited) Err() error {
	if l.left--; l.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestKilledMerge ends a merge after each of its steps, as a kill does. The next one
// comes to what an undisturbed one does.
func TestKilledMerge(t *testing.T) {
	t.Parallel()
	read := func(m *merger) error { return errors.Join(m.open(), m.readAll(context.Background()), m.choose()) }
	written := func(m *merger) error { return errors.Join(read(m), m.write(context.Background())) }
	archived := func(n int) func(*merger) error {
		return func(m *merger) error {
			err := written(m)
			for _, s := range m.done[:n] {
				err = errors.Join(err, m.dir.Archive(s, m.aside))
			}
			return err
		}
	}
	adopting := func(n int) func(*merger) error {
		return func(m *merger) error {
			if err := read(m); err != nil {
				return err
			}
			if err := m.write(&limited{context.Background(), n}); err == nil {
				return errors.New("it was not interrupted")
			}
			return nil
		}
	}
	for name, until := range map[string]func(*merger) error{
		"read": read, "nothing adopted": adopting(0), "half adopted": adopting(12),
		"manifest, old records": func(m *merger) error {
			old, err := os.ReadFile(filepath.Join(m.Dir, record.LinesName))
			return errors.Join(err, written(m), os.WriteFile(filepath.Join(m.Dir, record.LinesName), old, 0o600))
		},
		"unfinished records": func(m *merger) error {
			return errors.Join(adopting(20)(m), os.WriteFile(filepath.Join(m.Dir, ".new-"+record.LinesName), []byte("{"), 0o600))
		},
		"records": written, "one archived": archived(1), "all archived": archived(4),
		"a part of one archived": func(m *merger) error {
			return errors.Join(archived(2)(m), os.Remove(filepath.Join(m.Dir, "shards/1.2/run.json")), os.RemoveAll(filepath.Join(m.Dir, "shards/1.2/candidates")))
		},
		"settled": func(m *merger) error { return errors.Join(archived(4)(m), m.dir.EndShards(), m.dir.Settled(false)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := shards(t)
			want := whole.merged()
			k := shards(t)
			m := &merger{Options: Options{Dir: k.dir, Keyring: k.keys, Notice: func(string) {}}}
			k.check(until(m), m.dir.Close())
			res := k.merged()
			if got := k.said(true); !slices.Equal(got, whole.said(true)) || !reflect.DeepEqual(res.Summary, want.Summary) {
				t.Errorf("%q, %+v", got, res)
			}
			is, err := os.ReadDir(k.dir)
			k.check(err)
			if _, err := os.Stat(filepath.Join(k.dir, "shards")); err == nil || len(is) != 7 {
				t.Errorf("left behind: %v", is)
			}
			man, _, err := record.ReadManifest(os.DirFS(k.dir))
			k.check(err)
			if parts := man.Shards.Parts; len(parts) != 4 || parts[1].Superseded != 8 || parts[2].Kept != 8 || !slices.Equal(man.Labels, []string{record.OneTrustZone}) || len(man.ResumedFrom) != 0 {
				t.Errorf("%+v, %q", man.Shards, man.Labels)
			}
		})
	}
}
