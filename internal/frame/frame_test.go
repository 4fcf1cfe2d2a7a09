package frame

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"securebench/internal/memtest"
)

// readAll reads frames until the stream ends.
func readAll(r io.Reader, limit int) (out [][]byte, err error) {
	for {
		content, err := Read(r, nil, limit)
		if err != nil {
			return out, err
		}
		out = append(out, content)
	}
}

// TestRoundTrip: what is written arrives, however the stream is cut up, and
// Read and Cut agree.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		contents := rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 300)).Draw(t, "contents")
		var stream []byte
		for _, c := range contents {
			at := rapid.IntRange(0, len(c)).Draw(t, "split")
			stream = Append(stream, c[:at], c[at:])
		}
		got, err := readAll(iotest.OneByteReader(bytes.NewReader(stream)), 300)
		if !errors.Is(err, io.EOF) || len(got) != len(contents) {
			t.Fatalf("%d of %d frames, error %v", len(got), len(contents), err)
		}
		for _, c := range got {
			content, rest, ok, err := Cut(stream, 300)
			if !ok || err != nil || !bytes.Equal(c, content) {
				t.Fatalf("Read gives %q, Cut %q, %v, %v", c, content, ok, err)
			}
			stream = rest
		}
		if _, _, ok, err := Cut(stream, 300); ok || err != nil {
			t.Fatalf("an empty stream has a frame: %v, %v", ok, err)
		}
	})
}

func TestReadErrors(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		in   io.Reader
		want error
	}{
		"nothing":       {bytes.NewReader(nil), io.EOF},
		"cut header":    {bytes.NewReader([]byte{0, 0, 0}), ErrInvalid},
		"cut content":   {bytes.NewReader([]byte{0, 0, 0, 2, 'x'}), ErrInvalid},
		"no content":    {bytes.NewReader([]byte{0, 0, 0, 2}), io.ErrUnexpectedEOF},
		"too long":      {bytes.NewReader([]byte{0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9}), ErrInvalid},
		"huge":          {bytes.NewReader([]byte{0xff, 0xff, 0xff, 0xff}), ErrInvalid},
		"broken stream": {iotest.ErrReader(broken), broken},
	} {
		if got, err := Read(tc.in, nil, 8); !errors.Is(err, tc.want) || errors.Is(tc.want, io.EOF) != errors.Is(err, io.EOF) {
			t.Errorf("%s: got %q and %v, want %v", name, got, err, tc.want)
		}
	}
}

// TestMemoryFollowsData: a header alone reserves no memory worth mentioning.
func TestMemoryFollowsData(t *testing.T) {
	n := memtest.Allocated(func() {
		if _, err := Read(bytes.NewReader([]byte{0x3f, 0xff, 0xff, 0xff, 'x'}), nil, 1<<30); !errors.Is(err, ErrInvalid) {
			t.Error(err)
		}
	})
	if n > 1<<20 {
		t.Errorf("%d bytes were allocated", n)
	}
}

func TestReadReusesItsBuffer(t *testing.T) {
	buf := make([]byte, 0, 16)
	got, err := Read(bytes.NewReader(Append(nil, []byte("content"))), buf, 16)
	if err != nil || string(got) != "content" || &got[0] != &buf[:1][0] {
		t.Errorf("got %q, %v, in another buffer", got, err)
	}
}

// FuzzRead: whatever is read is within the limit and is what was sent.
func FuzzRead(f *testing.F) {
	f.Add(Append(nil, []byte("abc")))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0, 0, 0, 9, 'x'})
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := readAll(bytes.NewReader(data), 100)
		if !errors.Is(err, io.EOF) && !errors.Is(err, ErrInvalid) {
			t.Fatalf("error %v", err)
		}
		var again []byte
		for _, c := range got {
			if len(c) > 100 {
				t.Fatalf("a frame of %d bytes", len(c))
			}
			again = Append(again, c)
		}
		if !bytes.HasPrefix(data, again) || errors.Is(err, io.EOF) && len(again) != len(data) {
			t.Fatalf("%q was read as %q", data, again)
		}
	})
}
