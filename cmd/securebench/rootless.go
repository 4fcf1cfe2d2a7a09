package main

import (
	"fmt"
	"os"

	"securebench/internal/sandbox/mountns"
	"securebench/internal/sandbox/native/rootless"
)

// elsewhere runs the whole command in a user namespace, if its user is not root and
// asks for that. It reports whether the command has run there.
func elsewhere(p rootless.Program, getenv func(string) string) (code int, ran bool) {
	err := p.Continue()
	if err == nil && (getenv("SECUREBENCH_ROOTLESS") != "1" || os.Geteuid() == 0 || mountns.Rootless()) {
		return 0, false
	}
	var ranges rootless.Ranges
	if err == nil {
		ranges, err = rootless.Find()
	}
	if err == nil {
		code, err = p.Enter(ranges)
	}
	if err != nil {
		_, _ = fmt.Fprintf(p.Stderr, "securebench: running without root: %v\n", err) // there is no other place for it
		code = exitEngine
	}
	return code, true
}
