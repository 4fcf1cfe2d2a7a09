// Package holder serves the file tree of a workspace over one stream.
//
// An engine mounts the workspace's volume into a small container whose only
// process is [Serve]; the parent talks to it through a [Client] on the
// attached standard input and output. Content thus moves without a shell,
// without the engine's copy API and without executing anything in the tree,
// and the volume lives as long as the holder does.
//
// # Tree
//
// The tree was written by an agent. The server walks it one name at a time
// below an [os.Root], never follows a link, opens only regular files and
// directories, checks with fstat that it opened what it had examined, and never
// blocks on a pipe or device.
//
// # Archives
//
// Names in an archive are slash-separated and relative to the root of the
// tree, whatever path was requested: "out/answer.txt" is never "answer.txt". The root itself has no entry.
// Entries are sorted by name. The PAX records [RecordLinks], [RecordAttributes] and [RecordType] hold what a plain tar header cannot.
//
// # Requests
//
// The stream carries requests of package wire, one at a time:
//
//	PUT  /tree      a tar archive -> result: unpacks it
//	POST /removals  paths, each ended by a NUL byte -> result: removes what is there; a
//	                name can be any bytes, which JSON cannot carry
//	POST /archive   wanted -> an archive, and a result in a trailer
//	GET  /usage     -> result, with usage
package holder

import "errors"

// PAX records of an archive written by [Client.Get].
const (
	// RecordLinks is the number of names of a file that has more than one,
	// as a decimal number. Such a file is archived once per name.
	RecordLinks = "SECUREBENCH.nlink"
	// RecordAttributes is there for a file or directory with extended
	// attributes, which are not archived themselves.
	RecordAttributes = "SECUREBENCH.xattrs"
	// RecordType is the type of an entry that tar has no type for: [Socket]
	// or [Unreadable]. The tar type is a FIFO, so that a reader that ignores
	// the record refuses the entry instead of taking it for an empty file.
	RecordType = "SECUREBENCH.type"
	// Socket is the record of a Unix domain socket.
	Socket = "socket"
	// Unreadable is the record of a file or directory that its owner may
	// not read. Its content is not archived.
	Unreadable = "unreadable"
)

// MaxDepth is the deepest nesting of directories that is archived or
// unpacked. A deeper tree is [securebench/internal/sandbox.ErrTooLarge].
const MaxDepth = 128

// errChanged is returned for a file that changed while it was read, which only
// happens while something still writes to the tree.
var errChanged = errors.New("it changed while it was read")
