package pack

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"securebench/internal/bounded"
	"securebench/internal/digest"
	"securebench/internal/workspace"
)

// The bounds of an asset folder. They keep the check short, whatever a pack
// contains, and everything within them fits into a workspace. Sizes are those
// that the file system reports: no file is read to find out.
const (
	maxTreeEntries = 1 << 18  // files and folders
	maxTreeBytes   = 16 << 30 // of all files together
)

// tree is one scanned asset folder. What lies below a bad entry is not
// scanned.
type tree struct {
	dir     string // relative to the manifest's folder
	digest  string
	entries map[string]entry  // by path; "." is not among them
	folders map[string]folder // "." included
	bad     []badEntry        // at most maxProblems
	order   []found           // the entries as they are hashed, if they were
}

// entry is a file or folder of a tree.
type entry struct {
	folder bool
	need   workspace.Need // of a file
	sum    string         // likewise
}

// folder sums up the content of a folder.
type folder struct {
	need    workspace.Need
	longest int // bytes of the longest path below it, with a slash before
}

// badEntry is an entry that a tree may not contain.
type badEntry struct {
	path     string // relative to the tree; "." is the folder itself
	what     string // "a symbolic link"
	fix      string
	reported bool
}

// scanner lists a whole tree, within the bounds, before it reads any file.
type scanner struct {
	ctx   context.Context
	t     *tree
	root  *os.Root
	order []found // as fs.WalkDir orders
	left  int     // names that may still be looked at

	hashed map[inode][]byte // content of files with several names
}

// found is a file or folder that is still to be hashed.
type found struct {
	path string
	info fs.FileInfo
}

// inode identifies a file independently of its names.
type inode struct{ dev, ino uint64 }

// scanTree hashes all files below dir and records the entries that are not
// allowed. Links are not followed. A missing folder counts as empty.
func scanTree(ctx context.Context, pack *os.Root, dir string) (*tree, error) {
	s := newScanner(ctx, dir)
	err := s.open(pack)
	if s.root != nil {
		defer s.root.Close()
		if err = s.folder(".", 0); err == nil {
			err = s.sizes()
		}
	}
	if errors.Is(err, errStop) {
		err = nil
	}
	if err == nil && len(s.t.bad) == 0 {
		err = s.hash()
	}
	if err != nil {
		return nil, fmt.Errorf("reading the pack's files in %s: %w", path.Join(pack.Name(), dir), err)
	}
	return s.t, nil
}

func newScanner(ctx context.Context, dir string) *scanner {
	t := &tree{dir: dir, entries: map[string]entry{}, folders: map[string]folder{}}
	return &scanner{ctx: ctx, t: t, left: maxTreeEntries, hashed: map[inode][]byte{}}
}

// errStop ends a scan that has found enough.
var errStop = errors.New("enough problems")

// bad records an entry that is not allowed.
func (s *scanner) bad(name, what, fix string) error {
	s.t.bad = append(s.t.bad, badEntry{path: name, what: what, fix: fix})
	if len(s.t.bad) == maxProblems {
		return errStop
	}
	return nil
}

const fixCopy = "replace it by a copy: packs hold regular files and directories only"

// open opens the folder if each part of its path is a real directory.
func (s *scanner) open(pack *os.Root) error {
	at := ""
	for part := range strings.SplitSeq(s.t.dir, "/") {
		at = path.Join(at, part)
		switch info, err := pack.Lstat(at); {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !info.IsDir():
			return s.bad(".", describe(info.Mode()), fixCopy)
		}
	}
	var err error
	s.root, err = pack.OpenRoot(s.t.dir)
	return err
}

// folder scans a folder.
func (s *scanner) folder(dir string, depth int) error {
	if depth > workspace.MaxDepth {
		return s.bad(dir, fmt.Sprintf("a folder more than %d folders deep", workspace.MaxDepth), "nest folders less deeply")
	}
	names, err := s.names(dir)
	if err != nil {
		return err
	}
	spelled := make(map[string]string, len(names))
	for _, name := range names {
		if err := context.Cause(s.ctx); err != nil {
			return err
		}
		full := path.Join(dir, name)
		if what, fix := nameProblem(full, name); what != "" {
			if err := s.bad(full, what, fix); err != nil {
				return err
			}
			continue
		}
		key := alias(name)
		if other, ok := spelled[key]; ok {
			what := fmt.Sprintf("a name that is %q on some systems", other)
			if err := s.bad(full, what, "rename one: they differ only by case or Unicode form"); err != nil {
				return err
			}
			continue
		}
		spelled[key] = name
		if err := s.entry(full, depth); err != nil {
			return err
		}
	}
	return nil
}

// names lists a folder in lexical order, up to the bound on the number of all
// names.
func (s *scanner) names(dir string) (names []string, err error) {
	f, err := s.root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for {
		if err := context.Cause(s.ctx); err != nil {
			return nil, err
		}
		part, err := f.Readdirnames(1024)
		names = append(names, part...)
		if s.left -= len(part); s.left < 0 {
			_ = s.bad(dir, fmt.Sprintf("a folder that brings the number of files and folders above %d", maxTreeEntries), "combine them into fewer files")
			return nil, errStop
		}
		switch {
		case errors.Is(err, io.EOF):
			slices.Sort(names)
			return names, nil
		case err != nil:
			return nil, err
		}
	}
}

// nameProblem says what is wrong with a name of a tree, or "".
func nameProblem(full, name string) (what, fix string) {
	switch {
	case !utf8.ValidString(name):
		return "a name that is not valid UTF-8", "rename it"
	case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == '\\' }):
		return "a name with a control character or a backslash", "rename it"
	case trailing(name):
		return "a name that ends in a dot or a space", "rename it: some systems drop the end"
	case len(full) > workspace.MaxPath:
		return fmt.Sprintf("a path of %d bytes, more than %d", len(full), workspace.MaxPath), "shorten the names, or nest folders less deeply"
	}
	return "", ""
}

// trailing reports whether some systems would drop dots or spaces at the end
// of the name. A name that is only dots is never changed.
func trailing(name string) bool {
	return strings.TrimRight(name, ". ") != name && strings.Trim(name, ".") != ""
}

// alias folds case and Unicode composition, so that names which some file
// system treats as equal become equal.
func alias(name string) string {
	return norm.NFC.String(strings.Map(foldRune, norm.NFD.String(name)))
}

// foldRune returns the least of the runes that differ from r only by case.
func foldRune(r rune) rune {
	least := r
	for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
		least = min(least, next)
	}
	return least
}

// entry scans one file or folder.
func (s *scanner) entry(name string, depth int) error {
	info, err := s.root.Lstat(name)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		s.order = append(s.order, found{name, info})
		s.t.entries[name] = entry{folder: true}
		s.t.count(name, workspace.Need{Files: 1})
		return s.folder(name, depth+1)
	case !info.Mode().IsRegular():
		return s.bad(name, describe(info.Mode()), fixCopy)
	}
	s.order = append(s.order, found{name, info})
	need := workspace.FileNeed(info.Size())
	s.t.entries[name] = entry{need: need}
	s.t.count(name, need)
	return nil
}

// count adds an entry to the folders above it.
func (t *tree) count(name string, need workspace.Need) {
	for dir := path.Dir(name); ; dir = path.Dir(dir) {
		d := t.folders[dir]
		t.folders[dir] = folder{d.need.Plus(need), max(d.longest, len(name)-len(dir))}
		if dir == "." {
			return
		}
	}
}

// sizes refuses files that are too large, each or together.
func (s *scanner) sizes() error {
	total, largest := int64(0), found{}
	for _, f := range s.order {
		if !f.info.Mode().IsRegular() {
			continue
		}
		total += min(f.info.Size(), maxTreeBytes+1) // which cannot overflow
		if largest.info == nil || f.info.Size() > largest.info.Size() {
			largest = f
		}
	}
	const fix = "remove it, or create it in the image"
	switch {
	case total <= maxTreeBytes:
		return nil
	case largest.info.Size() > maxTreeBytes:
		return s.bad(largest.path, fmt.Sprintf("a file of %d bytes, more than the %d of all assets", largest.info.Size(), int64(maxTreeBytes)), fix)
	}
	return s.bad(".", fmt.Sprintf("a folder of %d bytes, more than %d; the largest file is %s with %d", total, int64(maxTreeBytes),
		largest.path, largest.info.Size()), fix)
}

// hash adds every entry to the tree's digest.
func (s *scanner) hash() error {
	sum := sha256.New()
	for _, f := range s.order {
		var content []byte
		if !f.info.IsDir() {
			var err error
			if content, err = s.content(f); err != nil {
				return err
			}
			s.t.entries[f.path] = entry{need: s.t.entries[f.path].need, sum: digest.Format(content)}
		}
		f.writeTo(sum, digest.Format(content))
	}
	s.t.digest, s.t.order = digest.Format(sum.Sum(nil)), s.order
	return nil
}

// writeTo adds an entry to the digest of a tree. sum is that of a file's content.
func (f found) writeTo(w io.Writer, sum string) {
	if f.info.IsDir() {
		fmt.Fprintf(w, "dir %d:%s\n", len(f.path), f.path)
		return
	}
	fmt.Fprintf(w, "file %d:%s %t %s\n", len(f.path), f.path, f.info.Mode()&0o111 != 0, strings.TrimPrefix(sum, "sha256:"))
}

// content returns the SHA-256 of a file. A file with several names (hard
// links) is read once.
func (s *scanner) content(f found) ([]byte, error) {
	id, linked := hardLinked(f.info)
	if sum, ok := s.hashed[id]; linked && ok {
		return sum, nil
	}
	sum, err := s.read(f)
	if linked && err == nil {
		s.hashed[id] = sum
	}
	return sum, err
}

// hardLinked returns the identity of a file that has several names.
func hardLinked(info fs.FileInfo) (inode, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return inode{}, false
	}
	return inode{uint64(st.Dev), st.Ino}, st.Nlink > 1 //nolint:unconvert // the type of Dev differs between systems
}

// read hashes a file, which must be the one that was found and have the same
// size.
func (s *scanner) read(want found) ([]byte, error) {
	// Without O_NONBLOCK, opening a pipe that replaced the file would block.
	f, err := s.root.OpenFile(want.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// A link put there since would be followed inside the root.
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || !os.SameFile(want.info, info) {
		return nil, errors.Join(fmt.Errorf("%s was replaced while it was read", want.path), err)
	}
	content := sha256.New()
	// Reading one byte more than expected detects a file that grows.
	n, err := io.Copy(content, io.LimitReader(bounded.Until(s.ctx, f), want.info.Size()+1))
	if err == nil && n != want.info.Size() {
		err = fmt.Errorf("%s changed while it was read", want.path)
	}
	if err != nil {
		return nil, err
	}
	return content.Sum(nil), nil
}
