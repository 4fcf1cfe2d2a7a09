package repository

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// IsDotGit reports whether one part of a path is ".git", or is on some file
// system: whatever the letter case, with trailing dots, spaces or a stream's
// name (NTFS), with characters that are invisible (HFS+), or as "git~1".
func IsDotGit(part string) bool {
	if i := strings.IndexByte(part, ':'); i >= 0 {
		part = part[:i]
	}
	part = strings.ToLower(strings.TrimRight(strings.Map(visible, part), ". "))
	return part == ".git" || part == "git~1"
}

// visible drops the characters that HFS+ ignores in names. Bytes that are not
// UTF-8 stay what they are not: no such name is ".git" anywhere.
func visible(r rune) rune {
	switch {
	case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
		return -1
	}
	return r
}

// nestedRepository returns the path down to the part of a name that is a
// repository of its own. The checkout's own .git has been skipped before.
func nestedRepository(name string) (string, bool) {
	// Almost no name needs a closer look.
	if !strings.ContainsAny(name, "gG") {
		return "", false
	}
	end := 0
	for part := range strings.SplitSeq(name, "/") {
		end += len(part)
		if IsDotGit(part) {
			return name[:end], true
		}
		end++ // the slash
	}
	return "", false
}

// portable says what is wrong with a name that not every file system keeps as
// it is, or returns "".
func portable(name string) string {
	switch {
	case !utf8.ValidString(name):
		return "has a name that is not valid UTF-8"
	case strings.Contains(name, `\`):
		return "has a backslash in its name"
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasSuffix(part, ".") || strings.HasSuffix(part, " ") {
			return "has a name that ends with a dot or a space, which some file systems drop"
		}
		if strings.IndexFunc(part, func(r rune) bool { return visible(r) < 0 }) >= 0 {
			return "has an invisible character in its name, which some file systems ignore"
		}
	}
	return ""
}

// alias returns what names have in common that are one on a file system that
// ignores letter case or normalises Unicode.
func alias(name string) string {
	if ascii(name) {
		return strings.ToLower(name)
	}
	// Folding can undo normalisation and the other way round.
	fold := cases.Fold()
	return norm.NFC.String(fold.String(norm.NFD.String(fold.String(norm.NFD.String(name)))))
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] > unicode.MaxASCII {
			return false
		}
	}
	return true
}
