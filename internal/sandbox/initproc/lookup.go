package initproc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"securebench/internal/lazyregexp"
	"securebench/internal/sandbox"
	"securebench/internal/sandbox/platform"
)

// The words by which the helper answers.
const (
	lookupThere  = "there"
	lookupAbsent = "absent"
)

// AnswerLookup writes whether a command is on the PATH of this process and can be executed
// by it. It runs in the sandbox.
func AnswerLookup(w io.Writer, name, path string) error {
	word := lookupAbsent
	if findCommand(name, path) {
		word = lookupThere
	}
	_, err := fmt.Fprintln(w, word)
	return err
}

// findCommand looks a command up as runtimes do.
func findCommand(name, path string) bool {
	if strings.Contains(name, "/") {
		return executable(name)
	}
	for _, dir := range filepath.SplitList(path) {
		if executable(filepath.Join("/", dir, name)) {
			return true
		}
	}
	return false
}

func executable(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular() && unix.Access(name, unix.X_OK) == nil
}

// Lookup is a command in an image.
type Lookup struct {
	Image  sandbox.Image
	User   *sandbox.User // nil is the image's
	Argv   []string
	Env    []string // beside the image's
	Mounts []sandbox.Mount
	Labels sandbox.Labels
	// Elsewhere reports whether a path can be in a folder that is mounted later, such as
	// a workspace. Nil takes that of every path in a command line of a shell.
	Elsewhere func(path string) bool
}

// lookupTime bounds a look-up.
const lookupTime = 2 * time.Minute

// lookupOutput bounds what crosses the streams of the sandbox.
const lookupOutput = 1 << 20

// Missing returns the command that the question's cannot be started without and that is
// not in the image, "" if nothing is known to be missing. It asks the image's shell, and
// where there is none the helper, which takes longer to start.
func Missing(ctx context.Context, e sandbox.Sandboxes, q Lookup) (name string, err error) {
	name, argv := q.look()
	if name == "" {
		return "", nil
	}
	said, out, err := q.shell(ctx, e, argv)
	switch {
	case err != nil:
		return "", err
	case said == lookupThere:
		return "", nil
	case said == lookupAbsent:
		return name, nil
	case out.End != sandbox.Exited || !sandbox.MissingCommand(out.ExitCode):
		return "", fmt.Errorf("looking for the command %q: the image's shell answered with code %d", name, out.ExitCode)
	case argv[2] != onPath: // lookupThere is no shell, and the command is one of it
		return argv[0], nil
	}
	return q.helper(ctx, e, name)
}

// Asked returns the command whose output answers the question, nil if nothing is asked.
// For one image, user and environment, questions that ask the same have the same answer.
func (q Lookup) Asked() []string {
	_, argv := q.look()
	return argv
}

// simple matches a shell's command line that is one simple command without anything
// that the shell changes: if its first word is not there, it does nothing.
var simple = lazyregexp.New(`^\s*(/?[A-Za-z0-9_+.][A-Za-z0-9_+./-]*)((\s|$)[^;&|()<>` + "`" + `$\n]*)?$`)

// onPath looks for the file of a command as runtimes do. What the shell itself has
// does not count.
const onPath = `set -f
found() { [ -f "$1" ] && [ -x "$1" ] && { echo ` + lookupThere + `; exit 0; }; }
case $1 in
*/*) found "$1" ;;
*) IFS=:; for dir in $PATH; do found "/$dir/$1"; done ;;
esac
echo ` + lookupAbsent

// look returns what has to be there and how to ask a shell for it; "" if that cannot
// be said before the command runs. One that is one string is run by a shell; a login shell,
// which is an agent's, has a PATH of its own.
func (q Lookup) look() (name string, argv []string) {
	name = q.Argv[0]
	switch {
	case len(q.Argv) == 3 && (name == "sh" && q.Argv[1] == "-lc" || name == "/bin/sh" && q.Argv[1] == "-c"):
		if m := simple.FindStringSubmatch(q.Argv[2]); m != nil && !q.elsewhere(m[1], true) {
			return m[1], []string{name, q.Argv[1], `command -v "$0" >/dev/null 2>&1 && echo ` + lookupThere + ` || echo ` + lookupAbsent, m[1]}
		}
		return name, []string{name, q.Argv[1], "echo " + lookupThere}
	case q.elsewhere(name, false):
		return "", nil
	}
	return name, []string{"/bin/sh", "-c", onPath, "sh", name}
}

// elsewhere reports whether a command can be in a folder that is not there yet.
// otherwise is the answer for absolute paths if the question has none.
func (q Lookup) elsewhere(name string, otherwise bool) bool {
	switch {
	case !strings.Contains(name, "/"):
		return false
	case !filepath.IsAbs(name):
		return true
	case q.Elsewhere == nil:
		return otherwise
	}
	return q.Elsewhere(name)
}

func (q Lookup) spec() sandbox.Spec {
	spec := sandbox.Spec{Labels: q.Labels, Image: q.Image, User: q.User, Mounts: q.Mounts, Workdir: "/"}
	spec.Limits.Timeout, spec.Limits.Output = lookupTime, lookupOutput
	return spec
}

// shell runs a command line that answers.
func (q Lookup) shell(ctx context.Context, e sandbox.Sandboxes, argv []string) (said string, out sandbox.Outcome, err error) {
	spec := q.spec()
	spec.Command, spec.Env = argv, q.Env
	box, err := e.Open(ctx, spec)
	if err != nil {
		return "", out, fmt.Errorf("creating a sandbox: %w", err)
	}
	defer func() { err = errors.Join(err, box.Close(context.WithoutCancel(ctx))) }()
	var text, why bytes.Buffer
	out, err = box.Run(ctx, sandbox.Streams{Stdout: &text, Stderr: &why})
	if err == nil && out.End == sandbox.Exited && out.ExitCode != 0 && strings.Contains(why.String(), foreignFormat) {
		return "", out, sandbox.Unusable(fmt.Errorf("image %s says that it is for %s, and its %s is a program for another machine (%s): build or pull it for the machine that it runs on",
			q.Image.Ref, platform.Platform{OS: q.Image.OS, Arch: q.Image.Arch, Variant: q.Image.Variant}, argv[0], foreignFormat))
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	return lines[len(lines)-1], out, err // what a profile prints comes before it
}

// foreignFormat is what runtimes write of a program that the kernel cannot start, in a
// container that they have started already. The engines tell of the exit status alone,
// which is not the same in all versions.
const foreignFormat = "exec format error"

// helper asks the helper for a command, in an image without a shell.
func (q Lookup) helper(ctx context.Context, e sandbox.Sandboxes, name string) (missing string, err error) {
	spec := q.spec()
	spec.Init = true
	box, err := e.Open(ctx, spec)
	if err != nil {
		return "", fmt.Errorf("creating a sandbox: %w", err)
	}
	client, err := Open(ctx, box) // which owns the box
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, client.Close(context.WithoutCancel(ctx))) }()
	var said bytes.Buffer
	res, err := client.Run(ctx, Command{Argv: []string{sandbox.HelperPath, "sandbox-lookup", name}, Env: q.Env, Inherit: true,
		User: spec.RunAs(), Stdout: &said, Output: lookupOutput, Timeout: lookupTime})
	switch word := strings.TrimSpace(said.String()); {
	case err != nil:
		return "", err
	case word == lookupThere:
		return "", nil
	case word == lookupAbsent:
		return name, nil
	}
	return "", fmt.Errorf("looking for the command %q: the sandbox answered with code %d", name, res.ExitCode)
}
