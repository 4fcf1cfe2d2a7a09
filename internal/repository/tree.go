// Package repository compares the trees of a repository's checkout and writes
// their difference as a patch. It reads archives and bytes; it never runs git,
// and never reads a .git folder.
package repository

import (
	"io"
)

// Mode is a file's mode as git numbers it.
type Mode uint32

// The modes of what a checkout can contain. The zero mode is an absent file.
const (
	Regular    Mode = 0o100644
	Executable Mode = 0o100755
	Symlink    Mode = 0o120000
)

// Entry is a file or symbolic link of a checkout. The zero value is absent.
type Entry struct {
	Mode Mode
	Size int64
	Sum  [32]byte // SHA-256 of the content, or of a link's target
}

// Exists reports whether the entry is not absent.
func (e Entry) Exists() bool { return e.Mode != 0 }

// Bounds limit what is read of a tree.
type Bounds struct {
	Bytes int64
	Files int64
}

// Tree is the content of a checkout without its .git.
type Tree struct {
	Entries map[string]Entry // by clean, relative, slash-separated path
	// Odd maps the paths of what is neither a plain file, a folder nor a
	// symbolic link to what it is: "a named pipe", "a hard link", "a nested
	// repository", "unreadable".
	Odd map[string]string
}

// Read reads the archive of a checkout, in the form of
// [securebench/internal/sandbox.Workspace]. keep, which may be nil, gets the
// content of every file and the target of every link. A tree beyond the bounds
// is a [*securebench/internal/candidate.Rejection].
func Read(archive io.Reader, b Bounds, keep func(path string, e Entry, content io.Reader) error) (*Tree, error) {
	panic("not written yet")
}

// Change is one path that differs between two trees. A file that moved is two
// changes.
type Change struct {
	Path          string
	Before, After Entry
}

// Compare returns the differences between two trees, sorted by path. What is
// odd is no part of them; see [Refuse].
func Compare(before, after *Tree) []Change {
	panic("not written yet")
}

// Refuse returns a [*securebench/internal/candidate.Rejection] that names the
// first thing in after that no candidate may contain and that before does not
// contain in the same form: a new or changed link, a named pipe, a device, a
// hard link, a nested repository, a name that is not UTF-8, or one that is
// equal to another after case folding or Unicode normalisation, or that only
// some file systems keep (a trailing dot or space, "git~1", ".GIT").
func Refuse(before, after *Tree) error {
	panic("not written yet")
}

// Contents returns the content of the two sides of a change, nil for an absent
// one.
type Contents func(Change) (before, after []byte, err error)

// WritePatch writes changes as a patch in git's format, which git apply turns
// into exactly the tree that they came from. Text files have hunks with three
// lines of context, all others binary sections.
func WritePatch(w io.Writer, changes []Change, contents Contents) error {
	panic("not written yet")
}

// Paths returns the paths that the headers of a patch name, sorted. It is for
// trusted patches: what a patch does is known only once it was applied.
func Paths(patch []byte) ([]string, error) {
	panic("not written yet")
}

// Ignore decides which new files capture leaves out.
type Ignore struct{}

// NewIgnore returns the rules of a base: its own .gitignore files, by path, and
// the fixed list of caches.
func NewIgnore(gitignores map[string][]byte) *Ignore {
	panic("not written yet")
}

// Match reports whether a path is ignored, and by which rule ("cache" or the
// path of the .gitignore file).
func (i *Ignore) Match(path string) (rule string, ok bool) {
	panic("not written yet")
}
