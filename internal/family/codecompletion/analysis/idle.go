package analysis

import (
	"fmt"
	"strings"
)

// Idle is a module that defines the names under test and does no work.
type Idle struct {
	What   string // what it does, in one phrase
	Source string
}

// idle makes every name a function that answers the same, or a class whose objects
// have any method and attribute.
const idle = `
def _idle(*given, **named):
    return %[2]s

class _Idle:
    def __init__(self, *given, **named):
        pass
    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return _idle

%[1]s`

// IdleModules returns modules that tests which look at results reject: of functions
// and classes that answer every call alike.
func IdleModules(functions, classes []string) (out []Idle) {
	names := strings.Join(append(append([]string{}, functions...), classes...), ", ")
	if names == "" {
		return nil
	}
	var bound strings.Builder
	for _, name := range functions {
		fmt.Fprintf(&bound, "%s = _idle\n", name)
	}
	for _, name := range classes {
		fmt.Fprintf(&bound, "class %s(_Idle):\n    pass\n", name)
	}
	for _, answer := range []string{"None", "True"} {
		out = append(out, Idle{names + " returns " + answer + ", whatever is asked", fmt.Sprintf(idle, bound.String(), answer)})
	}
	return out
}
