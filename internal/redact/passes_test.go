package redact

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// TestPassesIsSlow: pieces that are written as they come are what the matcher
// would leave of them, with all that follows.
func TestPassesIsSlow(t *testing.T) {
	const key = "sk-Zq4f1c9a7e2d8bsk-Z"
	var r Registry
	if err := r.Add("key", []byte(key)); err != nil {
		t.Fatal(err)
	}
	passed, held := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var fast, slow bytes.Buffer
		a, b := r.Writer(&fast), r.Writer(&slow)
		for _, p := range rapid.SliceOf(rapid.StringMatching(`([ sk\n\r-]|sk-Zq4f1|c9a7e2d8bsk-Z|736b2d5a71|zF4q|%73|.){0,5}`)).Draw(t, "pieces") {
			if a.passes([]byte(p)) {
				passed++
			} else {
				held++
			}
			_, _ = a.Write([]byte(p))
			b.flush(b.scan([]byte(p)))
			if fast.String() != slow.String() {
				t.Fatalf("%q after %q, want %q", &fast, p, &slow)
			}
		}
		_, _ = a.Close(), b.Close()
		if fast.String() != slow.String() || bytes.Contains(fast.Bytes(), []byte(key)) {
			t.Fatalf("%q, want %q", &fast, &slow)
		}
	})
	if passed == 0 || held == 0 {
		t.Errorf("%d pieces passed, %d did not", passed, held)
	}
}
