package sandbox

import (
	"fmt"
	"io"
	"strings"
)

// The exit codes of commands that did not end by themselves, as shells have them.
const (
	ExitTimedOut = 124
	ExitCannot   = 126     // it cannot be executed
	ExitNotFound = 127     // it is not there
	ExitKilled   = 128 + 9 // for anything but its time
)

// MissingCommand reports whether a command that ends with a code may not have been there.
func MissingCommand(code int) bool { return code == ExitCannot || code == ExitNotFound }

// Argv is the command line of the first process.
func (s Spec) Argv() []string {
	switch {
	case len(s.Helper) > 0:
		return append([]string{HelperPath}, s.Helper...)
	case !s.Init:
		return s.Command
	}
	argv := []string{HelperPath, "sandbox-init"}
	if len(s.Grants) > 0 {
		var names []string
		for _, c := range s.Grants {
			names = append(names, string(c))
		}
		argv = append(argv, "--grant", strings.Join(names, ","))
	}
	return append(argv, s.Command...)
}

// RunAs is whom the command runs as.
func (s Spec) RunAs() User {
	if s.User != nil {
		return *s.User
	}
	return s.Image.User
}

// NotStarted is the outcome of a command that cannot be executed, which the caller
// also reads on the standard error. The exit code is [ExitCannot] or [ExitNotFound].
func NotStarted(code int, command string, stderr io.Writer) Outcome {
	why := "not found"
	if code == ExitCannot {
		why = "not executable"
	}
	out := Outcome{End: Exited, ExitCode: code, Duration: 1}
	if stderr != nil {
		n, _ := fmt.Fprintf(stderr, "sandbox: command %q: %s\n", command, why)
		out.StderrBytes = int64(n)
	}
	return out
}
