package patchtext_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"securebench/internal/repository"
	"securebench/internal/repository/patchtext"
)

// tree is a base: contents by path. A content that begins with "link:" is a link.
type tree map[string]string

func (t tree) file(path string) (patchtext.File, error) {
	text, ok := t[path]
	switch {
	case !ok:
		return patchtext.File{}, nil
	case strings.HasPrefix(text, "link:"):
		return patchtext.File{Mode: repository.Symlink}, nil
	}
	return patchtext.File{Mode: repository.Regular, Data: []byte(text)}, nil
}

// canonical reads a patch and writes it for a base.
func (t tree) canonical(patch string) (string, []string, error) {
	p, err := patchtext.Read([]byte(patch))
	if err != nil {
		return "", nil, err
	}
	out, odd, err := p.Canonical(t.file)
	return string(out), odd, err
}

const calc = "def add(a, b):\n    return a - b\n\n\ndef zero():\n    return 0\n\n\ndef one():\n    return 1\n"

const mended = `diff --git a/pkg/calc.py b/pkg/calc.py
--- a/pkg/calc.py
+++ b/pkg/calc.py
@@ -1,5 +1,5 @@
 def add(a, b):
-    return a - b
+    return a + b
 
 
 def zero():
`

// right is what every spelling of mended is for a file.
func right(t *testing.T, base tree) string {
	t.Helper()
	var out strings.Builder
	changes := []repository.Change{change(base, "pkg/calc.py", strings.Replace(base["pkg/calc.py"], "a - b", "a + b", 1))}
	err := repository.WritePatch(&out, changes, func(c repository.Change) ([]byte, []byte, error) {
		return []byte(base[c.Path]), []byte(strings.Replace(base[c.Path], "a - b", "a + b", 1)), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// spellings are one patch as people and models send it.
func spellings() map[string]struct {
	base  string // of the file; "" is calc
	patch string
	odd   []string
} {
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	body := mended[strings.Index(mended, "@@"):]
	plain := func(a, b string) string { return "--- " + a + "\n+++ " + b + "\n" + body }
	type spelling = struct {
		base  string
		patch string
		odd   []string
	}
	return map[string]spelling{
		"as git writes it":          {"", mended, nil},
		"no final newline":          {"", strings.TrimSuffix(mended, "\n"), []string{patchtext.FinalNewline}},
		"trimmed to the last blank": {strings.Replace(calc, "def zero", "\ndef zero", 1), strings.TrimRight(strings.Replace(mended, " def zero():\n", " \n", 1), " \n"), []string{patchtext.FinalNewline, patchtext.Whitespace}},
		"carriage returns":          {"", crlf(mended), []string{patchtext.LineEnds}},
		"returns in the file":       {crlf(calc), mended, []string{patchtext.LineEnds}},
		"returns in both":           {crlf(calc), crlf(mended), []string{patchtext.LineEnds}},
		"no prefixes":               {"", strings.NewReplacer(" a/pkg", " pkg", " b/pkg", " pkg").Replace(mended), []string{patchtext.NoPrefix}},
		"no prefixes, no git":       {"", plain("pkg/calc.py", "pkg/calc.py"), []string{patchtext.NoPrefix}},
		"times":                     {"", plain("a/pkg/calc.py\t2024-01-01 00:00:00", "b/pkg/calc.py\t2024-01-01 00:00:00"), nil},
		"other prefixes":            {"", plain("old/pkg/calc.py", "new/pkg/calc.py"), nil},
		"a quoted name":             {"", plain(`"a/pkg/calc\056py"`, `"b/pkg/calc\056py"`), nil},
		"a fence":                   {"", "Here it is:\n```diff\n" + mended + "```\nIt adds.\n", nil},
		"a mail": {"", "From 1234 Mon Sep 17 00:00:00 2001\nSubject: [PATCH] Mend\n\nIt was\ndiff --git a/x b/x\nwith\nnew file mode 120000\n--- \n---\n pkg/calc.py | 2 +-\n\n" +
			mended + "-- \n2.39.5\n\n", nil},
		"a wrong line":           {"", strings.Replace(mended, "-1,5 +1,5", "-40,5 +40,5", 1), nil},
		"an edge that differs":   {"", strings.Replace(mended, " def zero():", " def nought():", 1), []string{patchtext.Fuzz}},
		"two edges that differ":  {"", strings.NewReplacer(" def zero():", " def nought():", " def add(a, b):", " def add(a, b=0):").Replace(mended), []string{patchtext.Fuzz}},
		"trailing blanks lost":   {strings.Replace(calc, "def zero():", "def zero():  ", 1), mended, []string{patchtext.Whitespace}},
		"a mark that is missing": {"def add(a, b):\n    return a - b", "--- a/pkg/calc.py\n+++ b/pkg/calc.py\n@@ -1,2 +1,2 @@\n def add(a, b):\n-    return a - b\n+    return a + b\n\\ No newline at end of file\n", []string{patchtext.EndOfFile}},
	}
}

// TestSpellings: each is the same patch, and says what is odd about it.
func TestSpellings(t *testing.T) {
	t.Parallel()
	for name, c := range spellings() {
		base := tree{"pkg/calc.py": calc}
		if c.base != "" {
			base["pkg/calc.py"] = c.base
		}
		got, odd, err := base.canonical(c.patch)
		if want := right(t, base); err != nil || got != want || !slices.Equal(odd, c.odd) {
			t.Errorf("%s: %v, %q, want %q\n%s\nwant:\n%s", name, err, odd, c.odd, got, want)
		}
	}
}

// TestUnclear: none of these has one meaning. A patch that would be the right one
// beside a guess is among them.
func TestUnclear(t *testing.T) {
	t.Parallel()
	hunk := mended[strings.Index(mended, "@@"):]
	at := func(name string) string { return "--- a/" + name + "\n+++ b/" + name + "\n" + hunk }
	twice := "x\n" + strings.Repeat("def f():\n    return a - b\n# end\n", 2)
	inTwice := "--- a/pkg/calc.py\n+++ b/pkg/calc.py\n@@ -%,3 +%,3 @@\n def g():\n-    return a - b\n+    return a + b\n # end\n"
	for name, c := range map[string]struct{ base, patch, why string }{
		"two places with fuzz":       {twice, strings.ReplaceAll(inTwice, "%", "2"), "several places"},
		"as near before as behind":   {"def f():\n    return a - b\n# end\n\ndef f():\n    return a - b\n# end\n", strings.NewReplacer("%", "3", " def g", " def f").Replace(inTwice), "several places"},
		"applied already":            {strings.Replace(calc, "a - b", "a + b", 1), mended, "does not fit"},
		"the same section twice":     {calc, mended + mended, "does not fit"},
		"three edges that differ":    {calc, strings.NewReplacer(" def zero", " def nought", " def add(a, b)", " def sum(a, b)", " \n \n", " # x\n \n").Replace(mended), "does not fit"},
		"another line is removed":    {calc, strings.Replace(mended, "-    return a - b", "-    return b - a", 1), "does not fit"},
		"counts too large":           {calc, strings.Replace(mended, "-1,5 +1,5", "-1,7 +1,7", 1), "does not fit"},
		"counts far too large":       {calc, strings.Replace(mended, "-1,5 +1,5", "-1,9 +1,9", 1), "other numbers of lines"},
		"counts too small":           {calc, strings.Replace(mended, "-1,5 +1,5", "-1,3 +1,3", 1), "other numbers of lines"},
		"counts on one side":         {calc, strings.Replace(mended, "-1,5 +1,5", "-1,5 +1,6", 1), "other numbers of lines"},
		"no numbers":                 {calc, strings.Replace(mended, "@@ -1,5 +1,5 @@", "@@ -x +y @@", 1), "where it belongs"},
		"an insertion anywhere":      {calc, "--- a/pkg/calc.py\n+++ b/pkg/calc.py\n@@ -3,0 +4 @@\n+x\n", "between which"},
		"only blank lines around":    {"\n\n\n", "--- a/pkg/calc.py\n+++ b/pkg/calc.py\n@@ -1,3 +1,4 @@\n \n+x\n y\n z\n", "does not fit"},
		"mixed line ends":            {strings.Replace(calc, "return a - b\n", "return a - b\r\n", 1), mended, "has both"},
		"a file that is missing":     {calc, at("pkg/other.py"), "misses it"},
		"a new file that is there":   {calc, "--- /dev/null\n+++ b/pkg/calc.py\n@@ -0,0 +1 @@\n+x\n", "creates"},
		"a deletion that leaves":     {calc, "--- a/pkg/calc.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-def add(a, b):\n-    return a - b\n", "leaves lines"},
		"two files":                  {calc, "--- a/pkg/calc.py\n+++ b/pkg/mul.py\n" + hunk, "names both"},
		"a link":                     {calc, "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+x\n", "symbolic link"},
		"a change of a link":         {calc, at("link"), "symbolic link"},
		"a submodule":                {calc, "diff --git a/l b/l\nnew file mode 160000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+x\n", "a mode"},
		"binary parts":               {calc, "diff --git a/x b/x\nnew file mode 100644\nGIT binary patch\nliteral 0\nHcmV?d00001\n\n", "binary"},
		"above the tree":             {calc, at("../pkg/calc.py"), "where no file can be"},
		"there and back":             {calc, at("pkg/../pkg/calc.py"), "where no file can be"},
		"absolute":                   {calc, at("/pkg/calc.py"), "where no file can be"},
		"a repository":               {calc, "--- /dev/null\n+++ b/.GIT/config\n@@ -0,0 +1 @@\n+x\n", "where no file can be"},
		"a quoted way up":            {calc, "--- /dev/null\n+++ \"b/\\056\\056/x\"\n@@ -0,0 +1 @@\n+x\n", "where no file can be"},
		"quotes that do not close":   {calc, "--- \"a/pkg/calc.py\n+++ b/pkg/calc.py\n" + hunk, "do not close"},
		"a move onto a file":         {calc, "diff --git a/link b/pkg/calc.py\nsimilarity index 100%\nrename from top.py\nrename to pkg/calc.py\n", "where one is"},
		"another letter case":        {calc, at("PKG/calc.py"), "misses it"},
		"two folders without prefix": {calc, "--- same/x.py\n+++ same/x.py\n@@ -1 +1 @@\n-x\n+y\n", "two places"},
		"cut off in a line":          {calc, strings.TrimSuffix(mended, "ro():\n"), "does not fit"},
		"no patch":                   {calc, "I could not do it.\n", "not a patch"},
		"a hunk alone":               {calc, hunk, "without a file"},
	} {
		base := tree{"pkg/calc.py": c.base, "link": "link:pkg/calc.py", "top.py": "x\n", "same/x.py": "x\n", "x.py": "x\n"}
		got, odd, err := base.canonical(c.patch)
		var why *patchtext.Unclear
		if !errors.As(err, &why) || !strings.Contains(why.Why, c.why) {
			t.Errorf("%s: %v, not %q; %q\n%s", name, err, c.why, odd, got)
		}
	}
}

// TestSections: what patches do besides changing lines.
func TestSections(t *testing.T) {
	t.Parallel()
	base := tree{"a b.txt": "x\n", "run.sh": "y\n", "gone.txt": "z\n", "Foo/x": "1\n", "foo/y": "2\n"}
	patch := `--- a/new.txt
+++ b/new.txt
@@ -0,0 +1 @@
+made
diff --git a/a b.txt b/c d.txt
similarity index 100%
rename from a b.txt
rename to c d.txt
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-z
diff --git a/empty.txt b/empty.txt
new file mode 100644
index 0000000..e69de29
diff --git a/foo/x b/foo/x
new file mode 100644
--- /dev/null
+++ b/foo/x
@@ -0,0 +1 @@
+3
\ No newline at end of file`
	got, odd, err := base.canonical(patch)
	for _, want := range []string{"deleted file mode 100644\nindex 587be6b4c3f93f93c489c0111bba5596147a26cb", "b/c d.txt\nnew file", "old mode 100644\nnew mode 100755",
		"diff --git a/gone.txt b/gone.txt\ndeleted", "diff --git a/empty.txt b/empty.txt\nnew file mode 100644", "+++ b/new.txt\n@@ -0,0 +1 @@\n+made\n",
		"+++ b/foo/x\n@@ -0,0 +1 @@\n+3\n\\ No newline"} {
		if !strings.Contains(got, want) {
			t.Errorf("without %q:\n%s", want, got)
		}
	}
	if err != nil || !slices.Equal(odd, []string{patchtext.Created, patchtext.FinalNewline}) {
		t.Errorf("%v, %q", err, odd)
	}
}

// TestBare: names without prefixes are told from those with one.
func TestBare(t *testing.T) {
	t.Parallel()
	for patch, want := range map[string]bool{
		mended: false, strings.NewReplacer(" a/pkg", " pkg", " b/pkg", " pkg").Replace(mended): true,
		"diff --git p/n.py p/n.py\nnew file mode 100644\n--- /dev/null\n+++ p/n.py\n@@ -0,0 +1 @@\n+x\n": true,
		"diff --git p/n.py p/n.py\nold mode 100644\nnew mode 100755\n":                                   true,
		"--- /dev/null\n+++ b/n.py\n@@ -0,0 +1 @@\n+x\n":                                                 false,
	} {
		p, err := patchtext.Read([]byte(patch))
		if err != nil || p.Bare() != want {
			t.Errorf("%v, not %v:\n%s", err, want, patch)
		}
	}
	got, odd, err := tree{}.canonical("diff --git p/n.py p/n.py\nnew file mode 100644\n--- /dev/null\n+++ p/n.py\n@@ -0,0 +1 @@\n+x\n")
	if err != nil || !strings.Contains(got, "+++ b/p/n.py\n") || !slices.Equal(odd, []string{patchtext.NoPrefix}) {
		t.Errorf("%v, %q\n%s", err, odd, got)
	}
}

// TestWork: a patch that fits nowhere, almost everywhere, costs a bounded time.
func TestWork(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: this computes for long, one thing at a time")
	}
	many := strings.Repeat("x\n", 100_000)
	patch := "--- a/f\n+++ b/f\n@@ -5,20001 +5,20001 @@\n" + strings.Repeat(" x\n", 20_000) + "-y\n+z\n"
	if _, _, err := (tree{"f": many}).canonical(patch); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Error(err)
	}
}
