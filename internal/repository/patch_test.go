package repository_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"securebench/internal/repository"
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

// drawTree draws a tree in which no file stands below another.
func drawTree(t *rapid.T, links bool) files {
	f := files{}
	for range rapid.IntRange(0, 6).Draw(t, "files") {
		put(f, drawName(t), drawFile(t, links))
	}
	return f
}

func drawFile(t *rapid.T, links bool) file {
	if links && rapid.IntRange(0, 9).Draw(t, "link") == 0 {
		return file{repository.Symlink, rapid.SampledFrom([]string{"target", "../x", "/etc/passwd", "a b"}).Draw(t, "target")}
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
