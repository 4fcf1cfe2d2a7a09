package npm

import (
	"context"
	"crypto/sha512"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"os"

	"securebench/internal/redact"
)

// Download writes a build's tarball to an empty file and checks it as it comes.
// progress gets the bytes so far and in all, -1 if that is not known.
func (c *Client) Download(ctx context.Context, b Build, to *os.File, progress func(done, all int64)) error {
	want, err := sum(b.Integrity)
	if err != nil {
		return err
	}
	err = c.asked.Repeat(ctx, func() error {
		if err := to.Truncate(0); err != nil {
			return err
		}
		if _, err := to.Seek(0, io.SeekStart); err != nil {
			return err
		}
		return c.download(ctx, b, want, to, progress)
	})
	if err != nil {
		return fmt.Errorf("fetching %s@%s from %s: %w", b.Package, b.Version, redact.Escape(b.Host()), err)
	}
	return nil
}

func (c *Client) download(ctx context.Context, b Build, want []byte, to io.Writer, progress func(done, all int64)) error {
	in, err := c.asked.Get(ctx, b.tarball, b.Package, "application/octet-stream, */*")
	if err != nil {
		return err
	}
	defer in.Close()
	if in.Length > maxTarball {
		return fmt.Errorf("it is larger than %d MiB", maxTarball>>20)
	}
	h, done := sha512.New(), int64(0)
	buf := make([]byte, 256<<10)
	for {
		n, err := in.Read(buf)
		done += int64(n)
		if done > maxTarball {
			return fmt.Errorf("it is larger than %d MiB", maxTarball>>20)
		}
		h.Write(buf[:n])
		if _, err := to.Write(buf[:n]); err != nil {
			return err
		}
		progress(done, in.Length)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if cause := ctx.Err(); cause != nil {
				return cause
			}
			return err
		}
	}
	if subtle.ConstantTimeCompare(h.Sum(nil), want) != 1 {
		return fmt.Errorf("%w: its SHA-512 digest is another", ErrIntegrity)
	}
	return nil
}
