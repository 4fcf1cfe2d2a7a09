// Package privilege changes the rights of the helper programs of sandboxes.
//
// Rights belong to threads. The Go runtime changes those of all threads by a
// real-time signal to each, and waits for ever for one that the kernel does not
// queue: signals are counted by user, and what runs in another sandbox can have
// used up the count. [Everywhere] needs no signal.
package privilege

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"securebench/internal/sandbox"
)

// A Set is a set of capabilities: bit n is the kernel's capability n.
type Set uint64

// number returns the kernel's number of a capability.
func number(c sandbox.Capability) (uintptr, bool) {
	n, ok := map[sandbox.Capability]uintptr{
		sandbox.Chown: unix.CAP_CHOWN, sandbox.DACOverride: unix.CAP_DAC_OVERRIDE, sandbox.FOwner: unix.CAP_FOWNER,
		sandbox.FSetID: unix.CAP_FSETID, sandbox.SetUID: unix.CAP_SETUID, sandbox.SetGID: unix.CAP_SETGID,
		sandbox.Kill: unix.CAP_KILL, sandbox.NetBindService: unix.CAP_NET_BIND_SERVICE, sandbox.SysChroot: unix.CAP_SYS_CHROOT,
		sandbox.SetPCap: unix.CAP_SETPCAP,
	}[c]
	return n, ok
}

// Of returns the set of the named capabilities.
func Of(names ...sandbox.Capability) (Set, error) {
	var s Set
	for _, name := range names {
		n, ok := number(name)
		if !ok {
			return 0, fmt.Errorf("there is no capability %q", name)
		}
		s |= 1 << n
	}
	return s, nil
}

// Has reports whether all of other is in the set.
func (s Set) Has(other Set) bool { return s&other == other }

// Numbers returns the kernel's numbers of the capabilities in the set.
func (s Set) Numbers() (all []uintptr) {
	for n := uintptr(0); n < 64; n++ {
		if s>>n&1 == 1 {
			all = append(all, n)
		}
	}
	return all
}

type capabilities struct {
	header unix.CapUserHeader
	data   [2]unix.CapUserData
}

// Permitted returns what this thread may have.
func Permitted() (Set, error) {
	c := capabilities{header: unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}}
	if err := unix.Capget(&c.header, &c.data[0]); err != nil {
		return 0, err
	}
	return Set(c.data[0].Permitted) | Set(c.data[1].Permitted)<<32, nil
}

// Keep makes a set the permitted and effective one of this thread, and empties
// the inheritable one, and with it the ambient one. What is not in it is gone for
// good.
func Keep(s Set) error { return set(s, 0) }

// set makes one set the permitted and effective one of this thread, and another
// the inheritable one.
func set(permitted, inheritable Set) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for i := range data {
		half := uint32(permitted >> (32 * i))
		data[i] = unix.CapUserData{Effective: half, Permitted: half, Inheritable: uint32(inheritable >> (32 * i))}
	}
	return unix.Capset(&header, &data[0])
}

// Bound leaves only a set to the programs that this thread executes from now on:
// the rest leaves its bounding set. The ambient set becomes empty. It takes
// CAP_SETPCAP.
func Bound(s Set) error {
	if err := Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL); err != nil {
		return fmt.Errorf("clearing the ambient set: %w", err)
	}
	for c := uintptr(0); c < 64; c++ {
		if s>>c&1 == 1 {
			continue
		}
		err := Prctl(unix.PR_CAPBSET_DROP, c)
		if errors.Is(err, unix.EINVAL) {
			break // the kernel has no more
		}
		if err != nil {
			return fmt.Errorf("dropping capability %d from the bounding set: %w", c, err)
		}
	}
	return nil
}

// Prctl makes a prctl call of this thread.
func Prctl(option, arg uintptr) error {
	if _, _, errno := unix.RawSyscall6(unix.SYS_PRCTL, option, arg, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
