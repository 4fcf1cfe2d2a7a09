package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"securebench/internal/pathname"
)

// Labels name what an engine object belongs to. The engine adds the owner.
type Labels struct {
	Run     string
	Task    string // "" for what serves several tasks
	Attempt int
	Role    string // what the object is for, such as "agent" or "workspace"
}

// WorkspaceSpec describes a workspace; zero limits are the defaults.
type WorkspaceSpec struct {
	Labels Labels
	Owner  User
	Disk   int64 // bytes
	Inodes int64
	// From makes the workspace begin as a copy of a folder of an image, with
	// its links, owners and modes; the root then has the folder's owner and
	// mode. Nil is an empty workspace. The tree is still served with the
	// rights of Owner only.
	From *ImageFolder
	// ReadAll lets the code that serves the tree read what belongs to other
	// users. It is for trees in which owners can be changed.
	ReadAll bool
}

// WithDefaults fills zero limits.
func (s WorkspaceSpec) WithDefaults() WorkspaceSpec {
	if s.Disk <= 0 {
		s.Disk = Limits{}.WithDefaults().Disk
	}
	if s.Inodes <= 0 {
		s.Inodes = Inodes
	}
	return s
}

// Check refuses what must not reach an engine.
func (s WorkspaceSpec) Check() error {
	if s.From == nil {
		return nil
	}
	if s.From.Image.ID == "" {
		return errors.New("the image has no ID")
	}
	return checkTarget("image folder", s.From.Path)
}

// ImageFolder is a folder of an image.
type ImageFolder struct {
	Image Image
	Path  string // absolute
}

// Spec describes a sandbox. The zero value of every field is the closed one:
// there is no network, the root is read-only, there are no capabilities and no
// tracing, and limits are the defaults.
type Spec struct {
	Labels  Labels
	Image   Image
	Command []string // argv of the first process; the image's entrypoint is ignored
	Env     []string // NAME=VALUE, on top of the image's
	User    *User    // nil is the image's user
	Workdir string   // absolute; "" is the target of the first mount, or "/"
	Mounts  []Mount
	Stdin   bool // the command reads a standard input
	// Init makes the helper binary the first process of the sandbox, with
	// the arguments "sandbox-init", "--grant" with the names of Grants if there
	// are any, and then Command, which may be empty. Its standard input is
	// always attached. See [HelperDir].
	Init bool
	// Helper makes the helper binary the command, with these arguments, in a sandbox that
	// has no files but that: it has no image, and none of what needs one.
	Helper       []string
	WritableRoot bool
	// Home is where the command's user finds an empty folder of its own, of at
	// most [Limits.Disk] bytes, that ends with the sandbox; "" is none.
	Home string
	// Capabilities are what a command that runs as root may keep of root's
	// powers.
	Capabilities []Capability
	// Grants are those of the Capabilities that commands of [Spec.Init] can be
	// given. Without Init it is empty: the command has all Capabilities.
	Grants []Capability
	// Peer is a box whose network this one shares, with the abstract Unix sockets
	// and the host names that go with it, and nothing else: another one of the
	// same engine, which has to be running when this one is started, and is closed
	// after it. Nil is a network of its own, which has nothing but loopback.
	Peer Box
	// Tracing lets the processes of the sandbox debug one another.
	Tracing bool
	Limits  Limits
}

// DeletedRecord is the PAX record of an archive's entry for a path
// where nothing is any more. Its value is "1", and the entry is an empty file.
const DeletedRecord = "SECUREBENCH.deleted"

// Mount makes a workspace or an overlay visible in a sandbox. A target may lie
// below that of another mount if it is read-only; a folder is made there where
// there is none.
type Mount struct {
	Workspace Workspace
	Overlay   Overlay // instead of Workspace; the mount is read-only then
	Target    string  // absolute
	ReadOnly  bool
}

// HelperDir is where a sandbox with [Spec.Init] has the helper binary, as the
// file [HelperPath]. The folder is mounted read-only and hides a folder of the
// same name in the image; no workspace may be mounted there.
const (
	HelperDir  = "/.securebench"
	HelperPath = HelperDir + "/helper"
)

// InitThreads is how many threads the helper has as [Spec.Init]. Limits do not
// count them.
const InitThreads = 16

// Check refuses what must not reach an engine.
func (s Spec) Check() error {
	switch {
	case len(s.Helper) > 0 && !s.alone():
		return errors.New("a sandbox of the helper alone has an image, another command, files or rights, or no user")
	case len(s.Helper) == 0 && s.Image.ID == "":
		return errors.New("the image has no ID")
	}
	if !s.Init && len(s.Helper) == 0 && (len(s.Command) == 0 || s.Command[0] == "") {
		return errors.New("the command is empty")
	}
	for _, a := range slices.Concat(s.Command, s.Helper, s.Env) {
		if strings.ContainsRune(a, 0) {
			return errors.New("an argument or variable contains a NUL byte")
		}
	}
	for _, v := range s.Env {
		if name, _, ok := strings.Cut(v, "="); !ok || name == "" {
			return fmt.Errorf("the variable %q is not a NAME=VALUE pair", v)
		}
	}
	if s.User != nil && (s.User.UID < 0 || s.User.GID < 0) {
		return fmt.Errorf("the user %d:%d is not valid", s.User.UID, s.User.GID)
	}
	if err := s.checkCapabilities(); err != nil {
		return err
	}
	if err := checkMounts(s.Mounts); err != nil {
		return err
	}
	if err := s.checkHome(); err != nil {
		return err
	}
	if s.Workdir == "" {
		return nil
	}
	return checkPath("working directory", s.Workdir)
}

// alone reports whether there is nothing in a sandbox but its command.
func (s Spec) alone() bool {
	return s.Image.ID == "" && len(s.Command) == 0 && !s.Init && !s.WritableRoot && s.User != nil && s.Home == "" && len(s.Mounts) == 0 &&
		len(s.Capabilities) == 0 && s.Peer == nil && !s.Tracing
}

// checkCapabilities refuses what no sandbox gets, and grants that init could not
// give: it must hold them, and keep them from the other commands.
func (s Spec) checkCapabilities() error {
	for _, c := range s.Capabilities {
		if c != SetPCap && !slices.Contains(Grantable(), c) {
			return fmt.Errorf("the capability %q is not granted to any sandbox", c)
		}
	}
	if len(s.Grants) == 0 {
		return nil
	}
	for _, c := range s.Grants {
		if c == SetPCap || !slices.Contains(s.Capabilities, c) {
			return fmt.Errorf("the capability %q cannot be granted to commands: it is not one of the sandbox's", c)
		}
	}
	for _, c := range Supervisor() {
		if !s.Init || !slices.Contains(s.Capabilities, c) {
			return fmt.Errorf("granting capabilities to commands needs the capability %s", c)
		}
	}
	return nil
}

// checkMounts refuses targets that hide one another. Only a read-only tree may
// cover a part of another one: nothing that is written can end up in either.
func checkMounts(mounts []Mount) error {
	for i, m := range mounts {
		if (m.Workspace == nil) == (m.Overlay == nil) {
			return fmt.Errorf("the mount at %q needs a workspace or an overlay", m.Target)
		}
		if m.Overlay != nil && !m.ReadOnly {
			return fmt.Errorf("the overlay at %q would not be read-only", m.Target)
		}
		if err := checkTarget("mount target", m.Target); err != nil {
			return err
		}
		for _, other := range mounts[:i] {
			within, contains := pathname.Within(m.Target, other.Target), pathname.Within(other.Target, m.Target)
			if within && contains || within && !m.ReadOnly || contains && !other.ReadOnly {
				return fmt.Errorf("the mount targets %q and %q overlap", other.Target, m.Target)
			}
		}
	}
	return nil
}

// checkHome refuses a home that a mount would hide, or that would hide one.
func (s Spec) checkHome() error {
	if s.Home == "" {
		return nil
	}
	if err := checkTarget("home", s.Home); err != nil {
		return err
	}
	for _, m := range s.Mounts {
		if pathname.Overlap(s.Home, m.Target) {
			return fmt.Errorf("the home %q and the mount target %q overlap", s.Home, m.Target)
		}
	}
	return nil
}

// Check refuses keys that cannot be a part of a name on an engine.
func (s OverlaySpec) Check() error {
	ok := s.Key != "" && len(s.Key) <= maxOverlayKey
	for i, c := range s.Key {
		letter := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		ok = ok && (letter || i > 0 && i < len(s.Key)-1 && strings.ContainsRune("._-", c))
	}
	if !ok {
		return fmt.Errorf("the overlay's key %q is not made of lower-case letters and digits, with ._- between them", s.Key)
	}
	if len(s.Title) > maxOverlayTitle {
		return fmt.Errorf("the overlay's title has more than %d bytes", maxOverlayTitle)
	}
	return nil
}

const (
	maxOverlayKey   = 128
	maxOverlayTitle = 256
)

func checkTarget(what, p string) error {
	if err := checkPath(what, p); err != nil {
		return err
	}
	if path.Clean(p) == "/" {
		return fmt.Errorf("the %s must not be the root", what)
	}
	return nil
}

// checkPath refuses paths in the sandbox that are not plain, and those where
// runtimes had holes: a working directory in /proc/self/fd leads out of the
// container (CVE-2024-21626).
func checkPath(what, p string) error {
	if !path.IsAbs(p) || strings.ContainsAny(p, "\x00:,\\") || slices.Contains(strings.Split(p, "/"), "..") {
		return fmt.Errorf("the %s %q is not a plain absolute path", what, p)
	}
	for _, reserved := range []string{"/proc", "/sys", "/dev", HelperDir} {
		if pathname.Within(p, reserved) {
			return fmt.Errorf("the %s %q is below %s, which is reserved", what, p, reserved)
		}
	}
	return nil
}

// Dir is the working directory of the command.
func (s Spec) Dir() string {
	switch {
	case s.Workdir != "":
		return s.Workdir
	case len(s.Mounts) > 0:
		return s.Mounts[0].Target
	}
	return "/"
}

// Capability is one of root's privileges; see capabilities(7).
type Capability string

// The capabilities that a sandbox can have.
const (
	Chown          Capability = "CHOWN"            // changes the owner of any file
	DACOverride    Capability = "DAC_OVERRIDE"     // ignores file permissions
	FOwner         Capability = "FOWNER"           // acts as the owner of any file
	FSetID         Capability = "FSETID"           // keeps set-user-ID bits
	SetUID         Capability = "SETUID"           // becomes another user
	SetGID         Capability = "SETGID"           // becomes another group
	Kill           Capability = "KILL"             // signals processes of other users
	NetBindService Capability = "NET_BIND_SERVICE" // listens on ports below 1024
	SysChroot      Capability = "SYS_CHROOT"       // changes its root directory
	// SetPCap drops capabilities for good. It is for securebench's own
	// processes only and cannot be granted to a row.
	SetPCap Capability = "SETPCAP"
)

// Supervisor is what a process of root's needs to start others as another user and without
// capabilities, and to end them: the init of a sandbox, or a server of tests.
func Supervisor() []Capability { return []Capability{SetUID, SetGID, Kill, SetPCap} }

// Grantable lists the capabilities that a row may ask for and an operator may
// grant. Under the sandbox's other restrictions none of them leads out of it.
func Grantable() []Capability {
	return []Capability{Chown, DACOverride, FOwner, FSetID, SetUID, SetGID, Kill, NetBindService, SysChroot}
}

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
	return Limits{
		Memory: positive(l.Memory, 1<<30), CPUs: positive(l.CPUs, 1), Pids: positive(l.Pids, 256), Disk: positive(l.Disk, 256<<20),
		Files: positive(l.Files, Inodes), Output: positive(l.Output, 8<<20), Timeout: positive(l.Timeout, 900*time.Second),
	}
}

// positive returns a limit that is set, or its default.
func positive[T cmp.Ordered](limit, def T) T {
	var zero T
	if limit > zero {
		return limit
	}
	return def
}
