package sandbox

// Requirement is something that an engine needs of the machine, and whether it
// is there.
type Requirement struct {
	Name string // what is needed, such as "an OCI runtime"
	// Optional says that the engine runs without it, but confines less.
	Optional bool
	Holds    bool
	Found    string // what was found, in a few words
	Fix      string // a command or a step that makes it hold; "" if it holds
}
