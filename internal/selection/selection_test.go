package selection

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"securebench/internal/earlier"
	"securebench/internal/fault"
	"securebench/internal/pipeline/pack"
	"securebench/internal/pipeline/record"
)

// writePack writes a pack of n rows: a/0, b/1, a/2 and so on, every third of
// which is tagged.
func writePack(t testing.TB, n int) pack.Location {
	t.Helper()
	dir := t.TempDir()
	loc := pack.Location{Manifest: filepath.Join(dir, "manifest.yaml"), Tasks: filepath.Join(dir, "tasks.jsonl")}
	var rows strings.Builder
	for i := range n {
		metadata := ""
		if i%3 == 0 {
			metadata = `, "metadata": {"tags": ["third", "any"]}`
		}
		fmt.Fprintf(&rows, `{"id": "%c/%d", "family": "f%d", "input": {}, "eval": {}%s}`+"\n", 'a'+rune(i%2), i, i%4, metadata)
	}
	for name, text := range map[string]string{loc.Manifest: "id: p\nversion: 1\n", loc.Tasks: rows.String()} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return loc
}

func TestChoose(t *testing.T) {
	t.Parallel()
	loc := writePack(t, 12)
	before := &earlier.Run{Tasks: []earlier.Task{{ID: "a/0", Attempts: 2, Passed: 2}, {ID: "b/1", Attempts: 2, Passed: 1}, {ID: "a/2", Attempts: 2}, {ID: "gone", Attempts: 2}}}
	for name, c := range map[string]struct {
		choice Choice
		first  int
		want   []int
	}{
		"all":               {Choice{Shuffle: true}, -1, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
		"a pattern":         {Choice{Tasks: []string{"b/*"}}, -1, []int{1, 3, 5, 7, 9, 11}},
		"over the slash":    {Choice{Tasks: []string{"*1"}}, -1, []int{1, 11}},
		"one character":     {Choice{Tasks: []string{"??1"}}, -1, []int{1}},
		"a set":             {Choice{Tasks: []string{"[^b]?[24]"}}, -1, []int{2, 4}},
		"two patterns":      {Choice{Tasks: []string{"a/2", "b/1"}}, -1, []int{1, 2}},
		"families":          {Choice{Families: []string{"f1", "f3"}}, -1, []int{1, 3, 5, 7, 9, 11}},
		"tags":              {Choice{Tags: []string{"third"}}, -1, []int{0, 3, 6, 9}},
		"all conditions":    {Choice{Tags: []string{"third"}, Families: []string{"f1", "f0"}, Tasks: []string{"*"}}, -1, []int{0, 9}},
		"what failed":       {Choice{FailedIn: before}, -1, []int{1, 2}},
		"the first of some": {Choice{Families: []string{"f1"}}, 2, []int{1, 5}},
		"none of some":      {Choice{Families: []string{"f1"}}, 0, []int{}},
		"more than there":   {Choice{Families: []string{"f1"}, Sample: 9}, -1, []int{1, 5, 9}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Choose(t.Context(), loc, nil, c.choice, c.first)
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Collect(r.set.All()); !slices.Equal(got, c.want) {
				t.Errorf("chose %v, want %v", got, c.want)
			}
		})
	}
}

// TestSample: a smaller sample is part of a larger one, and of another seed is
// another.
func TestSample(t *testing.T) {
	t.Parallel()
	loc := writePack(t, 60)
	draw := func(n int, seed uint64) []int {
		r, err := Choose(context.Background(), loc, nil, Choice{Sample: n, Seed: seed}, -1)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Collect(r.set.All())
	}
	large := draw(30, 1)
	for n := 1; n < 30; n++ {
		small := draw(n, 1)
		if len(small) != n || slices.ContainsFunc(small, func(i int) bool { return !slices.Contains(large, i) }) {
			t.Errorf("%d of seed 1 are %v, 30 are %v", n, small, large)
		}
	}
	if slices.Equal(draw(30, 2), large) {
		t.Error("two seeds draw the same rows")
	}
}

// TestFailedInAnotherPack: ids of another pack say nothing of this one, even where
// they are the same. Of the same pack, what is gone is counted.
func TestFailedInAnotherPack(t *testing.T) {
	t.Parallel()
	loc := writePack(t, 4)
	p, err := pack.Load(t.Context(), loc, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]fault.Kind{"p": "", "q": fault.Refused} {
		before := &earlier.Run{Name: "before", Tasks: []earlier.Task{{ID: "a/0", Attempts: 1, Passed: 1}, {ID: "b/1", Attempts: 1}, {ID: "gone", Attempts: 1}, {ID: "passed", Attempts: 1, Passed: 1}}}
		before.Manifest.Pack = record.PackInfo{ID: id, Version: 7}
		r, err := Choose(t.Context(), loc, nil, Choice{FailedIn: before}, -1)
		if err != nil {
			t.Fatal(err)
		}
		if n := r.Gone(); n != 1 {
			t.Errorf("%d tasks are gone, want 1", n)
		}
		if err := r.Of(p); (err != nil) != (want != "") || err != nil && fault.KindOf(err) != want {
			t.Errorf("a run of %s: %v, want %q", id, err, want)
		}
	}
}

// TestChangedPack: rows that change between the choice and the run are noticed.
func TestChangedPack(t *testing.T) {
	t.Parallel()
	loc := writePack(t, 4)
	r, err := Choose(t.Context(), loc, nil, Choice{Tasks: []string{"a/0"}}, -1)
	if err != nil {
		t.Fatal(err)
	}
	p, err := pack.Load(t.Context(), loc, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Of(p); err != nil {
		t.Errorf("the same pack: %v", err)
	}
	text, err := os.ReadFile(loc.Tasks)
	if err == nil {
		err = os.WriteFile(loc.Tasks, append([]byte(`{"id": "new", "family": "f", "input": {}, "eval": {}}`+"\n"), text...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if p, err = pack.Load(t.Context(), loc, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := r.Of(p); err == nil {
		t.Error("another row in front is not noticed")
	}
}

// TestMisspelt: a condition that no row meets says which names there are.
func TestMisspelt(t *testing.T) {
	t.Parallel()
	loc := writePack(t, 9)
	for name, c := range map[string]struct {
		choice Choice
		want   string
	}{
		"a part of an id": {Choice{Tasks: []string{"A/0"}}, "(did you mean a/0?)"},
		"another id":      {Choice{Tasks: []string{"zz*"}}, "(it has a/0, "},
		"many":            {Choice{Tasks: []string{"zz"}}, " and others)"},
		"a family":        {Choice{Families: []string{"odd"}}, "(it has "},
	} {
		_, err := Choose(t.Context(), loc, nil, c.choice, -1)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}
