package codecompletion

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
)

// The protocol. A box gets and gives frames over its standard streams; each
// carries one tuple in the value syntax of codec.go.
//
// To the worker: (nonce, "greet"), (nonce, "prompt", source), (nonce, "extract",
// program, words, prompt, names), which is answered with (how, code or none,
// completed), (nonce, "load", source, names, handles),
// (nonce, "call", on, name, (args, kwargs), mutates), (nonce, "get", on, name)
// and (nonce, "set", on, name, value); on is a handle, or none for the
// candidate's module. It answers with the nonce and "value" v, with the
// changed arguments behind where they were asked for, "raise" name args,
// "callable", or "large", "unsupported" or "escape", which end the row.
//
// To the oracle: an empty frame, which makes a child, and to the child
// (operation, memory, seconds, arguments). A child that runs tests sends the
// worker's requests without nonce and gets ("value", v), ("changed", v, args),
// ("raise", name, args), ("callable",) or ("failed",). It ends with
// ("verdict", word, detail, answers read); one that analyses ends with ("plan",
// names, handles, prompt runs, reference) or ("broken",). The server's last
// word on each child is ("done", exit status, nothing of it is left).

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
