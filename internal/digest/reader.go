package digest

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
)

// Reader returns the digest and the number of the bytes of r.
func Reader(r io.Reader) (sum string, size int64, err error) {
	h := sha256.New()
	size, err = io.Copy(h, r)
	return Format(h.Sum(nil)), size, err
}

// File returns the digest of a file.
func File(fsys fs.FS, name string) (sum string, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if sum, _, err = Reader(f); err != nil {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}
	return sum, nil
}
