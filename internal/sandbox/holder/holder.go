// Package holder serves the file tree of a workspace over one stream.
//
// An engine mounts the workspace's volume into a small container whose only
// process is [Serve]; the parent talks to it through a [Client] on the
// attached standard input and output. So content goes in and out without a
// shell, without the engine's copy API and without running a byte of the
// tree, and the volume stays alive as long as the holder does.
//
// # Tree
//
// The tree was written by an agent. The server walks it one name at a time
// below an [os.Root], never follows a link, opens only what it has seen to be
// a regular file or a directory, checks with fstat that it opened what it had
// seen, and never blocks on a pipe or device.
//
// # Archives
//
// Names in an archive are slash-separated and relative to the root of the
// tree, whatever path was asked for, so "out/answer.txt" is called
// "out/answer.txt" and never "answer.txt". The root itself has no entry.
// Entries come in the order of their names. What a plain tar header cannot
// say stands in the PAX records [RecordLinks] and [RecordType].
//
// # Wire
//
// Both directions carry frames of package frame: a kind byte and a payload of at
// most 64 KiB. A request is one request frame (JSON),
// for a put followed by data frames and an end frame. The answer is data
// frames, for a get, and one end frame (JSON). Requests follow one another;
// there is no pipelining.
package holder

import "errors"

// PAX records of an archive written by [Client.Get].
const (
	// RecordLinks is the number of names of a file that has more than one,
	// as a decimal number. Such a file is archived once per name.
	RecordLinks = "SECUREBENCH.nlink"
	// RecordType says what an entry is that tar has no type for: [Socket] or
	// [Unreadable]. The entry's own type is a FIFO, so that a reader that
	// does not know the record refuses it with the other special files
	// rather than take it for an empty one.
	RecordType = "SECUREBENCH.type"
	// Socket is the record of a Unix domain socket.
	Socket = "socket"
	// Unreadable is the record of a file or directory that its own owner may
	// not read; what is in it or below it is not archived.
	Unreadable = "unreadable"
)

// MaxDepth is the deepest nesting of directories that is archived or laid
// down. A deeper tree is [securebench/internal/sandbox.ErrTooLarge].
const MaxDepth = 128

// errChanged is returned for a file that is not what it was a moment ago,
// which only happens while somebody still writes to the tree.
var errChanged = errors.New("it changed while it was read")
