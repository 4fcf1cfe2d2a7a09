// Package imagestore keeps images for the native engine: one folder, shared by all
// processes of a user, in which each layer is unpacked once, under the digest of
// its content, and never changed. docs/images.md describes the folder.
package imagestore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"securebench/internal/durable"
	"securebench/internal/sandbox/imagestore/layer"
	"securebench/internal/sandbox/owner"
)

// Store is a folder of images. It is safe for concurrent use, also by several
// processes, any of which may be killed at any time.
type Store struct {
	dir    string
	root   *os.Root
	me     owner.Owner
	layers layer.Options
	flush  func(*os.File) error // makes a file system durable; replaced in tests

	mu     sync.Mutex
	leases map[string]*lease // of this process, by image ID
}

// Image is an image of the store.
type Image struct {
	Ref    string // the name; "" for an image that has none
	ID     string // digest of the configuration, "sha256:…", as with Docker
	Digest string // "name@sha256:…" if it came from a registry
	Origin string // where it came from, such as "docker:NAME"
	Config v1.ConfigFile
	Layers []string // folders, the lowest first
	Size   int64    // bytes of the files of its layers, which other images can share
	Added  time.Time
}

// Addition says under which name an image is added.
type Addition struct {
	Ref    string // "" is none
	Digest string
	Origin string
	// Owner marks an image that is removed when its process is known to have ended; see package owner.
	Owner    string
	Progress func(Progress) // may be nil
	// Platform is the one that is wanted, such as linux/arm64, also if this machine does
	// not run it. Without it, this machine's is taken where there are several, and what
	// this machine does not run is refused.
	Platform string
}

// Progress is how far an addition is.
type Progress struct {
	Layer, Layers int   // the layer that is being unpacked, from 1
	Done, Total   int64 // bytes of it, as transferred; Total is 0 if it is not known
	Shared        bool  // the store has it already
}

// Exporter is an engine that has images.
type Exporter interface {
	// ExportImage writes an image as an archive in the format of "docker save" to a
	// file, and returns the image's ID.
	ExportImage(ctx context.Context, ref, file string) (id string, err error)
}

// DefaultDir is where the store is: SECUREBENCH_IMAGES, or securebench/images in the user's
// data directory (XDG_DATA_HOME, or ~/.local/share).
func DefaultDir(getenv func(string) string) (string, error) {
	if dir := getenv("SECUREBENCH_IMAGES"); dir != "" {
		return filepath.Abs(dir)
	}
	data := getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(data) { // as the specification of these variables wants it
		home := getenv("HOME")
		if !filepath.IsAbs(home) {
			return "", errors.New("finding the image store: set SECUREBENCH_IMAGES, XDG_DATA_HOME or HOME to an absolute path")
		}
		data = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(data, "securebench", "images"), nil
}

// The folders and files of a store.
const (
	formatFile = "format"
	lockFile   = "lock"
	addingFile = "adding"
	indexFile  = "index.json"
	layersDir  = "layers"
	configsDir = "configs"
	usesDir    = "uses"
	waitsDir   = "waits"
)

// UnfinishedDir is the folder of a store for what is being made: what no process has
// locked there is what a killed process left.
const UnfinishedDir = "unfinished"

// Open opens the store in dir and makes it if there is none.
func Open(dir string) (*Store, error) {
	s, err := open(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the image store: %w", err)
	}
	return s, nil
}

func open(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	// Images contain set-user-ID programs: no other user may reach them.
	root, err := durable.OpenFolder(dir, 0o700)
	if err != nil {
		return nil, err
	}
	s := &Store{dir: dir, root: root, me: owner.Current(), leases: make(map[string]*lease),
		flush: func(f *os.File) error { return unix.Syncfs(int(f.Fd())) }}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return s, nil
}

// prepare checks that the folder is a store that this process can use.
func (s *Store) prepare() error {
	info, err := s.root.Stat(".")
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user", s.dir)
	}
	if names, err := s.names("."); err != nil || len(names) == 0 {
		if err = errors.Join(err, s.root.Chmod(".", 0o700)); err != nil {
			return err
		}
	} else if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("other users can reach %s: run chmod 700 %s", s.dir, s.dir)
	}
	for _, name := range []string{layersDir, configsDir, usesDir, waitsDir, UnfinishedDir} {
		if err := s.root.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	lock, err := s.exclusive()
	if err != nil {
		return err
	}
	defer lock.Close()
	return s.checkFormat()
}

// checkFormat finds out how overlays are marked here, and writes or compares the
// file that says so.
func (s *Store) checkFormat() error {
	s.layers = layer.Options{Limits: layer.DefaultLimits(), Opaque: layer.OpaqueTrusted, Owners: os.Geteuid() == 0}
	mark := "trusted"
	if err := s.canTrust(); err != nil {
		if !errors.Is(err, unix.EPERM) {
			return err
		}
		s.layers.Opaque, mark = layer.OpaqueUser, "user"
	}
	want := "securebench images 1 " + mark + "\n"
	have, err := s.root.ReadFile(formatFile)
	if errors.Is(err, fs.ErrNotExist) {
		if names, err := fs.ReadDir(s.root.FS(), layersDir); err != nil || len(names) > 0 {
			return errors.Join(err, fmt.Errorf("%s has layers but no file %q: it is not a store", s.dir, formatFile))
		}
		return durable.WriteFile(s.root, formatFile, []byte(want), 0o600)
	}
	if err == nil && string(have) != want {
		err = fmt.Errorf("%s is %q and this process needs %q: set SECUREBENCH_IMAGES to another folder",
			s.dir, strings.TrimSpace(string(have)), strings.TrimSpace(want))
	}
	return err
}

// canTrust returns EPERM if this process may not set the attributes that overlays
// outside user namespaces read.
func (s *Store) canTrust() error {
	err := unix.Lsetxattr(filepath.Join(s.dir, layersDir), "trusted.securebench", []byte("y"), 0)
	if errors.Is(err, unix.ENOTSUP) {
		err = fmt.Errorf("the file system of %s has no extended attributes, which layers need: set SECUREBENCH_IMAGES to a folder on another one", s.dir)
	}
	return err
}

// Dir is the folder of the store.
func (s *Store) Dir() string { return s.dir }

// Close releases the store; images that are in use stay so until they are released.
func (s *Store) Close() error { return s.root.Close() }

func (s *Store) layerDir(diffID string) string { return filepath.Join(layersDir, hexOf(diffID)) }

// hexOf is the file name of a digest that was checked.
func hexOf(digest string) string { return strings.TrimPrefix(digest, "sha256:") }

// oneLine prevents that a source's error text, which a registry or an archive can
// choose, is read as more than one line.
func oneLine(err error) error {
	if err == nil || !strings.ContainsAny(err.Error(), "\r\n\x1b") {
		return err
	}
	return fmt.Errorf("%.300q%w", err.Error(), silent{err})
}

// silent keeps what an error is and drops its text.
type silent struct{ error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.error }

// closer joins the error of closing what was read.
func closer(err *error, c io.Closer) { *err = errors.Join(*err, c.Close()) }
