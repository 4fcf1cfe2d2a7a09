package testrunner

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// find starts the first of the interpreters that exists with the source that
// it gets as $0.
const find = `runner=$1 script=$2 form=$3; shift 3
for p; do
  if command -v "$p" >/dev/null 2>&1; then exec "$p" -c "$0" "$0" "$runner" "$script" "$form"; fi
done
echo "no Python interpreter: $*" >&2
exit 127`

// Probe returns the command that finds out, in the pristine sandbox and before
// any candidate is there, what the run depends on (the interpreter's path, the
// plugins that the image has). Its standard output goes to [New]. False means
// that there is nothing to find out.
func Probe(t Tests) (Command, bool) {
	driver, p, err := t.driverOf()
	if err != nil || driver == "" {
		return Command{}, false
	}
	shell, names, script, form := p.shell, []string{p.python}, "", "script"
	if shell == nil {
		shell = []string{"/bin/sh", "-c"}
	}
	if p.python == "" {
		names, script = []string{"python3", "python"}, p.script
	}
	if p.module != "" {
		form = "module"
	}
	return Command{
		Argv: slices.Concat(shell, []string{find, source("probe.py"), driver, script, form}, names),
		Env:  slices.Concat(t.Env, p.env),
		Dir:  p.workdir(t.Dir),
	}, true
}

func (p program) workdir(dir string) string {
	if path.IsAbs(p.dir) {
		return path.Clean(p.dir)
	}
	return path.Join(dir, p.dir)
}

// probed is what the probe found.
type probed struct {
	Executable string      `json:"executable"`
	Version    [2]int      `json:"version"`
	Pytest     string      `json:"pytest"`
	Late       bool        `json:"late"`    // the tree has pytest, or what pytest imports
	Plugins    [][4]string `json:"plugins"` // name, module, attribute, file of the package
	Path       string      `json:"path"`
	Software   []string    `json:"software"` // files that a test run rests on
	PythonPath string      `json:"pythonpath"`
}

const probeMark = "securebench-probe "

// parseProbe reads the probe's output and refuses what no driver can work with.
func parseProbe(out []byte, driver string) (found probed, err error) {
	for line := range bytes.Lines(out) {
		if text, ok := bytes.CutPrefix(line, []byte(probeMark)); ok {
			if err := json.Unmarshal(bytes.TrimSpace(text), &found, json.RejectUnknownMembers(true)); err != nil {
				return found, errors.New("the image's Python answers in an unknown form")
			}
		}
	}
	v := found.Version
	switch {
	case found.Executable == "":
		return found, errors.New("the image has no Python that the test command could start")
	case !path.IsAbs(found.Executable):
		return found, fmt.Errorf("the image's Python does not know its own path: %q", found.Executable)
	case v[0] != 3 || v[1] < 6:
		return found, fmt.Errorf("the image's Python is %d.%d; the runner needs 3.6 or later", v[0], v[1])
	case driver != "pytest":
		return found, nil
	case found.Pytest == "":
		return found, fmt.Errorf("%s of the image has no pytest", found.Executable)
	}
	major, _, _ := strings.Cut(found.Pytest, ".")
	if n, err := strconv.Atoi(major); err != nil || n < 3 {
		return found, fmt.Errorf("the image's pytest is %q; the runner needs 3 or later", found.Pytest)
	}
	return found, nil
}
