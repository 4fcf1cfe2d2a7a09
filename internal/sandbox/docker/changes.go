package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/moby/moby/api/types/container"
	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
)

// eachChange calls f for each difference between a container's root and its
// image, while the answer arrives. The client's own call would read all of an
// answer whose size the container's processes decide. An error of f ends it and
// is returned. A path that is too long for the engine to compare is a
// [sandbox.ErrTooLarge].
func (c *conn) eachChange(ctx context.Context, name string, f func(container.FilesystemChange) error) (err error) {
	dial := c.API.Dialer()
	t := &http.Transport{DisableKeepAlives: true, ResponseHeaderTimeout: callTimeout,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
	url := "http://engine/v" + c.API.ClientVersion() + "/containers/" + name + "/changes"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := t.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("asking the engine for a container's changes: %w", err)
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 64<<10)) // it only explains
		if bytes.Contains(text, []byte(unix.ENAMETOOLONG.Error())) {
			return fmt.Errorf("a path of the container is too long for the engine: %w", sandbox.ErrTooLarge)
		}
		return fmt.Errorf("asking the engine for a container's changes: %s: %q", res.Status, text[:min(len(text), 1<<10)])
	}
	if err := decodeChanges(res.Body, f); err != nil {
		return fmt.Errorf("reading a container's changes: %w", err)
	}
	return nil
}

// decodeChanges reads an array of changes, or null, one by one.
func decodeChanges(r io.Reader, f func(container.FilesystemChange) error) error {
	d := jsontext.NewDecoder(r)
	first, err := d.ReadToken()
	if err != nil || first.Kind() == jsontext.KindNull {
		return err
	}
	if first.Kind() != jsontext.KindBeginArray {
		return fmt.Errorf("the engine's answer is %q, not a list", first.Kind())
	}
	for d.PeekKind() != jsontext.KindEndArray {
		var c container.FilesystemChange
		if err := json.UnmarshalDecode(d, &c); err != nil {
			return err
		}
		if err := f(c); err != nil {
			return err
		}
	}
	return nil
}
