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
	"time"

	"securebench/internal/digest"
)

// The names inside an output directory.
const (
	LinesName      = "candidates.jsonl"
	ManifestName   = "run.json"
	CandidatesName = "candidates"
	RestrictedName = "restricted"
	HistoryName    = "history"
	TraceName      = "agent-trace.log"
	saltName       = RestrictedName + "/salt"
)

// ErrExists is returned by [Create] when the directory holds a run already.
var ErrExists = errors.New("the output directory holds a run already")

// Dir is the output directory of a run that is being written.
// It is safe for concurrent use.
type Dir struct {
	path string
	root *os.Root
	salt digest.Salt

	mu    sync.Mutex
	lines *os.File
	size  int64
	seq   int64
	prev  string
}

// Create makes the output directory of a new run. Where it holds a run, force
// moves that one to history/ and ErrExists is the answer otherwise.
func Create(dir string, force bool) (*Dir, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("resolving the output directory: %w", err)
	}
	if err := os.MkdirAll(abs, 0o755); err != nil {
		return nil, fmt.Errorf("making the output directory: %w", err)
	}
	root, err := os.OpenRoot(abs)
	if err != nil {
		return nil, fmt.Errorf("opening the output directory: %w", err)
	}
	d := &Dir{path: abs, root: root, prev: Genesis}
	if err := d.begin(force); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return d, nil
}

func (d *Dir) begin(force bool) error {
	if err := d.clear(force); err != nil {
		return err
	}
	for name, mode := range map[string]fs.FileMode{CandidatesName: 0o755, RestrictedName: 0o700} {
		if err := d.root.MkdirAll(name, mode); err != nil {
			return fmt.Errorf("making the output directory: %w", err)
		}
	}
	var err error
	if d.salt, err = digest.NewSalt(); err != nil {
		return err
	}
	if err = d.writeFile(saltName, d.salt[:], 0o600); err != nil {
		return fmt.Errorf("writing the run's salt: %w", err)
	}
	f, err := d.root.OpenFile(LinesName, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("making %s: %w", LinesName, err)
	}
	d.lines = f
	return errors.Join(d.sync(RestrictedName), d.sync("."))
}

// clear moves a former run out of the way, or refuses.
func (d *Dir) clear(force bool) error {
	var old []string
	for _, name := range []string{LinesName, ManifestName, CandidatesName, RestrictedName, TraceName} {
		if _, err := d.root.Lstat(name); err == nil {
			old = append(old, name)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("looking into the output directory: %w", err)
		}
	}
	if len(old) == 0 {
		return nil
	}
	if !force {
		return ErrExists
	}
	to := path.Join(HistoryName, time.Now().UTC().Format("20060102T150405.000000000Z"))
	if err := d.root.MkdirAll(to, 0o700); err != nil {
		return fmt.Errorf("making %s: %w", to, err)
	}
	for _, name := range old {
		if err := d.root.Rename(name, path.Join(to, name)); err != nil {
			return fmt.Errorf("moving %s to %s: %w", name, to, err)
		}
	}
	return nil
}

// Path is the absolute path of the directory.
func (d *Dir) Path() string { return d.path }

// LinesPath is the absolute path of the records.
func (d *Dir) LinesPath() string { return filepath.Join(d.path, LinesName) }

// StorePath is the absolute path of the candidate store.
func (d *Dir) StorePath() string { return filepath.Join(d.path, CandidatesName) }

// Salt keys the digests of values that must not be guessable.
func (d *Dir) Salt() digest.Salt { return d.salt }

// SaltDigest is the salt's own plain digest, for the run manifest.
func (d *Dir) SaltDigest() string { return digest.Bytes(d.salt[:]) }

// WriteManifest writes run.json as canonical JSON.
func (d *Dir) WriteManifest(v any) error {
	b, err := digest.Canonical(v)
	if err != nil {
		return err
	}
	if err := d.writeFile(ManifestName, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", ManifestName, err)
	}
	return d.sync(".")
}

// Append writes one line at the end of the chain. The line is on disk when
// Append returns; only then may it be announced.
func (d *Dir) Append(l *Line) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	b, err := l.marshal(d.seq, d.prev)
	if err != nil {
		return err
	}
	n, err := d.lines.Write(append(b, '\n'))
	if err == nil {
		err = d.lines.Sync()
	}
	if err != nil {
		// Half a line, as a full disk leaves it, must not be built upon.
		return fmt.Errorf("writing %s: %w", LinesName, errors.Join(err, d.lines.Truncate(d.size)))
	}
	d.size += int64(n)
	d.seq++
	d.prev = lineDigest(b)
	return nil
}

// Restrict stores raw output at path below restricted/ and returns what a
// record says of it. The digest is keyed: raw verifier output can hold hidden
// values.
func (d *Dir) Restrict(taskID, name string, data []byte) (RawFile, error) {
	full := path.Join(RestrictedName, name)
	if err := d.root.MkdirAll(path.Dir(full), 0o700); err != nil {
		return RawFile{}, fmt.Errorf("storing raw output: %w", err)
	}
	if err := d.writeFile(full, data, 0o600); err != nil {
		return RawFile{}, fmt.Errorf("storing raw output: %w", err)
	}
	if err := d.sync(path.Dir(full)); err != nil {
		return RawFile{}, err
	}
	return RawFile{Path: full, Bytes: int64(len(data)), Digest: d.salt.Keyed("restricted", taskID, data)}, nil
}

// WriteRestricted stores v as canonical JSON in restricted/, where plain
// digests of hidden data may lie.
func (d *Dir) WriteRestricted(name string, v any) error {
	b, err := digest.Canonical(v)
	if err != nil {
		return err
	}
	if err := d.writeFile(path.Join(RestrictedName, name), append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing %s/%s: %w", RestrictedName, name, err)
	}
	return d.sync(RestrictedName)
}

// Trace makes agent-trace.log anew.
func (d *Dir) Trace() (io.WriteCloser, error) {
	f, err := d.root.OpenFile(TraceName, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("making %s: %w", TraceName, err)
	}
	return f, nil
}

// Close releases the directory. The records stay.
func (d *Dir) Close() error { return errors.Join(d.lines.Close(), d.root.Close()) }

func (d *Dir) writeFile(name string, data []byte, mode fs.FileMode) error {
	f, err := d.root.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// sync makes new names in a directory durable.
func (d *Dir) sync(name string) error {
	f, err := d.root.Open(name)
	if err != nil {
		return fmt.Errorf("flushing the output directory: %w", err)
	}
	return errors.Join(f.Sync(), f.Close())
}
