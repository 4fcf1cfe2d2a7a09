package patchtext_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"securebench/internal/repository"
	"securebench/internal/repository/patchtest"
	"securebench/internal/repository/patchtext"
)

func change(base tree, path, after string) repository.Change {
	c := repository.Change{Path: path}
	if text, ok := base[path]; ok {
		c.Before = repository.Entry{Mode: repository.Regular, Size: int64(len(text)), Sum: sha256.Sum256([]byte(text))}
	}
	c.After = repository.Entry{Mode: repository.Regular, Size: int64(len(after)), Sum: sha256.Sum256([]byte(after))}
	return c
}

// applied returns what a program makes of the file f, and whether it takes a patch.
func applied(tb rapid.TB, base string, patch []byte, argv ...string) (string, bool) {
	tb.Helper()
	dir, err := os.MkdirTemp("", "patch-")
	if err != nil {
		tb.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, []byte(base), 0o600); err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(patch)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_DIR=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"}
	ok := cmd.Run() == nil
	got, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	return string(got), ok
}

// drawn draws a file's lines. Most of them occur several times.
func drawn(rt *rapid.T) []string {
	return rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "", "  d", "e ", "f\r", "g", "h", "i", "j"}), 0, 25).Draw(rt, "lines")
}

// edited changes a few lines.
func edited(rt *rapid.T, lines []string, label string) []string {
	out := append([]string{}, lines...)
	for range rapid.IntRange(0, 3).Draw(rt, label) {
		at := rapid.IntRange(0, len(out)).Draw(rt, "at")
		switch fresh := rapid.SampledFrom([]string{"x", "y", "z", "a"}).Draw(rt, "fresh"); {
		case at == len(out) || rapid.Bool().Draw(rt, "insert"):
			out = append(out[:at], append([]string{fresh}, out[at:]...)...)
		case rapid.Bool().Draw(rt, "delete"):
			out = append(out[:at], out[at+1:]...)
		default:
			out[at] = fresh
		}
	}
	return out
}

func joined(rt *rapid.T, lines []string) string {
	text := strings.Join(lines, "\n")
	if text != "" && rapid.IntRange(0, 3).Draw(rt, "open") > 0 {
		text += "\n"
	}
	return text
}

// drifted is a file, what it is changed to, and another file that is like it.
type drifted struct{ before, after, base string }

func drift() *rapid.Generator[drifted] {
	return rapid.Custom(func(rt *rapid.T) drifted {
		lines := drawn(rt)
		return drifted{joined(rt, lines), joined(rt, edited(rt, lines, "edits")), joined(rt, edited(rt, lines, "drift"))}
	})
}

// TestAsGitAndPatch gives patches of one tree to another that is like it. What git
// apply takes is the same patch in git's form; and where both this package and
// patch with two lines of fuzz take one, none of which git takes, they agree unless
// patch had several places, which is rare: that is counted over trees that are always
// the same.
func TestAsGitAndPatch(t *testing.T) {
	for _, program := range []string{"git", "patch"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed: nothing to compare with", program)
		}
	}
	rapid.Check(t, func(rt *rapid.T) { drift().Draw(rt, "drift").compare(rt) })
	taken := map[string]int{}
	for seed := range 100 {
		taken[drift().Example(seed).compare(t)]++
	}
	if taken["as git"]+taken["as patch"] == 0 || taken["otherwise"] > max(1, taken["as patch"]/4) {
		t.Errorf("%v", taken)
	}
}

// compare fails unless a patch is taken as git takes it, and says as what it was taken, ""
// for not at all.
func (d drifted) compare(tb rapid.TB) string {
	if d.before == d.after {
		return ""
	}
	var patch bytes.Buffer
	err := repository.WritePatch(&patch, []repository.Change{change(tree{"f": d.before}, "f", d.after)},
		func(repository.Change) ([]byte, []byte, error) { return []byte(d.before), []byte(d.after), nil })
	if err != nil {
		tb.Fatal(err)
	}
	if strings.Contains(patch.String(), "\n\\") && d.base != d.before {
		return "" // git joins lines where such a mark is wrong
	}
	wanted, taken := applied(tb, d.base, patch.Bytes(), "git", "apply", "--whitespace=nowarn")
	canonical, _, err := tree{"f": d.base}.canonical(patch.String())
	var why *patchtext.Unclear
	if err != nil && !errors.As(err, &why) {
		tb.Fatal(err)
	}
	var got string
	if err == nil {
		var ok bool
		if got, ok = applied(tb, d.base, []byte(canonical), "git", "apply", "--whitespace=nowarn"); !ok {
			tb.Fatalf("git does not take what was made of\n%s\nfor %q:\n%s", patch.String(), d.base, canonical)
		}
	}
	switch fuzzed, fuzzy := applied(tb, d.base, patch.Bytes(), "patch", "-p1", "--batch", "--forward", "--fuzz=2", "--binary"); {
	case taken && err == nil && got != wanted, taken && err != nil && !why.Ambiguous:
		tb.Fatalf("git makes %q of %q, not %q (%v)\n%s", wanted, d.base, got, err, patch.String())
	case taken:
		return "as git"
	case err == nil && fuzzy && got == fuzzed:
		return "as patch"
	case err == nil && fuzzy:
		tb.Logf("patch makes %q of %q, not %q\n%s", fuzzed, d.base, got, patch.String())
		return "otherwise"
	}
	return ""
}

// FuzzRead gives arbitrary texts to the reader. What it makes of them is a patch of
// its own, which it reads as the same, and names no file outside of the tree.
func FuzzRead(f *testing.F) {
	for _, c := range spellings() {
		f.Add(calc, []byte(c.patch))
	}
	f.Add("x\n", []byte("diff --git a/f b/f\nold mode 100644\nnew mode 100755\n"))
	f.Fuzz(func(t *testing.T, text string, patch []byte) {
		base := tree{"pkg/calc.py": text, "f": "x\n", "l": "link:f"}
		out, _, err := base.canonical(string(patch))
		if err != nil {
			var why *patchtext.Unclear
			if !errors.As(err, &why) {
				t.Fatal(err)
			}
			return
		}
		paths, err := patchtest.Paths([]byte(out))
		for _, p := range paths {
			if !filepath.IsLocal(p) || strings.HasPrefix(p, ".git/") {
				err = errors.Join(err, fmt.Errorf("names %q", p))
			}
		}
		again, odd, err2 := base.canonical(out)
		if err := errors.Join(err, err2); !strings.Contains(out, "GIT binary") && (err != nil || again != out || len(odd) > 0) {
			t.Errorf("%v, %q: %q became\n%s\nand then\n%s", err, odd, patch, out, again)
		}
	})
}
