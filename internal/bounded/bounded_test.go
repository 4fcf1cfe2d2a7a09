package bounded

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestHead: the first bytes are kept and all others counted.
func TestHead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 50).Draw(t, "limit")
		h := Head{Max: limit}
		var all []byte
		for _, p := range rapid.SliceOf(rapid.SliceOf(rapid.Byte())).Draw(t, "writes") {
			if n, err := h.Write(p); n != len(p) || err != nil {
				t.Fatalf("Write returned %d, %v", n, err)
			}
			all = append(all, p...)
		}
		kept, dropped := h.Read()
		if !bytes.Equal(kept, all[:min(limit, len(all))]) || int(dropped) != len(all)-len(kept) {
			t.Fatalf("kept %q and dropped %d of %q", kept, dropped, all)
		}
	})
}

func TestWriter(t *testing.T) {
	full := errors.New("full")
	for limit, want := range map[int64]string{-1: "", 0: "", 2: "ab", 3: "abc", 5: "abcd"} {
		var out strings.Builder
		w := &Writer{W: &out, Left: limit, Err: full}
		_, err := w.Write([]byte("abc"))
		if (err != nil) != (limit < 3) {
			t.Errorf("limit %d: %v", limit, err)
		}
		if _, err2 := w.Write([]byte("d")); (err2 != nil) != (limit < 4) || out.String() != want || err != nil && !errors.Is(err, full) {
			t.Errorf("limit %d: %q, %v, %v", limit, out.String(), err, err2)
		}
	}
}

func TestReadAll(t *testing.T) {
	for limit, ok := range map[int64]bool{2: false, 3: true, 4: true} {
		if b, err := ReadAll(strings.NewReader("abc"), limit); ok != (err == nil) || ok != (string(b) == "abc") || !ok && !errors.Is(err, ErrTooLong) {
			t.Errorf("limit %d: %q, %v", limit, b, err)
		}
	}
}

func TestUntil(t *testing.T) {
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	r := Until(ctx, strings.NewReader("abc"))
	if n, err := r.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("before: %d, %v", n, err)
	}
	cancel(cause)
	if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, cause) {
		t.Errorf("after: %d, %v", n, err)
	}
}

func TestText(t *testing.T) {
	for limit, want := range map[int]string{0: "", 1: "a", 2: "a", 3: "aé", 4: "aéb", 9: "aéb"} {
		if got := Text("aéb", limit); got != want {
			t.Errorf("limit %d: %q", limit, got)
		}
	}
}
