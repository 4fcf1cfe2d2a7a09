package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPacks scores the packs of this repository, which are samples of the
// public data sets: their reference solutions pass, and the null agent passes
// no task. The verdicts on the five tasks of a terminal are the same again.
func TestPacks(t *testing.T) {
	t.Parallel()
	needEngine(t)
	packs, err := filepath.Glob(filepath.Join("..", "..", "packs", "*"))
	if err != nil || len(packs) < 5 {
		t.Fatalf("packs %v, %v", packs, err)
	}
	for _, dir := range packs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			dir := patient(t, dir)
			if _, err := os.Stat(filepath.Join(dir, "images")); err == nil {
				if built := securebench(t, nil, "pack", "build", dir); built.code != exitDone {
					t.Fatalf("the pack's images: exit %d\n%s%s", built.code, built.stdout, built.stderr)
				}
			}
			out, workers := filepath.Join(t.TempDir(), "out"), "2"
			if filepath.Base(dir) == "math-sample" {
				workers = "1" // each of which loads the library that compares, which takes longer than all rows
			}
			oracle := securebench(t, nil, "run", dir, "--agent", "oracle", "-q", "--fail-on", "any", "--workers", workers, "-o", out)
			if filepath.Base(dir) == "math-sample" && os.Getenv("SECUREBENCH_TEST_WHEELS") != "require" && strings.Contains(oracle.stderr, "for math-verify") {
				t.Skipf("SKIPPED: nothing compares mathematical expressions: %s", oracle.stderr)
			}
			if oracle.code != exitDone {
				t.Errorf("the pack's own solutions: exit %d\n%s%s", oracle.code, oracle.stdout, oracle.stderr)
			}
			var total int
			if _, err := fmt.Sscanf(field(oracle.stdout, "total"), "%d", &total); err != nil || total == 0 {
				t.Fatalf("no total in %q", oracle.stdout)
			}
			nothing := securebench(t, nil, "run", dir, "--agent", "null", "-q")
			if nothing.code != exitDone || field(nothing.stdout, "passed") != "0" || field(nothing.stdout, "verified") != fmt.Sprint(total) {
				t.Errorf("nothing: exit %d\n%s%s", nothing.code, nothing.stdout, nothing.stderr)
			}
			if name := filepath.Base(dir); name != "terminal-bench-sample" && name != "math-sample" {
				return // other tests derive verdicts of the other families again
			}
			again := securebench(t, nil, "reverify", out, "--pack", dir, "--workers", workers)
			if equal := fmt.Sprintf("%d equal, 0 different", total); total < 5 || again.code != exitDone || !strings.Contains(again.stdout, equal) {
				t.Errorf("%d tasks, again: exit %d\n%s%s", total, again.code, again.stdout, again.stderr)
			}
		})
	}
}

// patient copies a pack, with limits on time that a busy machine keeps.
func patient(t *testing.T, pack string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), filepath.Base(pack))
	if err := os.CopyFS(dir, os.DirFS(pack)); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "tasks", "*", "task.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		names = []string{filepath.Join(dir, "tasks.jsonl")}
	}
	for _, name := range append(names, filepath.Join(dir, "manifest.yaml")) {
		tasks, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, name, regexp.MustCompile(`("?timeout_seconds"?): ?[0-9]+`).ReplaceAllString(string(tasks), "$1: 600"))
	}
	return dir
}

// field returns a value of the summary line.
func field(summary, name string) string {
	for word := range strings.FieldsSeq(summary) {
		if v, ok := strings.CutPrefix(word, name+"="); ok {
			return v
		}
	}
	return ""
}
