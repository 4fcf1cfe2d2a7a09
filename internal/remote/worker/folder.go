package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sys/unix"

	"securebench/internal/candidate"
	"securebench/internal/durable"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/remote"
	"securebench/internal/source"
)

// The names in the cache. Each session has a folder, which is locked as long as its
// process lives.
const (
	cacheLock     = "lock"
	sessionPrefix = "session-"
	ownerName     = "owner.json"
	resultsDir    = "results"
	candidatesDir = "candidates"
	publicDir     = "public"
	evalDir       = "eval"
)

// kept is how long results stay in the cache of a run that does not come back.
const kept = 14 * 24 * time.Hour

// owner says whose a session's folder is. It can be encoded.
type owner struct {
	Who   string `json:"who"`   // the worker's name and instance
	Token string `json:"token"` // of the run
}

// result is what came of a job, as it is kept until the hub has answered. It can be
// encoded.
type result struct {
	remote.Held
	Value     jsontext.Value       `json:"value"`              // an encoded [remote.Outcome]
	Candidate *candidate.Candidate `json:"candidate,omitzero"` // which the hub has to have before
}

// name is the name of its file. A job that was given to the worker again has another.
func (r result) name() string { return path.Join(resultsDir, fmt.Sprintf("%s-%d.json", r.ID, r.Grant)) }

// folder is what a session has on disk. Results and their candidates outlive its process,
// so that another one can offer them.
type folder struct {
	owner
	dir  string
	root *os.Root
	lock *durable.Locked
}

// openCache locks the cache. The caller closes both.
func openCache(ctx context.Context, dir string) (*os.Root, *durable.Locked, error) {
	cache, err := durable.OpenFolder(dir, 0o700)
	if err != nil {
		return nil, nil, fmt.Errorf("making the cache: %w", err)
	}
	lock, err := durable.WaitIn(ctx, cache, cacheLock)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("locking the cache: %w", err), cache.Close())
	}
	return cache, lock, nil
}

// newFolder makes the folder of a session. It also returns those that workers with the
// same name have left, of the same run: their processes have ended. What is left of
// others is removed, except results that their runs may still want.
func newFolder(ctx context.Context, cacheDir string, o owner) (_ *folder, left []*folder, err error) {
	cache, lock, err := openCache(ctx, cacheDir)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, lock.Close(), cache.Close()) }()
	names, err := fs.Glob(cache.FS(), sessionPrefix+"*")
	if err != nil {
		return nil, nil, fmt.Errorf("reading the cache: %w", err)
	}
	for _, name := range names {
		f, err := openFolder(cacheDir, name)
		if err != nil {
			continue // another process has it, or removes it
		}
		if f.sort(o) {
			left = append(left, f)
		}
	}
	dir, err := os.MkdirTemp(cacheDir, sessionPrefix)
	if err != nil {
		return nil, left, fmt.Errorf("making a folder in the cache: %w", err)
	}
	f, err := openFolder(cacheDir, filepath.Base(dir))
	if err != nil {
		return nil, left, fmt.Errorf("making a folder in the cache: %w", err)
	}
	f.owner = o
	b, err := attempt.Encode(o)
	if err == nil {
		err = errors.Join(f.write(ownerName, b), f.root.Mkdir(resultsDir, 0o700), f.root.Mkdir(candidatesDir, 0o700))
	}
	if err != nil {
		return nil, left, errors.Join(fmt.Errorf("making a folder in the cache: %w", err), f.close(true))
	}
	return f, left, nil
}

// openFolder opens and locks a session's folder. The error is [durable.ErrLocked] if its
// process lives.
func openFolder(cache, name string) (*folder, error) {
	dir := filepath.Join(cache, name)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	lock, err := durable.LockIn(root, ".", os.O_RDONLY, unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return &folder{dir: dir, root: root, lock: lock}, nil
}

// sort looks at a folder whose process has ended, and reports whether the worker that
// starts has to care for it. All others are closed.
func (f *folder) sort(o owner) bool {
	b, err := source.ReadFile(filepath.Join(f.dir, ownerName), 1<<10)
	if err == nil {
		err = attempt.Decode(b, &f.owner)
	}
	info, old := fs.FileInfo(nil), false
	if err == nil {
		info, err = f.root.Stat(ownerName)
	}
	if err == nil {
		old = time.Now().After(info.ModTime().Add(kept))
	}
	if err != nil || old {
		_ = f.close(true) // the next start tries again
		return false
	}
	name, _, _ := strings.Cut(o.Who, ".")
	theirs, _, _ := strings.Cut(f.Who, ".")
	if name == theirs && o.Token == f.Token {
		return true
	}
	_ = f.close(false)
	return false
}

// write writes a file that is whole if it is there.
func (f *folder) write(name string, data []byte) error {
	temp := durable.UniqueName(path.Dir(name))
	err := f.root.WriteFile(temp, data, 0o600)
	if err == nil {
		err = f.root.Rename(temp, name)
	}
	if err != nil {
		_ = f.root.Remove(temp)
	}
	return err
}

// keep keeps what came of a job. It does not wait for the disk: what a loss of power
// damages is not offered, and another worker does the job again.
func (f *folder) keep(r result) error {
	b, err := attempt.Encode(r)
	if err != nil {
		return err
	}
	return f.write(r.name(), b)
}

// drop forgets a result.
func (f *folder) drop(r result) { _ = f.root.Remove(r.name()) }

// results are those that are kept, whole.
func (f *folder) results() (all []result) {
	names, err := fs.Glob(f.root.FS(), resultsDir+"/*.json")
	if err != nil {
		return nil
	}
	for _, name := range names {
		var r result
		b, err := source.ReadFile(filepath.Join(f.dir, name), attempt.MaxMessage)
		if err == nil {
			err = attempt.Decode(b, &r)
		}
		if err != nil || r.name() != name {
			_ = f.root.Remove(name)
			continue
		}
		all = append(all, r)
	}
	return all
}

// close removes the folder, or, unless all of it goes, keeps it if there are results in
// it. The files of the pack go in any case.
func (f *folder) close(all bool) error {
	names, err := fs.Glob(f.root.FS(), resultsDir+"/*.json")
	if all || len(names) == 0 {
		err = os.RemoveAll(f.dir)
	} else {
		err = errors.Join(err, f.root.RemoveAll(publicDir), f.root.RemoveAll(evalDir))
	}
	return errors.Join(err, f.lock.Close(), f.root.Close())
}
