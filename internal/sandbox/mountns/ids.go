package mountns

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// The users of a sandbox are these of the host, if it has a user namespace: the
// upper half of all, which own nothing there. So a sandbox has every user that an
// image can name.
const (
	IDBase = 1 << 31
	IDSize = 1<<31 - 1
)

// IDs maps the users of a sandbox to users that own nothing on the host.
type IDs struct {
	Base int // host's ID of the sandbox's user 0; 0 is no mapping
	Size int

	mu        sync.Mutex
	namespace *os.File // a user namespace with this mapping
}

// NewIDs returns a mapping, whose [IDs.Close] releases a descriptor. The error says
// why the kernel allows none, or none for what is in memory.
func NewIDs(base, size int) (*IDs, error) {
	if base <= 0 || size <= 0 {
		return nil, fmt.Errorf("mapping users: the range of %d users from %d is not valid", size, base)
	}
	namespace, err := userNamespace(base, size)
	if err != nil {
		return nil, fmt.Errorf("making a user namespace: %w", err)
	}
	m := &IDs{Base: base, Size: size, namespace: namespace}
	if err := m.mapsMemory(); err != nil {
		return nil, errors.Join(fmt.Errorf("mapping users of a tmpfs: %w", err), m.Close())
	}
	return m, nil
}

// mapsMemory tries a tmpfs that is mounted nowhere: kernels before 6.3 refuse.
func (m *IDs) mapsMemory() error {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return fmt.Errorf("fsopen: %w", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return fmt.Errorf("fsconfig: %w", err)
	}
	tree, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("fsmount: %w", err)
	}
	defer unix.Close(tree)
	return m.set(tree, false)
}

// Maps returns an error unless trees of the file system that holds dir can be bound with the mapping.
func (m *IDs) Maps(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	tree, err := m.tree(dir, false)
	if err != nil {
		return fmt.Errorf("mapping users of %s: %w", dir, err)
	}
	return unix.Close(tree)
}

// userNamespace returns a user namespace with no process in it. A namespace begins
// with a process, which here never executes one instruction: it asks to be traced,
// which stops it in the moment in which it would begin.
func userNamespace(base, size int) (*os.File, error) {
	runtime.LockOSThread() // the thread is the tracer
	defer runtime.UnlockOSThread()
	mapping := []syscall.SysProcIDMap{{ContainerID: 0, HostID: base, Size: size}}
	process, err := os.StartProcess("/proc/self/exe", []string{"user-namespace"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: mapping, GidMappings: mapping, GidMappingsEnableSetgroups: true,
		Ptrace: true, Pdeathsig: syscall.SIGKILL,
	}})
	if err != nil {
		return nil, err
	}
	namespace, err := os.Open("/proc/" + strconv.Itoa(process.Pid) + "/ns/user")
	if kill := process.Kill(); kill != nil {
		err = errors.Join(err, kill)
	}
	if _, wait := process.Wait(); wait != nil {
		err = errors.Join(err, wait)
	}
	if err != nil && namespace != nil {
		_ = namespace.Close() // err says more
		return nil, err
	}
	return namespace, err
}

// Bind mounts the tree at source, a folder or a file, at target with the mapping:
// what user n owns there, the sandbox's user n owns here. A nil mapping changes
// nothing. What is mounted below source is not part of the tree, and neither
// devices nor set-user-ID programs work in it.
func (m *IDs) Bind(source, target string, readOnly bool) error {
	if err := m.bind(source, target, readOnly); err != nil {
		return fmt.Errorf("mounting %s at %s: %w", source, target, err)
	}
	return nil
}

func (m *IDs) bind(source, target string, readOnly bool) error {
	if m == nil {
		return plainBind(source, target, readOnly)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	tree, err := m.tree(source, readOnly)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	return nil
}

// tree returns a copy of the tree at source with the mapping, which is mounted nowhere.
func (m *IDs) tree(source string, readOnly bool) (int, error) {
	if m.namespace == nil {
		return -1, fmt.Errorf("the mapping: %w", os.ErrClosed)
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open_tree: %w", err)
	}
	if err := m.set(tree, readOnly); err != nil {
		return -1, errors.Join(err, unix.Close(tree))
	}
	return tree, nil
}

// set gives a tree that is mounted nowhere the mapping.
func (m *IDs) set(tree int, readOnly bool) error {
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV,
		Userns_fd: uint64(m.namespace.Fd())}
	if readOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, attr); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	return nil
}

// plainBind binds in two steps: the first takes no options.
func plainBind(source, target string, readOnly bool) error {
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	flags := uintptr(unix.MS_BIND | unix.MS_REMOUNT | unix.MS_NOSUID | unix.MS_NODEV)
	if readOnly {
		flags |= unix.MS_RDONLY
	}
	if err := unix.Mount("", target, "", flags, ""); err != nil {
		return errors.Join(err, Unmount(target))
	}
	return nil
}

// Close releases the mapping; mounts keep it.
func (m *IDs) Close() error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.namespace == nil {
		return nil
	}
	err := m.namespace.Close()
	m.namespace = nil
	if err != nil {
		return fmt.Errorf("releasing the mapping of users: %w", err)
	}
	return nil
}

// Rootless reports whether this process is in a user namespace that is not the host's
// first: it can mount there, and map users, without being anybody's root on the host.
func Rootless() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false // a kernel without user namespaces
	}
	return !slices.Equal(strings.Fields(string(text)), []string{"0", "0", "4294967295"})
}
