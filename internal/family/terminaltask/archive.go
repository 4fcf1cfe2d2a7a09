package terminaltask

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"slices"

	"securebench/internal/unpack"
)

// copyRenamed copies a tar archive under other names. place returns the new name of
// an entry, or false for one that is left out.
func copyRenamed(dst io.Writer, src io.Reader, place func(*tar.Header) (string, bool)) error {
	tr, tw := tar.NewReader(src), tar.NewWriter(dst)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if unpack.Sparse(h) {
			return fmt.Errorf("%q has holes", h.Name) // it could be any size, and we write none like that
		}
		name, ok := place(h)
		if !ok {
			continue
		}
		// Times are no part of a candidate, and a name that a record repeats
		// would win over the new one.
		h.Name, h.Format = name, tar.FormatUnknown
		delete(h.PAXRecords, "path")
		if err := tw.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(tw, tr); err != nil {
			return err
		}
	}
	// What follows the archive's end is also read: a candidate is only known to
	// be the stored one at its last byte.
	if _, err := io.Copy(io.Discard, src); err != nil {
		return err
	}
	return tw.Close()
}

// notFolders returns those of the paths that an archive of changes has something
// other than a folder for.
func notFolders(changes io.Reader, paths []string) (map[string]bool, error) {
	out := map[string]bool{}
	for tr := tar.NewReader(changes); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) { // a candidate is known at its last byte
			_, err = io.Copy(io.Discard, changes)
			return out, err
		}
		if err != nil {
			return nil, fmt.Errorf("reading the candidate: %w", err)
		}
		if p := "/" + h.Name; h.Typeflag != tar.TypeDir && slices.Contains(paths, p) {
			out[p] = true
		}
	}
}
