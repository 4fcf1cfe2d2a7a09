package mountns

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// Shared mounts folders of the host in a namespace, read-only and each once, as
// sandboxes see their owners.
type Shared struct {
	ns  *Namespace
	ids *IDs
	dir string

	mu      sync.Mutex
	folders map[string]*sharedFolder // by the folder of the host
	made    int                      // mounts ever
}

type sharedFolder struct {
	at   string
	uses int
}

// NewShared mounts below dir, a folder of the namespace, with the mapping of ids.
func NewShared(ns *Namespace, ids *IDs, dir string) *Shared {
	return &Shared{ns: ns, ids: ids, dir: dir, folders: map[string]*sharedFolder{}}
}

// Use returns where a folder of the host is mounted, and mounts it at the first call.
func (s *Shared) Use(folder string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.folders[folder]; f != nil {
		f.uses++
		return f.at, nil
	}
	s.made++
	at := filepath.Join(s.dir, strconv.Itoa(s.made))
	err := s.ns.Do(func() error {
		if err := os.Mkdir(at, 0o755); err != nil {
			return err
		}
		if err := s.ids.Bind(folder, at, true); err != nil {
			return errors.Join(err, os.Remove(at))
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	s.folders[folder] = &sharedFolder{at, 1}
	return at, nil
}

// Drop ends one use of each folder. What has no use left is unmounted.
func (s *Shared) Drop(folders ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, folder := range folders {
		f := s.folders[folder]
		if f == nil {
			continue
		}
		if f.uses--; f.uses > 0 {
			continue
		}
		delete(s.folders, folder)
		errs = append(errs, s.ns.Do(func() error { return errors.Join(Unmount(f.at), os.Remove(f.at)) }))
	}
	return errors.Join(errs...)
}
