package sandbox_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"securebench/internal/sandbox"
)

type fullDisk struct{ err error }

func (w fullDisk) Write([]byte) (int, error) { return 0, w.err }

// TestInput: a copy's error is the reader's or the writer's.
func TestInput(t *testing.T) {
	reading, writing := errors.New("the reader broke"), errors.New("the disk is full")
	for name, tt := range map[string]struct {
		from io.Reader
		to   io.Writer
		err  error // of the copy
		want error // of the input
	}{
		"both work":        {from: strings.NewReader("x"), to: io.Discard},
		"the reader fails": {from: io.MultiReader(strings.NewReader("x"), iotest.ErrReader(reading)), to: io.Discard, err: reading, want: reading},
		"the writer fails": {from: strings.NewReader("x"), to: fullDisk{writing}, err: writing},
	} {
		in := &sandbox.Input{Reader: tt.from}
		if _, err := io.Copy(tt.to, in); !errors.Is(err, tt.err) || !errors.Is(in.Err, tt.want) {
			t.Errorf("%s: the copy's error is %v, the input's %v", name, err, in.Err)
		}
	}
}
