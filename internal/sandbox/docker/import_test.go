package docker

import (
	"strings"
	"testing"
)

func TestImported(t *testing.T) {
	for in, want := range map[string]string{
		`{"status":"sha256:abc"}`:                                "sha256:abc",
		`{"status":"Importing"}` + "\n{\"status\":\"sha256:1\"}": "sha256:1",
	} {
		if got, err := imported(strings.NewReader(in)); err != nil || got != want {
			t.Errorf("imported(%q): got %q and %v", in, got, err)
		}
	}
	for in, want := range map[string]string{
		"":                                   "names no image",
		`{"status":"done"}`:                  "names no image",
		`{"status":"sha256:1"}{"error":"x"}`: "the engine reports: x",
		`{"status":"sha256`:                  "reading the engine's messages",
		strings.Repeat(" ", maxMessages) + `{"status":"sha256:1"}`: "names no image",
	} {
		if got, err := imported(strings.NewReader(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("imported(%.40q): got %q and %v, want %q", in, got, err, want)
		}
	}
}

func TestPlainValue(t *testing.T) {
	if got := plainValue("a-Z_0/9.:" + `"$\` + "\n é"); got != "a-Z_0/9.:______" {
		t.Errorf("got %q", got)
	}
}
