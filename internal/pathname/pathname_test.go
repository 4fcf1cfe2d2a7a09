package pathname

import "testing"

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		p, dir string
		want   bool
	}{
		{"/a", "/a", true}, {"/a/b", "/a", true}, {"/a/b/", "/a/", true}, {"/ab", "/a", false}, {"/a", "/a/b", false}, {"/a", "/", true}, {"/", "/", true},
		{"/a/../b", "/a", false}, {"/a/./b", "/a", true}, {"a", ".", true}, {".", ".", true}, {"a/b", "a", true}, {"ab", "a", false},
		{"../a", ".", false}, {"..", ".", false}, {"/a", ".", false}, {"a", "/", false}, {"/a", "", false}, {"", "a", false},
	} {
		if got := Within(c.p, c.dir); got != c.want {
			t.Errorf("Within(%q, %q) is %v", c.p, c.dir, got)
		}
		if got := Overlap(c.dir, c.p); got != (c.want || Within(c.dir, c.p)) {
			t.Errorf("Overlap(%q, %q) is %v", c.dir, c.p, got)
		}
	}
}
