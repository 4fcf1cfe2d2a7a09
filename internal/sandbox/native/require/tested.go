package require

import (
	"context"
	"fmt"
	"slices"

	"securebench/internal/sandbox/mountns"
)

// combination is what decides by which of the kernel's mechanisms a sandbox is
// confined.
type combination struct {
	runtime  string
	groups   string // version of the control groups
	rootless bool
	mapped   bool // its users are mapped: see [Users]
}

// tested are the combinations on which the suite of the engine has passed. Whoever
// runs it on another one adds that here and to docs/engines.md.
func tested() []combination {
	return []combination{
		{"runc", "1", false, true},
		{"runc", "2", false, true},
	}
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
	if !slices.Contains(tested(), is) {
		return "", fmt.Errorf("%s: not tested", is)
	}
	return is.String(), nil
}
