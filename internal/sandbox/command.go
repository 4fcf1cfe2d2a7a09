package sandbox

import (
	"fmt"
	"io"
	"strings"
)

// The exit codes of commands that were killed: for their time, as in the
// reference, and for anything else.
const (
	ExitTimedOut = 124
	ExitKilled   = 128 + 9
)

// Argv is the command line of the first process.
func (s Spec) Argv() []string {
	if !s.Init {
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
// also reads on the standard error. The exit code is that of a shell: 126 for what
// cannot be executed, 127 for what is not there.
func NotStarted(code int, command string, stderr io.Writer) Outcome {
	why := "not found"
	if code == 126 {
		why = "not executable"
	}
	out := Outcome{End: Exited, ExitCode: code, Duration: 1}
	if stderr != nil {
		n, _ := fmt.Fprintf(stderr, "sandbox: command %q: %s\n", command, why)
		out.StderrBytes = int64(n)
	}
	return out
}
