package wire

// Name is the helper's command that reads files.
const Name = "sandbox-read"

// Version is the first frame that the program gets, and its answer to it: that of what it
// and the runner say to each other.
const Version = "read 2"

// What the first byte of an answer says.
const (
	Readable   = 'r' // a model follows, in frames up to an empty one
	Unreadable = 'u' // why follows
)

// MaxFrame is the size of the largest frame in either direction.
const MaxFrame = 1 << 20
