package worker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"

	"securebench/internal/attended"
	"securebench/internal/candidate"
	"securebench/internal/digest"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/remote"
)

// errTicket says that the hub does not know a ticket: it is another part of the run, or
// another worker has the job.
var errTicket = errors.New("the hub does not know the ticket")

// request makes a request over HTTPS and returns the body of its answer.
func (s *session) request(ctx context.Context, method, ticket, target string, body io.Reader) (io.ReadCloser, error) {
	s.mu.Lock()
	base := s.base
	s.mu.Unlock()
	r, err := http.NewRequestWithContext(ctx, method, base+target, body)
	if err != nil {
		return nil, fmt.Errorf("asking the hub: %w", err)
	}
	return s.send(r, ticket, http.StatusOK)
}

// rest asks for the rest of some content, of which so many bytes are there.
func (s *session) rest(ctx context.Context, ticket, target string, has int64) (io.ReadCloser, error) {
	s.mu.Lock()
	base := s.base
	s.mu.Unlock()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+target, nil)
	if err != nil {
		return nil, fmt.Errorf("asking the hub: %w", err)
	}
	if has == 0 {
		return s.send(r, ticket, http.StatusOK)
	}
	r.Header.Set("Range", fmt.Sprintf("bytes=%d-", has))
	return s.send(r, ticket, http.StatusPartialContent)
}

// send sends a request and returns the body of its answer, which must have a status.
func (s *session) send(r *http.Request, ticket string, want int) (io.ReadCloser, error) {
	r.Header.Set("Authorization", "Bearer "+ticket)
	res, err := s.web.Do(r)
	if err != nil {
		return nil, fmt.Errorf("asking the hub: %w", err)
	}
	s.hears()
	if res.StatusCode == want {
		return res.Body, nil
	}
	why, err := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	_ = res.Body.Close() // the answer is there
	switch {
	case err != nil:
		return nil, fmt.Errorf("asking the hub: %w", err)
	case res.StatusCode == http.StatusForbidden:
		return nil, errTicket
	case res.StatusCode < http.StatusInternalServerError:
		return nil, errNo{string(bytes.TrimSpace(why))}
	}
	return nil, fmt.Errorf("asking the hub: %s: %s", res.Status, bytes.TrimSpace(why))
}

// errNo is the hub's refusal, which another request cannot change.
type errNo struct{ why string }

func (e errNo) Error() string { return "the hub refuses: " + e.why }

// get reads a value.
func (s *session) get(ctx context.Context, ticket, target string, v any) error {
	in, err := s.request(ctx, http.MethodGet, ticket, target, nil)
	if err != nil {
		return err
	}
	b, err := io.ReadAll(io.LimitReader(in, attempt.MaxMessage+1))
	if err = errors.Join(err, in.Close()); err != nil {
		return fmt.Errorf("asking the hub: %w", err)
	}
	return attempt.Decode(b, v)
}

// load reads the orders of the worker's roles, and the files of the pack that they
// name.
func (s *session) load(ctx context.Context, orders map[remote.Role]remote.Order) (public, eval string, err error) {
	public, eval = filepath.Join(s.folder.dir, publicDir), filepath.Join(s.folder.dir, evalDir)
	for {
		s.mu.Lock()
		tickets := s.run.Tickets
		s.mu.Unlock()
		for role, ticket := range tickets {
			var o remote.Order
			if err = s.get(ctx, ticket, "/order", &o); err == nil {
				orders[role] = o
				err = errors.Join(s.files(ctx, ticket, public, o.Public), s.files(ctx, ticket, eval, o.Eval))
			}
			if err != nil {
				break
			}
		}
		var refused errNo
		if err == nil || errors.As(err, &refused) || errors.Is(err, fs.ErrPermission) || ctx.Err() != nil {
			return public, eval, err
		}
		if errors.Is(err, errTicket) {
			if err := s.hello(ctx); err != nil {
				return public, eval, err
			}
		}
		if s.alone() {
			return public, eval, s.nobody()
		}
		if attended.Pause(ctx, again) != nil {
			return public, eval, ErrDrained
		}
	}
}

// files lays out files that the hub has.
func (s *session) files(ctx context.Context, ticket, dir string, files map[string]remote.File) error {
	if len(files) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making a folder in the cache: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("opening a folder in the cache: %w", err)
	}
	defer root.Close()
	for name, f := range files {
		if _, err := root.Lstat(name); err == nil {
			continue // it has another role, or was read a moment ago
		}
		if err := s.file(ctx, ticket, root, name, f); err != nil {
			return fmt.Errorf("reading the pack's file %q: %w", name, err)
		}
	}
	return nil
}

// file reads one file, which appears whole.
func (s *session) file(ctx context.Context, ticket string, root *os.Root, name string, f remote.File) error {
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	in, err := s.request(ctx, http.MethodGet, ticket, "/file/"+f.Digest+"?path="+url.QueryEscape(name), nil)
	if err != nil {
		return err
	}
	defer in.Close()
	mode := fs.FileMode(0o600)
	if f.Executable {
		mode = 0o700
	}
	const part = ".part"
	out, err := root.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(out, h), io.LimitReader(in, f.Size+1))
	if err = errors.Join(err, out.Chmod(mode), out.Close()); err != nil {
		return err
	}
	if digest.Format(h.Sum(nil)) != f.Digest {
		return errNo{"the file has changed since the run began"}
	}
	return root.Rename(part, name)
}

// fetch makes sure that a candidate is on the shelf.
func (s *session) fetch(ctx context.Context, ticket string, c candidate.Candidate) error {
	if s.shelf.keep(c.Digest) {
		return nil
	}
	in, err := s.request(ctx, http.MethodGet, ticket, "/blob/"+c.Digest, nil)
	if err != nil {
		return err
	}
	got, err := s.shelf.Put(c.Kind, c.Origin, in)
	if err = errors.Join(err, in.Close()); err != nil {
		return err
	}
	if got.Digest != c.Digest {
		s.shelf.letGo(got.Digest)
		return errors.New("the candidate that the hub sends has another digest")
	}
	return nil
}

// put sends a candidate to the hub.
func (s *session) put(ctx context.Context, ticket string, c candidate.Candidate) error {
	found, err := s.shelf.Find(c)
	if err != nil {
		return err
	}
	in, err := found.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := s.request(ctx, http.MethodPut, ticket, "/blob/"+c.Digest+"?kind="+url.QueryEscape(string(c.Kind)), in)
	if err != nil {
		return err
	}
	return out.Close()
}
