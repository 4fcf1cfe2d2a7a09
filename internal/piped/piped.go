// Package piped gives one function what another one writes, without keeping it.
package piped

import (
	"cmp"
	"errors"
	"io"
)

// errEnough is what is written to once its reader has ended.
var errEnough = errors.New("the rest is not needed")

// Run is [Both] with one error. That of write comes first: read failed because of it.
func Run(write func(io.Writer) error, read func(io.Reader) error) error {
	return cmp.Or(Both(write, read))
}

// Both runs write in a goroutine of its own, gives read what it writes, and waits for
// both. An error of write is also the end of what read gets. A write that ends only
// because read has ended did not fail.
func Both(write func(io.Writer) error, read func(io.Reader) error) (written, got error) {
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := write(w)
		_ = w.CloseWithError(err) // never fails
		done <- err
	}()
	got = read(r)
	_ = r.CloseWithError(errEnough) // never fails
	if written = <-done; errors.Is(written, errEnough) {
		written = nil
	}
	return written, got
}
