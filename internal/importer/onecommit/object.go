// Package onecommit makes git repositories of one commit: the id of a commit of
// given files, and a repository as an archive. It runs nothing.
package onecommit

import (
	"bytes"
	"crypto/sha1" // git names its objects by SHA-1
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Kind is the type of an object as a pack file numbers it.
type Kind int

// The types of objects that a repository of one commit has.
const (
	Commit Kind = 1
	Tree   Kind = 2
	Blob   Kind = 3
)

// String returns git's name of the type.
func (k Kind) String() string {
	return map[Kind]string{Commit: "commit", Tree: "tree", Blob: "blob"}[k]
}

// ID is the name of an object.
type ID [sha1.Size]byte

// String returns the 40 digits of an id.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// ParseID reads the 40 lower-case digits of an id.
func ParseID(s string) (id ID, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(id) || s != strings.ToLower(s) {
		return ID{}, fmt.Errorf("%q is not the id of a git object", s)
	}
	return ID(b), nil
}

// NewID returns the name of an object.
func NewID(k Kind, data []byte) ID {
	h := sha1.New() // git names its objects by SHA-1
	fmt.Fprintf(h, "%s %d\x00", k, len(data))
	h.Write(data)
	return ID(h.Sum(nil))
}

// The modes of a tree's entries.
const (
	modeFile      = 0o100644
	modeExec      = 0o100755
	modeLink      = 0o120000
	modeSubmodule = 0o160000
	modeTree      = 0o040000
)

// Files are plain files by path.
type Files map[string]string

// The author and the committer of every commit that [CommitID] names, in the
// form of git's variables.
const (
	Author = "securebench"
	Email  = "securebench@localhost"
	Date   = "2001-01-01T00:00:00+0000"
	stamp  = "978307200 +0000" // the same date, as a commit has it
)

// CommitID returns the id of the commit that git makes of files that are not
// executable, without a parent, by [Author] at [Date]. The message is one line.
func CommitID(files Files, message string) (ID, error) {
	root, err := treeID(files)
	if err != nil {
		return ID{}, err
	}
	who := fmt.Sprintf("%s <%s> %s", Author, Email, stamp)
	return NewID(Commit, fmt.Appendf(nil, "tree %s\nauthor %s\ncommitter %s\n\n%s\n", root, who, who, message)), nil
}

// entry is one entry of a tree.
type entry struct {
	mode int
	id   ID
}

func treeID(files Files) (ID, error) {
	entries, below := map[string]entry{}, map[string]Files{}
	for name, text := range files {
		first, rest, nested := strings.Cut(name, "/")
		if first == "" || first == "." || first == ".." || strings.EqualFold(first, ".git") || strings.ContainsAny(first, "\x00\n\\") {
			return ID{}, fmt.Errorf("the path %q cannot be in a repository", name)
		}
		if !nested {
			entries[first] = entry{modeFile, NewID(Blob, []byte(text))}
			continue
		}
		if below[first] == nil {
			below[first] = Files{}
		}
		below[first][rest] = text
	}
	for name, inner := range below {
		if _, taken := entries[name]; taken {
			return ID{}, fmt.Errorf("%q is a file and a folder", name)
		}
		id, err := treeID(inner)
		if err != nil {
			return ID{}, err
		}
		entries[name] = entry{modeTree, id}
	}
	return NewID(Tree, encodeTree(entries)), nil
}

// encodeTree sorts as git does: a folder's name as if it ended in a slash.
func encodeTree(entries map[string]entry) []byte {
	key := func(name string) string {
		if entries[name].mode == modeTree {
			return name + "/"
		}
		return name
	}
	names := slices.SortedFunc(maps.Keys(entries), func(a, b string) int { return strings.Compare(key(a), key(b)) })
	var out []byte
	for _, name := range names {
		e := entries[name]
		out = fmt.Appendf(out, "%o %s\x00", e.mode, name)
		out = append(out, e.id[:]...)
	}
	return out
}

// decodeTree calls f with each entry of a tree.
func decodeTree(data []byte, f func(mode int, name string, id ID) error) error {
	for len(data) > 0 {
		head, rest, ok := bytes.Cut(data, []byte{0})
		mode, name, spaced := strings.Cut(string(head), " ")
		var m int
		if _, err := fmt.Sscanf(mode, "%o", &m); err != nil || !ok || !spaced || len(rest) < sha1.Size {
			return errors.New("a tree is damaged")
		}
		if name == "" || name == "." || name == ".." || strings.EqualFold(name, ".git") || strings.Contains(name, "/") {
			return fmt.Errorf("a tree has an entry %q", name)
		}
		if err := f(m, name, ID(rest[:sha1.Size])); err != nil {
			return err
		}
		data = rest[sha1.Size:]
	}
	return nil
}
