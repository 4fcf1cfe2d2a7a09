package codecompletion

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// The protocol. A box gets and gives frames over its standard streams; each
// carries one tuple in the value syntax of codec.go, but for the first to each
// box, which is its program.
//
// To the worker: (nonce, "greet"), (nonce, "prompt", source), (nonce, "extract",
// program, words, prompt, names), which is answered with (how, code or none,
// completed), (nonce, "load", source, names, handles), (nonce, "prepare",
// classes), (nonce, "call", on, name, (args, kwargs), mutates), (nonce, "get", on, name)
// and (nonce, "set", on, name, value); on is a handle, or none for the
// candidate's module. It answers with the nonce and "value" v, with the
// changed arguments behind where they were asked for, "raise" name args text,
// "callable", or "large", "unsupported" or "escape", which end the row.
//
// To the oracle goes frameRow, which makes a child, and frameData, which is
// handed on to the child: part of a stream of frames of its own. From it come
// frameGreeting with ("ready", no row can reach the server), frameData with a
// part of what the child says, and frameLastWord on each child with ("done",
// exit status, nothing of it is left).
//
// The child gets (operation, memory, seconds, arguments). One that runs tests
// sends the worker's requests without nonce and gets ("value", v), ("changed",
// v, args), ("raise", name, args, text), ("callable",) or ("failed",). It ends with
// ("verdict", word, detail, answers read); one that analyses ends with ("plan",
// names, handles, prompt runs, reference) or ("broken",).

// The kinds of the oracle's frames, which are their first byte.
const (
	frameRow      = 'R'
	frameData     = 'D'
	frameLastWord = 'X'
	frameGreeting = 'G'
)

// maxFrame bounds a frame: a value and the envelope around it, in bytes.
const maxFrame = maxValue + 64<<10

// errFrame says that a stream does not carry frames of the protocol.
var errFrame = fmt.Errorf("not a frame: %w", errMalformed)

// readFrame reads one frame: four bytes of length, big-endian, and the bytes.
// The length is checked before anything is read, and memory grows only with
// what has arrived. io.EOF means that the stream ended between frames.
func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		if err == io.ErrUnexpectedEOF {
			return nil, errFrame
		}
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	if n > maxFrame {
		return nil, errFrame
	}
	var body bytes.Buffer
	if _, err := io.CopyN(&body, r, n); err != nil {
		return nil, errFrame
	}
	return body.Bytes(), nil
}

// appendFrame appends the frame that carries payload to b.
func appendFrame(b, payload []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	return append(b, payload...)
}

// stream is what an oracle's child has said and nobody has read.
type stream struct{ data []byte }

// frame takes the first frame, if it is there as a whole.
func (s *stream) frame() (payload []byte, ok bool, err error) {
	if len(s.data) < 4 {
		return nil, false, nil
	}
	n := int(binary.BigEndian.Uint32(s.data))
	if n > maxFrame {
		return nil, false, errFrame
	}
	if len(s.data)-4 < n {
		return nil, false, nil
	}
	payload, s.data = s.data[4:4+n:4+n], s.data[4+n:]
	return payload, true, nil
}
