package docker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The streams of an attached container.
const (
	streamStdout = 1
	streamStderr = 2
	streamSystem = 3 // the engine's own words
)

// demux splits the engine's multiplexed stream: frames of a stream number,
// three zero bytes, a big-endian 32-bit length and that many bytes (Engine
// API, "Attach to a container"). It holds no frame, so that a length costs no
// memory and bytes are passed on as they come.
type demux struct {
	r      io.Reader
	stream byte
	left   uint32 // of the current frame
}

// read reads bytes of one stream and says which. The error is io.EOF only
// where a frame could have begun.
func (d *demux) read(p []byte) (stream byte, n int, err error) {
	for d.left == 0 {
		if err := d.header(); err != nil {
			return 0, 0, err
		}
	}
	n, err = d.r.Read(p[:min(int64(len(p)), int64(d.left))])
	d.left -= uint32(n)
	if errors.Is(err, io.EOF) {
		err = nil
		if n == 0 {
			err = io.ErrUnexpectedEOF
		}
	}
	return d.stream, n, err
}

func (d *demux) header() error {
	var h [8]byte
	if _, err := io.ReadFull(d.r, h[:]); err != nil {
		return err
	}
	switch {
	case h[1] != 0 || h[2] != 0 || h[3] != 0 || h[0] < streamStdout || h[0] > streamSystem:
		return fmt.Errorf("the engine's stream has an invalid frame header %x", h)
	case h[0] == streamSystem:
		msg, _ := io.ReadAll(io.LimitReader(d.r, min(int64(binary.BigEndian.Uint32(h[4:])), 1024)))
		return fmt.Errorf("the engine reports in the stream: %q", msg)
	}
	d.stream, d.left = h[0], binary.BigEndian.Uint32(h[4:])
	return nil
}
