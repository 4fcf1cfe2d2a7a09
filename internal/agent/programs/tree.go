package programs

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"time"

	"securebench/internal/bounded"
	"securebench/internal/digest"
	"securebench/internal/redact"
	"securebench/internal/source"
)

// errDamaged is the error of a tree that is not the one that was stored.
var errDamaged = errors.New("the cache is damaged")

// walk reads a tree once: it computes the digest and the size, and writes the
// files to w unless that is nil. The digest covers names, what can be executed,
// and content, so that no check and use of a tree can be told apart.
func walk(ctx context.Context, root *os.Root, w *tar.Writer) (sum string, size int64, err error) {
	all, files := sha256.New(), source.FS(root)
	err = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if d.IsDir() {
			fmt.Fprintf(all, "folder %q\n", name)
			return writeHeader(w, &tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755})
		}
		n, err := walkFile(ctx, root, name, all, w)
		size += n
		return err
	})
	return digest.Format(all.Sum(nil)), size, err
}

func walkFile(ctx context.Context, root *os.Root, name string, all hash.Hash, w *tar.Writer) (int64, error) {
	f, err := source.OpenIn(root, name, os.O_RDONLY, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	mode := int64(0o644)
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	if err := writeHeader(w, &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: info.Size()}); err != nil {
		return 0, err
	}
	one := sha256.New()
	to := io.Writer(one)
	if w != nil {
		to = io.MultiWriter(one, w)
	}
	n, err := io.CopyBuffer(to, bounded.Until(ctx, f), make([]byte, 1<<20))
	if err == nil && n != info.Size() {
		err = fmt.Errorf("%s changed meanwhile: %w", redact.Escape(name), errDamaged)
	}
	fmt.Fprintf(all, "file %q %o %d %x\n", name, mode, n, one.Sum(nil))
	return n, err
}

// writeHeader writes a header without what differs from machine to machine.
func writeHeader(w *tar.Writer, h *tar.Header) error {
	if w == nil {
		return nil
	}
	h.ModTime, h.Format = time.Unix(0, 0), tar.FormatPAX
	return w.WriteHeader(h)
}

// WriteTar writes the release's tree: bin/codex or bin/claude, and what that
// needs beside it. Everything belongs to root and can be read by all. What is
// written is checked on the way: after an error it is not to be used.
func (c *Cache) WriteTar(r Release, w io.Writer) error {
	root, err := c.root.OpenRoot(folder(r.Program, r.Version, r.Platform, r.Integrity) + "/" + treeName)
	if err != nil {
		return fmt.Errorf("reading %s from the cache: %w", r.Title(), err)
	}
	defer root.Close()
	buffered := bufio.NewWriterSize(w, 1<<20)
	out := tar.NewWriter(buffered)
	sum, _, err := walk(context.Background(), root, out)
	if err == nil && sum != r.Digest {
		err = errDamaged
	}
	if err != nil {
		return fmt.Errorf("reading %s from the cache: %w", r.Title(), err)
	}
	return errors.Join(out.Close(), buffered.Flush())
}
