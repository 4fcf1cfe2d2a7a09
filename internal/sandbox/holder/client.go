package holder

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"securebench/internal/piped"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/wire"
)

// Client talks to a [Serve] at the other end of a stream. It is safe for
// concurrent use; requests are queued. The holder is trusted code, but
// it shares a container with an untrusted tree, so everything it sends is bounded
// and checked.
type Client struct {
	turn   chan struct{} // holds one token while the stream is free
	stream io.ReadWriteCloser
	conn   *wire.Conn // nil before the first request
	broken error      // why the stream cannot be used any more
}

// NewClient makes a client. Closing the stream must end blocked reads and
// writes; the client closes it when a context ends during a request, whose
// answer nobody waits for.
func NewClient(stream io.ReadWriteCloser) *Client {
	c := &Client{turn: make(chan struct{}, 1), stream: stream}
	c.turn <- struct{}{}
	return c
}

// Put unpacks the directories and regular files of an archive into the tree.
// What is in the way of an entry is removed. Entries of any other type, names
// that leave the tree and names deeper than [MaxDepth] are errors. The error of a full
// tree wraps [syscall.ENOSPC]. After an error some entries may exist.
func (c *Client) Put(ctx context.Context, archive io.Reader) error {
	return c.do(ctx, "writing to the workspace", func(ctx context.Context) error { return c.give(ctx, http.MethodPut, "/tree", archive) })
}

// Remove removes what is at the given paths with all that is below it, and
// then the directories above that this left empty. A path may not be the root.
// A directory deeper than [MaxDepth] is
// [securebench/internal/sandbox.ErrTooLarge]. After an error some of it may be
// gone.
func (c *Client) Remove(ctx context.Context, paths ...string) error {
	size := 0
	for _, path := range paths {
		if err := checkPath(path); err != nil {
			return fmt.Errorf("removing from the workspace: %w", err)
		}
		size += len(path) + 1
	}
	if size > maxPaths {
		return fmt.Errorf("removing from the workspace: the paths have %d bytes, more than %d: %w", size, maxPaths, sandbox.ErrTooLarge)
	}
	if len(paths) == 0 {
		return nil
	}
	list := strings.NewReader(strings.Join(paths, "\x00") + "\x00")
	return c.do(ctx, "removing from the workspace", func(ctx context.Context) error { return c.give(ctx, http.MethodPost, "/removals", list) })
}

// give makes a request that data follows.
func (c *Client) give(ctx context.Context, method, path string, data io.Reader) error {
	in := &sandbox.Input{Reader: data}
	_, err := piped.Both(func(w io.Writer) error {
		_, _ = io.Copy(w, in) // an error of the pipe means that the rest is not wanted
		return in.Err
	}, func(r io.Reader) error {
		_, err := c.ask(ctx, method, path, r)
		return err
	})
	if in.Err != nil {
		// The caller's reader failed; what the server says about
		// the incomplete archive adds nothing.
		return localError{fmt.Errorf("reading the archive: %w", in.Err)}
	}
	return err
}

// ask makes a request that is answered with a result.
func (c *Client) ask(ctx context.Context, method, path string, body io.Reader) (result, error) {
	b, err := c.conn.Ask(ctx, method, path, body, wire.MaxReply)
	if err != nil {
		return result{}, err
	}
	r, err := wire.Decode[result](b)
	if err != nil {
		return r, err
	}
	return r, r.err()
}

// Get writes the tree at path as an archive of at most limit bytes to w; see
// the package documentation for its form and
// [securebench/internal/sandbox.Workspace] for the contract.
func (c *Client) Get(ctx context.Context, path string, limit int64, w io.Writer, skip ...string) error {
	if err := checkSkip(skip); err != nil {
		return fmt.Errorf("reading the workspace: %w", err)
	}
	return c.do(ctx, "reading the workspace", func(ctx context.Context) error { return c.get(ctx, wanted{path, limit, skip}, w) })
}

func (c *Client) get(ctx context.Context, what wanted, w io.Writer) error {
	b, err := wire.Encode(what)
	if err != nil {
		return err
	}
	res, err := c.conn.Send(ctx, http.MethodPost, "/archive", bytes.NewReader(b))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	in := &sandbox.Input{Reader: res.Body}
	_, err = io.Copy(w, io.LimitReader(in, what.Limit))
	if err != nil && in.Err == nil {
		return localError{fmt.Errorf("writing the archive: %w", err)}
	}
	if more, _ := io.CopyN(io.Discard, in, 1); more > 0 {
		return fmt.Errorf("more than %d bytes of data: %w", what.Limit, wire.ErrInvalid)
	}
	if in.Err != nil {
		return in.Err
	}
	said, err := url.PathUnescape(res.Trailer.Get(trailer))
	if err != nil {
		return fmt.Errorf("the result of an archive: %w", wire.ErrInvalid)
	}
	r, err := wire.Decode[result]([]byte(said))
	if err != nil {
		return err
	}
	return r.err()
}

// Usage reports how full the tree's file system is, and whose its root is.
func (c *Client) Usage(ctx context.Context) (sandbox.Usage, error) {
	var u usage
	err := c.do(ctx, "measuring the workspace", func(ctx context.Context) error {
		r, err := c.ask(ctx, http.MethodGet, "/usage", nil)
		if err != nil {
			return err
		}
		if r.Usage == nil {
			return fmt.Errorf("an answer without usage: %w", wire.ErrInvalid)
		}
		u = *r.Usage
		return nil
	})
	return sandbox.Usage{Bytes: u.Bytes, BytesLimit: u.BytesLimit,
		Inodes: u.Inodes, InodesLimit: u.InodesLimit,
		Root: sandbox.User{UID: u.UID, GID: u.GID}, Mode: (&tar.Header{Mode: u.Mode}).FileInfo().Mode()}, err
}

// Close closes the stream. Requests in progress end with an error.
func (c *Client) Close() error { return c.stream.Close() }

// do runs one request at a time.
func (c *Client) do(ctx context.Context, what string, request func(context.Context) error) error {
	select {
	case <-c.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { c.turn <- struct{}{} }()
	if c.broken != nil {
		return fmt.Errorf("%s: %w", what, c.broken)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.stream.Close() })
	err := c.connect()
	if err == nil {
		err = request(ctx)
	}
	if !stop() || err != nil && ctx.Err() != nil { // the request may hear of the end first
		_ = c.stream.Close()
		c.broken = fmt.Errorf("the workspace's stream is closed: %w", context.Cause(ctx))
		return context.Cause(ctx)
	}
	if err == nil {
		return nil
	}
	if !usable(err) {
		c.broken = fmt.Errorf("the workspace's stream broke: %w", err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// connect begins to talk to the server, once.
func (c *Client) connect() (err error) {
	if c.conn == nil {
		c.conn, err = wire.Dial(c.stream)
	}
	return err
}

// localError is an error of the caller's reader or writer.
type localError struct{ error }

func (e localError) Unwrap() error { return e.error }

// usable reports whether the stream can be used for the next request.
func usable(err error) bool {
	var local localError
	var remote *remoteError
	return errors.Is(err, sandbox.ErrTooLarge) || errors.As(err, &remote) || errors.As(err, &local)
}
