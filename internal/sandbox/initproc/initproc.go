// Package initproc is what runs inside a sandbox beside the commands: the first
// process of one that runs more than one command, which [Serve] is and whose other
// end a [Client] is, and what the helper binary answers as a command, whether a
// command is there ([AnswerLookup]) and whether a service answers ([AwaitService]).
//
// # Protection
//
// Before it starts anything, init makes itself non-dumpable, so that no other
// process of the sandbox, root's included, can trace it, read its memory or
// open its descriptors. It marks every descriptor close-on-exec, leaves only
// signal handlers that cannot end it (the kernel discards all other signals
// for a first process), and sets no_new_privs. Where it has capabilities it
// empties the bounding set, which takes SETPCAP, and the ambient and inheritable
// ones of the thread that starts commands. So the kernel gives no command a
// capability, root's included. Of its own it keeps SETUID, SETGID and KILL, and only where it has all three: those let it
// run commands as other users. CHOWN, DAC_OVERRIDE, FOWNER and FSETID, with
// which it changes files for the parent, the thread that starts commands never
// has, and after the first command none is used.
//
// It changes its rights on one thread and executes itself on that, so that it needs
// no signal: other sandboxes can have used up those of its user (package privilege).
//
// Where commands can be granted capabilities, init keeps these as well, and they
// stay in the bounding set. Then the securebit NOROOT, locked, takes care that
// root gets none by being root: a command has what it was given, in its ambient
// set, if it runs as root. Only a file of the image that itself has capabilities
// can give granted ones to a command that was not.
//
// What remains open to a process of init's own user are calls that ask for
// nothing but the same user: it can lower init's resource limits (prlimit) and
// its priority, and stop a command while init starts it. All of these can end
// or stall the sandbox, none gives access to it. The Client reports
// [ErrLost] then. A process of another user can do none of that. Where init
// can switch users root cannot change its limits either, but root can make it
// the first choice when memory runs out (/proc/1/oom_score_adj).
//
// # Protocol
//
// The attached standard input and output of the sandbox carry requests of package wire.
//
//	PUT    /files                 a tar archive of changes -> applied: changes files,
//	                              until the first command starts
//	POST   /destinations          pathList -> pathList: where they lead, as long
//	                              as files can be changed
//	POST   /commands              start -> started: begins a command
//	PUT    /commands/{id}/stdin   its standard input; the end of the body closes it
//	GET    /commands/{id}/stdout  its output, up to the limit that start names;
//	GET    /commands/{id}/stderr  the rest is discarded and counted
//	GET    /commands/{id}         -> Result: answered when the command has ended and
//	                              its output is delivered; init then forgets it
//	DELETE /commands/{id}         kills it with its descendants
//	DELETE /users/{uid}           kills all processes of a user
//	GET    /processes             -> census: how many there are but init
//	DELETE /processes             kills everything but init
//	GET    /alive                 answered at once
//
// Connections that are made inside of the sandbox are carried by
//
//	POST   /listeners/{address}                   init listens
//	DELETE /listeners/{address}                   init no longer listens, and refuses the
//	                                              requests that wait for connections
//	GET    /listeners/{address}/connections/{id}  answered when init has accepted a
//	                                              connection: what arrives on it
//	PUT    /connections/{id}                      what is sent on it
//
// The parent chooses their numbers. The end of a body ends only that direction; a
// stream that is reset resets the connection. Nothing but status codes and the
// content of connections is taken from the sandbox. Init accepts one connection more
// than was asked for; others wait in the backlog of the sandbox's kernel.
//
// That a command could not be started is no request that is refused: it is
// part of a report, since what runs in the sandbox can cause it (a full
// process table, a program that is not there). The end of standard input ends
// init, and that ends the sandbox.
//
// Only the parent opens streams. A connection that is made inside the sandbox,
// such as to a gateway on its loopback, answers a request of the parent's. Init
// has to answer as long as it is not suspended: the parent asks after a silence.
//
// # Ends
//
// Every command leads a session of its own. It has ended when its first
// process has; what that wrote is delivered whole. Descendants that it leaves
// behind live on, and what they still write is discarded. Killing a command
// reaches its session, every process below it, and their sessions. A
// descendant that has left the session and lost its parents cannot be
// distinguished from another command's: only [Client.KillUser] and
// [Client.KillAll] reach it, and they miss nothing, since one system call
// kills all.
package initproc

import (
	"errors"
	"fmt"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/wire"
)

// Limits of the protocol.
const (
	maxCommands   = 32      // that run side by side
	defaultOutput = 8 << 20 // bytes of each output stream of a command

	maxStart = 1 << 20 // bytes of a start message
	copySize = 32 << 10

	// The standard inputs of all commands, and what is sent on all connections, fit
	// into the window of the connection to the parent.
	maxStreams = 4*maxCommands + 2*maxConnections + 64
)

// start asks for a command.
type start struct {
	Argv []string `json:"argv"`
	Env  []string `json:"env,omitzero"`
	// Inherit adds init's own variables, as far as Env does not set them.
	Inherit bool   `json:"inherit,omitzero"`
	Dir     string `json:"dir"`
	UID     int    `json:"uid"`
	GID     int    `json:"gid"`
	// Capabilities are kept by the command if it runs as root.
	Capabilities []sandbox.Capability `json:"capabilities,omitzero"`

	Stdin  bool  `json:"stdin,omitzero"`  // will be sent
	Stdout bool  `json:"stdout,omitzero"` // will be asked for
	Stderr bool  `json:"stderr,omitzero"`
	Output int64 `json:"output"` // limit of each
}

// started answers a start. ID is 0 if the command could not be started.
type started struct {
	ID      uint64 `json:"id,omitzero"`
	Errno   int    `json:"errno,omitzero"`
	Message string `json:"message,omitzero"`
}

// Output counts the bytes of an output stream.
type Output struct {
	Bytes   int64 `json:"bytes"`   // delivered
	Dropped int64 `json:"dropped"` // discarded beyond the limit
}

func (s start) Check() error {
	switch {
	case len(s.Argv) == 0 || s.Argv[0] == "":
		return errors.New("the command is empty")
	case len(s.Dir) == 0 || s.Dir[0] != '/':
		return fmt.Errorf("the working directory %q is not absolute", s.Dir)
	case s.UID < 0 || s.GID < 0 || s.UID > maxID || s.GID > maxID || s.GID == privateGroup:
		return fmt.Errorf("user %d:%d is out of range", s.UID, s.GID)
	case s.Output < 0:
		return errors.New("the output limit is negative")
	}
	return nil
}

// maxID is the largest user or group id; the next one means "no change".
const maxID = 1<<32 - 2

func (s started) Check() error {
	if (s.ID == 0) == (s.Errno == 0) || s.Errno < 0 || s.Errno > 4095 || len(s.Message) > wire.MaxText {
		return fmt.Errorf("start of command %d with error %d: %w", s.ID, s.Errno, wire.ErrInvalid)
	}
	return nil
}

// check accepts every number that a process table can hold.
func (c census) Check() error {
	if c.Count < 0 || c.Count > maxProcesses {
		return fmt.Errorf("%d processes: %w", c.Count, wire.ErrInvalid)
	}
	return nil
}

// maxProcesses is the largest number that the kernel gives a process.
const maxProcesses = 1 << 22

// Check refuses what no command can have done.
func (r Result) Check() error {
	if r.ExitCode < 0 || r.ExitCode > 255 || r.Signal < 0 || r.Signal > 64 || r.Signal != 0 && r.ExitCode != 128+r.Signal ||
		min(r.Duration, r.User, r.System) < 0 ||
		min(r.MaxRSS, r.Stdout.Bytes, r.Stdout.Dropped, r.Stderr.Bytes, r.Stderr.Dropped) < 0 {
		return fmt.Errorf("report of a command: %w", wire.ErrInvalid)
	}
	return nil
}
