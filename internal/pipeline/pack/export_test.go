package pack

import (
	"context"
	"errors"
	"os"
)

// ScanUpTo scans a folder of a pack with room for n files and folders, and
// says what may not be there.
func ScanUpTo(pack *os.Root, dir string, n int) (what string, err error) {
	s := newScanner(context.Background(), dir)
	s.left = n
	if err := s.open(pack); err != nil {
		return "", err
	}
	defer s.root.Close()
	if err := s.folder(".", 0); err != nil && !errors.Is(err, errStop) {
		return "", err
	}
	for _, b := range s.t.bad {
		what += b.path + ": " + b.what + "\n"
	}
	return what, nil
}
