package native

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
	"securebench/internal/sandbox/mountns"
)

// The bounds of what a command writes to its /dev. Its pages count towards the memory
// limit.
const (
	devDir   = "d" // of the box
	devSize  = 64 << 20
	devFiles = 1024
)

// mountDev makes the /dev of a box. Where users are mapped, a runtime would mount the
// host's own devices there, and crun also hides files behind the host's. A lock on one
// that two boxes have, or an event of it, is a message between them. Without root no
// devices can be made.
func (b *box) mountDev() error {
	if !b.engine.runtime.Maps || mountns.Rootless() {
		return nil
	}
	at, root := b.path(devDir), b.engine.base()
	if err := os.Mkdir(at, 0o711); err != nil {
		return err
	}
	if err := (mountns.Tmpfs{Size: devSize, Inodes: devFiles, Mode: 0o755, UID: root, GID: root, Devices: true}).Mount(at); err != nil {
		return err
	}
	b.mounts = append(b.mounts, at)
	b.oci.Dev = at
	for _, d := range []struct {
		name         string
		major, minor uint32
	}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}} {
		name := filepath.Join(at, d.name)
		err := unix.Mknod(name, unix.S_IFCHR|0o666, int(unix.Mkdev(d.major, d.minor))) //nolint:gosec // small
		if err = errors.Join(err, os.Chmod(name, 0o666), os.Chown(name, root, root)); err != nil {
			return fmt.Errorf("making the device %s: %w", d.name, err)
		}
	}
	for _, l := range [][2]string{{"fd", "/proc/self/fd"}, {"stdin", "/proc/self/fd/0"}, {"stdout", "/proc/self/fd/1"},
		{"stderr", "/proc/self/fd/2"}, {"ptmx", "pts/ptmx"}} {
		name := filepath.Join(at, l[0])
		if err := errors.Join(os.Symlink(l[1], name), os.Lchown(name, root, root)); err != nil {
			return err
		}
	}
	// The runtime mounts something there. It gives a tmpfs the mode of the folder.
	const everybody = os.ModeSticky | 0o777
	return errors.Join(b.engine.makeDir(filepath.Join(at, "pts"), 0o755, sandbox.User{}),
		b.engine.makeDir(filepath.Join(at, "mqueue"), everybody, sandbox.User{}), b.engine.makeDir(filepath.Join(at, "shm"), everybody, sandbox.User{}))
}

// emptyInput is the input of a command that has none: the null device of the box's own,
// else the host's, unless the runtime would give that to the command's user. Without
// one it is a pipe.
func (b *box) emptyInput(stdin bool) (*os.File, error) {
	switch {
	case stdin:
	case b.oci.Dev != "":
		return b.files.Open(filepath.Join(devDir, "null"))
	case !b.engine.runtime.Chowns:
		return os.Open(os.DevNull)
	}
	return nil, nil //nolint:nilnil // see above
}
