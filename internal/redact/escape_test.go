package redact_test

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"securebench/internal/redact"
)

func TestEscape(t *testing.T) {
	tests := map[string]string{
		"plain text, \\ and é 日本 🙂":          "plain text, \\ and é 日本 🙂",
		"":                                   "",
		"\x1b[2J\x1b]52;c;aGk=\a":            `\x1b[2J\x1b]52;c;aGk=\x07`,
		"a\r\b\x00\x7fb":                     `a\x0d\x08\x00\x7fb`,
		"a\n\tb":                             `a\x0a\x09b`,
		"\u0085\u009b31m":                    `\u{0085}\u{009B}31m`,
		"\u202eevil\u2066\u200f":             `\u{202E}evil\u{2066}\u{200F}`,
		"a\u200bb\u200d\ufeff\u2060":         `a\u{200B}b\u{200D}\u{FEFF}\u{2060}`,
		"\u2028\u2029":                       `\u{2028}\u{2029}`,
		"\xff\xc3(":                          `\xff\xc3(`,
		"\xe2\x82":                           `\xe2\x82`,
		"\ufffd":                             "\ufffd",
		"\U000e0041\u3164\ufe0f\u00ad\u034f": `\u{E0041}\u{3164}\u{FE0F}\u{00AD}\u{034F}`,
		"\ue000\U0010ffff":                   `\u{E000}\u{10FFFF}`,
		"a\u00a0b\u3000c":                    "a\u00a0b\u3000c",
	}
	for in, want := range tests {
		if got := redact.Escape(in); got != want {
			t.Errorf("Escape(%q) = %q, want %q", in, got, want)
		}
		keep := strings.NewReplacer(`\x0a`, "\n", `\x09`, "\t").Replace(want)
		if got := redact.EscapeText(in); got != keep {
			t.Errorf("EscapeText(%q) = %q, want %q", in, got, keep)
		}
	}
}

// harmless fails if a terminal would interpret, or a reader not see, part of s.
func harmless(t *testing.T, s, keep string) {
	t.Helper()
	if !utf8.ValidString(s) {
		t.Errorf("%q is not UTF-8", s)
	}
	for _, r := range s {
		if !strings.ContainsRune(keep, r) &&
			(unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Bidi_Control)) {
			t.Errorf("%q holds %U", s, r)
		}
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("\x1b[31m\u202e\xff\n")
	f.Fuzz(func(t *testing.T, in string) {
		out, text := redact.Escape(in), redact.EscapeText(in)
		harmless(t, out, "")
		harmless(t, text, "\n\t")
		if redact.Escape(out) != out || redact.EscapeText(text) != text {
			t.Errorf("escaping %q twice changes it", in)
		}
	})
}

func TestExcerpt(t *testing.T) {
	if got, cut := redact.Excerpt([]byte("héllo\n"), 7); got != "héllo\n" || cut {
		t.Errorf("short text: %q, %v", got, cut)
	}
	if got, cut := redact.Excerpt([]byte("a\xffb"), 6); got != `a\xffb` || cut {
		t.Errorf("invalid byte: %q, %v", got, cut)
	}
	if got, cut := redact.Excerpt([]byte("a\xffb"), 5); got != `a\xff` || !cut {
		t.Errorf("invalid byte that does not fit: %q, %v", got, cut)
	}
	if got, cut := redact.Excerpt([]byte("ééé"), 3); got != "é" || !cut {
		t.Errorf("tiny limit: %q, %v", got, cut)
	}
	if got, cut := redact.Excerpt(nil, 0); got != "" || cut {
		t.Errorf("nothing: %q, %v", got, cut)
	}
	// Attack P08: a huge text becomes a small one with its size and digest.
	big := []byte(strings.Repeat("é", 5<<20) + "THE END")
	got, cut := redact.Excerpt(big, 8192)
	note := fmt.Sprintf("\n[cut: %d bytes in all, sha256:%x]\n", len(big), sha256.Sum256(big))
	if !cut || len(got) > 8192 || len(got) < 8180 || !strings.Contains(got, note) ||
		!strings.HasPrefix(got, "ééé") || !strings.HasSuffix(got, "éTHE END") || !utf8.ValidString(got) {
		t.Errorf("big text: %d bytes, cut %v: %.300q", len(got), cut, got)
	}
	if got, cut := redact.EscapedExcerpt([]byte("a\x1b\nb"), 100); got != "a\\x1b\nb" || cut {
		t.Errorf("escaped: %q, %v", got, cut)
	}
}

func FuzzExcerpt(f *testing.F) {
	f.Add([]byte(strings.Repeat("é\xff\x1b", 200)), 300)
	f.Add([]byte("abc"), 0)
	f.Fuzz(func(t *testing.T, in []byte, limit int) {
		got, cut := redact.Excerpt(in, limit)
		if len(got) > max(limit, 0) || !utf8.ValidString(got) {
			t.Errorf("excerpt of %d bytes with limit %d: %q", len(got), limit, got)
		}
		if !cut && utf8.Valid(in) && got != string(in) {
			t.Errorf("%q became %q, which is said to be whole", in, got)
		}
		got, cut = redact.EscapedExcerpt(in, limit)
		harmless(t, got, "\n\t")
		if len(got) > max(limit, 0) || !cut && got != redact.EscapeText(string(in)) {
			t.Errorf("escaped excerpt of %d bytes with limit %d, cut %v: %q", len(got), limit, cut, got)
		}
	})
}

// TestQuote: a name is one unambiguous word that can be decoded.
func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"HumanEval/0":                       "HumanEval/0",
		"/home/me/runs/a-b_c.d@e+f,g:h%i~j": "/home/me/runs/a-b_c.d@e+f,g:h%i~j",
		"":                                  `""`,
		"two words":                         `"two words"`,
		"passed=9":                          `"passed=9"`,
		`a"b\`:                              `"a\"b\\"`,
		"a\nsecurebench: x":                 `"a\nsecurebench: x"`,
		"\x1b[2J\x07\x00\x7f\u0085":         `"\x1b[2J\a\x00\x7f\u0085"`,
		"\u202eabc\u2066\u200b\u2028":       `"\u202eabc\u2066\u200b\u2028"`,
		"größe":                             `"größe"`,
		"a\u00a0b\ufe0f\U000e0041":          `"a\u00a0b\ufe0f\U000e0041"`,
		"\xff\xc3":                          `"\xff\xc3"`,
		"\ufffd":                            "\"\ufffd\"",
		"\U0001f600":                        "\"\U0001f600\"",
	} {
		if got := redact.Quote(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "plain", "a b", "\x1b\n", "\xff", `"\`, "\u202e"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		q := redact.Quote(s)
		if redact.Escape(q) != q || strings.ContainsAny(q, "\n\r\t") {
			t.Errorf("%q is not safe for a terminal", q)
		}
		if q == s {
			if strings.ContainsAny(q, "\" =\\'") {
				t.Errorf("%q has no quotes", q)
			}
			return
		}
		if back, err := strconv.Unquote(q); err != nil || back != s {
			t.Errorf("%q became %s, which reads %q, %v", s, q, back, err)
		}
	})
}

func TestQuoteFew(t *testing.T) {
	for want, names := range map[string][]string{
		"":                              nil,
		`a, "b c"`:                      {"a", "b c"},
		"a, b, c, d, e":                 {"a", "b", "c", "d", "e"},
		"a, b, c, d, e, and 2 more":     {"a", "b", "c", "d", "e", "f", "g"},
		strings.Repeat("x", 57) + "...": {strings.Repeat("x", 99)},
	} {
		if got := redact.QuoteFew(names); got != want {
			t.Errorf("%q: %s, want %s", names, got, want)
		}
	}
}
