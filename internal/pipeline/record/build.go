package record

import (
	"fmt"
	"os"
	"sync"

	"securebench/internal/digest"
)

// ThisBuild returns the digest of the running program, which identifies the code of
// its verifiers.
func ThisBuild() (string, error) { return thisBuild() }

var thisBuild = sync.OnceValues(executableDigest) //nolint:gochecknoglobals // the program is one

func executableDigest() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("locating the securebench binary: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("opening the securebench binary: %w", err)
	}
	defer f.Close()
	sum, _, err := digest.Reader(f)
	if err != nil {
		return "", fmt.Errorf("reading the securebench binary: %w", err)
	}
	return sum, nil
}
