package holder

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"securebench/internal/sandbox"
)

// Client talks to a [Serve] at the other end of a stream. It is safe for
// concurrent use; requests are queued. The holder is trusted code, but
// it shares a container with an untrusted tree, so everything it sends is bounded
// and checked.
type Client struct {
	turn   chan struct{} // holds one token while the stream is free
	stream io.ReadWriteCloser
	in     *frameReader
	out    *frameWriter
	broken error // why the stream cannot be used any more
}

// NewClient makes a client. Closing the stream must end blocked reads and
// writes; the client closes it when a context ends during a request,
// since the stream cannot be used after that.
func NewClient(stream io.ReadWriteCloser) *Client {
	c := &Client{turn: make(chan struct{}, 1), stream: stream,
		in: newFrameReader(stream), out: newFrameWriter(stream)}
	c.turn <- struct{}{}
	return c
}

// Put unpacks the directories and regular files of an archive into the tree.
// What is in the way of an entry is removed. Entries of any other type, names
// that leave the tree and names deeper than [MaxDepth] are errors. The error of a full
// tree wraps [syscall.ENOSPC]. After an error some entries may exist.
func (c *Client) Put(ctx context.Context, archive io.Reader) error {
	return c.do(ctx, "writing to the workspace", func() error { return c.sendData(opPut, archive) })
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
	return c.do(ctx, "removing from the workspace", func() error { return c.sendData(opRemove, list) })
}

// sendData makes a request that data follows.
func (c *Client) sendData(op string, data io.Reader) error {
	if err := c.send(kindRequest, request{Op: op}); err != nil {
		return err
	}
	in := &sandbox.Input{Reader: data}
	_, err := io.Copy(dataWriter{c.out}, in)
	if err != nil && in.Err == nil {
		return err
	}
	if err := c.send(kindEnd, resultOf(in.Err)); err != nil {
		return err
	}
	_, err = c.answer(0, io.Discard)
	if in.Err != nil {
		// The caller's reader failed; what the server says about
		// the incomplete archive adds nothing.
		return localOr(err, fmt.Errorf("reading the archive: %w", in.Err))
	}
	return err
}

// Get writes the tree at path as an archive of at most limit bytes to w; see
// the package documentation for its form and
// [securebench/internal/sandbox.Workspace] for the contract.
func (c *Client) Get(ctx context.Context, path string, limit int64, w io.Writer, skip ...string) error {
	if err := checkSkip(skip); err != nil {
		return fmt.Errorf("reading the workspace: %w", err)
	}
	return c.do(ctx, "reading the workspace", func() error {
		if err := c.send(kindRequest, request{Op: opGet, Path: path, Limit: limit, Skip: skip}); err != nil {
			return err
		}
		sink := &sink{w: w}
		_, err := c.answer(limit, sink)
		if sink.err != nil {
			return localOr(err, fmt.Errorf("writing the archive: %w", sink.err))
		}
		return err
	})
}

// sink discards everything after an error of its writer, so that the answer is
// read to its end.
type sink struct {
	w   io.Writer
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	if s.err == nil {
		_, s.err = s.w.Write(p)
	}
	return len(p), nil
}

// Usage reports how full the tree's file system is, and whose its root is.
func (c *Client) Usage(ctx context.Context) (sandbox.Usage, error) {
	var u usage
	err := c.do(ctx, "measuring the workspace", func() error {
		if err := c.send(kindRequest, request{Op: opUsage}); err != nil {
			return err
		}
		r, err := c.answer(0, io.Discard)
		if err != nil {
			return err
		}
		if r.Usage == nil {
			return fmt.Errorf("an answer without usage: %w", errProtocol)
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
func (c *Client) do(ctx context.Context, what string, request func() error) error {
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
	err := request()
	if !stop() {
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

// localError is an error of the caller's reader or writer.
type localError struct{ error }

func (e localError) Unwrap() error { return e.error }

// localOr returns the caller's own error, or that of the stream if the stream
// cannot be used any more.
func localOr(err, local error) error {
	if err != nil && !usable(err) {
		return err
	}
	return localError{local}
}

// usable reports whether the stream can be used for the next request.
func usable(err error) bool {
	var local localError
	var remote *remoteError
	return errors.Is(err, sandbox.ErrTooLarge) || errors.As(err, &remote) || errors.As(err, &local)
}

func (c *Client) send(k kind, v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	if err := c.out.write(k, b); err != nil {
		return err
	}
	return c.out.flush()
}

// answer reads an answer with at most limit bytes of data. More than that is
// a broken server.
func (c *Client) answer(limit int64, w io.Writer) (result, error) {
	var r result
	data := &dataReader{f: c.in}
	n, err := io.Copy(w, io.LimitReader(data, limit))
	if err != nil {
		return r, err
	}
	if extra, err := io.CopyN(io.Discard, data, 1); extra > 0 {
		return r, fmt.Errorf("more than %d bytes of data: %w", n, errProtocol)
	} else if !errors.Is(err, io.EOF) {
		return r, err
	}
	if err := decode(data.end, &r); err != nil {
		return r, err
	}
	return r, r.err()
}
