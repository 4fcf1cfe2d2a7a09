package worker

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"securebench/internal/attended"
	"securebench/internal/digest"
	"securebench/internal/remote"
	"securebench/internal/workspace"
)

// MostAssets bounds the files of a pack in a worker's cache, in bytes. Those that were
// needed within fresh are kept anyway: a call may be about to read them.
const (
	MostAssets = 8 << 30
	fresh      = 10 * time.Minute
)

// assets are the files of a run's pack that calls have needed here.
type assets struct {
	most int64
	get  func(ctx context.Context, r remote.Role, sum string) (io.ReadCloser, error)

	mu     sync.Mutex
	ctx    context.Context // of the calls
	public pile
	eval   pile
	size   int64
}

// pile is the files of a lane, below a folder.
type pile struct {
	role  remote.Role // whose tickets read them
	files map[string]remote.File
	root  *os.Root                 // nil if there are none
	here  map[string]time.Time     // when they were needed, for the last time
	busy  map[string]chan struct{} // closed when a file has been fetched, or not
}

// openAssets makes the folders of a pack's files.
func openAssets(dir string, orders map[remote.Role]remote.Order, a *assets) (_ *assets, err error) {
	a.ctx, a.public.files = context.Background(), map[string]remote.File{}
	for _, r := range []remote.Role{remote.Verify, remote.Produce} {
		if o, ok := orders[r]; ok {
			a.public.role, a.public.files = r, o.Public
		}
	}
	a.eval.role, a.eval.files = remote.Verify, orders[remote.Verify].Eval
	for name, p := range map[string]*pile{publicDir: &a.public, evalDir: &a.eval} {
		p.here, p.busy = map[string]time.Time{}, map[string]chan struct{}{}
		if len(p.files) == 0 {
			continue
		}
		at := filepath.Join(dir, name)
		if err = os.MkdirAll(at, 0o700); err == nil {
			p.root, err = os.OpenRoot(at)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("making a folder in the cache: %w", err), a.close())
		}
	}
	return a, nil
}

// close closes the folders.
func (a *assets) close() (err error) {
	for _, p := range []*pile{&a.public, &a.eval} {
		if p.root != nil {
			err = errors.Join(err, p.root.Close())
		}
	}
	return err
}

// until ends what is under way with the calls.
func (a *assets) until(calls context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ctx = calls
}

// bring makes files be here that a call needs. It implements [workspace.Bring].
func (a *assets) bring(public, eval []string) error {
	for p, names := range map[*pile][]string{&a.public: public, &a.eval: eval} {
		for _, name := range names {
			f, ok := p.files[name]
			if !ok {
				return fmt.Errorf("the run has no file %q for this worker", name)
			}
			if err := a.need(p, name, f); err != nil {
				return fmt.Errorf("reading the pack's file %q: %w", name, err)
			}
		}
	}
	return nil
}

// need makes one file be here. Whoever needs a file that is on its way waits for it.
func (a *assets) need(p *pile, name string, f remote.File) error {
	for {
		a.mu.Lock()
		ctx, wait := a.ctx, p.busy[name]
		_, here := p.here[name]
		switch {
		case here:
			p.here[name] = time.Now()
		case wait == nil:
			p.busy[name] = make(chan struct{})
		}
		a.mu.Unlock()
		switch {
		case here:
			return nil
		case wait == nil:
			return a.fetch(ctx, p, name, f)
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// fetch reads a file. Nobody else does so meanwhile.
func (a *assets) fetch(ctx context.Context, p *pile, name string, f remote.File) error {
	err := a.write(ctx, p, name, f)
	a.mu.Lock()
	defer a.mu.Unlock()
	close(p.busy[name])
	delete(p.busy, name)
	if err != nil {
		return err
	}
	p.here[name] = time.Now()
	a.size += f.Size
	a.sweep()
	return nil
}

// write writes a file, which appears whole.
func (a *assets) write(ctx context.Context, p *pile, name string, f remote.File) error {
	if err := p.root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	in, err := a.get(ctx, p.role, f.Digest)
	if err != nil {
		return err
	}
	defer in.Close()
	mode := fs.FileMode(0o600)
	if f.Executable {
		mode = 0o700
	}
	part := partPrefix + digest.Bytes([]byte(name))[len("sha256:"):]
	out, err := p.root.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, h), io.LimitReader(in, f.Size+1))
	if err = errors.Join(err, out.Chmod(mode), out.Close()); err == nil && digest.Format(h.Sum(nil)) != f.Digest {
		err = workspace.ErrChanged
	}
	if err != nil {
		return errors.Join(err, p.root.Remove(part))
	}
	return p.root.Rename(part, name)
}

// sweep removes what was not needed for the longest time while there is too much. The
// caller holds the lock.
func (a *assets) sweep() {
	for a.size > a.most {
		var from *pile
		oldest, last := "", time.Now().Add(-fresh)
		for _, p := range []*pile{&a.public, &a.eval} {
			for name, at := range p.here {
				if at.Before(last) {
					from, oldest, last = p, name, at
				}
			}
		}
		if from == nil || from.root.Remove(oldest) != nil {
			return // it is tried again
		}
		a.size -= from.files[oldest].Size
		delete(from.here, oldest)
	}
}

// asset reads a file of the pack by its digest, once the hub answers.
func (s *session) asset(ctx context.Context, r remote.Role, sum string) (io.ReadCloser, error) {
	for {
		in, err := s.request(ctx, http.MethodGet, s.welcome().Tickets[r], "/file/"+sum, nil)
		var refused errNo
		switch {
		case err == nil || ctx.Err() != nil:
			return in, err
		case errors.As(err, &refused):
			return nil, err
		case errors.Is(err, errTicket):
			s.poke() // so that the worker introduces itself again
		}
		if attended.Pause(ctx, again) != nil {
			return nil, context.Cause(ctx)
		}
	}
}
