// Package sandbox says what a sandbox is: a bounded, private place in which
// one untrusted command runs, made by an [Engine] that nobody outside this
// tree knows more closely.
//
// What the command did is data (an [Outcome]); what the engine failed to do
// is an error.
package sandbox

import (
	"context"
	"errors"
	"io"
	"time"
)

// ErrImageMissing is returned by [Engine.Image] for an image that the engine
// does not hold.
var ErrImageMissing = errors.New("image is not on the engine")

// ErrDisturbed is wrapped by the error of a [Box.Run] that was not left alone:
// somebody else killed, stopped, restarted or removed the box, or paused or
// changed it while it ran out of time. What became of the command says nothing
// about it.
var ErrDisturbed = errors.New("the sandbox was disturbed from outside")

// ErrOverdue is wrapped by the cause of a context that ends a box because it
// takes too long. The error of [Box.Run] then wraps [ErrDisturbed] as well if
// that was not the command's doing.
var ErrOverdue = errors.New("it takes too long")

// Engine makes sandboxes and workspaces. All methods are safe for concurrent
// use. An error means that the engine or this process failed, never that an
// agent misbehaved.
type Engine interface {
	// Image looks an image up by reference and returns its identity.
	// It never pulls.
	Image(ctx context.Context, ref string) (Image, error)
	// Workspace makes an empty bounded file tree that sandboxes can mount.
	// The caller closes it, after every box that mounts it.
	Workspace(ctx context.Context, spec WorkspaceSpec) (Workspace, error)
	// Open makes a sandbox for one command without starting it.
	// The caller closes it, also after an error from Run.
	Open(ctx context.Context, spec Spec) (Box, error)
}

// Box is one sandbox. Its command is its own first process, so the box ends
// with the command and the command ends with the box.
type Box interface {
	// Run starts the command and waits for its end; it may be called once.
	// When ctx ends, the box is killed and the cause of ctx is returned.
	// Every process of the box is dead when Run returns.
	Run(ctx context.Context, s Streams) (Outcome, error)
	// Close kills and removes the box. It is idempotent, may be called
	// while Run runs, and joins every clean-up error.
	Close(ctx context.Context) error
}

// Streams connects a command. A nil stream is closed (stdin) or discarded.
// Writers get at most [Limits.Output] bytes in all.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Workspace is a file tree that outlives the boxes that mount it. It is
// bounded in bytes and inodes, and is served by trusted code that runs no
// byte of it.
type Workspace interface {
	// Put lays the files and directories of a tar stream into the tree.
	Put(ctx context.Context, tar io.Reader) error
	// Get writes the tree below path ("." is all of it; a file is itself)
	// as a tar stream: directories, regular files, and everything else as
	// its header alone. Links are never followed. A path that does not
	// exist gives an empty archive. Writing stops with [ErrTooLarge] after
	// limit bytes.
	Get(ctx context.Context, path string, limit int64, w io.Writer) error
	// Usage tells how full the tree is.
	Usage(ctx context.Context) (Usage, error)
	// Close removes the tree. It is idempotent.
	Close(ctx context.Context) error
}

// ErrTooLarge is returned by [Workspace.Get] when the tree does not fit.
var ErrTooLarge = errors.New("the tree is larger than the limit")

// Usage is how full a workspace is.
type Usage struct {
	Bytes, BytesLimit   int64
	Inodes, InodesLimit int64
}

// Full reports whether the tree has no room for one more page or file.
func (u Usage) Full() bool {
	return u.BytesLimit > 0 && u.BytesLimit-u.Bytes < 4096 ||
		u.InodesLimit > 0 && u.Inodes >= u.InodesLimit
}

// Image is an image on an engine.
type Image struct {
	Ref    string   // as asked for
	ID     string   // content digest, "sha256:…"; sandboxes are made from it
	Digest string   // registry digest "name@sha256:…", "" for a local build
	User   User     // the image's own user
	Env    []string // names of the variables that the image sets, sorted
	OS     string
	Arch   string
}

// User is a user in an image by number.
type User struct{ UID, GID int }

// Nobody runs the framework's own workers and oracles.
var Nobody = User{65534, 65534} //nolint:gochecknoglobals // a struct cannot be a constant

// Labels name what an engine object belongs to. The engine adds the owner.
type Labels struct {
	Run     string
	Task    string // "" for what serves several tasks
	Attempt int
	Role    string // "agent", "workspace", "worker", "oracle"
}

// WorkspaceSpec describes a workspace; zero limits are the defaults.
type WorkspaceSpec struct {
	Labels Labels
	Owner  User
	Disk   int64 // bytes
	Inodes int64
}

// Spec describes a sandbox. The zero value of every field is the closed one:
// no network exists at all, the root is read-only, there are no capabilities
// and no tracing, limits are the defaults.
type Spec struct {
	Labels  Labels
	Image   Image
	Command []string // argv of the first process; the image's entrypoint is ignored
	Env     []string // NAME=VALUE, on top of the image's
	User    *User    // nil is the image's user
	Workdir string   // absolute; "" is the workspace target or "/"
	// Workspace is mounted writable at Target when it is not nil.
	Workspace Workspace
	Target    string
	Stdin     bool // the command reads a standard input
	// Init makes the helper binary the first process of the sandbox, with
	// the arguments "sandbox-init" and then Command, which may be empty. Its
	// standard input is always attached. See [HelperDir].
	Init         bool
	WritableRoot bool
	// Capabilities are what a command that runs as root may keep of root's
	// powers.
	Capabilities []Capability
	// Tracing lets the processes of the sandbox debug one another.
	Tracing bool
	Limits  Limits
}

// HelperDir is where a sandbox with [Spec.Init] has the helper binary, as the
// file [HelperPath]. The folder is mounted read-only and hides a folder of the
// same name in the image; no workspace may be mounted there.
const (
	HelperDir  = "/.securebench"
	HelperPath = HelperDir + "/helper"
)

// Capability is a power of root's, see capabilities(7).
type Capability string

// The capabilities that a sandbox can have.
const (
	Kill    Capability = "KILL"    // signals processes of other users
	SetGID  Capability = "SETGID"  // becomes another group
	SetUID  Capability = "SETUID"  // becomes another user
	SetPCap Capability = "SETPCAP" // gives capabilities up for good
)

// Limits bound a sandbox. A zero field is the default of [Limits.WithDefaults].
type Limits struct {
	Memory  int64   // bytes, without the workspace's
	CPUs    float64 // cores
	Pids    int64
	Disk    int64         // bytes in the workspace, and in /tmp
	Files   int64         // files and directories there, the roots included
	Output  int64         // bytes of stdout and stderr together
	Timeout time.Duration // of the command; 0 is the default
}

// Inodes is the default cap on files and directories in a workspace.
const Inodes = 65536

// WithDefaults fills zero fields: 1 GiB, 1 core, 256 processes, 256 MiB of
// disk, 65536 files, 8 MiB of output, 900 s.
func (l Limits) WithDefaults() Limits {
	def := Limits{Memory: 1 << 30, CPUs: 1, Pids: 256, Disk: 256 << 20, Files: Inodes, Output: 8 << 20, Timeout: 900 * time.Second}
	if l.Memory <= 0 {
		l.Memory = def.Memory
	}
	if l.CPUs <= 0 {
		l.CPUs = def.CPUs
	}
	if l.Pids <= 0 {
		l.Pids = def.Pids
	}
	if l.Disk <= 0 {
		l.Disk = def.Disk
	}
	if l.Files <= 0 {
		l.Files = def.Files
	}
	if l.Output <= 0 {
		l.Output = def.Output
	}
	if l.Timeout <= 0 {
		l.Timeout = def.Timeout
	}
	return l
}

// End says how a command ended.
type End string

// The ways a command ends.
const (
	Exited      End = "exit"
	TimedOut    End = "timeout"
	OutOfMemory End = "oom"
	PidsLimit   End = "pids_limit"
	DiskLimit   End = "disk_limit"
	OutputLimit End = "output_limit"
)

// Limits returns the limits that a command ran into, the one that ended it
// first.
func (o Outcome) Limits() []End {
	if o.End == Exited {
		return o.Seen
	}
	return append([]End{o.End}, o.Seen...)
}

// Outcome is what a command did. ExitCode is 124 after a timeout, as in the
// reference, 128+n after signal n, and the command's own otherwise.
//
// End is a limit only if that ended the command itself. What its children ran
// into is in Seen: a command can live on after that, and do its work.
type Outcome struct {
	End      End
	Seen     []End // limits that any process ran into, as far as the engine tells
	ExitCode int
	Duration time.Duration
	// StdoutBytes and StderrBytes count what was delivered.
	StdoutBytes, StderrBytes int64
}
