package packlint

import (
	"archive/tar"
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"securebench/internal/packlint/likeness"
)

// TestSearch: whatever the texts and however a stream is cut, each text is found that is
// within it, and no other.
func TestSearch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[ab]{16,60}`)
		s := newSecrets(new(int))
		hidden := rapid.SliceOfN(text, 1, 8).Draw(t, "hidden")
		for _, h := range hidden {
			s.add(h, []byte(h), likeness.Marks{}, 0)
		}
		s.begin()
		stream := strings.Join(rapid.SliceOfN(rapid.StringMatching(`[abc]{0,80}`), 0, 10).Draw(t, "noise"), rapid.SampledFrom(hidden).Draw(t, "one"))
		got := map[string]bool{}
		w := searcher{secrets: s, found: func(id int) { got[s.names[id]] = true }}
		for rest := []byte(stream); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			_, _ = w.Write(rest[:n])
			rest = rest[n:]
		}
		w.end()
		for _, h := range hidden {
			if want := strings.Contains(stream, h); got[h] != want {
				t.Fatalf("%q in %q: %v", h, stream, got[h])
			}
		}
	})
}

// TestSearchLong: the parts in which a long stream is searched hide nothing, and keep no
// more than one of them and the longest text.
func TestSearchLong(t *testing.T) {
	t.Parallel()
	s := newSecrets(new(int))
	long := strings.Repeat("0123456789abcdef", 5000)[3:]
	s.add("long", []byte(long), likeness.Marks{}, 0)
	s.add("short", []byte("a needle in the hay"), likeness.Marks{}, 0)
	s.begin()
	for _, at := range []int{0, 1, partSize - 10, partSize, partSize + len(long) - 5, 2*partSize + 7, 3*partSize - 1} {
		var found []string
		w := searcher{secrets: s, found: func(id int) { found = append(found, s.names[id]) }}
		for _, part := range []string{strings.Repeat("-", at), "a needle in the hay", long, strings.Repeat("+", partSize)} {
			_, _ = w.Write([]byte(part))
		}
		w.end()
		slices.Sort(found)
		if found = slices.Compact(found); !slices.Equal(found, []string{"long", "short"}) {
			t.Errorf("at %d: %v", at, found)
		}
		if cap(w.buf) > 2*(partSize+s.longest) {
			t.Errorf("at %d: it keeps %d bytes", at, cap(w.buf))
		}
	}
}

func TestTelltale(t *testing.T) {
	t.Parallel()
	schema := []byte(`{"enum": ["numeric_with_tolerance"]}`)
	for text, want := range map[string]bool{
		"FLAG{93ac21d7be604f18}": true, "the capital is Paris": true, "def f():\n    return 42": true,
		"short": false, "": false, "tests/test_outputs.py": false, "tests.test_a.Tests::test_b": false, "numeric_with_tolerance": false,
	} {
		if got := telltale(text, schema); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// FuzzWalkTar: whatever a layer is, looking into it ends, and finds what is in its files.
func FuzzWalkTar(f *testing.F) {
	f.Add([]byte("\x1f\x8b\x08\x00"))
	f.Add(bytes.Repeat([]byte{0}, 1024))
	f.Fuzz(func(t *testing.T, layer []byte) {
		s := newSecrets(new(int))
		s.add("x", []byte("a needle in the hay"), likeness.Marks{}, 0)
		s.begin()
		w := searcher{secrets: s, found: func(int) {}}
		part := searcher{secrets: s, found: func(int) {}}
		_ = likeness.WalkTar(t.Context(), bytes.NewReader(layer), likeness.Visitor{Enter: func(*tar.Header) {}, Whole: &w, Part: &part,
			WholeEnd: w.end, PartEnd: func(string) { part.end() }, Each: func(string, []byte, likeness.Marks) {}, Cut: func() {}})
	})
}

// TestSecretsAreBounded: texts beyond the bound, which is that of all images, are counted
// and not kept.
func TestSecretsAreBounded(t *testing.T) {
	t.Parallel()
	size := maxSecrets - 40
	one, other := newSecrets(&size), newSecrets(&size)
	one.add("a", []byte(strings.Repeat("a", 30)), likeness.Marks{}, 0)
	one.add("a again", []byte(strings.Repeat("a", 30)), likeness.Marks{}, 0)
	other.add("b", []byte(strings.Repeat("b", 30)), likeness.Marks{}, 0)
	if len(one.texts) != 1 || one.leftOut != 0 || len(other.texts) != 0 || other.leftOut != 1 || size != maxSecrets-10 {
		t.Errorf("%d, %d, %d, %d, %d", len(one.texts), one.leftOut, len(other.texts), other.leftOut, size)
	}
}
