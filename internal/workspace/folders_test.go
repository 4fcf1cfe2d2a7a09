package workspace

import "testing"

// TestFolders: rows have names of their own, which stay the same in whatever order
// they are asked for.
func TestFolders(t *testing.T) {
	t.Parallel()
	ids := []string{"a", "A", "salt", "-x", "a/b", "a b", "a", "z"}
	f := Folders{Namer: Namer{Reserved: []string{"salt"}}}
	for _, id := range ids[:6] {
		f.Note(id)
	}
	f.Note("z")
	seen := map[string]string{}
	for _, id := range []string{"z", "a b", "a/b", "-x", "salt", "A", "a"} {
		name := f.Of(id)
		if other, taken := seen[name]; taken {
			t.Errorf("%q and %q are both in %s", id, other, name)
		}
		seen[name] = id
		if f.Of(id) != name {
			t.Errorf("%q has two names", id)
		}
	}
	if f.Of("a") != "a" || f.Of("z") != "z" || f.Of("salt") == "salt" || f.Of("A") == "A" {
		t.Errorf("names: %v", seen)
	}
}
