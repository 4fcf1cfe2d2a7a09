package native

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// pipes are the ends of a container's pipes.
type pipes struct {
	Ours   []*os.File // stdin (nil without one), stdout, stderr
	Theirs []*os.File
}

// Close closes what is open of both ends.
func (p *pipes) Close() {
	for _, f := range slices.Concat(p.Ours, p.Theirs) {
		if f != nil {
			_ = f.Close() // it may be closed
		}
	}
}

// newPipes makes the pipes of a command, whose standard input is empty without stdin:
// null, which it takes over, or without that a pipe without a writer. The pipes belong to a
// user of this machine, who can open them again, as by the name /dev/stderr: the runtime
// cannot give them to a user of another user namespace.
func newPipes(stdin bool, null *os.File, uid, gid int) (*pipes, error) {
	p := &pipes{}
	for i := range 3 {
		if i == 0 && !stdin && null != nil {
			p.Ours, p.Theirs = append(p.Ours, nil), append(p.Theirs, null)
			continue
		}
		ours, theirs, err := pipe(i == 0)
		if err != nil {
			p.Close()
			return nil, err
		}
		if i == 0 && !stdin {
			_ = ours.Close() // nothing was written
			ours = nil
		}
		p.Ours, p.Theirs = append(p.Ours, ours), append(p.Theirs, theirs)
		if err := theirs.Chown(uid, gid); err != nil {
			p.Close()
			return nil, fmt.Errorf("giving a pipe to the sandbox's user: %w", err)
		}
	}
	return p, nil
}

// pipe makes a pipe whose end in this process can be waited for without a
// thread, and the other one blocks as programs expect.
func pipe(write bool) (ours, theirs *os.File, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("making a pipe: %w", err)
	}
	mine, other := p[0], p[1]
	if write {
		mine, other = other, mine
	}
	if err := unix.SetNonblock(mine, true); err != nil {
		_, _ = unix.Close(mine), unix.Close(other)
		return nil, nil, fmt.Errorf("making a pipe: %w", err)
	}
	return os.NewFile(uintptr(mine), "pipe"), os.NewFile(uintptr(other), "pipe"), nil
}
