package terminaltask

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path"
	"strconv"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/initproc"
)

// prober is a sandbox that can run commands.
type prober interface {
	Run(ctx context.Context, cmd initproc.Command) (initproc.Result, error)
}

// homeOf returns the home folder of a user, as the image's list of users has it, or
// "/".
func homeOf(ctx context.Context, b prober, u sandbox.User) (string, error) {
	const script = `while IFS=: read -r name password uid gid comment home rest; do
	if [ "$uid" = "$0" ]; then printf '%s' "$home"; exit; fi
done < /etc/passwd`
	var out bytes.Buffer
	_, err := b.Run(ctx, initproc.Command{Argv: []string{"/bin/sh", "-c", script, strconv.Itoa(u.UID)}, User: u,
		Stdout: &out, Output: saidLimit, Timeout: stepLimit})
	if err != nil {
		return "", fmt.Errorf("looking up a home folder: %w", err)
	}
	if home := out.String(); path.IsAbs(home) {
		return path.Clean(home), nil
	}
	return "/", nil
}

// pythons are names by which checkers start Python. A later version has a name of
// its own as well, but that knows the safe path.
func pythons() []string {
	return []string{"python3", "python", "python2", "python2.7", "python3.5", "python3.6", "python3.7", "python3.8", "python3.9", "python3.10"}
}

// hasOldPython reports whether an image has a Python, in the folders of a PATH, that
// knows no safe path: PYTHONSAFEPATH and -P came together, with version 3.11.
func hasOldPython(ctx context.Context, b prober, u sandbox.User, folders string) (bool, error) {
	for _, name := range pythons() {
		res, err := b.Run(ctx, initproc.Command{Argv: []string{name, "-P", "-I", "-S", "-c", ""}, Env: []string{"PATH=" + folders},
			Dir: "/", User: u, Stdout: io.Discard, Stderr: io.Discard, Output: saidLimit, Timeout: stepLimit})
		if err != nil {
			return false, fmt.Errorf("looking for %s: %w", name, err)
		}
		if res.End != initproc.NotStarted && res.ExitCode != 0 {
			return true, nil
		}
	}
	return false, nil
}

// maxImageFile is the size of the largest file of an image that [fileIn] reads, in bytes.
const maxImageFile = 4 << 20

// fileIn returns the content of a file, or false if it is too large or cannot be read.
func fileIn(ctx context.Context, b prober, name string) ([]byte, bool, error) {
	var out bytes.Buffer
	res, err := b.Run(ctx, initproc.Command{Argv: []string{"/bin/sh", "-c", `exec cat < "$0"`, name}, Dir: "/", Stdout: &out, Stderr: io.Discard,
		Output: maxImageFile, Timeout: stepLimit})
	if err != nil {
		return nil, false, fmt.Errorf("reading %s: %w", name, err)
	}
	return out.Bytes(), res.End == sandbox.Exited && res.ExitCode == 0 && res.Stdout.Dropped == 0, nil
}
