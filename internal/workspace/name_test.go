package workspace_test

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"securebench/internal/source"
	"securebench/internal/workspace"
)

// vectors calls f with each object of a JSONL file: our own copy, and the one
// that SECUREBENCH_VECTORS leads to.
func vectors(t *testing.T, name string, f func(n *source.Node)) {
	t.Helper()
	files := []string{filepath.Join("testdata", name)}
	if dir := os.Getenv("SECUREBENCH_VECTORS"); dir != "" {
		files = append(files, filepath.Join(dir, name))
	} else {
		t.Log("SECUREBENCH_VECTORS is not set: own copy only")
	}
	for _, file := range files {
		eachLine(t, file, f)
	}
}

func eachLine(t *testing.T, file string, f func(n *source.Node)) {
	t.Helper()
	r, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	count := 0
	for s := bufio.NewScanner(r); s.Scan(); count++ {
		n, err := source.ParseJSON(file, count+1, s.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		f(n)
	}
	if count == 0 {
		t.Fatalf("%s is empty", file)
	}
}

func TestDirNameVectors(t *testing.T) {
	vectors(t, "workspace_dir_name.jsonl", func(n *source.Node) {
		id, want := n.Get("task_id").Text, n.Get("dir").Text
		if got := workspace.DirName(id); got != want {
			t.Errorf("DirName(%q) = %q, want %q", id, got, want)
		}
		var namer workspace.Namer
		if got := namer.Name(id); got != want {
			t.Errorf("a lone task %q is named %q, want the reference's %q", id, got, want)
		}
	})
}

// TestNamerCollisions is attack S10: ids that share a directory or look like
// an option.
func TestNamerCollisions(t *testing.T) {
	long := strings.Repeat("x", 5000)
	ids := []string{
		"a b", "a_b-c8687a08", "A_B-C8687A08", "Task", "task", "TASK", "a/b", "a_b", "a//b", "--privileged", "-v",
		"../../x", "", "..", ".", "/", "a\nb", "a\x00b", long, long + "y", strings.Repeat("é", 3000), "-", "---",
	}
	var n workspace.Namer
	got := map[string]string{}
	for _, id := range ids {
		got[id] = n.Name(id)
	}
	checkNames(t, got)
	var again workspace.Namer
	for _, id := range ids {
		if name := again.Name(id); name != got[id] {
			t.Errorf("%q was %q, is %q in another run", id, got[id], name)
		}
	}
	for id, want := range map[string]string{"a b": "a_b-c8687a08", "Task": "Task", "a_b": "a_b"} {
		if got[id] != want {
			t.Errorf("%q lost the reference's name: %q", id, got[id])
		}
	}
}

type errorfer interface{ Errorf(string, ...any) }

func checkNames(t errorfer, names map[string]string) {
	seen := map[string]string{}
	for id, name := range names {
		folded := strings.ToLower(name)
		if other, ok := seen[folded]; ok {
			t.Errorf("%q and %q share %q", id, other, name)
		}
		seen[folded] = id
		if name == "" || len(name) > 200 || strings.HasPrefix(name, "-") || strings.HasPrefix(name, ".") ||
			strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != "" {
			t.Errorf("%q has the unsafe name %q", id, name)
		}
	}
}

// TestNamerProperty also feeds names back as ids, as an attacker would who
// knows the scheme.
func TestNamerProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var n workspace.Namer
		names := map[string]string{}
		gen := rapid.OneOf(rapid.String(), rapid.StringMatching(`[aA_. /-]{0,6}`))
		for range rapid.IntRange(1, 20).Draw(t, "n") {
			id := gen.Draw(t, "id")
			if name, ok := names[id]; ok && rapid.Bool().Draw(t, "feed back") {
				id = rapid.SampledFrom([]string{name, strings.ToUpper(name)}).Draw(t, "form")
			}
			names[id] = n.Name(id)
		}
		checkNames(t, names)
	})
}

func FuzzNamer(f *testing.F) {
	f.Add("a b", "a_b-c8687a08")
	f.Add("x", "X")
	f.Fuzz(func(t *testing.T, a, b string) {
		var n workspace.Namer
		checkNames(t, map[string]string{a: n.Name(a), b: n.Name(b)})
	})
}

// TestReservedNames: a task's folder never has a reserved name.
func TestReservedNames(t *testing.T) {
	n := &workspace.Namer{Reserved: []string{"salt", ".new-salt"}}
	for _, id := range []string{"salt", "SALT", ".new-salt"} {
		if got := strings.ToLower(n.Name(id)); got == "salt" || got == ".new-salt" {
			t.Errorf("task %q got the reserved name %q", id, got)
		}
	}
	if got := n.Name("pepper"); got != "pepper" {
		t.Errorf("task pepper is called %q", got)
	}
}
