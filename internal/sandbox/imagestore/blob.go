package imagestore

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/klauspost/compress/zstd"

	"securebench/internal/digest"
	"securebench/internal/sandbox/imagestore/layer"
)

// unpack unpacks a layer into a folder and returns the digest of its uncompressed
// content. It reads all of the blob, whose own digest it checks.
func (b blob) unpack(ctx context.Context, dir string, o layer.Options, report func(int64)) (diffID string, sum layer.Summary, err error) {
	rc, err := b.Open()
	if err != nil {
		return "", sum, err
	}
	defer closer(&err, rc)
	packed := &counted{r: rc, hash: sha256.New(), report: report}
	in := bufio.NewReaderSize(packed, 1<<20)
	plain, done, err := decompressed(in)
	if err != nil {
		return "", sum, err
	}
	defer done()
	unpacked := &counted{r: plain, hash: sha256.New()}
	if sum, err = layer.Unpack(ctx, unpacked, dir, o); err != nil {
		return "", sum, err
	}
	// What follows the compressed stream belongs to the blob's digest.
	if _, err := io.Copy(io.Discard, in); err != nil {
		return "", sum, err
	}
	packed.reportAll()
	if got := digest.Format(packed.hash.Sum(nil)); b.Digest != "" && got != b.Digest {
		return "", sum, fmt.Errorf("%w: it has the digest %s instead of %s", layer.ErrLayer, got, b.Digest)
	}
	return digest.Format(unpacked.hash.Sum(nil)), sum, nil
}

// counted hashes and counts what is read.
type counted struct {
	r      io.Reader
	hash   hash.Hash
	n      int64
	told   int64
	report func(int64) // may be nil
}

const reportEvery = 1 << 20

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.hash.Write(p[:n])
	if c.n += int64(n); c.report != nil && c.n-c.told >= reportEvery {
		c.reportAll()
	}
	return n, err
}

func (c *counted) reportAll() {
	if c.report != nil && c.n != c.told {
		c.told = c.n
		c.report(c.n)
	}
}

// maxWindow bounds the memory for one layer. It is what the zstd program allows
// unless it is told otherwise.
const maxWindow = 128 << 20

// decompressed finds out how a stream is compressed, from its first bytes.
func decompressed(in *bufio.Reader) (io.Reader, func(), error) {
	head, err := in.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		r, err := gzip.NewReader(in)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", layer.ErrLayer, err)
		}
		return r, func() {}, nil
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		r, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", layer.ErrLayer, err)
		}
		return r, r.Close, nil
	case bytes.HasPrefix(head, []byte("\xfd7zXZ\x00")), bytes.HasPrefix(head, []byte("BZh")):
		return nil, nil, fmt.Errorf("%w: it is compressed with xz or bzip2; need gzip, zstd or none", layer.ErrLayer)
	}
	return in, func() {}, nil
}
