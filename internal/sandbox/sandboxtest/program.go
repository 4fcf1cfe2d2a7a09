package sandboxtest

import (
	"os"
	"syscall"
)

// WriteProgram writes a file that is run afterwards. No process is started meanwhile:
// until its own exec it would hold the file open for writing, and such a file cannot
// be run (ETXTBSY, https://go.dev/issue/22315).
func WriteProgram(file string, content []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(file, content, 0o755) //nolint:gosec // a program
}
