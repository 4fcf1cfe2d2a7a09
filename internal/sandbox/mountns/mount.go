package mountns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
)

// Tmpfs says how large a tmpfs may become, and whose its root is.
type Tmpfs struct {
	Size, Inodes int64 // bytes; files and directories, the root included
	Mode         fs.FileMode
	UID, GID     int
	Devices      bool // those that are made in it can be used
}

// Mount mounts a tmpfs without set-user-ID programs at target. The
// functions of this package from here on are for use within [Namespace.Do].
func (t Tmpfs) Mount(target string) error {
	if t.Size <= 0 || t.Inodes <= 0 { // for the kernel that is no limit at all
		return fmt.Errorf("mounting a tmpfs: it would have no bounds (size %d, inodes %d)", t.Size, t.Inodes)
	}
	flags := uintptr(unix.MS_NOSUID)
	if !t.Devices {
		flags |= unix.MS_NODEV
	}
	if err := unix.Mount("tmpfs", target, "tmpfs", flags, t.options()); err != nil {
		return fmt.Errorf("mounting a tmpfs at %s: %w", target, err)
	}
	return nil
}

func (t Tmpfs) options() string {
	return fmt.Sprintf("size=%d,nr_inodes=%d,mode=%o,uid=%d,gid=%d", t.Size, t.Inodes, UnixMode(t.Mode), t.UID, t.GID)
}

// UnixMode is a file mode's permission bits as the kernel counts them, with those
// for set-user-ID, set-group-ID and sticky.
func UnixMode(m fs.FileMode) uint32 {
	mode := uint32(m.Perm())
	for bit, value := range map[fs.FileMode]uint32{fs.ModeSetuid: unix.S_ISUID, fs.ModeSetgid: unix.S_ISGID, fs.ModeSticky: unix.S_ISVTX} {
		if m&bit != 0 {
			mode |= value
		}
	}
	return mode
}

// The beginnings of the names of the attributes in which the kernel keeps an overlay's
// marks, such as that a folder covers those below it. The first are for the host's root.
const (
	rootMarks = "trusted.overlay."
	userMarks = "user.overlay."
)

// Marks returns what the attributes of marks begin with in the overlays of this process.
// Programs in a sandbox can set those of the other kind.
func Marks() string {
	if Rootless() {
		return userMarks
	}
	return rootMarks
}

// MaxLayers is how many layers an overlay can have.
const MaxLayers = 500

// Overlay mounts layers, the first of which is the lowest, at target. Without an
// upper folder it is read-only. Everything is given as an absolute path; what the
// list of mounts shows to those who see the overlay says nothing of these paths.
func Overlay(target string, layers []string, upper, work string) error {
	if len(layers) == 0 || len(layers) > MaxLayers {
		return fmt.Errorf("mounting an overlay: %d layers, not 1 to %d", len(layers), MaxLayers)
	}
	if upper == "" && len(layers) == 1 { // an overlay needs two folders
		return (*IDs)(nil).Bind(layers[0], target, true)
	}
	if err := overlay(target, layers, upper, work); err != nil {
		return fmt.Errorf("mounting an overlay of %d layers: %w", len(layers), err)
	}
	return nil
}

// overlay gives the folders short names, as links in a folder that this thread
// works in for a moment: the kernel takes no more than a page of options, and
// shows them as they were given.
func overlay(target string, layers []string, upper, work string) (err error) {
	names, err := os.MkdirTemp(filepath.Dir(target), ".layers-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(names)) }()
	here, err := os.Open(".")
	if err != nil {
		return err
	}
	defer here.Close()
	lower := make([]string, len(layers))
	for i, layer := range layers {
		name := strconv.Itoa(i)
		if err := os.Symlink(layer, filepath.Join(names, name)); err != nil {
			return err
		}
		lower[len(layers)-1-i] = name // the kernel wants the highest first
	}
	flags, options := uintptr(unix.MS_NODEV|unix.MS_NOSUID), overlayOptions+",lowerdir="+strings.Join(lower, ":")
	if Marks() == userMarks {
		options = "userxattr," + options
	}
	if upper == "" {
		flags |= unix.MS_RDONLY
	} else {
		err = errors.Join(os.Symlink(upper, filepath.Join(names, "u")), os.Symlink(work, filepath.Join(names, "w")))
		if err != nil {
			return err
		}
		options += ",upperdir=u,workdir=w"
	}
	if err := unix.Chdir(names); err != nil {
		return fmt.Errorf("changing to the folder of names: %w", err)
	}
	err = unix.Mount("overlay", target, "overlay", flags, options)
	return errors.Join(err, unix.Fchdir(int(here.Fd())))
}

// overlayOptions make the upper layer hold whole files and plain folders, whatever
// the kernel's default is, and keep what a layer says about other places from
// being followed.
const overlayOptions = "index=off,metacopy=off,redirect_dir=nofollow"

// Unmount unmounts what is at target, as soon as nothing uses it any more.
func Unmount(target string) error {
	if err := unix.Unmount(target, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
		return fmt.Errorf("unmounting %s: %w", target, err)
	}
	return nil
}

// Full reports whether the file system of an open file has no room for one more
// page or file.
func Full(f *os.File) bool {
	var st unix.Statfs_t
	conn, err := f.SyscallConn()
	if err == nil {
		var failed error
		err = conn.Control(func(fd uintptr) { failed = unix.Fstatfs(int(fd), &st) })
		err = errors.Join(err, failed)
	}
	if err != nil {
		return false
	}
	size := int64(st.Bsize) //nolint:unconvert // its width depends on the architecture
	return sandbox.Usage{Bytes: int64(st.Blocks-st.Bfree) * size, BytesLimit: int64(st.Blocks) * size,
		Inodes: int64(st.Files - st.Ffree), InodesLimit: int64(st.Files)}.Full()
}
