package require

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox/cgroup"
	"securebench/internal/sandbox/mountns"
	"securebench/internal/sandbox/oci"
)

// combination is what decides by which of the kernel's mechanisms a sandbox is
// confined.
type combination struct {
	runtime  string
	groups   string // version of the control groups
	rootless bool
	mapped   bool // its users are mapped: see [Users]
}

// tested are the combinations on which the suite of the engine has passed, and with
// which version of the runtime at the oldest. Whoever runs it on another one adds that
// here and to docs/engines.md.
func tested() map[combination]version {
	return map[combination]version{
		{"crun", "1", false, true}:  {1, 8},
		{"crun", "2", false, true}:  {1, 21},
		{"runc", "1", false, true}:  {1, 1},
		{"runc", "2", false, true}:  {1, 1},
		{"crun", "2", false, false}: {1, 8},
		{"runc", "2", false, false}: {1, 1},
		{"crun", "2", true, false}:  {1, 21},
		{"runc", "2", true, false}:  {1, 1},
	}
}

// version is the beginning of a runtime's version.
type version struct{ major, minor int }

// versionOf reads it; what has another form is older than every version.
func versionOf(text string) (v version) {
	_, _ = fmt.Sscanf(text, "%d.%d", &v.major, &v.minor) // what it cannot read stays 0
	return v
}

func (v version) before(other version) bool {
	return v.major < other.major || v.major == other.major && v.minor < other.minor
}

// wasTested reports whether the engine was tested on machines of this kind with that
// version of the runtime or an older one.
func (c combination) wasTested(r oci.Runtime) bool {
	oldest, ok := tested()[c]
	return ok && !versionOf(r.Version).before(oldest)
}

// FindRuntime finds an OCI runtime by name or path. Without a name it is crun, which
// takes less than half of runc's time, where the engine was tested with it; else runc,
// and else what there is.
func FindRuntime(name string, getenv func(string) string) (oci.Runtime, error) {
	if name != "" {
		return oci.FindRuntime(getenv, name)
	}
	groups := groupsVersion()
	for _, name := range []string{"crun", "runc"} {
		r, err := oci.FindRuntime(getenv, name)
		is := combination{name, groups, mountns.Rootless(), mayMap()}
		if err == nil && is.wasTested(r) {
			return r, nil
		}
	}
	return oci.FindRuntime(getenv, "runc", "crun")
}

// mayMap reports whether users can be mapped as far as the kernel is concerned, which has
// to map an overlay on a file system in memory (Linux 6.3). Whether they are is found
// out with the runtime.
func mayMap() bool {
	var name unix.Utsname
	return !mountns.Rootless() && unix.Uname(&name) == nil && !versionOf(unix.ByteSliceToString(name.Release[:])).before(version{6, 3})
}

// groupsVersion is the version of this machine's control groups. Where there are none,
// nothing was tested.
func groupsVersion() string {
	h, err := cgroup.Find()
	if err != nil {
		return ""
	}
	return h.Version()
}

func (c combination) String() string {
	who := "root"
	if c.rootless {
		who = "without root"
	}
	users := "users mapped"
	if !c.mapped {
		users = "users not mapped"
	}
	return fmt.Sprintf("%s, control groups version %s, %s, %s", c.runtime, c.groups, who, users)
}

// test looks whether the engine was tested on machines of this kind.
func (c *checker) test(context.Context) (string, error) {
	is := combination{c.runtime.Name, c.version, mountns.Rootless(), c.ids != nil}
	if !is.wasTested(c.runtime) {
		return "", fmt.Errorf("%s %s: not tested", is, c.runtime.Version)
	}
	return is.String(), nil
}
