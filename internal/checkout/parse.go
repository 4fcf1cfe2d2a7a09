package checkout

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	hexDigits = "0123456789abcdef"
	maxID     = 64 // hexadecimal digits of SHA-256
	gitlink   = "160000"
)

// validID reports whether s is a whole object ID.
func validID(s string) bool {
	return (len(s) == 40 || len(s) == maxID) && strings.Trim(s, hexDigits) == ""
}

// validPath reports whether a path of git's is one of a file in the tree.
func validPath(p string) bool {
	if p == "" || len(p) > 4096 {
		return false
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return true
}

// treeEntry is a record of git ls-tree.
type treeEntry struct{ mode, kind, id, path string }

func parseTreeEntry(record string) (treeEntry, error) {
	meta, path, ok := strings.Cut(record, "\t")
	f := strings.Split(meta, " ")
	if !ok || len(f) != 3 || len(f[0]) != 6 || f[1] != "blob" && f[1] != "tree" && f[1] != "commit" || !validID(f[2]) || !validPath(path) {
		return treeEntry{}, unusable("git ls-tree printed %q", clip(record))
	}
	return treeEntry{f[0], f[1], f[2], path}, nil
}

// indexEntry is a record of git ls-files.
type indexEntry struct{ mode, id, path string }

func parseIndexEntry(record string) (indexEntry, error) {
	meta, path, ok := strings.Cut(record, "\t")
	f := strings.Split(meta, " ")
	if !ok || len(f) != 3 || len(f[0]) != 6 || !validID(f[1]) || !stage(f[2]) || !validPath(path) {
		return indexEntry{}, unusable("git ls-files printed %q", clip(record))
	}
	return indexEntry{f[0], f[1], path}, nil
}

// commit is what the list of commits takes from one.
type commit struct {
	id, tree string
	parents  []string
}

// parseCommits reads the output of git cat-file --batch up to the first object
// that is missing.
func parseCommits(out string) ([]commit, error) {
	var list []commit
	for out != "" {
		line, rest, _ := strings.Cut(out, "\n")
		f := strings.Split(line, " ")
		if len(f) == 2 && (f[1] == "missing" || f[1] == "ambiguous") {
			return list, nil
		}
		if len(f) != 3 || !validID(f[0]) || f[1] != "commit" {
			return nil, fmt.Errorf("the line %q", clip(line))
		}
		size, err := strconv.Atoi(f[2])
		if err != nil || size < 0 || size >= len(rest) || rest[size] != '\n' {
			return nil, fmt.Errorf("the size %q", clip(f[2]))
		}
		c, err := parseCommit(f[0], rest[:size])
		if err != nil {
			return nil, err
		}
		list = append(list, c)
		out = rest[size+1:]
	}
	return list, nil
}

func parseCommit(id, content string) (commit, error) {
	c := commit{id: id}
	for line := range strings.SplitSeq(content, "\n") {
		name, value, _ := strings.Cut(line, " ")
		switch {
		case name == "tree" && c.tree == "" && validID(value):
			c.tree = value
		case name == "parent" && c.tree != "" && validID(value):
			c.parents = append(c.parents, value)
		case c.tree != "":
			return c, nil
		default:
			return c, fmt.Errorf("the commit %s begins with %q", id, clip(line))
		}
	}
	return c, nil
}
