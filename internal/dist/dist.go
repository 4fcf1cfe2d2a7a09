// Package dist packs what a release of securebench consists of: archives, an image
// and a bill of materials. Equal files give equal bytes, on every machine.
package dist

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// File is a file of an archive.
type File struct {
	Name string
	Body []byte
	Exec bool
}

// mode is the permissions of the file, whatever those of its original are.
func (f File) mode() int64 {
	switch {
	case strings.HasSuffix(f.Name, "/"):
		return 0o1777
	case f.Exec:
		return 0o755
	}
	return 0o644
}

// fsMode is [File.mode] for archives that want it so.
func (f File) fsMode() fs.FileMode { return fs.FileMode(f.mode()).Perm() }

// Archive writes a compressed archive of files below the folder root.
func Archive(w io.Writer, root string, files []File, made time.Time) error {
	z := gzip.NewWriter(w) // without a name and a time
	if err := Tar(z, root, files, made); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("compressing the archive: %w", err)
	}
	return nil
}

// Tar writes an archive of files, in the order of their names, of one time and one
// owner; root is "" or a folder that ends in a slash.
func Tar(w io.Writer, root string, files []File, made time.Time) error {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	t := tar.NewWriter(w)
	for _, f := range files {
		h := &tar.Header{Name: root + f.Name, Mode: f.mode(), Size: int64(len(f.Body)), ModTime: made, Format: tar.FormatUSTAR}
		if strings.HasSuffix(f.Name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := t.WriteHeader(h); err != nil {
			return fmt.Errorf("writing %s into the archive: %w", f.Name, err)
		}
		if _, err := t.Write(f.Body); err != nil {
			return fmt.Errorf("writing %s into the archive: %w", f.Name, err)
		}
	}
	if err := t.Close(); err != nil {
		return fmt.Errorf("completing the archive: %w", err)
	}
	return nil
}

// Sums returns the file that sha256sum -c reads.
func Sums(files []File) []byte {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	var b bytes.Buffer
	for _, f := range files {
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(f.Body), f.Name)
	}
	return b.Bytes()
}
