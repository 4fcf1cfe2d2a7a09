package repository_test

import (
	"strings"
	"testing"

	"securebench/internal/repository"
	"securebench/internal/verdict"
)

// treeOf makes a tree of files, and of odd things, whose content begins with
// "odd:".
func treeOf(items map[string]string) *repository.Tree {
	t := &repository.Tree{Entries: map[string]repository.Entry{}, Odd: map[string]string{}}
	for name, content := range items {
		what, odd := strings.CutPrefix(content, "odd:")
		target, link := strings.CutPrefix(content, "link:")
		content, linked := strings.CutPrefix(content, "hard:")
		switch {
		case odd:
			t.Odd[name] = what
			continue
		case linked:
			t.Odd[name] = "a hard link"
		}
		e := repository.Entry{Mode: repository.Regular, Size: int64(len(content))}
		if link {
			e.Mode, content = repository.Symlink, target
		}
		copy(e.Sum[:], content)
		t.Entries[name] = e
	}
	return t
}

// TestRefuse: each of these is refused by name if a candidate adds it, and
// none if the base has it in the same form.
func TestRefuse(t *testing.T) {
	t.Parallel()
	base := map[string]string{"src/app.py": "1", "tests/test_a.py": "2", "README": "3"}
	for name, part := range map[string]string{
		"link\x00link:/etc/passwd":                 "a new or changed symbolic link",
		"pipe\x00odd:a named pipe":                 "is a named pipe",
		"dev\x00odd:a device":                      "is a device",
		"secret\x00odd:unreadable":                 "cannot be read",
		"two\x00hard:x":                            "is a hard link",
		"vendor/x/.git\x00odd:a nested repository": "is a nested repository",
		"b\xffd\x00x":                              "not valid UTF-8",
		"a\\b\x00x":                                "a backslash",
		"app.py.\x00x":                             "ends with a dot or a space",
		"src /x\x00x":                              "ends with a dot or a space",
		"s\u200drc/x\x00x":                         "an invisible character",
		"Tests/test_b.py\x00x":                     "the same name as tests on some",
		"readme\x00x":                              "the same name as README",
		"src/APP.py\x00x":                          "the same name as src/app.py",
		"SRC/app.py\x00x":                          "the same name as",
	} {
		path, content, _ := strings.Cut(name, "\x00")
		with := map[string]string{path: content}
		for name, content := range base {
			with[name] = content
		}
		err := repository.Refuse(treeOf(base), treeOf(with))
		wantRejection(t, err, verdict.CandidateNotRegular, part)
		if err := repository.Refuse(treeOf(with), treeOf(with)); err != nil {
			t.Errorf("%q is refused, though the base has it: %v", path, err)
		}
	}
}

// TestRefuseChanges: what changed its form, and what is honest.
func TestRefuseChanges(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, after map[string]string
		part          string
	}{
		"plain work":             {map[string]string{"a": "1", "b": "2"}, map[string]string{"a": "3", "c": "4"}, ""},
		"a renamed file":         {map[string]string{"README": "1"}, map[string]string{"readme": "1"}, ""},
		"a deleted link":         {map[string]string{"l": "link:x"}, map[string]string{}, ""},
		"a link becomes a file":  {map[string]string{"l": "link:x"}, map[string]string{"l": "x"}, ""},
		"a file becomes a link":  {map[string]string{"l": "x"}, map[string]string{"l": "link:x"}, "symbolic link"},
		"a changed link":         {map[string]string{"l": "link:x"}, map[string]string{"l": "link:y"}, "symbolic link"},
		"linked by the engine":   {map[string]string{"a": "1", "b": "1"}, map[string]string{"a": "hard:1", "b": "hard:1"}, ""},
		"no longer linked":       {map[string]string{"a": "hard:1"}, map[string]string{"a": "1"}, ""},
		"linked and changed":     {map[string]string{"a": "1"}, map[string]string{"a": "hard:2"}, "hard link"},
		"a pipe becomes another": {map[string]string{"p": "odd:a named pipe"}, map[string]string{"p": "odd:a device"}, "a device"},
		"a file becomes a pipe":  {map[string]string{"p": "x"}, map[string]string{"p": "odd:a named pipe"}, "named pipe"},
		"the base's own pair":    {map[string]string{"a": "1", "A": "2"}, map[string]string{"a": "3", "A": "2"}, ""},
		"a file in either":       {map[string]string{"Foo/a": "1", "foo/b": "2"}, map[string]string{"Foo/a": "1", "foo/b": "2", "Foo/c": "3", "foo/c/d": "4"}, ""},
		"one that is in both":    {map[string]string{"Foo/a": "1", "foo/b": "2"}, map[string]string{"Foo/a": "1", "foo/b": "2", "foo/c": "3", "foo/C": "4"}, "the same name"},
		"a third spelling":       {map[string]string{"Foo/a": "1", "foo/b": "2"}, map[string]string{"Foo/a": "1", "foo/b": "2", "FOO/c": "3"}, "the same name as Foo"},
		"the second folder":      {map[string]string{"Foo/a": "1"}, map[string]string{"Foo/a": "1", "foo/c": "3"}, "the same name as Foo"},
		"Unicode forms":          {map[string]string{"caf\u00e9": "1"}, map[string]string{"caf\u00e9": "1", "cafe\u0301": "1"}, "the same name"},
		"two new ones":           {map[string]string{}, map[string]string{"Straße": "1", "STRASSE": "2"}, "the same name"},
	} {
		err := repository.Refuse(treeOf(c.before), treeOf(c.after))
		if c.part != "" {
			wantRejection(t, err, verdict.CandidateNotRegular, c.part)
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestIsDotGit: the names that are .git somewhere.
func TestIsDotGit(t *testing.T) {
	t.Parallel()
	for _, name := range []string{".git", ".GIT", ".Git", "git~1", "GIT~1", ".git ", ".git.", ".git. .", ".g\u200cit", "\ufeff.git", ".git::$INDEX_ALLOCATION", ".git:x"} {
		if !repository.IsDotGit(name) {
			t.Errorf("%q is not recognised", name)
		}
	}
	for _, name := range []string{"git", ".gitignore", ".github", "a.git", ".git~1", "git~2", ".gi", "", ".g it", ".gitx:y"} {
		if repository.IsDotGit(name) {
			t.Errorf("%q counts as .git", name)
		}
	}
}
