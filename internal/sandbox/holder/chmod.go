package holder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"
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

// chmodByName does it by name. A link that takes its place meanwhile leads
// no further than to what the tree's owner may change anyway.
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
	base := path.Base(name)
	if base == "." {
		return f.Chmod(perm)
	}
	info, err := parent.Lstat(base)
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		err = fmt.Errorf("%q is a link: %w", name, unix.EOPNOTSUPP)
	}
	if err == nil {
		err = unix.Fchmodat(int(f.Fd()), base, uint32(perm.Perm()), 0)
	}
	return err
}
