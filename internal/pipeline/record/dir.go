package record

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"securebench/internal/digest"
	"securebench/internal/durable"
	"securebench/internal/source"
)

// The names of files and folders in an output directory.
const (
	LinesName      = "candidates.jsonl"
	ManifestName   = "run.json"
	StatementName  = "statement.dsse.json"
	CandidatesName = "candidates"
	RestrictedName = "restricted"
	HistoryName    = "history"
	ShardsName     = "shards"
	TraceName      = "agent-trace.log"
	LockName       = "run.lock"
	SaltName       = RestrictedName + "/salt"
	PackName       = RestrictedName + "/pack.json"
	ConfigName     = RestrictedName + "/config.json"
	IndexName      = HistoryName + "/index.json"
)

// ReservedNames returns the names in the restricted folder that a task's
// folder may not have.
func ReservedNames() []string {
	var out []string
	for _, name := range []string{SaltName, PackName, ConfigName, CapturedName, AnswersName, SpentName, GrantsName, ControlName} {
		out = append(out, path.Base(name), path.Base(durable.TempName(name)))
	}
	return out
}

var (
	// ErrExists is returned by [Dir.Begin] when the directory holds a run.
	ErrExists = errors.New("the output directory already holds a run")
	// ErrForeign is returned by [Dir.Foreign].
	ErrForeign = errors.New("not part of a run")
)

// Dir is the output directory of a run in progress, locked against other
// processes. It is safe for concurrent use once [Dir.Begin] or [Dir.Continue]
// has returned.
type Dir struct {
	path string
	root *os.Root
	lock locks
	salt digest.Salt
	// saltFile identifies the salt's file: if it is gone, so is restricted/.
	saltFile fs.FileInfo
	shard    bool // it is a shard's folder

	mu       sync.Mutex
	lines    *os.File
	size     int64
	link     link // of the next line
	captured journal
	accounts *Accounts            // nil keeps none
	waiting  map[AttemptKey]*Line // with a record, to be verified in a later part of the run
	flusher  durable.Flusher
	// broken is the error after which nothing can be appended.
	broken error
}

// Open creates and locks the output directory at dir. The error is
// [ErrHeld] if another process uses it.
func Open(dir string) (*Dir, error) {
	return open(dir, durable.TryLockSoon)
}

func open(dir string, try func(*os.File) error) (*Dir, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("resolving the output directory: %w", err)
	}
	if err := os.MkdirAll(abs, 0o755); err != nil {
		return nil, fmt.Errorf("creating the output directory: %w", err)
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("opening the output directory: %w", err)
	}
	lock, err := lockDir(root, try)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	if info, err := root.Lstat(ControlName); err == nil && IsControl(ControlName, info.Mode().Type()) {
		err = root.Remove(ControlName) // who listened there is gone: the lock was free
		if err != nil {
			return nil, errors.Join(fmt.Errorf("removing the socket of a run that is gone: %w", err), lock.close(), root.Close())
		}
	}
	return &Dir{path: abs, root: root, lock: lock, link: link{prev: Genesis}, captured: journal{link: link{prev: Genesis}}, waiting: map[AttemptKey]*Line{}}, nil
}

// Begin starts a new run in the directory. If it already contains a run, that
// run is moved to history/ with force; otherwise the error is ErrExists.
func (d *Dir) Begin(force bool) error {
	// The manifest is moved first: an interruption then leaves a run without a
	// manifest, which cannot be mistaken for an empty directory.
	old, err := d.present(ManifestName, StatementName, LinesName, CandidatesName, RestrictedName, ShardsName, TraceName)
	if err != nil {
		return err
	}
	if len(old) > 0 && !force {
		return ErrExists
	}
	if err := d.Tidy(); err != nil {
		return err
	}
	if len(old) > 0 {
		to, err := d.newHistory()
		if err != nil {
			return err
		}
		if err := d.moveAll(old, to); err != nil {
			return err
		}
	}
	salt, err := digest.NewSalt()
	if err != nil {
		return err
	}
	return d.start(salt)
}

// start makes what a run begins with.
func (d *Dir) start(salt digest.Salt) error {
	if err := d.makeFolders(); err != nil {
		return err
	}
	d.salt = salt
	if err := d.replaceFile(SaltName, d.salt[:], 0o600); err != nil {
		return err
	}
	return d.openLines()
}

// Whole reports an error if the run's salt is gone from the directory, and
// with it the content of restricted/: without it nothing can be recorded,
// signed or resumed.
func (d *Dir) Whole() error {
	info, err := d.root.Lstat(SaltName)
	if err == nil && os.SameFile(info, d.saltFile) {
		return nil
	}
	if _, err := ReadSalt(d.FS(), d.SaltDigest()); err == nil {
		return nil // it was restored
	}
	return fmt.Errorf("%w: %s was removed from the output directory or replaced", ErrIntegrity, SaltName)
}

// present returns the names that exist.
func (d *Dir) present(names ...string) (there []string, err error) {
	for _, name := range names {
		if _, err := d.root.Lstat(name); err == nil {
			there = append(there, name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("reading the output directory: %w", err)
		}
	}
	return there, nil
}

// Tidy removes the unfinished files of a killed writer and empty folders of
// history/ and restricted/.
func (d *Dir) Tidy() error {
	for _, name := range []string{LinesName, ManifestName, StatementName, IndexName, CapturedName} {
		tmp := durable.TempName(name)
		if err := d.root.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the unfinished %s: %w", tmp, err)
		}
	}
	unfinished, err := fs.Glob(d.FS(), path.Join(ShardsName, durable.TempPrefix+"*"))
	for _, name := range unfinished {
		err = errors.Join(err, d.root.RemoveAll(name))
	}
	if err != nil {
		return fmt.Errorf("removing unfinished copies of shards: %w", err)
	}
	for _, top := range []string{HistoryName, RestrictedName} {
		if err := d.removeEmpty(top); err != nil {
			return fmt.Errorf("looking for empty folders: %w", err)
		}
	}
	return nil
}

// removeEmpty removes the folders below one that have no file, and [HistoryName] itself.
func (d *Dir) removeEmpty(top string) error {
	type folder struct {
		name  string
		above int // the place of the one above it
		full  bool
	}
	var all []folder
	at := -1 // the folder whose content is being visited
	err := source.WalkDir(d.FS(), top, func(name string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		for at >= 0 && all[at].name != path.Dir(name) {
			at = all[at].above
		}
		if e.IsDir() {
			all = append(all, folder{name, at, name == RestrictedName})
			at = len(all) - 1
		} else if at >= 0 {
			all[at].full = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := len(all) - 1; i >= 0; i-- {
		f := all[i]
		if f.full || d.root.Remove(f.name) != nil { // something may have come into it
			if f.above >= 0 {
				all[f.above].full = true
			}
		}
	}
	return nil
}

func (d *Dir) makeFolders() error {
	for name, mode := range map[string]fs.FileMode{CandidatesName: 0o755, RestrictedName: 0o700} {
		if err := d.root.MkdirAll(name, mode); err != nil {
			return fmt.Errorf("creating the output directory: %w", err)
		}
	}
	return nil
}

// openLines opens the records for appending.
func (d *Dir) openLines() error {
	f, err := source.OpenIn(d.root, LinesName, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("opening the records: %w", err)
	}
	d.lines = f
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("opening %s: %w", LinesName, err)
	}
	d.size = info.Size()
	if d.saltFile, err = d.root.Lstat(SaltName); err != nil {
		return fmt.Errorf("looking for the salt: %w", err)
	}
	return errors.Join(d.sync(RestrictedName), d.sync("."))
}

// newHistory creates a new folder below history/.
func (d *Dir) newHistory() (string, error) {
	to := path.Join(HistoryName, time.Now().UTC().Format("20060102T150405.000000000Z"))
	if err := d.root.MkdirAll(to, 0o700); err != nil {
		return "", fmt.Errorf("creating %s: %w", to, err)
	}
	return to, nil
}

// moveAll moves names to a folder and keeps their paths.
func (d *Dir) moveAll(names []string, to string) error {
	for _, name := range names {
		if err := d.move(name, to); err != nil {
			return fmt.Errorf("moving %s to %s: %w", name, to, err)
		}
	}
	return d.sync(to)
}

// move moves one, also to another file system. The caller flushes.
func (d *Dir) move(name, to string) error {
	target := path.Join(to, name)
	if err := d.root.MkdirAll(path.Dir(target), 0o700); err != nil {
		return err
	}
	err := d.root.Rename(name, target)
	if errors.Is(err, syscall.EXDEV) {
		if err = d.keepCopy(name, target); err == nil {
			err = d.root.Remove(name)
		}
	}
	return err
}

// FormerRuns counts the runs in history/ that are not earlier states of this
// one.
func (d *Dir) FormerRuns() (int, error) {
	manifests, err := fs.Glob(d.FS(), HistoryName+"/*/"+ManifestName)
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", HistoryName, err)
	}
	seen := map[string]bool{}
	for _, name := range manifests {
		sub, err := fs.Sub(d.FS(), path.Dir(name))
		if err != nil {
			return 0, fmt.Errorf("reading %s: %w", HistoryName, err)
		}
		m, _, err := ReadManifest(sub)
		if err != nil {
			m.SaltDigest = name // it still counts as a run
		}
		seen[m.SaltDigest] = true
	}
	delete(seen, d.SaltDigest())
	return len(seen), nil
}

// FS returns the content of the directory.
func (d *Dir) FS() fs.FS { return source.FS(d.root) }

// Tail returns the number of lines that this process kept or wrote, and the
// digest of the last one.
func (d *Dir) Tail() (lines int64, last string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.link.seq, d.link.prev
}

// WriteStatement stores the run's signed statement.
func (d *Dir) WriteStatement(b []byte) error { return d.replaceFile(StatementName, b, 0o644) }

// WriteIndex stores the index of history/.
func (d *Dir) WriteIndex(b []byte) error { return d.replaceFile(IndexName, b, 0o600) }

// Path returns the absolute path of the directory.
func (d *Dir) Path() string { return d.path }

// LinesPath returns the absolute path of the records.
func (d *Dir) LinesPath() string { return filepath.Join(d.path, LinesName) }

// StorePath returns the absolute path of the candidate store.
func (d *Dir) StorePath() string { return filepath.Join(d.path, CandidatesName) }

// Salt returns the run's salt, which keys the digests of values that must not
// be guessable.
func (d *Dir) Salt() digest.Salt { return d.salt }

// SaltDigest returns the plain digest of the salt, for the run manifest.
func (d *Dir) SaltDigest() string { return digest.Bytes(d.salt[:]) }

// WriteManifest sets the MAC of m and writes it to run.json as canonical JSON.
func (d *Dir) WriteManifest(m *Manifest) error {
	if err := m.sign(d.salt); err != nil {
		return err
	}
	b, err := m.Bytes()
	if err != nil {
		return err
	}
	return d.replaceFile(ManifestName, b, 0o644)
}

// Restrict stores raw output below restricted/ and returns the record's
// reference to it, and the flush that must have ended before the record is written.
// The digest is keyed: raw verifier output can contain hidden values.
func (d *Dir) Restrict(taskID, name string, data []byte) (RawFile, *durable.Flush, error) {
	full := path.Join(RestrictedName, name)
	if !fs.ValidPath(name) || name == "." {
		return RawFile{}, nil, fmt.Errorf("storing raw output: %q is not a path below %s", name, RestrictedName)
	}
	if err := d.Whole(); err != nil { // the folder is not to be made again
		return RawFile{}, nil, err
	}
	if err := d.root.MkdirAll(path.Dir(full), 0o700); err != nil {
		return RawFile{}, nil, fmt.Errorf("storing raw output: %w", err)
	}
	flush, err := durable.WriteLater(&d.flusher, d.root, full, data, 0o600)
	if err != nil {
		return RawFile{}, nil, fmt.Errorf("storing raw output: %w", err)
	}
	return RawFile{Path: full, Bytes: int64(len(data)), Digest: d.salt.Keyed("restricted", taskID, data)}, flush, nil
}

// WritePack stores the plain digests of the pack, which only the operator may
// see.
func (d *Dir) WritePack(p PackDigests) error {
	b, err := digest.Canonical(p)
	if err != nil {
		return err
	}
	return d.replaceFile(PackName, append(b, '\n'), 0o600)
}

// WriteConfig stores b, the canonical JSON of the configuration whose digest
// run.json contains.
func (d *Dir) WriteConfig(b []byte) error { return d.replaceFile(ConfigName, b, 0o600) }

// Answers opens [AnswersName] for reading and appending.
func (d *Dir) Answers() (*os.File, error) {
	f, err := source.OpenIn(d.root, AnswersName, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", AnswersName, err)
	}
	return f, nil
}

// Grants opens [GrantsName] for reading and appending.
func (d *Dir) Grants() (*os.File, error) {
	f, err := source.OpenIn(d.root, GrantsName, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", GrantsName, err)
	}
	return f, nil
}

// Trace opens agent-trace.log for appending.
func (d *Dir) Trace() (io.WriteCloser, error) {
	f, err := source.OpenIn(d.root, TraceName, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the trace: %w", err)
	}
	return f, nil
}

// Close waits until what was written is on disk, and releases the directory and its
// lock.
func (d *Dir) Close() error {
	d.flusher.Wait()
	var errs []error
	if d.lines != nil {
		errs = append(errs, d.lines.Close())
	}
	errs = append(errs, d.captured.close(), d.accounts.close())
	return errors.Join(append(errs, d.lock.close(), d.root.Close())...)
}

// replaceFile writes a file atomically: after a crash the new content is
// complete or absent.
func (d *Dir) replaceFile(name string, data []byte, mode fs.FileMode) error {
	if err := durable.WriteFile(d.root, name, data, mode); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// sync makes new names in a directory durable.
func (d *Dir) sync(name string) error {
	if err := durable.SyncDir(d.root, name); err != nil {
		return fmt.Errorf("flushing the output directory: %w", err)
	}
	return nil
}
