package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"securebench/internal/attended"
	"securebench/internal/candidate"
	"securebench/internal/pipeline/attempt"
	"securebench/internal/remote"
)

// errTicket says that the hub does not know a ticket: it is another part of the run, or
// another worker has the job.
var errTicket = errors.New("the hub does not know the ticket")

// request makes a request over HTTPS and returns the body of its answer.
func (s *session) request(ctx context.Context, method, ticket, target string, body io.Reader) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.origin()+target, body)
	if err != nil {
		return nil, fmt.Errorf("asking the hub: %w", err)
	}
	return s.send(r, ticket, http.StatusOK)
}

// rest asks for the rest of some content, of which so many bytes are there.
func (s *session) rest(ctx context.Context, ticket, target string, has int64) (io.ReadCloser, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.origin()+target, nil)
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

// load reads the orders of the worker's roles.
func (s *session) load(ctx context.Context, orders map[remote.Role]remote.Order) (err error) {
	for {
		for role, ticket := range s.welcome().Tickets {
			var o remote.Order
			if err = s.get(ctx, ticket, "/order", &o); err != nil {
				break
			}
			orders[role] = o
		}
		var refused errNo
		if err == nil || errors.As(err, &refused) || ctx.Err() != nil {
			return err
		}
		if errors.Is(err, errTicket) {
			if err := s.hello(ctx); err != nil {
				return err
			}
		}
		if s.alone() {
			return s.nobody()
		}
		if attended.Pause(ctx, again) != nil {
			return ErrDrained
		}
	}
}

// fetch makes sure that a candidate is on the shelf. came is what came with the job of it,
// nil if it has to be read: by a second try, from a hub that compares what it sends.
func (s *session) fetch(ctx context.Context, ticket string, came []byte, c candidate.Candidate, retry bool) (err error) {
	if s.shelf.keep(c.Digest) {
		return nil
	}
	in := io.NopCloser(bytes.NewReader(came))
	if came == nil {
		target := "/blob/" + c.Digest
		if retry {
			target += "?" + remote.Checked
		}
		if in, err = s.request(ctx, http.MethodGet, ticket, target, nil); err != nil {
			return err
		}
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

// put sends a candidate to the hub, which finds out its digest. A second try does, too, so
// as to say of a damaged one that it is.
func (s *session) put(ctx context.Context, ticket string, c candidate.Candidate, retry bool) error {
	found, err := s.shelf.Find(c)
	if err != nil {
		return err
	}
	open := found.Unchecked
	if retry {
		open = found.Open
	}
	in, err := open()
	if err != nil {
		return err
	}
	defer in.Close()
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, s.origin()+"/blob/"+c.Digest+"?kind="+url.QueryEscape(string(c.Kind)), in)
	if err != nil {
		return fmt.Errorf("asking the hub: %w", err)
	}
	r.ContentLength = c.Size // chunks are dearer
	out, err := s.send(r, ticket, http.StatusOK)
	if err != nil {
		return err
	}
	return out.Close()
}
