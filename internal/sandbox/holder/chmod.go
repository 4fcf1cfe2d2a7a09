package holder

import (
	"errors"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"securebench/internal/unpack"
)

// chmod sets the permissions of a directory or file below dir. Kernels before 6.6 need /proc to
// do it without following a link (fchmodat2), and where a tree is the root of all
// paths there is none.
func chmod(dir *os.Root, name string, perm fs.FileMode) error {
	err := dir.Chmod(name, perm)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return chmodByName(dir, name, perm)
	}
	return err
}

// chmodByName does it by name.
func chmodByName(dir *os.Root, name string, perm fs.FileMode) (err error) {
	parent, err := dir.OpenRoot(path.Dir(name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, parent.Close()) }()
	f, err := parent.Open(".")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return unpack.ChmodByName(int(f.Fd()), path.Base(name), uint32(perm.Perm()))
}
