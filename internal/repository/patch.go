package repository

import (
	"bufio"
	"bytes"
	"crypto/sha1" //nolint:gosec // git names contents by it
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// The bounds of what is compared line by line. Beyond them a change is written
// as a binary section: no one would read it, and its size stays bounded.
const (
	maxText  = 8 << 20 // bytes of one side
	maxLine  = 64 << 10
	maxLines = 200_000
)

// Contents returns the content of the two sides of a change, nil for an absent
// one.
type Contents func(Change) (before, after []byte, err error)

// WritePatch writes changes as a patch in git's format. Outside of a
// repository, whose attributes it would ask, git apply makes exactly the tree
// that they came from. Text files have hunks with three lines of context, all
// others binary sections: content with a NUL or without valid UTF-8, and what
// is too large to compare or to read.
//
// The same changes give the same patch. A path whose type changed has two
// sections, the first of which deletes it.
func WritePatch(w io.Writer, changes []Change, contents Contents) error {
	changes = slices.Clone(changes)
	sortChanges(changes)
	out := bufio.NewWriter(w)
	for _, c := range changes {
		before, after, err := contents(c)
		if err == nil {
			err = checkContents(c, before, after)
		}
		if err != nil {
			return fmt.Errorf("reading the change of %q: %w", c.Path, err)
		}
		if (c.Before.Mode == Symlink) != (c.After.Mode == Symlink) && c.Before.Exists() && c.After.Exists() {
			err = writeFile(out, Change{Path: c.Path, Before: c.Before}, before, nil)
			c.Before, before = Entry{}, nil
		}
		if err == nil {
			err = writeFile(out, c, before, after)
		}
		if err == nil {
			err = out.Flush() // a writer that is full ends it here
		}
		if err != nil {
			return fmt.Errorf("writing the change of %q: %w", c.Path, err)
		}
	}
	return nil
}

// checkContents compares contents with what the trees said: a content that
// changed since would make a patch of a tree that never was.
func checkContents(c Change, before, after []byte) error {
	for _, side := range []struct {
		Entry
		content []byte
	}{{c.Before, before}, {c.After, after}} {
		if side.Exists() && sha256.Sum256(side.content) != side.Sum || !side.Exists() && len(side.content) > 0 {
			return fmt.Errorf("its content is not that of the tree")
		}
	}
	return nil
}

// writeFile writes the section of one file.
func writeFile(w *bufio.Writer, c Change, before, after []byte) error {
	fmt.Fprintf(w, "diff --git %s %s\n", quoteName("a/"+c.Path), quoteName("b/"+c.Path))
	index := fmt.Sprintf("index %s..%s", blobID(c.Before, before), blobID(c.After, after))
	switch {
	case !c.Before.Exists():
		fmt.Fprintf(w, "new file mode %o\n%s\n", c.After.Mode, index)
	case !c.After.Exists():
		fmt.Fprintf(w, "deleted file mode %o\n%s\n", c.Before.Mode, index)
	case c.Before.Mode != c.After.Mode:
		fmt.Fprintf(w, "old mode %o\nnew mode %o\n", c.Before.Mode, c.After.Mode)
		if !bytes.Equal(before, after) {
			fmt.Fprintln(w, index)
		}
	default:
		fmt.Fprintf(w, "%s %o\n", index, c.After.Mode)
	}
	if bytes.Equal(before, after) {
		return nil
	}
	if !isText(before) || !isText(after) {
		return writeBinary(w, before, after)
	}
	fmt.Fprintf(w, "--- %s\n+++ %s\n", sideName("a/", c.Path, c.Before), sideName("b/", c.Path, c.After))
	writeHunks(w, before, after)
	return nil
}

// isText reports whether content can be compared line by line.
func isText(content []byte) bool {
	if len(content) > maxText || bytes.IndexByte(content, 0) >= 0 || !utf8.Valid(content) {
		return false
	}
	lines := 0
	for line := range bytes.Lines(content) {
		if lines++; lines > maxLines || len(line) > maxLine {
			return false
		}
	}
	return true
}

// blobID returns the id that git gives a content.
func blobID(e Entry, content []byte) string {
	if !e.Exists() {
		return strings.Repeat("0", 2*sha1.Size)
	}
	sum := sha1.New() //nolint:gosec // git names contents by it
	fmt.Fprintf(sum, "blob %d\x00", len(content))
	sum.Write(content)
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// sideName is the name of a side in the lines above the hunks. As git does, a
// name with a space ends with a tab, which tells other programs where it ends.
func sideName(prefix, path string, e Entry) string {
	if !e.Exists() {
		return "/dev/null"
	}
	name := quoteName(prefix + path)
	if strings.Contains(name, " ") && name[0] != '"' {
		name += "\t"
	}
	return name
}

// quoteName quotes a name as git does: only if it contains quotes,
// backslashes, control characters or bytes beyond ASCII.
func quoteName(name string) string {
	if !slices.ContainsFunc([]byte(name), quoted) {
		return name
	}
	b := []byte{'"'}
	for _, c := range []byte(name) {
		switch i := strings.IndexByte("\a\b\t\n\v\f\r\"\\", c); {
		case i >= 0:
			b = append(b, '\\', `abtnvfr"\`[i])
		case quoted(c):
			b = fmt.Appendf(b, `\%03o`, c)
		default:
			b = append(b, c)
		}
	}
	return string(append(b, '"'))
}

func quoted(c byte) bool { return c < ' ' || c >= 0x7f || c == '"' || c == '\\' }
