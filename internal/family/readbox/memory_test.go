package readbox_test

import (
	"io"
	"runtime"
	"strings"
	"testing"

	"securebench/internal/artifact"
	"securebench/internal/awaittest"
	"securebench/internal/family/readbox"
	"securebench/internal/memtest"
	"securebench/internal/sandbox/enginetest"
)

// repeated is a text again and again.
type repeated struct {
	text string
	at   int
}

func (r *repeated) Read(p []byte) (n int, err error) {
	for n < len(p) {
		part := copy(p[n:], r.text[r.at:])
		n, r.at = n+part, (r.at+part)%len(r.text)
	}
	return n, nil
}

// TestLargestFile: for the largest file that is read, whose model is as long, this process
// allocates no more than six times that.
func TestLargestFile(t *testing.T) {
	b := open(t, enginetest.Open(t), awaittest.Hung)
	line := strings.Repeat("x", 1023) + "\n"
	var f *artifact.File
	var err error
	took := memtest.Allocated(func() {
		f, err = b.Read(t.Context(), artifact.Text, readbox.MaxBytes, io.LimitReader(&repeated{text: line}, readbox.MaxBytes))
	})
	if err != nil || len(*f.Text) != readbox.MaxBytes {
		t.Fatalf("%v", err)
	}
	if took > 6*readbox.MaxBytes {
		t.Errorf("%d MiB were allocated for a file of %d MiB", took>>20, readbox.MaxBytes>>20)
	}
}

// TestSmallModel: a long file of which little is said leaves little in this process.
func TestSmallModel(t *testing.T) {
	b := open(t, enginetest.Open(t), awaittest.Hung)
	const size = 16 << 20
	before := memtest.Kept()
	f, err := b.Read(t.Context(), artifact.Any, size, io.LimitReader(&repeated{text: "x"}, size))
	if err != nil {
		t.Fatal(err)
	}
	if kept := memtest.Kept() - before; kept > size/4 {
		t.Errorf("%d MiB are kept", kept>>20)
	}
	runtime.KeepAlive(f)
}
