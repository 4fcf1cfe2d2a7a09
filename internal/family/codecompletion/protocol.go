package codecompletion

import (
	"fmt"

	"securebench/internal/frame"
	"securebench/internal/value"
)

// The protocol. A box speaks frames (package frame) over its standard streams;
// each carries one tuple of values (package value), except for the first frame
// to each box, which is its program.
//
// To the candidate box: (nonce, "greet"), (nonce, "prompt", source), (nonce,
// "extract", program, text, prompt, names), which is answered with (how, code or
// none, completed), (nonce, "load", source, names, handles), (nonce, "prepare",
// classes), (nonce, "call", on, name, (args, kwargs), mutates), (nonce, "get",
// on, name) and (nonce, "set", on, name, value); on is a handle, or none for the
// candidate's module. It answers with the nonce and "value" v, with the changed
// arguments behind it where they were asked for, "raise" name args text,
// "callable", or "large", "unsupported" or "escape", which end the row.
//
// To the test box's server goes frameRow, which starts a child, and frameData,
// which is passed on to the child: part of a stream of frames of its own. From
// the server come frameGreeting with ("ready", whether rows cannot reach the
// server), frameData with a part of the child's output, and, once per child,
// frameDone with ("done", exit status, whether the box is clean).
//
// The child gets (memory, seconds, (prompt or none, tests, names, what they may do
// with objects, mutates, seed)). It sends the candidate box's requests without nonce
// and gets ("value", v), ("changed", v, args), ("raise", name, args, text),
// ("callable",) or ("failed",). It ends with ("verdict", word, detail, answers read).

// The kinds of the server's frames, which are their first byte.
const (
	frameRow      = 'R'
	frameData     = 'D'
	frameDone     = 'X'
	frameGreeting = 'G'
)

// errFrame says that a frame is not one of the protocol.
var errFrame = fmt.Errorf("an unknown frame: %w", frame.ErrInvalid)

// childStream is the unread output of a test box's child.
type childStream struct{ data []byte }

// next takes the first frame, if all of it has arrived.
func (s *childStream) next() (content []byte, ok bool, err error) {
	content, s.data, ok, err = frame.Cut(s.data, value.MaxMessage)
	return content, ok, err
}
