package rootless

import "testing"

func TestLargest(t *testing.T) {
	names := []string{"1000", "agent"}
	for _, c := range []struct {
		text string
		want Range
		ok   bool
	}{
		{"agent:100000:65536\n", Range{100000, 65536}, true},
		{"other:100000:65536\nagent:165536:65536", Range{165536, 65536}, true},
		{"1000:200000:131072\nagent:100000:65536\n", Range{200000, 131072}, true},
		{"agent:100000:1000\n", Range{100000, 1000}, false},
		{"", Range{}, false},
		{"agent:0:65536\n", Range{}, false}, // root's own
		{"agent:-1:65536\nagent:x:65536\nagent:1\n:::\n", Range{}, false},
		{"agent:4294967295:65536\n", Range{}, false},
		{"agent:100000:65536:more\n", Range{}, false},
	} {
		if got, ok := largest(c.text, names); got != c.want || ok != c.ok {
			t.Errorf("%q: %+v, %v, want %+v, %v", c.text, got, ok, c.want, c.ok)
		}
	}
}

func FuzzLargest(f *testing.F) {
	f.Add("agent:100000:65536\n")
	f.Fuzz(func(t *testing.T, text string) {
		r, ok := largest(text, []string{"agent"})
		if ok && (r.Start <= 0 || r.Count < minCount || r.Start+r.Count > 1<<32) {
			t.Errorf("%q: %+v", text, r)
		}
	})
}
