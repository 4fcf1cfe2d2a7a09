package fault

import (
	"fmt"
	"runtime"
	"strings"
)

// Recover makes a panic the error of the function that defers it. What an agent wrote may
// bring out a mistake of this program: that costs the attempt, not the run. The error says
// where it was; a text comes from the runtime only, since any other may hold what is hidden.
func Recover(err *error) {
	p := recover()
	if p == nil {
		return
	}
	what := "a panic"
	if e, ok := p.(runtime.Error); ok {
		what = e.Error()
	}
	*err = Errorf(Internal, "a mistake of securebench, please report it: %s at %s", what, panicked())
}

// panicked names the function and line that a panic came from: the first below the
// runtime's own on the stack.
func panicked() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(0, pcs)])
	below := false
	for f, more := frames.Next(); more; f, more = frames.Next() {
		own := strings.HasPrefix(f.Function, "runtime.")
		if below && !own {
			return fmt.Sprintf("%s:%d", f.Function, f.Line)
		}
		below = below || f.Function == "runtime.gopanic"
	}
	return "an unknown place"
}
