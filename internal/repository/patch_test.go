package repository_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"securebench/internal/repository"
	"securebench/internal/repository/patchtest"
)

// parts of names that are hard to quote or to parse.
func drawName(t *rapid.T) string {
	part := rapid.OneOf(
		rapid.SampledFrom([]string{"a", "b", "lib", "-n", "--", "a b", "x b", "ü", "日本", `q"uote`, "tab\there", "new\nline", "'", "b c.py",
			"a.txt", "#x", " lead", "{}", "a\x01b", "dev", "null", "e\u0301", "\a\v\f\r", "%s"}),
		rapid.StringMatching(`[a-z ]{0,2}[a-z]`),
	)
	return strings.Join(rapid.SliceOfN(part, 1, 3).Draw(t, "name"), "/")
}

func drawContent(t *rapid.T) string {
	line := rapid.SampledFrom([]string{"", "a", "b", "a", "}", "-- x", "++ y", "@@ -1 +1 @@", "diff --git a/x b/x", "\\ No newline at end of file",
		"GIT binary patch", "crlf\r", "\r", "tab\t", " lead", "ünïcode", "x\fy"})
	other := rapid.Custom(func(t *rapid.T) string { return rapid.StringMatching(`[a-c]{1,3}`).Draw(t, "line") })
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		return ""
	case 1:
		return string(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes"))
	case 2:
		return strings.Repeat("\x00\xff", rapid.IntRange(1, 200).Draw(t, "n"))
	}
	lines := rapid.SliceOfN(rapid.OneOf(line, other), 0, 40).Draw(t, "lines")
	return strings.Join(lines, "\n") + rapid.SampledFrom([]string{"", "\n"}).Draw(t, "end")
}

// drawTree draws a tree in which no file is below another.
func drawTree(t *rapid.T, links bool) files {
	f := files{}
	for range rapid.IntRange(0, 6).Draw(t, "files") {
		put(f, drawName(t), drawFile(t, links))
	}
	return f
}

func drawFile(t *rapid.T, links bool) file {
	if links && rapid.IntRange(0, 9).Draw(t, "link") == 0 {
		// None leads to itself: git apply cannot replace such a link by a folder.
		return file{repository.Symlink, rapid.SampledFrom([]string{"target", "../x", "/etc/passwd", "no file"}).Draw(t, "target")}
	}
	mode := rapid.SampledFrom([]repository.Mode{repository.Regular, repository.Executable}).Draw(t, "mode")
	return file{mode, drawContent(t)}
}

// put adds a file unless the name clashes with another.
func put(f files, name string, x file) {
	for other := range f {
		if strings.HasPrefix(other, name+"/") || strings.HasPrefix(name, other+"/") {
			return
		}
	}
	f[name] = x
}

// drawEdited draws what could have become of a tree.
func drawEdited(t *rapid.T, before files) files {
	after := files{}
	for name, x := range before {
		switch rapid.IntRange(0, 4).Draw(t, "edit") {
		case 0: // deleted
		case 1:
			put(after, name, drawFile(t, true))
		case 2:
			put(after, name+"/"+drawName(t), drawFile(t, false))
		case 3:
			if lines := strings.SplitAfter(x.content, "\n"); x.mode != repository.Symlink {
				at := rapid.IntRange(0, len(lines)-1).Draw(t, "at")
				lines[at] = rapid.SampledFrom([]string{"", "changed\n", "changed"}).Draw(t, "line")
				x.content = strings.Join(lines, "")
			}
			put(after, name, x)
		default:
			put(after, name, x)
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "new") {
		put(after, drawName(t), drawFile(t, true))
	}
	return after
}

// TestGitApplies: git apply makes exactly the tree that a patch was made from.
func TestGitApplies(t *testing.T) {
	t.Parallel()
	requireGit(t)
	rapid.Check(t, func(rt *rapid.T) {
		before := drawTree(rt, true)
		after := drawEdited(rt, before)
		p := patch(t, before, after)
		if len(p) == 0 {
			if diff := cmp.Diff(before, after, cmp.AllowUnexported(file{})); diff != "" {
				rt.Fatalf("there is no patch for this difference:\n%s", diff)
			}
			return
		}
		if diff := cmp.Diff(after, applied(t, before, p), cmp.AllowUnexported(file{})); diff != "" {
			rt.Fatalf("git apply made another tree (-want +got):\n%s\npatch:\n%s", diff, p)
		}
	})
}

// TestAttributes: in a repository, the tree's attributes change what git apply
// writes, and keep patches from applying; outside of one they don't.
func TestAttributes(t *testing.T) {
	t.Parallel()
	requireGit(t)
	attributes := file{repository.Regular, "*.bat text eol=crlf\n*.id ident\n*.u16 text working-tree-encoding=UTF-16LE\n"}
	for name, c := range map[string]struct{ file, before, after string }{
		"line ends":   {"new.bat", "", "x\n"},
		"mixed lines": {"mixed.bat", "a\r\nb\n", "a\r\nb\nc\r\nd\n"},
		"an id":       {"x.id", "$Id: abc $\nx\n", "$Id: abc $\ny\n"},
		"an encoding": {"x.u16", "x\x00\n\x00", "y\x00\n\x00"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := files{".gitattributes": attributes}
			after := files{".gitattributes": attributes, c.file: {repository.Regular, c.after}}
			if c.before != "" {
				before[c.file] = file{repository.Regular, c.before}
			}
			p := patch(t, before, after)
			if got, err := appliedWith(t, before, p); err == nil && cmp.Equal(got, after, cmp.AllowUnexported(file{})) {
				t.Error("the tree's attributes had no effect: the test shows nothing")
			}
			if diff := cmp.Diff(after, applied(t, before, p), cmp.AllowUnexported(file{})); diff != "" {
				t.Errorf("git apply made another tree (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWritePatch: the form of a patch, byte by byte.
func TestWritePatch(t *testing.T) {
	t.Parallel()
	lines := func(from, to int) string {
		var b strings.Builder
		for i := from; i <= to; i++ {
			fmt.Fprintf(&b, "line %d\n", i)
		}
		return b.String()
	}
	before := files{
		"a b.txt": {repository.Regular, "one\ntwo"}, "bin": {repository.Regular, "\x00old"}, "del.py": {repository.Regular, "x\n"},
		"empty": {repository.Regular, ""}, "link": {repository.Symlink, "target"}, "long": {repository.Regular, lines(1, 30)}, "run": {repository.Regular, "x\n"},
	}
	after := files{
		"a b.txt": {repository.Regular, "one\n2\n"}, "bin": {repository.Executable, "\x00new"}, "link": {repository.Regular, "file\n"},
		"long": {repository.Regular, lines(1, 3) + "changed\n" + lines(5, 20) + lines(22, 30)}, "run": {repository.Executable, "x\n"}, "ü\"": {repository.Executable, ""},
	}
	want := strings.ReplaceAll(`diff --git a/a b.txt b/a b.txt
index 9ed40b44250875c2c4532588b014ab45a1799a0f..99b356dcd03dde0755c749bcd4cae4b2b73a8fa8 100644
--- a/a b.txtTAB
+++ b/a b.txtTAB
@@ -1,2 +1,2 @@
 one
-two
\ No newline at end of file
+2
diff --git a/bin b/bin
`, "TAB", "\t")
	got := string(patch(t, before, after))
	head, _, _ := strings.Cut(got, "old mode")
	for _, part := range []string{
		"old mode 100644\nnew mode 100755\nindex ", "\nGIT binary patch\nliteral 4\n",
		"diff --git a/del.py b/del.py\ndeleted file mode 100644\nindex 587be6b4c3f93f93c489c0111bba5596147a26cb..0000000000000000000000000000000000000000\n--- a/del.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
		"diff --git a/empty b/empty\ndeleted file mode 100644\nindex e69de29bb2d1d6434b8b29ae775ad8c2e48c5391..0000000000000000000000000000000000000000\ndiff --git",
		"diff --git a/link b/link\ndeleted file mode 120000\n", "\n-target\n\\ No newline at end of file\ndiff --git a/link b/link\nnew file mode 100644\n",
		"@@ -1,7 +1,7 @@\n line 1\n line 2\n line 3\n-line 4\n+changed\n line 5\n line 6\n line 7\n@@ -18,7 +18,6 @@\n line 18\n line 19\n line 20\n-line 21\n line 22\n line 23\n line 24\n",
		"diff --git a/run b/run\nold mode 100644\nnew mode 100755\ndiff --git",
		"diff --git \"a/\\303\\274\\\"\" \"b/\\303\\274\\\"\"\nnew file mode 100755\nindex 0000000000000000000000000000000000000000..e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\n",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("the patch has no\n%s", part)
		}
	}
	if head != want {
		t.Errorf("the patch begins (-want +got):\n%s", cmp.Diff(want, head))
	}
	if t.Failed() {
		t.Log(got)
	}
}

// TestBounds: what is too large for lines is written whole, and what has no
// short difference still gets one that applies.
func TestBounds(t *testing.T) {
	t.Parallel()
	requireGit(t)
	repeated := func(line string, n int) string { return strings.Repeat(line, n) }
	mixed := func(step int) string {
		var b strings.Builder
		for i := range 20_000 {
			fmt.Fprintf(&b, "%d\n", i*step%97)
		}
		return b.String()
	}
	for name, c := range map[string]struct {
		before, after string
		binary        bool
	}{
		"a long line":       {repeated("x", 70_000), repeated("x", 70_001), true},
		"many lines":        {"", repeated("x\n", 200_001), true},
		"large":             {"x\n", repeated(repeated("x", 60_000)+"\n", 140), true},
		"a NUL":             {"x\n", "x\x00\n", true},
		"not UTF-8":         {"x\n", "\xff\n", true},
		"binary to text":    {"\x00", "x\n", true},
		"no unique line":    {mixed(7), mixed(11), false},
		"many lines inside": {repeated("x\n", 1000), repeated("x\n", 500) + "y\n" + repeated("x\n", 99_000), false},
		"reversed":          {reversed(5000, 1), reversed(5000, -1), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, after := files{"f": {repository.Regular, c.before}}, files{"f": {repository.Regular, c.after}}
			p := patch(t, before, after)
			if got := strings.Contains(string(p), "\nGIT binary patch\n"); got != c.binary {
				t.Errorf("a binary section: %v, want %v", got, c.binary)
			}
			if got := applied(t, before, p); !cmp.Equal(got, after, cmp.AllowUnexported(file{})) {
				t.Errorf("git apply made another content")
			}
		})
	}
}

func reversed(n, sign int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d\n", (sign*i+n)%n)
	}
	return b.String()
}

// TestShortPatch: lines that stayed are not in the patch, also if most lines
// around them changed.
func TestShortPatch(t *testing.T) {
	t.Parallel()
	var before, after strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&before, "def f%d():\n    return %d\n\n", i, i)
		fmt.Fprintf(&after, "def f%d():\n    return %d + 1\n\n", i, i)
	}
	p := string(patch(t, files{"f": {repository.Regular, before.String()}}, files{"f": {repository.Regular, after.String()}}))
	if n := strings.Count(p, "\n-"); n != 1001 { // one of them is the name
		t.Errorf("%d lines are taken away, want 1,000 and the name", n)
	}
}

// TestWrongContent: a content that is not that of the tree makes no patch.
func TestWrongContent(t *testing.T) {
	t.Parallel()
	before, after := files{"f": {repository.Regular, "1\n"}}, files{"f": {repository.Regular, "2\n"}}
	changes := repository.Compare(before.tree(t), after.tree(t))
	err := repository.WritePatch(io.Discard, changes, func(repository.Change) ([]byte, []byte, error) { return []byte("1\n"), []byte("3\n"), nil })
	if err == nil || !strings.Contains(err.Error(), `"f"`) {
		t.Errorf("the wrong content gave %v", err)
	}
	full := errors.New("the patch is too large")
	err = repository.WritePatch(brokenWriter{full}, changes, func(repository.Change) ([]byte, []byte, error) { return []byte("1\n"), []byte("2\n"), nil })
	if !errors.Is(err, full) {
		t.Errorf("the writer's error became %v", err)
	}
}

type brokenWriter struct{ err error }

func (b brokenWriter) Write([]byte) (int, error) { return 0, b.err }

// TestPaths: another reader finds the paths that changed.
func TestPaths(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		before := drawTree(rt, true)
		after := drawEdited(rt, before)
		var want []string
		for _, c := range repository.Compare(before.tree(t), after.tree(t)) {
			want = append(want, c.Path)
		}
		got, err := patchtest.Paths(patch(t, before, after))
		if err != nil || !slices.Equal(got, want) {
			rt.Fatalf("%q, %v; want %q", got, err, want)
		}
	})
}
