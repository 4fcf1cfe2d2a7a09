package textmatch_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"securebench/internal/family/textmatch"
)

func TestCountWords(t *testing.T) {
	for in, want := range map[string]int{"": 0, "...": 0, "a": 1, "a,b;c/d-e": 5, "a_b": 2, "e\u0301a 語": 2, "1.5": 2} {
		if got := textmatch.CountWords(in, -1); got != want {
			t.Errorf("CountWords(%q) = %d, want %d", in, got, want)
		}
	}
	if got := textmatch.CountWords(strings.Repeat("a ", 100), 3); got != 3 {
		t.Errorf("a limit of 3 gave %d", got)
	}
}

func TestFindSpan(t *testing.T) {
	tests := []struct {
		s, span       string
		before, after string
		ok            bool
	}{
		{"the paris.", "paris", "the ", ".", true},
		{"paris", "paris", "", "", true},
		{"xparis paris", "paris", "xparis ", "", true},
		{"paris\u200b", "paris", "", "", false},
		{"-paris", "paris", "", "", false},
		{"c++", "c", "", "", false},
		{"", "x", "", "", false},
		{"x", "", "", "", false},
	}
	for _, tt := range tests {
		before, after, ok := textmatch.FindSpan(tt.s, tt.span)
		if before != tt.before || after != tt.after || ok != tt.ok {
			t.Errorf("FindSpan(%q, %q) = %q, %q, %v", tt.s, tt.span, before, after, ok)
		}
	}
}

func TestSentences(t *testing.T) {
	for line, want := range map[string]int{
		"It takes 5 ms. The rest is idle.": 2, "Ms. Smith and Dr. Who came.": 1, "He met dr. who.": 1, "It is 5. (b) It is 6.": 2, "It is 5. b) It is 6.": 2, "It is so. (but not here) It is.": 1, "See fig. 5.": 1,
	} {
		if got := textmatch.Sentences(line, true); len(got) != want {
			t.Errorf("%q has %d sentences, want %d", line, len(got), want)
		}
	}
}

func TestFindSpanSplits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOf(rapid.SampledFrom([]rune("ab .'é"))).Draw(t, "s")
		span := rapid.StringOf(rapid.SampledFrom([]rune("ab é"))).Draw(t, "span")
		before, after, ok := textmatch.FindSpan(s, span)
		if ok && before+span+after != s {
			t.Fatalf("%q + %q + %q is not %q", before, span, after, s)
		}
		if ok && !textmatch.HasPhrase(s, span) {
			t.Fatalf("a span of %q is not a phrase: %q", s, span)
		}
	})
}
