package catalogue

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"securebench/internal/agent/debian"
	"securebench/internal/digest"
	"securebench/internal/source"
	"securebench/internal/wheels"
)

// Root is the folder of sandboxes below which programs lie, each in its own.
const Root = "/opt/securebench/"

// The programs that run others.
const (
	runtimeNode   = "node"
	runtimePython = "python"
	runtimeLoader = "loader" // runs Node
)

//go:embed runtimes/*.yaml
var runtimes embed.FS

// Runtimes returns the programs that run others. Those of Debian have one version each.
func Runtimes() []Package {
	node := Package{Name: runtimeNode, NPM: "node", Build: "node-linux-{arch}", Files: []Placement{{From: "bin/node", To: "bin/node"}, {From: "LICENSE", To: "LICENSE"}}, Start: "bin/node"}
	for _, r := range ofDebian() {
		if r.Name == runtimeLoader {
			node.Runtime = runtimeLoader + "@" + r.Exact
		}
	}
	return append([]Package{node}, ofDebian()...)
}

// isRuntime reports whether a name is that of a program that runs others.
func isRuntime(name string) bool {
	return slices.ContainsFunc(Runtimes(), func(r Package) bool { return r.Name == name })
}

// runtime is the file of a program of Debian.
type runtime struct {
	Name    string                      `json:"name"`
	Version string                      `json:"version"`
	Glibc   int                         `json:"glibc"`
	Start   string                      `json:"start"`
	Files   []Placement                 `json:"files"`
	Beside  []File                      `json:"beside"`
	Debian  map[string][]debian.Package `json:"debian"`
}

var ofDebian = sync.OnceValue(func() (out []Package) { //nolint:gochecknoglobals // read once, and never changed
	names, err := fs.Glob(runtimes, "runtimes/*.yaml")
	if err != nil {
		panic(err) // of the pattern
	}
	slices.Reverse(names) // the newest first
	for _, name := range names {
		text, err := runtimes.ReadFile(name)
		var r runtime
		if err == nil {
			r, err = parseRuntime(name, text)
		}
		if err != nil {
			panic(err) // which a test would have found
		}
		out = append(out, Package{Name: r.Name, Exact: r.Version, Glibc: r.Glibc, Start: r.Start, Files: r.Files, Beside: r.Beside, Debian: r.Debian})
	}
	return out
})

func parseRuntime(file string, text []byte) (r runtime, err error) {
	n, err := source.ParseYAML(file, text)
	if err == nil {
		err = n.Decode(&r)
	}
	return r, err
}

// runtimeNames are what a description may name as the runtime.
func runtimeNames() (out []string) {
	for _, r := range Runtimes() {
		version := "VERSION"
		if r.Exact != "" {
			version = r.Exact
		}
		if r.Name != runtimeLoader {
			out = append(out, r.Name+"@"+version)
		}
	}
	return out
}

// RunBy returns the program that runs the package's and its version, false if it needs
// none.
func (p Package) RunBy() (by Package, version string, ok bool) {
	name, version, ok := strings.Cut(p.Runtime, "@")
	for _, r := range Runtimes() {
		if ok && r.Name == name && (r.Exact == "" || r.Exact == version) {
			return r, version, true
		}
	}
	return Package{}, "", false
}

// Runtimes returns the programs that run the package's: the first that one, and each further
// one the one before.
func (p Package) Runtimes() (out []Package) {
	for by, version, ok := p.RunBy(); ok; by, version, ok = by.RunBy() {
		by.Exact = version
		out = append(out, by)
	}
	return out
}

// Runner is the file by which the runtime runs the package's program that lies in a
// folder: of Node the loader's, and of Python one beside the program, so that it finds the
// program's modules as Python does in a virtual environment.
func (p Package) Runner(folder string) string {
	switch by, _, ok := p.RunBy(); {
	case !ok:
		return ""
	case by.Name == runtimePython:
		return path.Join(folder, "bin/python3")
	case by.Runtime != "":
		return by.Runner(path.Join(Root, by.Name))
	default:
		return path.Join(Root, by.Name, by.Start)
	}
}

// Locked is what a description has pinned, so that no registry is asked for a version.
type Locked struct {
	Version      string
	Digest       string               // of all that is pinned
	Requirements []wheels.Requirement // of a Python program, for the Python
	Python       wheels.Python
	Debian       []debian.Package
	Beside       []File // texts that lie beside it
}

// Locked returns what is pinned of a program on a processor, as Go names it; false if
// the registry's versions are its.
func (p Package) Locked(arch string) (Locked, bool, error) {
	switch {
	case p.Debian != nil:
		l := Locked{Version: p.Exact, Debian: p.Debian[arch], Beside: p.Beside}
		sum, err := digest.JSON([]any{l.Debian, l.Beside, p.Files})
		l.Digest = sum
		return l, true, err
	case p.PyPI == "":
		return Locked{}, false, nil
	}
	l, err := p.python(arch)
	return l, true, err
}

// machines are the kernel's names of processors.
func machines() map[string]string { return map[string]string{"amd64": "x86_64", "arm64": "aarch64"} }

// python is what is pinned of a Python program.
func (p Package) python(arch string) (l Locked, err error) {
	by, _, ok := p.RunBy()
	if !ok || by.Debian == nil {
		return l, errors.New("runtime: want python@VERSION")
	}
	if l.Requirements, err = wheels.ParseRequirements([]byte(p.Requirements)); err != nil {
		return l, fmt.Errorf("requirements: %w", err)
	}
	if l.Version = wheels.VersionOf(l.Requirements, p.PyPI); l.Version == "" {
		return l, fmt.Errorf("requirements: %s is not among them", p.PyPI)
	}
	numbers := strings.Split(by.Exact, ".")
	l.Python = wheels.Python{Implementation: "cpython", Machine: machines()[arch], Glibc: by.Glibc}
	l.Python.Minor, _ = strconv.Atoi(numbers[1]) // a test sees that it is one
	l.Python.Patch, _ = strconv.Atoi(numbers[2])
	l.Beside = []File{
		{Path: "bin/python3", Text: fmt.Sprintf(pythonScript, path.Base(by.Start))},
		{Path: "pyvenv.cfg", Text: "home = " + path.Join(Root, by.Name, "bin") + "\ninclude-system-site-packages = false\n"},
	}
	l.Digest, err = digest.JSON([]any{wheels.DigestOf(l.Requirements), l.Beside, p.Files})
	return l, err
}

// pythonScript starts a Python of Debian by its own loader, which finds no library but its
// own. Variables by which an image sets up its Python are not for it. The script is the
// interpreter that Python knows, so that programs start it again by it.
const pythonScript = `#!/bin/sh
python=${0%%/*}/../../python
exec "$python"/lib/ld-linux-*.so.* --library-path "$python/lib" --argv0 "$0" "$python/bin/%s" -E -s "$@"
`

// ModulesOf is the folder of a Python program's modules.
func (l Locked) ModulesOf() string {
	return fmt.Sprintf("lib/python3.%d/site-packages", l.Python.Minor)
}
