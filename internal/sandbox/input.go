package sandbox

import (
	"errors"
	"io"
)

// Input is a caller's reader that remembers how it failed. A copy that ends
// early can then blame the reader or the writer.
type Input struct {
	Reader io.Reader
	Err    error // of Reader, other than [io.EOF]
}

// Read implements [io.Reader].
func (in *Input) Read(p []byte) (int, error) {
	n, err := in.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		in.Err = err
	}
	return n, err
}
