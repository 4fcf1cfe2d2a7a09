package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"securebench/internal/redact"
)

func registry(t testing.TB, secrets ...string) *redact.Registry {
	t.Helper()
	r := &redact.Registry{}
	for i, s := range secrets {
		if err := r.Add(fmt.Sprintf("S%d", i), []byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func reverse(s string) string {
	b := []rune(s)
	slices.Reverse(b)
	return string(b)
}

// TestEncodings is attack D13: the secret in the encodings in which it leaks.
func TestEncodings(t *testing.T) {
	const key = "sk-Proj/äb+<9>\"x\n&~Z"
	r := registry(t, key)
	quoted, err := json.Marshal(key)
	if err != nil {
		t.Fatal(err)
	}
	forms := map[string]string{
		"plain":           key,
		"hex":             hex.EncodeToString([]byte(key)),
		"HEX":             strings.ToUpper(hex.EncodeToString([]byte(key))),
		"reversed":        reverse(key),
		"query":           url.QueryEscape(key),
		"path":            url.PathEscape(key),
		"lower query":     strings.NewReplacer("%C3%A4", "%c3%a4", "%2F", "%2f", "%2B", "%2b", "%3C", "%3c", "%3E", "%3e", "%0A", "%0a", "%7E", "%7e").Replace(url.QueryEscape(key)),
		"json of Go":      string(quoted[1 : len(quoted)-1]),
		"json":            `sk-Proj/äb+<9>\"x\n&~Z`,
		"json in ASCII":   `sk-Proj/\u00e4b+<9>\"x\n&~Z`,
		"json in ASCII 2": `sk-Proj/\u00E4b+<9>\"x\n&~Z`,
		"json of PHP":     `sk-Proj\/\u00e4b+<9>\"x\n&~Z`,
	}
	for name, form := range forms {
		for _, around := range []string{"%s", "Authorization: %s\n", "%s%[1]s"} {
			text := fmt.Sprintf(around, form)
			got := string(r.Bytes([]byte(text)))
			want := strings.ReplaceAll(text, form, "[redacted:S0]")
			if got != want {
				t.Errorf("%s: %q became %q, want %q", name, text, got, want)
			}
		}
	}
}

func TestBase64Alignments(t *testing.T) {
	const key = "sk-proj-0123456789"
	r := registry(t, key)
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 7 {
			for after := range 4 {
				text := enc.EncodeToString([]byte("\xfb\xff\xfe{\"a\"?>"[:before] + key + ">>>\xff"[:after]))
				got := string(r.Bytes([]byte(text)))
				if !strings.Contains(got, "[redacted:S0]") {
					t.Errorf("%d bytes before, %d after: %q is not redacted", before, after, text)
				}
				// At most one character at the edges belongs partly to the key.
				if hidden := len(text) - (len(got) - len("[redacted:S0]")); hidden < len(key)*8/6-1 {
					t.Errorf("%d bytes before, %d after: %q keeps too much: %q", before, after, text, got)
				}
			}
		}
	}
	if got := string(r.Bytes([]byte(base64.StdEncoding.EncodeToString([]byte(key))))); got != "[redacted:S0]" {
		t.Errorf("the whole encoding became %q", got)
	}
}

func TestOverlaps(t *testing.T) {
	tests := []struct {
		secrets  []string
		in, want string
	}{
		{[]string{"abcdefgh", "efghijkl"}, "<abcdefghijkl>", "<[redacted:S0]>"},
		{[]string{"efghijkl", "abcdefgh"}, "<abcdefghijkl>", "<[redacted:S1]>"},
		{[]string{"bcdefghi", "abcdefghij"}, "<abcdefghij>", "<[redacted:S1]>"},
		{[]string{"bcdefghi", "abcdefghij"}, "<abcdefghi>", "<a[redacted:S0]>"},
		{[]string{"aaaaaaaa"}, strings.Repeat("a", 100_000) + "b", "[redacted:S0]b"},
		{[]string{"abcdefgh"}, "abcdefghabcdefgh", "[redacted:S0][redacted:S0]"},
		{[]string{"abcabcabd"}, "abcabcabcabd", "abc[redacted:S0]"},
		{[]string{"abcdefgh", "abcdefgh"}, "abcdefgh", "[redacted:S0]"},
		{nil, "anything", "anything"},
	}
	for _, tc := range tests {
		r := registry(t, tc.secrets...)
		if got := string(r.Bytes([]byte(tc.in))); got != tc.want {
			t.Errorf("%q: %.40q became %.60q, want %q", tc.secrets, tc.in, got, tc.want)
		}
		for size := range 12 {
			if got := chunked(t, r, []byte(tc.in), func() int { return size + 1 }); got != tc.want {
				t.Errorf("%q: %.40q in pieces of %d became %.60q, want %q", tc.secrets, tc.in, size+1, got, tc.want)
			}
		}
	}
}

func chunked(t fataler, r *redact.Registry, in []byte, size func() int) string {
	var out bytes.Buffer
	w := r.Writer(&out)
	for len(in) > 0 {
		n := min(size(), len(in))
		if m, err := w.Write(in[:n]); m != n || err != nil {
			t.Fatal(m, err)
		}
		in = in[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

type fataler interface{ Fatal(...any) }

func TestAddRefuses(t *testing.T) {
	r := registry(t, "0123456789")
	tests := map[string]struct{ name, value string }{
		"short":             {"KEY", "hunter2"},
		"empty":             {"KEY", ""},
		"long":              {"KEY", strings.Repeat("hunter2", 10_000)},
		"name":              {"A B]", "hunter2hunter2"},
		"no name":           {"", "hunter2hunter2"},
		"inside a mark":     {"KEY", "redacted"},
		"holds a mark":      {"KEY", "hunter2[redacted:S0]"},
		"completed by mark": {"KEY", "hunter2["},
		"begun by mark":     {"KEY", ":KEY]hunter2"},
		"of another's mark": {"KEY", "S0]hunter2"},
	}
	for name, tc := range tests {
		err := r.Add(tc.name, []byte(tc.value))
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		if strings.Contains(err.Error(), "hunter2") || tc.name == "KEY" && !strings.Contains(err.Error(), "KEY") {
			t.Errorf("%s: error %q", name, err)
		}
	}
	if s := fmt.Sprintf("%v %+v %#v %s", r, r, r, r); strings.Contains(s, "0123456789") {
		t.Errorf("a registry prints its secrets: %s", s)
	}
}

func TestWriterFailure(t *testing.T) {
	r := registry(t, "0123456789")
	w := r.Writer(brokenWriter{})
	if _, err := w.Write([]byte(strings.Repeat("x", 1000))); err == nil {
		t.Error("no error")
	}
	if _, err := w.Write([]byte("x")); err == nil {
		t.Error("the error is forgotten")
	}
	if w.Close() == nil {
		t.Error("Close forgets the error")
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, fmt.Errorf("disk full") }

// check is the property of every redaction.
func check(t *rapid.T, secrets []string, in []byte) {
	r := &redact.Registry{}
	var kept []string
	for i, s := range secrets {
		if r.Add(fmt.Sprintf("S%d", i), []byte(s)) == nil {
			kept = append(kept, s)
		}
	}
	out := string(r.Bytes(in))
	for _, s := range kept {
		if strings.Contains(out, s) {
			t.Fatalf("%q still holds %q", out, s)
		}
	}
	size := rapid.IntRange(1, 9)
	if got := chunked(t, r, in, func() int { return size.Draw(t, "size") }); got != out {
		t.Fatalf("%q in pieces became %q, at once %q", in, got, out)
	}
}

func TestRedactProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Few letters make secrets overlap with themselves and each other.
		secrets := rapid.SliceOfN(rapid.StringMatching(`[ab\[\]:0]{8,12}`), 1, 4).Draw(t, "secrets")
		var in []byte
		for range rapid.IntRange(0, 8).Draw(t, "n") {
			piece := rapid.OneOf(rapid.SampledFrom(secrets), rapid.StringMatching(`[ab\[\]:0]{0,6}`)).Draw(t, "piece")
			in = append(in, piece[rapid.IntRange(0, len(piece)).Draw(t, "cut"):]...)
		}
		check(t, secrets, in)
	})
}

func FuzzRedact(f *testing.F) {
	f.Add([]byte("abcdefgh"), []byte("efghijkl"), []byte("xxabcdefghijkl"), uint8(3))
	f.Add([]byte("aaaaaaaa"), []byte("aaaaaaaab"), []byte("aaaaaaaaaaaaaaaab"), uint8(1))
	f.Fuzz(func(t *testing.T, a, b, in []byte, size uint8) {
		r := &redact.Registry{}
		okA, okB := r.Add("A", a) == nil, r.Add("B", b) == nil
		text := slices.Concat(in, a, in, b, a)
		out := r.Bytes(text)
		if okA && bytes.Contains(out, a) || okB && bytes.Contains(out, b) {
			t.Fatalf("%q still holds a secret", out)
		}
		if got := chunked(t, r, text, func() int { return int(size) + 1 }); got != string(out) {
			t.Fatalf("in pieces %q, at once %q", got, out)
		}
	})
}

// BenchmarkWriter measures text, random bytes, and text that keeps matching.
func BenchmarkWriter(b *testing.B) {
	r := registry(b, "sk-proj-Abcdefghijklmnopqrstuvwxyz0123456789", strings.Repeat("0123456789abcdef", 100), "ghp_ZYXWVUTSRQPONM")
	text := bytes.Repeat([]byte("the quick brown fox ran s0me skills, 0123 checks & sk-pro; "), 1<<20/59)
	noise := make([]byte, 1<<20)
	x := uint32(1)
	for i := range noise {
		x = x*1664525 + 1013904223
		noise[i] = byte(x >> 24)
	}
	for name, in := range map[string][]byte{"text": text, "noise": noise, "worst": bytes.Repeat([]byte("0123456789abcdef"), 1<<16)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			w := r.Writer(discard{})
			for b.Loop() {
				if _, err := w.Write(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
