// Package repository compares the trees of a repository's checkout and writes
// their difference as a patch. It reads archives and bytes; it never runs git,
// and never reads a .git folder.
package repository

import (
	"slices"
	"strings"

	"securebench/internal/candidate"
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
	Bytes int64 // of all files and link targets together
	Files int64 // and folders, links and what is odd
}

// ArchiveSize is the largest archive that a tree within the bounds can have.
func (b Bounds) ArchiveSize() int64 {
	return candidate.Bounds{Bytes: b.Bytes, Files: b.Files}.ArchiveSize()
}

// Tree is the content of a checkout without its .git.
type Tree struct {
	Entries map[string]Entry // by clean, relative, slash-separated path
	// Odd maps the paths of what is neither a plain file, a folder nor a
	// symbolic link to what it is: "a named pipe", "a nested repository",
	// "unreadable". A file with several names is both: an entry, and odd as
	// "a hard link".
	Odd map[string]string
}

// Change is one path that differs between two trees. A file that moved is two
// changes.
type Change struct {
	Path          string
	Before, After Entry
}

// Compare returns the differences between two trees, sorted by path. What is
// odd is no part of them, except for files with several names; see [Refuse].
func Compare(before, after *Tree) []Change {
	var changes []Change
	for path, b := range before.Entries {
		if a := after.Entries[path]; a != b {
			changes = append(changes, Change{path, b, a})
		}
	}
	for path, a := range after.Entries {
		if _, ok := before.Entries[path]; !ok {
			changes = append(changes, Change{Path: path, After: a})
		}
	}
	sortChanges(changes)
	return changes
}

func sortChanges(changes []Change) {
	slices.SortFunc(changes, func(x, y Change) int { return strings.Compare(x.Path, y.Path) })
}
