package owner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"securebench/internal/sandbox"
)

const prefix = "securebench-"

// MakeFolder makes a folder of this process in the system's folder for temporary files.
// The caller removes it. what is one word that says what it is for.
func MakeFolder(what string) (string, error) {
	return os.MkdirTemp("", prefix+what+"_"+strings.ReplaceAll(Current().String(), "/", "_")+"_*")
}

// ownerOf returns who made a folder of that name.
func ownerOf(name string) (Owner, bool) {
	_, rest, ok := strings.Cut(strings.TrimPrefix(name, prefix), "_")
	end := strings.LastIndexByte(rest, '_')
	if !ok || end < 0 || !strings.HasPrefix(name, prefix) {
		return Owner{}, false
	}
	return Parse(strings.ReplaceAll(rest[:end], "_", "/"))
}

// LeftFolders lists the folders in dir that processes of this user made, which have ended.
func LeftFolders(dir string) ([]sandbox.Leftover, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("looking for temporary folders: %w", err)
	}
	var out []sandbox.Leftover
	self := Current()
	for _, e := range entries {
		o, ok := ownerOf(e.Name())
		if !ok || !o.Dead(self) {
			continue
		}
		if path := filepath.Join(dir, e.Name()); ours(path) {
			out = append(out, sandbox.Leftover{Kind: "temporary folder", Name: path, Size: size(path)})
		}
	}
	return out, nil
}

// RemoveFolder removes what Left found.
func RemoveFolder(l sandbox.Leftover) error {
	if o, ok := ownerOf(filepath.Base(l.Name)); !ok || !o.Dead(Current()) || !ours(l.Name) {
		if _, err := os.Lstat(l.Name); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("%q is not a folder that a dead process of this user left", l.Name)
	}
	return os.RemoveAll(l.Name)
}

// ours reports whether a path is a folder, not a link, that belongs to this user.
func ours(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() {
		return false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Geteuid()
}

// size counts the bytes of a tree; what cannot be read counts nothing.
func size(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // see above
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
		return nil
	})
	return n
}
