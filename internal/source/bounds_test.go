package source

import (
	"strings"
	"testing"
)

// TestManyValues: a document whose values would fill the memory is refused at
// the first value too many, wherever it is.
func TestManyValues(t *testing.T) {
	for text, want := range map[string]string{
		`[1,[2],{"a":3}]`:   "", // six values
		`[1,[2],{"a":3},4]`: "f:1:16: the JSON has more than",
		`[[[[[[[]]]]]]]`:    "f:1:7: the JSON has more than",
	} {
		_, err := parseJSON("f", 1, []byte(text), 6)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestLongMessage: a key of megabytes does not fill a terminal, and what to do
// is still shown.
func TestLongMessage(t *testing.T) {
	var all Problems
	all.Add(Pos{File: "f", Line: 1}, "remove it", "unknown field %q", strings.Repeat("\x1b", 1<<20))
	got := all.Err().Error()
	if len(got) > 2*maxMessage || !strings.HasPrefix(got, `f:1: unknown field "\x1b`) || !strings.HasSuffix(got, "... (remove it)") {
		t.Errorf("%d bytes: %.80s … %s", len(got), got, got[max(0, len(got)-80):])
	}
}
