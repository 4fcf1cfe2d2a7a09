package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/opencontainers/runtime-spec/specs-go"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/mountns"
)

// Runtime is an OCI runtime on this machine.
type Runtime struct {
	Name    string // "runc", "crun" or "runsc"
	Path    string // absolute
	Version string
	// Leaves says that a container's state and its control group stay after its
	// end, so that they can be read and are removed by the caller.
	Leaves bool
	// Chowns says that it gives the container's user what it gets as standard streams,
	// which must not be devices of the host therefore.
	Chowns bool
	// Maps says that it takes a user namespace ([Box.IDBase]). One that does not has
	// another wall between the command and the kernel.
	Maps bool
	// Prlimits says that it sets the limits of a sandbox's processes from outside, which
	// takes CAP_SYS_RESOURCE in their user namespace.
	Prlimits bool

	groupsV2 bool     // control groups are of version 2; known once it is prepared
	filters  *filters // nil until it is prepared
}

// ErrNoRuntime is wrapped by the error of [FindRuntime] if there is none.
var ErrNoRuntime = errors.New("there is no OCI runtime")

// FindRuntime finds the first of some runtimes that is installed, by name or absolute
// path. The error says what to install.
func FindRuntime(getenv func(string) string, names ...string) (Runtime, error) {
	var errs []error
	for _, name := range names {
		file, ok := lookPath(name, getenv)
		if !ok {
			continue
		}
		r, err := identify(file)
		if err == nil {
			return r, nil
		}
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return Runtime{}, errors.Join(errs...)
	}
	return Runtime{}, fmt.Errorf("%w: %s is not installed (apt-get install %s)", ErrNoRuntime, strings.Join(names, " or "), filepath.Base(names[0]))
}

// lookPath looks a program up in PATH, and then where system programs are, which
// not every user's PATH has.
func lookPath(name string, getenv func(string) string) (string, bool) {
	candidates := []string{name}
	if !filepath.IsAbs(name) {
		if strings.ContainsRune(name, '/') {
			return "", false
		}
		candidates = nil
		dirs := []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}
		if getenv != nil {
			dirs = append(filepath.SplitList(getenv("PATH")), dirs...)
		}
		for _, dir := range dirs {
			candidates = append(candidates, filepath.Join(dir, name))
		}
	}
	for _, file := range candidates {
		info, err := os.Stat(file)
		if err == nil && filepath.IsAbs(file) && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, true
		}
	}
	return "", false
}

// versionPatience is how long a runtime may take to say what it is.
const versionPatience = time.Minute

// identify asks a program what it is.
func identify(file string) (Runtime, error) {
	ctx, cancel := context.WithTimeout(context.Background(), versionPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, file, "--version") //nolint:gosec // the operator's own program
	cmd.Env = environment()
	if mountns.Rootless() {
		// Without root, crun also says where it would keep its state, and makes that folder.
		dir, err := os.MkdirTemp("", "securebench-runtime-")
		if err != nil {
			return Runtime{}, fmt.Errorf("asking %s for its version: %w", file, err)
		}
		defer os.RemoveAll(dir)
		cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR="+dir)
	}
	out, err := cmd.Output()
	if err != nil {
		return Runtime{}, fmt.Errorf("asking %s for its version: %w", file, err)
	}
	line, _, _ := bytes.Cut(out, []byte("\n"))
	name, version, ok := strings.Cut(string(line), " version ")
	version = strings.TrimSpace(version)
	switch {
	case ok && (name == "runc" || name == "crun"):
		return Runtime{Name: name, Path: file, Version: version, Leaves: true, Chowns: name == "crun", Maps: true, Prlimits: name == "runc"}, nil
	case ok && name == "runsc":
		return Runtime{Name: name, Path: file, Version: version}, nil
	}
	return Runtime{}, fmt.Errorf("%s is not runc, crun or runsc: its version is %.80q", file, line)
}

// environment is all that a runtime finds in its own. Some variables would make it
// hand something of the host's to the container (LISTEN_FDS, NOTIFY_SOCKET).
func environment() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
}

// Call names what a runtime works on.
type Call struct {
	State  string // the runtime's own folder
	Bundle string // the folder with config.json
	ID     string
	PID    string // the file that gets the number of the container's first process
	Log    string // the file that gets the runtime's errors
}

// Run is the command that starts a container and ends when it runs ([Runtime.Leaves]) or
// has ended. The caller sets the standard streams, which are the container's; a runtime
// that fails writes to them too, and its log ([Failure]) says the same.
func (r Runtime) Run(c Call) *exec.Cmd {
	args := []string{"--root", c.State, "--log", c.Log, "--log-format", "json"}
	switch r.Name {
	case "crun":
		args = append(args, "--cgroup-manager", "cgroupfs")
	case "runsc":
		// The filter counts inside too, and what the command writes to its root is written to
		// the root that it was given, which bounds and captures it.
		args = append(args, "--network", "none", "--oci-seccomp", "--overlay2", "none")
	}
	args = append(args, "run", "--bundle", c.Bundle, "--pid-file", c.PID)
	if r.Leaves {
		args = append(args, "--detach")
	}
	cmd := exec.Command(r.Path, append(args, c.ID)...) //nolint:gosec,noctx // the operator's own program; the caller ends it
	cmd.Env = environment()
	if r.Name == "runc" {
		// It does one thing after the other: more threads cost a twentieth of its time.
		// It stays with no container, and none sees it.
		cmd.Env = append(cmd.Env, "GOMAXPROCS=1")
	}
	return cmd
}

// Called reports whether arguments are those of a call that starts a container, of this
// runtime or of one that another engine may have ([Runtime.Run]), and which one.
func (r Runtime) Called(arguments []string) (id string, ok bool) {
	if len(arguments) < 4 {
		return "", false
	}
	program, options, id := filepath.Base(arguments[0]), arguments[1:len(arguments)-1], arguments[len(arguments)-1]
	known := program == filepath.Base(r.Path) || slices.Contains([]string{"crun", "runc", "runsc"}, program)
	root := options[0] == "--root" || strings.HasPrefix(options[0], "--root=")
	starts := slices.Contains(options, "run") || slices.Contains(options, "create")
	return id, known && root && starts
}

// Encode returns the content of config.json.
func Encode(spec *specs.Spec) ([]byte, error) {
	// The types are made for version 1 of the encoding, which leaves out zeros.
	b, err := json.Marshal(spec, jsonv1.DefaultOptionsV1())
	if err != nil {
		return nil, fmt.Errorf("encoding the specification of a sandbox: %w", err)
	}
	return b, nil
}

// maxLog bounds how much of a runtime's log is read.
const maxLog = 64 << 10

// errSilent is the reason if a runtime gave none.
var errSilent = errors.New("the runtime gave no reason")

// Failure reads why a runtime could not start a container. A command that cannot be
// executed gives the exit code that a shell would give; code is 0 for anything else.
func Failure(logFile string) (code int, err error) {
	f, err := os.Open(logFile)
	if errors.Is(err, os.ErrNotExist) {
		return 0, errSilent
	}
	if err != nil {
		return 0, fmt.Errorf("reading the runtime's log: %w", err)
	}
	defer f.Close()
	return failure(io.LimitReader(f, maxLog))
}

// failure reads the last error of a log, which is a sequence of JSON objects.
func failure(log io.Reader) (code int, err error) {
	err = errSilent
	lines := jsontext.NewDecoder(log, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	for {
		var entry struct {
			Level string `json:"level"`
			Msg   string `json:"msg"`
		}
		read := json.UnmarshalDecode(lines, &entry)
		if errors.Is(read, io.EOF) {
			return code, err
		}
		if read != nil {
			return code, errors.Join(err, fmt.Errorf("reading the runtime's log: %w", read))
		}
		if entry.Level == "error" || entry.Level == "fatal" {
			code, err = exitCode(entry.Msg), errors.New(entry.Msg)
		}
	}
}

// exitCode tells a command that cannot be executed from all else that can be
// missing.
func exitCode(message string) int {
	m := strings.ToLower(message)
	denied := strings.HasSuffix(m, "permission denied")
	for _, words := range []string{
		`: exec: "`,                                            // runc
		"executable file `", "open executable: ", "the path `", // crun
		"exec container process `", "exec container process (missing", // crun
		"error finding executable ", "creating process: failed to load ", // runsc
	} {
		switch {
		case !strings.Contains(message, words):
		case strings.Contains(m, "not found in $path"), strings.HasSuffix(m, "no such file or directory"):
			return sandbox.ExitNotFound
		case denied, strings.HasSuffix(m, "is a directory"), strings.HasSuffix(m, "operation not permitted"):
			return sandbox.ExitCannot
		}
	}
	if denied && (strings.HasPrefix(message, "open `") || strings.HasPrefix(message, "cannot open `")) { // crun
		return sandbox.ExitCannot
	}
	return 0
}
