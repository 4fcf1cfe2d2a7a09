package kinds

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"securebench/internal/digest"
	"securebench/internal/redact"
	"securebench/internal/source"
)

// The bounds of all files together.
const (
	maxFiles     = 20_000 // and folders and links
	maxFileBytes = 512 << 20
)

// fileOptions say what to read.
type fileOptions struct {
	Dir   string   // of the tester YAML
	Paths []string // clean, relative and below Dir
	// Content takes what is in the only path if that is a folder, and not the folder.
	Content bool
	// Forbidden are paths of the operator's that may not be among the files, each with
	// what it is.
	Forbidden map[string]string
	// Clean removes the operator's secrets from what is written; nil looks for none.
	Clean func(io.Writer) io.WriteCloser
}

// ownFiles are the files of an operator's own agent, from below the folder of a tester
// YAML: what they are, under which digest, and as the archive of the overlay that agents
// find them in. They become readable to agents, so nothing that an agent must not see may
// be among them: answers, earlier results, secrets.
type ownFiles struct {
	Digest string // over names, content, what can be executed, and links

	opts      fileOptions
	root      *os.Root
	forbidden map[string]fs.FileInfo
	entries   []fileEntry
	bytes     int64
}

// fileEntry is a file, folder or link.
type fileEntry struct {
	from, name string // below Dir, and in the overlay
	mode       fs.FileMode
	size       int64
	target     string // of a link
	sum        [sha256.Size]byte
}

// openFiles reads all files once. The caller closes them.
func openFiles(ctx context.Context, o fileOptions) (_ *ownFiles, err error) {
	f := &ownFiles{opts: o, forbidden: map[string]fs.FileInfo{}}
	for name := range o.Forbidden {
		if info, err := os.Stat(name); err == nil {
			f.forbidden[name] = info
		}
	}
	if f.root, err = os.OpenRoot(o.Dir); err != nil {
		return nil, fmt.Errorf("opening the tester YAML's folder: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	for _, p := range o.Paths {
		if err := f.top(ctx, p); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(f.entries, func(a, b fileEntry) int { return strings.Compare(a.name, b.name) })
	for i := range f.entries[min(1, len(f.entries)):] {
		if f.entries[i].name == f.entries[i+1].name {
			return nil, fmt.Errorf("%s is listed twice", redact.Quote(f.entries[i].from))
		}
	}
	if err := f.checkLinks(); err != nil {
		return nil, err
	}
	f.Digest = f.digest()
	return f, nil
}

// Close releases the folder.
func (f *ownFiles) Close() error { return f.root.Close() }

// has reports whether there is something at a path in the overlay, as far as that is
// known without following links.
func (f *ownFiles) has(name string) bool {
	return name == "." || slices.ContainsFunc(f.entries, func(e fileEntry) bool {
		above, through := strings.HasPrefix(e.name, name+"/"), e.mode&fs.ModeSymlink != 0 && strings.HasPrefix(name, e.name+"/")
		return e.name == name || above || through
	})
}

// top reads one of the configured paths.
func (f *ownFiles) top(ctx context.Context, p string) error {
	info, err := f.root.Lstat(p)
	if err != nil {
		return fmt.Errorf("%s: %s", redact.Quote(p), source.Words(unpath(err)))
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("%s: it is a link (name what it leads to)", redact.Quote(p))
	}
	for above := path.Dir(p); above != "."; above = path.Dir(above) {
		if err := f.allowed(above); err != nil {
			return fmt.Errorf("%s lies in %s: %w", redact.Quote(p), redact.Quote(above), err)
		}
	}
	content := f.opts.Content && info.IsDir()
	return fs.WalkDir(source.FS(f.root), p, func(from string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("%s: %s", redact.Quote(from), source.Words(unpath(err)))
		}
		if leftOut(d) && from != p {
			return fs.SkipDir
		}
		name := from
		if content {
			name = strings.TrimPrefix(strings.TrimPrefix(from, p), "/")
		}
		if name == "" {
			err = f.allowed(from)
		} else {
			err = f.add(from, name)
		}
		if err != nil && !errors.Is(err, errSecretName) {
			return fmt.Errorf("%s: %w", redact.Quote(from), err)
		}
		return err
	})
}

// errSecretName does not say which name it is.
var errSecretName = errors.New("the name of a file, or what a link leads to, contains a secret of the environment or the env file, which the agent could read (rename it)")

// leftOut reports whether a folder is not the agent's own work: what Python and git
// leave beside it, which changes without it.
func leftOut(d fs.DirEntry) bool {
	return d.IsDir() && slices.Contains([]string{"__pycache__", ".git"}, d.Name())
}

// unpath returns the cause of an error without the operation and the path.
func unpath(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// allowed refuses what no agent may see.
func (f *ownFiles) allowed(from string) error {
	info, err := f.root.Lstat(from)
	if err != nil {
		return unpath(err)
	}
	for name, bad := range f.forbidden {
		if os.SameFile(info, bad) {
			return fmt.Errorf("it is %s, which the agent must not see (keep the agent's files in a folder of their own)", f.opts.Forbidden[name])
		}
	}
	if info.IsDir() && f.isRun(from) {
		return errors.New("it holds the records of a run, and perhaps answers, which the agent must not see (keep the agent's files in a folder of their own)")
	}
	switch base := path.Base(from); {
	case base == ".env" || strings.HasPrefix(base, ".env."):
		return errors.New("env files hold secrets, and the agent could read it (move it out, and forward what the agent needs with harness.env)")
	case base == "signing.pem":
		return errors.New("it is a key that signs runs, by its name, and the agent could read it (keep the agent's files in a folder of their own)")
	}
	return nil
}

// isRun reports whether a folder is what a run left, by the names of its files.
func (f *ownFiles) isRun(dir string) bool {
	for _, name := range []string{"run.json", "candidates.jsonl"} {
		if _, err := f.root.Lstat(path.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// add reads one file, folder or link.
func (f *ownFiles) add(from, name string) error {
	if err := f.allowed(from); err != nil {
		return err
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) || strings.HasPrefix(path.Base(name), ".wh.") {
		return errors.New("its name cannot be in a sandbox (rename it)")
	}
	info, err := f.root.Lstat(from)
	if err != nil {
		return unpath(err)
	}
	e := fileEntry{from: from, name: name, mode: fs.ModeDir | 0o755}
	switch m := info.Mode(); {
	case m.IsDir():
	case m&fs.ModeSymlink != 0:
		e.mode = fs.ModeSymlink | 0o777
		if e.target, err = f.root.Readlink(from); err != nil {
			return unpath(err)
		}
	case m.IsRegular():
		e.mode = 0o644
		if m&0o111 != 0 {
			e.mode = 0o755
		}
		if err := f.read(&e); err != nil {
			return err
		}
	default:
		return fmt.Errorf("it is %s (only files, folders and links can be given to an agent)", source.FileType(m))
	}
	if f.secret(name) || f.secret(e.target) {
		return errSecretName
	}
	if f.entries = append(f.entries, e); len(f.entries) > maxFiles {
		return fmt.Errorf("with it there are more than %d files and folders (list only what the agent needs)", maxFiles)
	}
	return nil
}

// secret reports whether a text contains a secret.
func (f *ownFiles) secret(text string) bool {
	if f.opts.Clean == nil {
		return false
	}
	var clean strings.Builder
	w := f.opts.Clean(&clean)
	_, err := io.WriteString(w, text)
	return errors.Join(err, w.Close()) != nil || clean.String() != text
}

// read takes a file's size and digest, and refuses one with a secret in it.
func (f *ownFiles) read(e *fileEntry) error {
	in, err := source.OpenIn(f.root, e.from, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	sum, clean := sha256.New(), sha256.New()
	to, flush := io.Writer(sum), func() error { return nil }
	if f.opts.Clean != nil {
		w := f.opts.Clean(clean)
		to, flush = io.MultiWriter(sum, w), w.Close
	}
	info, err := in.Stat()
	if err != nil {
		return err
	}
	n := info.Size()
	if room := maxFileBytes - f.bytes; n <= room {
		n, err = io.Copy(to, io.LimitReader(in, room+1))
	}
	if err = errors.Join(err, flush()); err != nil {
		return fmt.Errorf("reading it: %w", err)
	}
	if f.bytes += n; f.bytes > maxFileBytes {
		return fmt.Errorf("with it the files have more than %d bytes (list only what the agent needs, or put the rest into harness.config.image)", maxFileBytes)
	}
	e.size, e.sum = n, [sha256.Size]byte(sum.Sum(nil))
	if f.opts.Clean != nil && [sha256.Size]byte(clean.Sum(nil)) != e.sum {
		return errors.New("it contains a secret of the environment or the env file, which the agent could read (remove it)")
	}
	return nil
}

// checkLinks refuses links that lead out of the files: they would lead elsewhere in a
// sandbox.
func (f *ownFiles) checkLinks() error {
	for _, e := range f.entries {
		if e.mode&fs.ModeSymlink == 0 {
			continue
		}
		to := path.Join(path.Dir(e.name), e.target)
		if path.IsAbs(e.target) || !filepath.IsLocal(to) || !f.has(to) {
			return fmt.Errorf("%s: the link leads to %s, which is not among the files (copy what it leads to)", redact.Quote(e.from), redact.QuoteShort(e.target, 200))
		}
	}
	return nil
}

// digest returns the digest of all files.
func (f *ownFiles) digest() string {
	all := sha256.New()
	for _, e := range f.entries {
		e.describe(all)
	}
	return digest.Format(all.Sum(nil))
}

func (e fileEntry) describe(h hash.Hash) {
	switch {
	case e.mode.IsDir():
		fmt.Fprintf(h, "folder %q\n", e.name)
	case e.mode.IsRegular():
		fmt.Fprintf(h, "file %q %o %d %x\n", e.name, e.mode, e.size, e.sum)
	default:
		fmt.Fprintf(h, "link %q %q\n", e.name, e.target)
	}
}

// writeTar writes the files as they were read; one that has changed since is an error.
func (f *ownFiles) writeTar(w io.Writer) error {
	tw := tar.NewWriter(w)
	made := map[string]bool{".": true}
	for _, e := range f.entries {
		if err := f.folders(tw, made, path.Dir(e.name)); err != nil {
			return err
		}
		if err := f.write(tw, e); err != nil {
			return fmt.Errorf("%s: %w", redact.Quote(e.from), err)
		}
		made[e.name] = true
	}
	return tw.Close()
}

// folders writes the folders above a listed path that are not listed themselves.
func (f *ownFiles) folders(tw *tar.Writer, made map[string]bool, dir string) error {
	if made[dir] {
		return nil
	}
	if err := f.folders(tw, made, path.Dir(dir)); err != nil {
		return err
	}
	made[dir] = true
	return tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755})
}

func (f *ownFiles) write(tw *tar.Writer, e fileEntry) error {
	h := &tar.Header{Name: e.name, Mode: int64(e.mode.Perm()), Size: e.size, Typeflag: tar.TypeReg}
	switch {
	case e.mode.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, e.name+"/"
		return tw.WriteHeader(h)
	case !e.mode.IsRegular():
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.target
		return tw.WriteHeader(h)
	}
	in, err := source.OpenIn(f.root, e.from, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(tw, sum), io.LimitReader(in, e.size))
	if err != nil {
		return err
	}
	if n != e.size || [sha256.Size]byte(sum.Sum(nil)) != e.sum {
		return errors.New("it has changed since the run began (start the run again)")
	}
	return nil
}
