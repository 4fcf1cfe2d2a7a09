package record

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/durable"
	"securebench/internal/source"
)

// OpenShared opens the directory of a run for one of its shards. Others can do so at
// the same time; the error is [ErrHeld] if a process has it for itself.
func OpenShared(dir string) (*Dir, error) { return open(dir, durable.TryShare) }

// NewShard makes the folder of a shard with the first number that no other runner of it
// has, or had when it was merged: making it is the fence between them. The shard has
// the salt of its run, and is locked.
func (d *Dir) NewShard(index int, merged []Part) (_ *Dir, s Shard, err error) {
	s = Shard{Index: index, Restart: 1}
	for _, p := range merged {
		if p.Index == index {
			s.Restart = max(s.Restart, p.Restart+1)
		}
	}
	err = d.root.MkdirAll(ShardsName, 0o755)
	if err == nil {
		for err = d.root.Mkdir(s.Path(), 0o755); errors.Is(err, fs.ErrExist); err = d.root.Mkdir(s.Path(), 0o755) {
			s.Restart++
		}
	}
	if err != nil {
		return nil, s, fmt.Errorf("making the folder of a shard: %w", err)
	}
	part, err := Open(filepath.Join(d.path, s.Path()))
	if err != nil {
		return nil, s, err
	}
	part.shard = true
	if err := errors.Join(part.start(d.salt), d.sync(ShardsName), d.sync(".")); err != nil {
		return nil, s, errors.Join(err, part.Close())
	}
	return part, s, nil
}

// Shards lists the folders of shards, in order.
func (d *Dir) Shards() (out []Shard, err error) {
	entries, err := fs.ReadDir(d.FS(), ShardsName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", ShardsName, err)
	}
	for _, e := range entries {
		if s, ok := parseShard(e.Name()); ok && e.IsDir() {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, Shard.InOrder)
	return out, nil
}

// ShardFolder is the folder of a shard, opened for reading: nothing that leads out of it is
// followed.
type ShardFolder struct{ *Dir }

// OpenShard opens the folder of a shard.
func (d *Dir) OpenShard(s Shard) (ShardFolder, error) {
	root, err := d.root.OpenRoot(s.Path())
	if err != nil {
		return ShardFolder{}, fmt.Errorf("opening %s: %w", s.Path(), err)
	}
	return ShardFolder{&Dir{path: filepath.Join(d.path, s.Path()), root: root, salt: d.salt}}, nil
}

// Close releases the folder.
func (f ShardFolder) Close() error { return f.root.Close() }

// ErrOtherRun is returned by [ShardFolder.Former] for a shard of another run.
var ErrOtherRun = errors.New("it is of another run")

// Former reads what the shard has; nil is nothing. Its salt must be that of its run,
// and may be gone.
func (f ShardFolder) Former() (*Former, error) {
	return f.former(func(m Manifest) (digest.Salt, error) {
		if m.SaltDigest != f.SaltDigest() {
			return f.salt, ErrOtherRun
		}
		return f.salt, nil
	})
}

// Held reports whether a process has the folder locked.
func (f ShardFolder) Held() (bool, error) {
	dir, err := f.root.Open(".")
	if err != nil {
		return false, fmt.Errorf("looking for a lock: %w", err)
	}
	held, err := durable.Held(dir)
	return held, errors.Join(err, dir.Close())
}

// Fence takes the salt away from the shard, so that a runner that was given up writes no
// record any more.
func (f ShardFolder) Fence() error {
	if err := f.root.Remove(SaltName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("ending the shard: %w", err)
	}
	return nil
}

// Open opens a file of the shard.
func (f ShardFolder) Open(name string) (*os.File, error) {
	return source.OpenIn(f.root, name, os.O_RDONLY, 0)
}

// Stored checks a candidate of the earlier part, once for all attempts that left it.
func (f *Former) Stored(sum string) error {
	if f.sound[sum] {
		return nil
	}
	name, err := CandidatePath(sum)
	if err != nil {
		return err
	}
	_, err = candidate.Check(func() (io.ReadCloser, error) { return source.OpenIn(f.dir.root, name, os.O_RDONLY, 0) }, sum, io.Discard)
	if err == nil {
		if f.sound == nil {
			f.sound = map[string]bool{}
		}
		f.sound[sum] = true
	}
	return err
}

// ErrNoShard is returned by [Dir.Import] for another folder.
var ErrNoShard = errors.New("it is not the folder of a shard")

// ErrRunning is returned for a shard that still runs.
var ErrRunning = errors.New("it is still running")

// Import copies the folder of a shard from elsewhere to its place. One that is there
// already, or was merged, must have the same records.
func (d *Dir) Import(dir string, merged []Part) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("opening the shard: %w", err)
	}
	from := ShardFolder{&Dir{path: dir, root: root, salt: d.salt}}
	defer func() { err = errors.Join(err, from.Close()) }()
	f, err := from.Former()
	if err == nil && (f == nil || f.Manifest.Shard == nil) {
		err = ErrNoShard
	}
	if err != nil {
		return err
	}
	if held, err := from.Held(); err != nil || held {
		return errors.Join(err, ErrRunning)
	}
	s := Shard{Index: f.Manifest.Shard.Index, Restart: f.Manifest.Shard.Restart}
	if there, err := d.knows(s, f.Records, merged); there || err != nil {
		return err
	}
	if err := from.Foreign(); err != nil {
		return err
	}
	temp := path.Join(ShardsName, durable.TempPrefix+s.String())
	if err := d.root.RemoveAll(temp); err != nil {
		return fmt.Errorf("removing the unfinished %s: %w", temp, err)
	}
	if err := d.copyAll(from, temp); err != nil {
		return fmt.Errorf("copying the shard: %w", err)
	}
	if err := errors.Join(durable.SyncAll(d.root), d.root.Rename(temp, s.Path())); err != nil {
		return fmt.Errorf("copying the shard: %w", err)
	}
	return nil
}

// ErrTwoShards is returned by [Dir.Import] if another runner of the shard had the same
// number.
var ErrTwoShards = errors.New("there is another folder of that name, with other records")

// knows reports whether a shard with these records is there, or was merged.
func (d *Dir) knows(s Shard, records string, merged []Part) (bool, error) {
	_, err := d.root.Lstat(s.Path())
	i := slices.IndexFunc(merged, func(p Part) bool { return p.Shard() == s })
	var sum string
	switch {
	case err == nil:
		sum, err = d.fileDigest(path.Join(s.Path(), LinesName))
	case i >= 0:
		sum, err = merged[i].Lines, nil
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	}
	if err == nil && sum != records {
		err = fmt.Errorf("%s: %w", s.Path(), ErrTwoShards)
	}
	return err == nil, err
}

// copyAll copies a shard's files below a new folder, without its salt, its lock and the
// socket of a runner that was killed.
func (d *Dir) copyAll(from ShardFolder, to string) error {
	return fs.WalkDir(from.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil || name == SaltName || name == LockName || name == ControlName:
			return err
		case e.IsDir():
			return d.root.MkdirAll(path.Join(to, name), 0o755)
		}
		in, err := from.Open(name)
		if err != nil {
			return err
		}
		return errors.Join(d.copyFrom(in, path.Join(to, name)), in.Close())
	})
}

// copyFrom makes a file with the content of an open one. The caller flushes it.
func (d *Dir) copyFrom(in *os.File, name string) error {
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := d.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode().Perm()&0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// Adopt gives the directory a file of a shard: linked, or copied where that is not
// possible. A file that is in the way and differs goes to a folder of history/.
func (d *Dir) Adopt(from ShardFolder, name, aside string) error {
	in, err := from.Open(name)
	if err != nil {
		return err
	}
	defer in.Close()
	err = durable.LinkOpen(in, d.root, name)
	if errors.Is(err, fs.ErrNotExist) {
		err = d.root.MkdirAll(path.Dir(name), 0o700)
		if err == nil {
			err = durable.LinkOpen(in, d.root, name)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		var same bool
		if same, err = d.holds(in, name); same || err != nil {
			return err
		}
		if err := d.move(name, aside); err != nil {
			return err
		}
		err = durable.LinkOpen(in, d.root, name)
	}
	if err == nil {
		return nil
	}
	temp := durable.UniqueName(path.Dir(name))
	if err := d.copyFrom(in, temp); err != nil {
		return err
	}
	return d.root.Rename(temp, name)
}

// holds reports whether a file has the content of an open one.
func (d *Dir) holds(in *os.File, name string) (bool, error) {
	here, err := d.root.Lstat(name)
	there, other := in.Stat()
	if err = errors.Join(err, other); err != nil || os.SameFile(here, there) {
		return err == nil, err
	}
	if here.Size() != there.Size() || !here.Mode().IsRegular() {
		return false, nil
	}
	a, err := digest.File(d.FS(), name)
	b, _, other := digest.Reader(in)
	if err = errors.Join(err, other); err == nil {
		_, err = in.Seek(0, io.SeekStart)
	}
	return a == b, err
}

// NewHistory makes a folder below history/, for what a change of the run puts aside.
func (d *Dir) NewHistory() (string, error) { return d.newHistory() }

// Merge is what the records of a run become.
type Merge struct {
	// Each calls a function with every record, in order.
	Each func(yield func(*Line) error) error
	// Named are the files that these records name, when Each has returned, and those of
	// the attempts that wait to be verified.
	Named   map[string]bool
	Waiting map[AttemptKey]*Line
	Aside   string // the folder of history/ for what was there
}

// Merge replaces the records, chained again, and the manifest. If it is interrupted, it
// can be repeated.
func (d *Dir) Merge(g Merge, m *Manifest) error {
	if err := d.setAside(g.Aside); err != nil {
		return err
	}
	lines, err := d.rewrite(g.Each)
	if err != nil {
		return err
	}
	d.waiting = g.Waiting
	return d.replace(lines, g.Named, g.Waiting, g.Aside, m)
}

// Archive moves what is left of a shard to a folder of history/. What a runner that was
// given up still has open is copied, and its folders are removed: it can write nowhere.
func (d *Dir) Archive(s Shard, to string) error {
	err := d.archiveFolder(d.root, d.root, s, s.Path(), ".", to)
	if err != nil {
		return fmt.Errorf("moving %s to %s: %w", s.Path(), to, err)
	}
	return d.sync(HistoryName)
}

// archiveFolder moves what is in a folder of a shard, which name names below parent, and
// removes it. own is its name in the shard, and here the folder of the run that is above
// the one with that name, nil if there is none.
func (d *Dir) archiveFolder(parent, here *os.Root, s Shard, name, own, to string) error {
	folder, err := parent.OpenRoot(name)
	if err != nil {
		return err
	}
	defer folder.Close()
	if here != nil {
		if here, err = here.OpenRoot(path.Base(own)); err != nil {
			here = nil // everything is moved
		} else {
			defer here.Close()
		}
	}
	entries, err := fs.ReadDir(folder.FS(), ".")
	for _, e := range entries {
		below := path.Join(own, e.Name())
		switch {
		case err != nil:
		case e.IsDir():
			err = d.archiveFolder(folder, here, s, e.Name(), below, to)
		case here != nil && sameFile(folder, here, e.Name()):
			err = folder.Remove(e.Name()) // the run has it
		default:
			err = d.archive(path.Join(s.Path(), below), below, to)
		}
	}
	if err != nil {
		return err
	}
	return parent.Remove(name)
}

// sameFile reports whether two folders have one file under a name.
func sameFile(a, b *os.Root, name string) bool {
	is, err := a.Lstat(name)
	other, bad := b.Lstat(name)
	return err == nil && bad == nil && os.SameFile(is, other)
}

// archive moves one file of a shard, unless the run has it.
func (d *Dir) archive(name, own, to string) error {
	switch own {
	case SaltName, LockName, ControlName:
		return d.root.Remove(name)
	case LinesName, CapturedName, AnswersName, SpentName, TraceName:
		if err := d.keepCopy(name, path.Join(to, name)); err != nil {
			return err
		}
		return d.root.Remove(name)
	}
	here, err := d.root.Lstat(own)
	if errors.Is(err, fs.ErrNotExist) {
		return d.move(name, to)
	}
	there, other := d.root.Lstat(name)
	switch {
	case err != nil || other != nil:
		return errors.Join(err, other)
	case os.SameFile(here, there):
		return d.root.Remove(name)
	}
	in, err := source.OpenIn(d.root, name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	same, err := d.holds(in, own)
	switch err = errors.Join(err, in.Close()); {
	case err != nil:
		return err
	case same:
		return d.root.Remove(name)
	}
	return d.move(name, to)
}

// EndShards removes the folder of shards, if none is left.
func (d *Dir) EndShards() error {
	if err := d.root.Remove(ShardsName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing %s: %w", ShardsName, err)
	}
	return nil
}

// Inherit adds to [AnswersName] or [SpentName] of a shard that begins what the latest
// runner that has the file noted there, so that nothing is paid twice: each took over what
// the one before it had. It reports whether one has it. keep, unless nil, chooses the attempts.
func (d *Dir) Inherit(name string, keep func(AttemptKey) bool, latestFirst ...ShardFolder) (found bool, err error) {
	for _, from := range latestFirst {
		in, err := from.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = errors.Join(d.appendLines(in, name, keep), in.Close())
		}
		if err != nil {
			return false, fmt.Errorf("taking over %s: %w", name, err)
		}
		return true, nil
	}
	return false, nil
}

// appendLines adds the whole lines of a file to another.
func (d *Dir) appendLines(in io.Reader, name string, keep func(AttemptKey) bool) error {
	out, err := source.OpenIn(d.root, name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	for raw, err := range Lines(in) {
		if err != nil {
			return err
		}
		if raw.Torn || keep != nil && !keep(spentBy(raw.Bytes)) {
			continue
		}
		if _, err := out.Write(append(raw.Bytes, '\n')); err != nil {
			return err
		}
	}
	return out.Sync()
}

// Await makes attempts wait to be verified of which an earlier runner of the shard stored
// the candidates.
func (d *Dir) Await(waiting map[AttemptKey]*Line) error {
	if err := durable.SyncAll(d.root); err != nil {
		return fmt.Errorf("flushing the output directory: %w", err)
	}
	return d.rewriteCaptured(waiting)
}
