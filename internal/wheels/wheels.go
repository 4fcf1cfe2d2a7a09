// Package wheels brings Python's libraries into sandboxes: it fetches wheels whose
// content is pinned from the registry, as the pip client is configured, keeps them in a
// cache and puts them on an engine as one read-only tree. It runs neither pip nor
// anything of a wheel.
package wheels

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"securebench/internal/digest"
	"securebench/internal/durable"
	"securebench/internal/fault"
	"securebench/internal/redact"
	"securebench/internal/registry"
	"securebench/internal/source"
)

const (
	maxWheel = 128 << 20 // a wheel
	maxTree  = 512 << 20 // what it unpacks to
)

// Wheel is one file of a registry, whose content is known.
type Wheel struct {
	Project string // as the registry's addresses have it
	File    string
	SHA256  string
}

// Set is a library with what it needs.
type Set struct {
	Name, Version string
	Wheels        []Wheel
	// Installed says that the wheels are laid out whole, as pip would: modules in lib,
	// programs in bin, other files in data.
	Installed bool
}

// MathVerify compares mathematical expressions. All of its wheels are Python only, so
// one tree serves every processor and every Python from 3.10 on.
func MathVerify() Set {
	return Set{Name: "math-verify", Version: "0.9.0", Wheels: []Wheel{
		{"math-verify", "math_verify-0.9.0-py3-none-any.whl", "3703e7c4885354027fa84409d762a596a2906d1fd4deb78361876bd905a76194"},
		{"latex2sympy2-extended", "latex2sympy2_extended-1.11.0-py3-none-any.whl", "aebb77d52ce269e25028e4bea89ddb14d242ba36bcf7b636496fb5fd9728d234"},
		{"antlr4-python3-runtime", "antlr4_python3_runtime-4.13.2-py3-none-any.whl", "fe3835eb8d33daece0e799090eda89719dbccee7aa39ef94eed3818cafa5a7e8"},
		{"sympy", "sympy-1.14.0-py3-none-any.whl", "e091cc3e99d2141a0ba2847328f5479b05d94a6635cb96148ccb3f34671bd8f5"},
		{"mpmath", "mpmath-1.3.0-py3-none-any.whl", "a0b2b9fe80bbcd81a6647ff13108738cfb482d481d826cc0e02f5b35e5c88d2c"},
	}}
}

// Digest is the digest of the pinned content, and of how it is unpacked.
func (s Set) Digest() string {
	h := sha256.New()
	layout := "without tests, layout 1"
	if s.Installed {
		layout = "installed, layout 1"
	}
	fmt.Fprintf(h, "wheels, %s\n", layout)
	for _, w := range s.Wheels {
		fmt.Fprintf(h, "%s %s\n", w.SHA256, w.File)
	}
	return digest.Format(h.Sum(nil))
}

// Key names the tree on an engine.
func (s Set) Key() string {
	sum, _ := digest.Hex(s.Digest())
	return "python-" + s.Name + "_" + s.Version + "_" + sum[:32]
}

// Title describes the set to people.
func (s Set) Title() string { return s.Name + " " + s.Version + " for Python" }

// Cache holds wheels on this machine. Processes can share one.
type Cache struct {
	root   *os.Root
	name   string
	getenv func(string) string
	pause  time.Duration
}

// OpenCache opens the cache: dir, else $SECUREBENCH_WHEEL_CACHE, else the user's cache
// folder.
func OpenCache(dir string, getenv func(string) string) (*Cache, error) {
	if dir = cmp.Or(dir, folder(getenv)); dir == "" {
		return nil, fault.Errorf(fault.Config, "there is no folder for Python's libraries: set SECUREBENCH_WHEEL_CACHE")
	}
	root, err := durable.OpenFolder(dir, 0o755)
	if err != nil {
		return nil, cacheError(err)
	}
	return &Cache{root: root, name: dir, getenv: getenv, pause: time.Second}, nil
}

// folder is where the cache is unless it is said, "" if there is no such folder.
func folder(getenv func(string) string) string {
	if dir := getenv("SECUREBENCH_WHEEL_CACHE"); dir != "" {
		return dir
	}
	base := getenv("XDG_CACHE_HOME")
	if home := getenv("HOME"); !filepath.IsAbs(base) && filepath.IsAbs(home) {
		base = filepath.Join(home, ".cache")
	}
	if !filepath.IsAbs(base) {
		return ""
	}
	return filepath.Join(base, "securebench", "wheels")
}

// IsCached reports whether the cache has all of a set. It makes no cache.
func IsCached(s Set, getenv func(string) string) bool {
	root, err := os.OpenRoot(folder(getenv))
	if err != nil {
		return false
	}
	defer root.Close()
	return len((&Cache{root: root}).Missing(s)) == 0
}

func cacheError(err error) error {
	return fault.Errorf(fault.Refused, "the cache of Python's libraries cannot be used: %s (set SECUREBENCH_WHEEL_CACHE to a folder that can be written)", source.Words(err))
}

// Close ends the use of the cache.
func (c *Cache) Close() error { return c.root.Close() }

// Missing returns the wheels of a set that the cache does not have whole.
func (c *Cache) Missing(s Set) (out []Wheel) {
	for _, w := range s.Wheels {
		if _, err := c.Read(w); err != nil {
			out = append(out, w)
		}
	}
	return out
}

// Read returns a wheel of the cache whose content is the pinned one.
func (c *Cache) Read(w Wheel) ([]byte, error) {
	data, err := source.ReadFileIn(c.root, w.File, maxWheel)
	if err == nil && !w.is(data) {
		err = fmt.Errorf("%s is damaged", w.File)
	}
	return data, err
}

// is reports whether data is the content of the wheel.
func (w Wheel) is(data []byte) bool {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]) == w.SHA256
}

// Fetch brings what is missing of a set into the cache: from a folder that pip's
// configuration names, or else from the registry. What is there needs no registry. say
// gets a line before anything is fetched.
func (c *Cache) Fetch(ctx context.Context, s Set, say func(string)) (err error) {
	missing := c.Missing(s)
	if len(missing) == 0 {
		return nil
	}
	conf, err := loadPip(c.getenv)
	if err != nil {
		return fault.As(fault.Config, err)
	}
	r, err := openIndexes(conf, c.pause)
	if err != nil {
		return fault.As(fault.Config, err)
	}
	defer r.close()
	say(fmt.Sprintf("fetching %s: %d wheels from the Python registry", s.Title(), len(missing)))
	for _, w := range missing {
		data, err := c.obtain(ctx, conf, r, w)
		if err != nil {
			return c.advise(ctx, s, w, err)
		}
		if err := durable.WriteFile(c.root, w.File, data, 0o644); err != nil {
			return cacheError(err)
		}
	}
	return nil
}

// errDigest says that a registry has another file of the name.
var errDigest = errors.New("its SHA-256 digest is another")

// obtain returns the content of a wheel from where pip would look for it.
func (c *Cache) obtain(ctx context.Context, conf *pip, r *indexes, w Wheel) ([]byte, error) {
	for _, dir := range conf.folders() {
		data, err := source.ReadFile(filepath.Join(dir, w.File), maxWheel)
		if err == nil && w.is(data) {
			return data, nil
		}
	}
	data, err := r.fetch(ctx, w)
	if err == nil && !w.is(data) {
		err = errDigest
	}
	return data, err
}

// advise says whose fault it is that a wheel is not there, and what can be done.
func (c *Cache) advise(ctx context.Context, s Set, w Wheel, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errDigest):
		return fault.Errorf(fault.Integrity, "fetching %s: %w (nothing of it was kept; if it happens again, the registry or something before it changes packages)", w.File, err)
	case errors.Is(err, registry.ErrUnreachable):
		return fault.Errorf(fault.Infrastructure, "fetching %s for %s: %w: check the network and pip's settings index-url, proxy and cert, or copy the %d wheels into %s from a machine that has them",
			w.File, s.Title(), err, len(s.Wheels), redact.Quote(c.name))
	}
	return fault.Errorf(fault.Config, "fetching %s for %s: %w: check pip's setting index-url, or copy the wheel into %s", w.File, s.Title(), err, redact.Quote(c.name))
}

// WriteTar writes the tree of a set: what a folder of Python's path holds, without
// tests and programs, unless the set is installed. Everything belongs to root and can be read by all.
func (c *Cache) WriteTar(s Set, to io.Writer) error {
	out := tar.NewWriter(to)
	if s.Installed {
		if err := c.install(s, out); err != nil {
			return err
		}
		return out.Close()
	}
	made, left := map[string]bool{}, int64(maxTree)
	for _, w := range s.Wheels {
		data, err := c.Read(w)
		if err != nil {
			return fmt.Errorf("reading %s from the cache: %w", w.File, err)
		}
		z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return fmt.Errorf("reading %s from the cache: %w", w.File, err)
		}
		files := slices.Clone(z.File)
		slices.SortFunc(files, func(a, b *zip.File) int { return strings.Compare(a.Name, b.Name) })
		for _, f := range files {
			if isWanted(f.Name) {
				if err := writeFile(out, f, made, &left); err != nil {
					return fmt.Errorf("unpacking %s: %w", w.File, err)
				}
			}
		}
	}
	return out.Close()
}

// isWanted reports whether a file of a wheel belongs into the tree: modules of Python,
// what they read, and licences.
func isWanted(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	switch {
	case !fs.ValidPath(name), strings.Contains(name, `\`), strings.HasSuffix(top, ".data"):
		return false
	case strings.HasSuffix(top, ".dist-info"):
		base := strings.ToUpper(path.Base(name))
		return strings.HasPrefix(base, "LICEN") || base == "METADATA" || base == "AUTHORS"
	}
	return !strings.Contains(name, "/tests/") && !strings.Contains(name, "/benchmarks/")
}

// writeFile writes a file, and first the folders above it that are not made yet.
func writeFile(out *tar.Writer, f *zip.File, made map[string]bool, left *int64) error {
	if !f.Mode().IsRegular() {
		return nil
	}
	for i, c := range f.Name {
		if dir := f.Name[:i]; c == '/' && !made[dir] {
			made[dir] = true
			if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}); err != nil {
				return err
			}
		}
	}
	if *left -= int64(f.UncompressedSize64); *left < 0 || f.UncompressedSize64 > maxTree {
		return fmt.Errorf("it unpacks to more than %d MiB", maxTree>>20)
	}
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.Name, Mode: 0o644, Size: int64(f.UncompressedSize64), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}); err != nil {
		return err
	}
	in, err := f.Open()
	if err != nil {
		return err
	}
	_, err = io.CopyN(out, in, int64(f.UncompressedSize64))
	return errors.Join(err, in.Close())
}
