package repository_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"securebench/internal/repository"
)

// checkIgnore asks git about paths: the file whose rule ignores each of them,
// or "".
func checkIgnore(tb testing.TB, dir string, paths []string) []string {
	tb.Helper()
	// It exits with 1 if nothing is ignored.
	out, _ := git(tb, dir, []byte(strings.Join(paths, "\x00")), "check-ignore", "--no-index", "-z", "-v", "-n", "--stdin")
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(fields) != 4*len(paths) {
		tb.Fatalf("git check-ignore: %q", out)
	}
	answers := make([]string, len(paths))
	for i := range answers {
		if f := fields[4*i:]; !strings.HasPrefix(f[2], "!") {
			answers[i] = f[0]
		}
	}
	return answers
}

func drawPath(t *rapid.T) string {
	part := rapid.SampledFrom([]string{"a", "b", "ab", "abc", "foo", "foo.o", "Foo", "a b", "x]", "-", "a\\", "!x", "#x", ".h", "b.txt", "*", "é"})
	return strings.Join(rapid.SliceOfN(part, 1, 4).Draw(t, "path"), "/")
}

func drawRules(t *rapid.T) string {
	token := rapid.SampledFrom([]string{"a", "b", "ab", "abc", "foo", "foo.o", "*", "**", "?", "/", "/", "[ab]", "[!a]", "[^a-c]", "[a-", "[]x]", "[[:alpha:]]",
		"[[:none:]]", "[a-c]*", `\`, `\a`, `\*`, " ", `\ `, ".", "o", "!x", "#x", "x]", "-", "**/", "/**", "é", "[\\]x]", "[a\\-c]", "[--0]", "[!]", "[/]"})
	line := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"", "", "", "!", "/", "#", `\!`, `\#`}).Draw(t, "begin") +
			strings.Join(rapid.SliceOfN(token, 0, 4).Draw(t, "tokens"), "") +
			rapid.SampledFrom([]string{"", "", "/", " ", "\r", "\\"}).Draw(t, "end")
	})
	return rapid.SampledFrom([]string{"", "", "\ufeff"}).Draw(t, "mark") +
		strings.Join(rapid.SliceOfN(line, 0, 5).Draw(t, "lines"), "\n") + rapid.SampledFrom([]string{"", "\n"}).Draw(t, "last")
}

// TestIgnoresAsGit: the rules mean what git makes of them.
func TestIgnoresAsGit(t *testing.T) {
	t.Parallel()
	requireGit(t)
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(os.TempDir(), "securebench-test-")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		if out, err := git(t, dir, nil, "init", "-q"); err != nil {
			rt.Fatalf("%v: %s", err, out)
		}
		rules := map[string][]byte{}
		for _, folder := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{".", "a", "a/b", "foo", "ab"}), 1, 3, rapid.ID).Draw(rt, "folders") {
			name := path.Join(folder, ".gitignore")
			rules[name] = []byte(drawRules(rt))
			if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
				rt.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), rules[name], 0o644); err != nil {
				rt.Fatal(err)
			}
		}
		// git must not find a folder where we ask for a file.
		var paths []string
		for _, p := range rapid.SliceOfN(rapid.Custom(drawPath), 1, 20).Draw(rt, "paths") {
			if info, err := os.Lstat(filepath.Join(dir, p)); err != nil || !info.IsDir() {
				paths = append(paths, p)
			}
		}
		if len(paths) == 0 {
			return
		}
		i := repository.NewIgnore(rules)
		for n, want := range checkIgnore(t, dir, paths) {
			got, ok := i.Match(paths[n])
			if !ok {
				got = ""
			}
			if got != want {
				rt.Errorf("%q is ignored by %q, by git's rules it is %q: %q", paths[n], got, want, show(rules))
			}
		}
	})
}

func show(rules map[string][]byte) string {
	var b strings.Builder
	for name, content := range rules {
		fmt.Fprintf(&b, "%s: %q; ", name, content)
	}
	return b.String()
}
