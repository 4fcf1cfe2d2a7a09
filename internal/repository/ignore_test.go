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
			if got, _ := i.Match(paths[n]); got != want {
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

// TestRulesAsGit asks git about each rule alone, for paths that tell rules apart.
func TestRulesAsGit(t *testing.T) {
	t.Parallel()
	requireGit(t)
	dir := t.TempDir()
	if out, err := git(t, dir, nil, "init", "-q"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	paths := []string{"a", "b", "a/b", "a/b/c", "x/a", "x/a/b", "x/y/a", "a/x/b", "a/x/y/b", "ab", "abc", "a b", "a ", "b.o", "x/b.o", "a/b.o", "A",
		"!a", "#a", "a*", "a-b", "a]b", "foo/bar", "foobar/baz", "a/foobar/baz", "x/foo", "aa/b", "-", "]", "a\\", "é", "\t"}
	for _, rule := range []string{"a", "/a", "a/", "/a/", "a/b", "/a/b", "a/*", "a/**", "**", "**/", "**/a", "**/a/b", "a/**/b", "a/**/", "/**/a", "x/**/a", "*", "/*",
		"*/", "*/a", "*/*", "*.o", "/*.o", "**.o", "a**", "a/foo**", "a**/b", "foo**", "**foo", "?", "a?b", "a?", "[ab]", "[!a]", "[^a]", "[a-c]", "[]]", "a[]]b", "a[]-]b",
		"[[:alpha:]]", "[[:space:]]", "[[:bogus:]]", "[a", "a[/]b", `\!a`, `\#a`, "!a", "#a", `a\*`, `a\`, `a\\`, `a\ `, "a ", "a  ", "a b", "a\r", "\ufeffa", "é", "a\n!a", "*\n!a/",
		"*\n!x\n!x/a", "a/*\n!a/b", "/", "!", "//a", "a//b", "./a", "../a", "a/./b", "A", "[A-Z]", `[\]]`, "[a\\-c]", "a\x00b", "*a*b*", "**/**", "***", "a/***", "*/**"} {
		name := filepath.Join(dir, ".gitignore")
		if err := os.WriteFile(name, []byte(rule), 0o644); err != nil {
			t.Fatal(err)
		}
		i := repository.NewIgnore(map[string][]byte{".gitignore": []byte(rule)})
		for n, want := range checkIgnore(t, dir, paths) {
			if got, _ := i.Match(paths[n]); got != want {
				t.Errorf("the rule %q: %q is ignored by %q, by git's rules it is %q", rule, paths[n], got, want)
			}
		}
	}
}

// TestIgnore needs no git.
func TestIgnore(t *testing.T) {
	t.Parallel()
	i := repository.NewIgnore(map[string][]byte{
		".gitignore":         []byte("/build/\n*.log\n!keep.log\n__pycache__/\n!.coverage\n"),
		"src/pkg/.gitignore": []byte("generated.py\n!debug.log\n"),
	})
	for name, want := range map[string]string{
		"build/x.py":               ".gitignore",
		"src/build/x.py":           "",
		"src/x.log":                ".gitignore",
		"src/keep.log":             "",
		"src/pkg/debug.log":        "",
		"src/pkg/sub/debug.log":    "",
		"src/debug.log":            ".gitignore",
		"src/pkg/generated.py":     "src/pkg/.gitignore",
		"src/generated.py":         "",
		"src/__pycache__/x.txt":    repository.CacheRule,
		"x.pyc":                    repository.CacheRule,
		".coverage":                repository.CacheRule, // no file can take it back
		".coverage.host.123":       repository.CacheRule,
		".coveragerc":              "",
		".pytest_cache/v/x":        repository.CacheRule,
		"a/.mypy_cache/x":          repository.CacheRule,
		".venv/bin/python":         repository.CacheRule,
		"node_modules/x.js":        "",
		"node_modules/.cache/x":    repository.CacheRule,
		"pkg.egg-info/PKG-INFO":    repository.CacheRule,
		"src/p.egg-info/PKG-INFO":  repository.CacheRule,
		"data/p.egg-info/PKG-INFO": "",
		"__pycache__":              "", // a file of that name is no cache
		"cache/x.py":               "",
		"venv/x.py":                "",
		"dist/x.py":                "",
	} {
		rule, ok := i.Match(name)
		if ok != (want != "") || ok && rule != want {
			t.Errorf("%q: %q, %v; want %q", name, rule, ok, want)
		}
	}
}

// FuzzIgnore: no rules and no path take long or go wrong.
func FuzzIgnore(f *testing.F) {
	f.Add("*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
	f.Add("**/**/**/**/a", "b/b/b/b/b/b/b/b/b/b/b/b")
	f.Add("[[:alpha:]-z]\n!\\", "a/b/../c")
	f.Fuzz(func(t *testing.T, rules, name string) {
		name = path.Clean(strings.TrimLeft(name, "/"))
		i := repository.NewIgnore(map[string][]byte{".gitignore": []byte(rules), "a/.gitignore": []byte(rules)})
		rule, ok := i.Match(name)
		again, okAgain := i.Match(name)
		if rule != again || ok != okAgain {
			t.Errorf("two answers for %q", name)
		}
		if ok != (rule != "") {
			t.Errorf("%q: ignored %v, by the rule %q", name, ok, rule)
		}
	})
}
