// Package sandbox defines sandboxes: bounded, private places in which one
// untrusted command runs. An [Engine] makes them; callers depend on the
// interfaces here and never on an engine's own package.
//
// What the command did is data (an [Outcome]). What the engine failed to do is
// an error.
package sandbox

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"time"
)

// Errors that callers distinguish.
var (
	// ErrImageMissing is wrapped by the error of [Images.Image] for an image
	// that the engine does not have.
	ErrImageMissing = errors.New("image is not on the engine")
	// ErrBusy is wrapped by the error of [Puller.Pull] if the registry asks to be asked
	// later, or is out of order.
	ErrBusy = errors.New("the registry is busy")
	// ErrDisturbed is wrapped by the error of [Box.Run] when something outside
	// the sandbox interfered: it was killed, stopped, restarted or removed,
	// or paused or reconfigured while it ran out of time. How the command
	// ended then says nothing about the command.
	ErrDisturbed = errors.New("the sandbox was disturbed from outside")
	// ErrOverdue is wrapped by the cause of a context that ends a box because
	// it takes too long. The error of [Box.Run] then wraps [ErrDisturbed] as
	// well if the delay was not the command's doing.
	ErrOverdue = errors.New("it takes too long")
	// ErrTooLarge is wrapped when a tree, an archive or a list of changes
	// exceeds the caller's limit.
	ErrTooLarge = errors.New("the tree is larger than the limit")
	// ErrTree is wrapped by the errors of a [Workspace] whose engine works: the
	// tree itself is in the way. Whoever can write to a tree can cause it.
	ErrTree = errors.New("the tree does not allow it")
	// ErrTooSmall is wrapped by the error of [Sandboxes.Workspace] when the
	// image folder that the workspace begins as does not fit in it.
	ErrTooSmall = errors.New("the workspace is too small for the image folder")
	// ErrNoFolder is wrapped by the error of [Sandboxes.Workspace] when the
	// image has no folder at [ImageFolder.Path].
	ErrNoFolder = errors.New("the image has no such folder")
	// ErrUnusable is what errors are that the content of an image causes, whatever
	// runs in it: its configuration or its accounts do not name a user that exists, or
	// what a path leads to cannot be what it is needed for. It is final, and the fault
	// of whoever names the image. See [Unusable].
	ErrUnusable = errors.New("the image cannot be used")
)

// Unusable makes an error an [ErrUnusable], with the text that it has.
func Unusable(err error) error { return &unusableError{err} }

type unusableError struct{ error }

// Is makes it the error that callers distinguish.
func (*unusableError) Is(target error) bool { return target == ErrUnusable }

// Unwrap returns the error that it was made of.
func (e *unusableError) Unwrap() error { return e.error }

// Engine makes sandboxes and workspaces. All methods are safe for concurrent
// use. An error means that the engine or this process failed, never that an
// agent misbehaved.
//
// It has seven methods because a command needs all three parts of one
// connection. Code that needs one part should accept that interface. Building
// and pulling images are optional: see [Builder] and [Puller].
type Engine interface {
	Sandboxes
	Images
	Service
}

// Sandboxes makes what a task runs in.
type Sandboxes interface {
	// Workspace makes a bounded file tree that sandboxes can mount. The
	// caller closes it, after every box that mounts it.
	Workspace(ctx context.Context, spec WorkspaceSpec) (Workspace, error)
	// Open makes a sandbox for one command without starting it. The caller
	// closes it, also after an error from Run.
	Open(ctx context.Context, spec Spec) (Box, error)
}

// Images looks images up. It never runs any of their code.
type Images interface {
	// Image returns the identity of an image. It never pulls. With an error that
	// wraps [ErrUnusable], as much of it as is known is returned all the same.
	Image(ctx context.Context, ref string) (Image, error)
	// User returns the IDs of a user as an image's configuration names it:
	// "", "user", "uid", "user:group" and so on.
	User(ctx context.Context, image Image, name string) (User, error)
}

// Looker is an engine that looks at what an image has at a path, without running
// any of its code.
type Looker interface {
	// Look returns what an image has at an absolute path, whose parents are folders
	// of the image and no links.
	Look(ctx context.Context, image Image, path string) (Sight, error)
}

// Sight is what an image has at a path.
type Sight struct {
	Type FileType // "" is nothing
	Link string   // where a link leads, as an absolute path if it is known; "" is nowhere
}

// Service is what an engine offers besides sandboxes.
type Service interface {
	// Info describes the engine.
	Info() Info
	// Reap removes what dead processes left on the engine and returns how
	// many objects that were. It removes an object only when it can prove
	// that the process that made it has ended.
	Reap(ctx context.Context) (int, error)
	// Close disconnects. Boxes and workspaces must be closed before.
	Close() error
}

// Builder is an engine that can build images.
type Builder interface {
	// Build builds an image from a tar stream that holds a Dockerfile, and
	// returns it. What the Dockerfile runs has the engine's own network.
	// Progress goes to log as text.
	Build(ctx context.Context, b Build, files io.Reader, log io.Writer) (Image, error)
	// BuiltFrom returns what [Build.From] said when an image was built, or ""
	// if it was made in another way. It needs no builder.
	BuiltFrom(ctx context.Context, ref string) (string, error)
}

// Build says how an image is built.
type Build struct {
	Tag  string
	From string // the digest of all that the image is built from; kept with it
	// Fresh repeats every step, also those whose result the engine remembers.
	Fresh bool
}

// Puller is an engine that can fetch images from a registry.
type Puller interface {
	// Pull fetches an image by reference and returns it. Progress goes to log
	// as text.
	Pull(ctx context.Context, ref string, log io.Writer) (Image, error)
}

// Importer is an engine that can make images of file trees.
type Importer interface {
	// Import makes an image whose root is the content of a tar stream, with
	// its links, owners and modes. The caller removes it; [Service.Reap] does
	// if the process dies.
	Import(ctx context.Context, labels Labels, files io.Reader) (Image, error)
	// RemoveImage removes an image that Import made, whether or not ctx has
	// ended. It is idempotent, and refuses other images.
	RemoveImage(ctx context.Context, image Image) error
}

// Overlays is an engine that keeps file trees of programs, each filled once and
// then mounted read-only into sandboxes of any run. They outlive runs: neither
// [Service.Reap] nor closing the engine removes one.
type Overlays interface {
	// Overlay returns the overlay with the given key, which names its content,
	// and fills it first if it is not there whole. fill writes a tar stream of
	// folders, files and links; the engine makes root their owner.
	Overlay(ctx context.Context, spec OverlaySpec, fill func(io.Writer) error) (Overlay, error)
	// Overlays lists what is there, sorted by key.
	Overlays(ctx context.Context) ([]OverlaySpec, error)
	// RemoveOverlay removes one. A sandbox that uses it is an error.
	RemoveOverlay(ctx context.Context, key string) error
}

// OverlaySpec names an overlay.
type OverlaySpec struct {
	Key   string // lower-case letters, digits, and ._- between them
	Title string // for people, such as "codex 0.169.0 linux/amd64"
}

// Overlay is a read-only tree on an engine.
type Overlay interface {
	// OverlayKey is the key in its [OverlaySpec].
	OverlayKey() string
}

// Freezer is a box whose processes can be stopped for a while, all at once.
// Neither call is a disturbance of the box. Time in which it is frozen counts
// for [Limits.Timeout].
type Freezer interface {
	// Freeze stops every process of the box that runs.
	Freeze(ctx context.Context) error
	// Thaw lets them go on.
	Thaw(ctx context.Context) error
}

// Info describes an engine in the manifest of a run.
type Info struct {
	Name string `json:"name"`
	// Choice says why this engine was taken, such as "as configured".
	Choice        string `json:"choice,omitzero"`
	Version       string `json:"version"`
	APIVersion    string `json:"api_version"`
	Runtime       string `json:"runtime"`
	CgroupVersion string `json:"cgroup_version"`
	OS            string `json:"os"`
	Arch          string `json:"arch"` // GOARCH
	// Emulated are the architectures whose programs the machine runs through emulators.
	Emulated        []string `json:"-"`
	Kernel          string   `json:"kernel"`
	SecurityOptions []string `json:"security_options"`
	Seccomp         string   `json:"seccomp"`         // digest of a box's profile
	SeccompTracing  string   `json:"seccomp_tracing"` // digest with [Spec.Tracing]
	// DiskSampled says that the size of a root that can be written is not bounded
	// but sampled: a box can exceed it for a moment before it is ended.
	DiskSampled bool `json:"disk_sampled,omitzero"`
	// ByManifest says that the ID of an image is the digest of its manifest, and not that
	// of its configuration.
	ByManifest bool `json:"-"`
	// Obtain is the command that gets an image by name, such as "docker pull".
	Obtain string `json:"-"`
	// Sockets is how many bytes the sockets of a box can hold beside its limit on memory.
	Sockets int64 `json:"-"`
	// SocketsUnbounded says that nothing but the kernel's bound for the whole machine
	// limits the memory of sockets, so that planning counts none.
	SocketsUnbounded bool `json:"sockets_unbounded,omitzero"`
	// Notice is what the operator should know before the first task, if anything.
	Notice string `json:"-"`
}

// Trait is something about an engine on which a score can depend.
type Trait struct{ What, Value string }

// Traits are what the engines of one run must have in common, wherever its attempts are
// made. Kernels may differ.
func (i Info) Traits() []Trait {
	return []Trait{{"engine", i.Name}, {"version of the engine", i.Version}, {"runtime", i.Runtime}, {"version of control groups", i.CgroupVersion},
		{"architecture", i.Arch}, {"system call filter", i.Seccomp}, {"system call filter of agents", i.SeccompTracing}}
}

// Unlike returns the first trait in which an engine differs from another, and the
// other's. Both are the zero value if there is none.
func (i Info) Unlike(other Info) (own, others Trait) {
	theirs := other.Traits()
	for n, own := range i.Traits() {
		if own != theirs[n] {
			return own, theirs[n]
		}
	}
	return Trait{}, Trait{}
}

// Box is one sandbox. Its command is its first process, so the box ends with
// the command and the command ends with the box.
//
// A box whose root can be read after the command has ended is a [RootReader]
// as well.
type Box interface {
	// Run starts the command and waits for its end; it may be called once.
	// When ctx ends, the box is killed and the cause of ctx is returned.
	// Every process of the box is dead when Run returns.
	Run(ctx context.Context, s Streams) (Outcome, error)
	// Close kills and removes the box. It is idempotent, may be called while
	// Run is running, and joins every clean-up error.
	Close(ctx context.Context) error
}

// RootReader reads the root file system of a box that was opened with
// [Spec.WritableRoot] and whose Run has returned. Mounts are not part of the
// root: nothing at or below a mount point is reported or read.
type RootReader interface {
	// Changes lists the differences between the root and the image, sorted
	// by path. More than limit are [ErrTooLarge].
	Changes(ctx context.Context, limit int) ([]Change, error)
	// Archive writes the trees at the given absolute paths as one tar stream
	// of at most limit bytes; more are [ErrTooLarge]. Entry names are paths
	// without the leading slash. Links are archived, never followed: a path
	// that does not exist, or that leads through a link, adds nothing. A file
	// with several names may be archived once, with hard links to it.
	Archive(ctx context.Context, paths []string, limit int64, w io.Writer) error
}

// Change is one difference between the root of a box and its image. A folder
// in which something was added or deleted can be reported as modified, and so can
// a file that differs only in its times.
type Change struct {
	Path string // absolute
	Kind ChangeKind
	// Type is "" for what was deleted, and for a name that the engine cannot
	// pass on because it is not UTF-8: such a file cannot be archived by itself.
	Type FileType
}

// ChangeKind says what happened to a path.
type ChangeKind string

// The kinds of changes. A path that became something else is modified.
const (
	Added    ChangeKind = "added"
	Modified ChangeKind = "modified"
	Deleted  ChangeKind = "deleted"
)

// FileType says what a path is.
type FileType string

// The types of files.
const (
	RegularFile FileType = "file"
	Directory   FileType = "directory"
	Symlink     FileType = "symlink"
	NamedPipe   FileType = "fifo"
	Socket      FileType = "socket"
	Device      FileType = "device"
)

// TypeOf returns what a mode is the mode of.
func TypeOf(mode fs.FileMode) FileType {
	switch mode.Type() {
	case 0:
		return RegularFile
	case fs.ModeDir:
		return Directory
	case fs.ModeSymlink:
		return Symlink
	case fs.ModeNamedPipe:
		return NamedPipe
	case fs.ModeSocket:
		return Socket
	}
	return Device
}

// Streams connects a command. A nil stream is closed (stdin) or discarded.
// Writers get at most [Limits.Output] bytes in total.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Workspace is a file tree that outlives the boxes that mount it. It is
// bounded in bytes and inodes, and is served by trusted code that executes
// nothing from it. That code has only the rights of [WorkspaceSpec.Owner]: what
// belongs to other users can be unreadable to it.
//
// It has five methods: files are laid, read and removed by the same holder of
// one tree, and a caller that holds one needs all of that.
type Workspace interface { //nolint:interfacebloat // see above
	// Put unpacks the files and directories of a tar stream into the tree.
	Put(ctx context.Context, tar io.Reader) error
	// Get writes the tree below path ("." is all of it; a file is itself)
	// as a tar stream: directories, regular files, and everything else as
	// only its header. Links are never followed. A path that does not
	// exist gives an empty archive. Writing stops with [ErrTooLarge] after
	// limit bytes. What is at or below the paths in skip is neither read nor
	// written.
	Get(ctx context.Context, path string, limit int64, w io.Writer, skip ...string) error
	// Remove deletes files, links and folders with all that is below them, and
	// then the folders above them that this left empty. A path that does not
	// exist is no error. Links are never followed.
	Remove(ctx context.Context, paths ...string) error
	// Usage reports how full the tree is, and the owner and mode of its root,
	// which no archive has an entry for.
	Usage(ctx context.Context) (Usage, error)
	// Close removes the tree. It is idempotent.
	Close(ctx context.Context) error
}

// Usage is how full a workspace is, and whose its root is.
type Usage struct {
	Root User
	Mode fs.FileMode // of the root

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
	Path   string   // the value of PATH, where programs of the image are found
	// What it is for, in Go's words; "" is not known.
	OS, Arch string
	Variant  string `json:",omitzero"`
	// Absent says that the engine does not have the image: only its registry's
	// description is known. UserName is its own user then, if only its files say who that
	// is.
	Absent   bool   `json:"-"`
	UserName string `json:"-"`
}

// User is a user of an image by number.
type User struct{ UID, GID int }

// Nobody is the user of sandboxes that need no user of the image.
var Nobody = User{65534, 65534} //nolint:gochecknoglobals // a struct cannot be a constant

// Outcome is what a command did. ExitCode is 124 after a timeout, as in the
// reference, 128+n after signal n, and the command's own otherwise.
//
// End is a limit only if the limit ended the command itself. Limits that its
// children ran into are in Seen: a command can survive that and do its work.
type Outcome struct {
	End      End
	Seen     []End // limits that any process ran into, as far as the engine reports them
	ExitCode int
	Duration time.Duration
	// StdoutBytes and StderrBytes count what was delivered.
	StdoutBytes, StderrBytes int64
}

// Limits returns the limits that a command ran into, the one that ended it
// first.
func (o Outcome) Limits() []End {
	if o.End == Exited {
		return o.Seen
	}
	return append([]End{o.End}, o.Seen...)
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
