package link

import (
	"math"
	"slices"
	"strings"
	"time"

	"securebench/internal/sandbox"
)

// boxLifetime bounds a box that is never closed; requests have deadlines of their
// own.
const boxLifetime = 24 * time.Hour

// streamLimit lets a box write without end: frames have a cap of their own, and
// only the beginning of standard error is kept.
const streamLimit = math.MaxInt64

// safePath is put in front of every program. PYTHONSAFEPATH, which Python 3.11
// introduced, keeps the working folder off the module path; older versions need
// the second line. Child processes do not inherit the setting.
const safePath = "import os, sys\nsys.path[:] = [p for p in sys.path if p]\nos.environ.pop('PYTHONSAFEPATH', None)\n"

// Compiled is put in front of a program that Python has compiled already: what
// marshal makes of it follows.
const Compiled = "compiled "

// PythonBoot is a Python program that runs the first frame as its program, as source
// or compiled ([Compiled]), and keeps it compiled under the name "compiled". As an
// argument, the program would cost about 20 ms, since engines pass arguments
// through many layers.
const PythonBoot = safePath + `
import marshal
def program():
    def exactly(n):
        data = b""
        while len(data) < n:
            part = os.read(0, n - len(data))
            if not part:
                os._exit(1)
            data += part
        return data
    return exactly(int.from_bytes(exactly(4), "big"))
compiled = program()
if compiled.startswith(b"compiled "):
    compiled = marshal.loads(memoryview(compiled)[9:])
else:
    compiled = compile(compiled, "<string>", "exec")
exec(compiled)
`

// PythonSpec describes a sandbox for a Python program ([Options.Program]), under a
// fixed hash seed: the order of a set can decide a verdict. -I would ignore the
// seed.
func PythonSpec(image sandbox.Image, limits sandbox.Limits, labels sandbox.Labels) sandbox.Spec {
	limits = limits.WithDefaults()
	limits.Output, limits.Timeout = streamLimit, boxLifetime
	user := sandbox.Nobody
	return sandbox.Spec{
		Labels:  labels,
		Image:   image,
		Command: []string{"python3", "-s", "-B", "-c", PythonBoot},
		Env:     pythonEnv(image.Env),
		User:    &user,
		Workdir: "/tmp",
		Stdin:   true,
		Limits:  limits,
	}
}

// pythonEnv configures Python and empties the variables that an image has set
// for it. PYTHONTZPATH is data: empty, it hides all time zones.
func pythonEnv(image []string) []string {
	env := []string{"HOME=/tmp", "LANG=C.UTF-8", "PYTHONHASHSEED=0", "PYTHONSAFEPATH=1"}
	for _, name := range image {
		set := slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		if strings.HasPrefix(name, "PYTHON") && name != "PYTHONTZPATH" && !set {
			env = append(env, name+"=")
		}
	}
	return env
}
