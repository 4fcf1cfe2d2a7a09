// Package readprogram is the program that reads delivered files in a sandbox which has
// nothing else: it keeps the parsers apart from the runner, which gets models alone.
package readprogram

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"securebench/internal/artifact"
	"securebench/internal/artifact/reader"
	"securebench/internal/artifact/wire"
	"securebench/internal/bounded"
	"securebench/internal/frame"
)

// maxReason is the longest reason that is passed on, in bytes.
const maxReason = 4 << 10

// Read reads a file of a type; it is [reader.Read].
type Read func(data []byte, t artifact.Type) (*artifact.File, error)

// Run reads one file after the other until its input ends. A file is its type and its
// length, as eight bytes in big-endian order, in one frame, and its content in others.
func Run(in io.Reader, out io.Writer, read Read) error {
	in = bufio.NewReaderSize(in, 64<<10)
	hello, err := frame.Read(in, nil, wire.MaxFrame)
	if err != nil {
		return fmt.Errorf("waiting for a first frame: %w", err)
	}
	if string(hello) != wire.Version {
		return fmt.Errorf("the runner says %.40q, this program %q", hello, wire.Version)
	}
	if _, err := out.Write(frame.Append(nil, hello)); err != nil {
		return err
	}
	for {
		head, err := frame.Read(in, nil, wire.MaxFrame)
		if errors.Is(err, io.EOF) && !errors.Is(err, frame.ErrInvalid) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := answer(head, in, out, read); err != nil {
			return err
		}
	}
}

// answer reads one file.
func answer(head []byte, in io.Reader, out io.Writer, read Read) error {
	if len(head) < 8 {
		return errors.New("a file has no length")
	}
	size := binary.BigEndian.Uint64(head)
	if size > reader.MaxBytes {
		return fmt.Errorf("a file has %d bytes", size)
	}
	data := make([]byte, 0, size)
	for buf := []byte(nil); uint64(len(data)) < size; data = append(data, buf...) {
		var err error
		if buf, err = frame.Read(in, buf, wire.MaxFrame); err != nil {
			return err
		}
		if len(buf) == 0 || uint64(len(data)+len(buf)) > size {
			return errors.New("a file has another length than was said")
		}
	}
	f, err := read(data, artifact.Type(head[8:]))
	if err == nil {
		err = wire.Check(f)
	}
	refused, ok := errors.AsType[*reader.Unreadable](err)
	switch {
	case ok:
		return refuse(out, refused.Reason)
	case errors.Is(err, wire.ErrTooLarge):
		return refuse(out, "it says more than is taken")
	case err != nil:
		return err
	}
	if _, err := out.Write(frame.Append(nil, []byte{wire.Readable})); err != nil {
		return err
	}
	if err := wire.Write(pieces{out}, f); err != nil {
		return err
	}
	_, err = out.Write(frame.Append(nil))
	return err
}

func refuse(out io.Writer, why string) error {
	_, err := out.Write(frame.Append(nil, []byte{wire.Unreadable}, []byte(bounded.Text(why, maxReason))))
	return err
}

// pieces writes frames.
type pieces struct{ out io.Writer }

func (p pieces) Write(data []byte) (n int, err error) {
	for len(data) > 0 {
		part := data[:min(len(data), wire.MaxFrame)]
		if _, err := p.out.Write(frame.Append(make([]byte, 0, frame.HeaderSize+len(part)), part)); err != nil {
			return n, err
		}
		n, data = n+len(part), data[len(part):]
	}
	return n, nil
}
