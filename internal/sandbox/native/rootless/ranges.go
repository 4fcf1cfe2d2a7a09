package rootless

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"
)

// Range is a range of IDs of the host.
type Range struct{ Start, Count int }

// Ranges are the IDs that a user may map.
type Ranges struct{ Users, Groups Range }

// minCount is how many users a sandbox has.
const minCount = 65536

// findRanges returns what this user may map. The error says what is missing and the
// command that adds it.
func findRanges() (Ranges, error) {
	var errs []error
	for _, program := range []string{"newuidmap", "newgidmap"} {
		if _, err := exec.LookPath(program); err != nil {
			errs = append(errs, fmt.Errorf("%s is not installed (apt-get install uidmap)", program))
		}
	}
	names := []string{strconv.Itoa(os.Getuid())}
	if u, err := user.Current(); err == nil {
		names = append(names, u.Username)
	}
	var r Ranges
	for file, into := range map[string]*Range{"/etc/subuid": &r.Users, "/etc/subgid": &r.Groups} {
		text, err := os.ReadFile(file) //nolint:gosec // one of two
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
			continue
		}
		var ok bool
		if *into, ok = largest(string(text), names); !ok {
			errs = append(errs, fmt.Errorf("%s gives this user no %d IDs (usermod --add-subuids 100000-165535 --add-subgids 100000-165535 %s)",
				file, minCount, names[len(names)-1]))
		}
	}
	return r, errors.Join(errs...)
}

// largest returns the largest range of a user in a file of lines NAME:START:COUNT.
// What is not such a line is passed over.
func largest(text string, names []string) (found Range, ok bool) {
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) != 3 || !slices.Contains(names, fields[0]) {
			continue
		}
		start, err1 := strconv.ParseUint(fields[1], 10, 32)
		count, err2 := strconv.ParseUint(fields[2], 10, 32)
		if err1 == nil && err2 == nil && start > 0 && start+count <= 1<<32 && int(count) > found.Count {
			found = Range{int(start), int(count)}
		}
	}
	return found, found.Count >= minCount
}
