package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Kill kills every process of the group and those below it, and waits until there
// are none. A group that does not exist is no error. No process can outrun it by
// forking; but one outside the group that moves processes into it must be ended
// first.
func (g *Group) Kill(ctx context.Context) error {
	if g.top {
		return errTop
	}
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		pids, err := g.Processes()
		if err != nil || len(pids) == 0 {
			return err
		}
		if err := g.killOnce(ctx); err != nil {
			return err
		}
		if err := sleep(ctx, pause); err != nil {
			return fmt.Errorf("control group %s: processes cannot be killed: %w", g.path, err)
		}
	}
}

// killOnce kills what is in the group now.
func (g *Group) killOnce(ctx context.Context) error {
	if g.v2 {
		err := write(g.kill, "1")
		if !errors.Is(err, fs.ErrNotExist) { // Linux before 5.14, or no group
			return gone(err)
		}
	}
	if g.freezer == "" {
		return g.signal()
	}
	// While they are frozen, processes cannot fork: the list is complete. A
	// process that waits for the kernel cannot be frozen; it is killed all the
	// same, and those that it forks in the meantime when this is repeated.
	freezeCtx, cancel := context.WithTimeoutCause(ctx, freezeForKill, errNotFrozen)
	defer cancel()
	_ = g.freeze(freezeCtx)
	return errors.Join(g.signal(), gone(g.setFrozen(false)))
}

// freezeForKill is how long one try to kill waits for processes to freeze.
const freezeForKill = 500 * time.Millisecond

var errNotFrozen = errors.New("processes do not freeze")

// signal kills the processes that are listed now. A process ID can be given to a
// process elsewhere on the machine at any time: a process is opened first, and
// killed if its ID is listed after that as well.
func (g *Group) signal() error {
	const most = 128 // descriptors at a time
	pids, err := g.Processes()
	if err != nil {
		return err
	}
	for batch := range slices.Chunk(pids, most) {
		if err := g.signalBatch(batch); err != nil {
			return err
		}
	}
	return nil
}

func (g *Group) signalBatch(pids []int) error {
	opened := map[int]int{}
	defer func() {
		for _, fd := range opened {
			_ = unix.Close(fd) // it was only signalled through
		}
	}()
	for _, pid := range pids {
		if pid == 0 {
			return fmt.Errorf("control group %s: a process in it belongs to another pid namespace", g.path)
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
			continue // it has ended; EINVAL: and what has its ID is a thread
		}
		if err != nil {
			return fmt.Errorf("control group %s: opening process %d: %w", g.path, pid, err)
		}
		opened[pid] = fd
	}
	listed, err := g.Processes()
	if err != nil {
		return err
	}
	for pid, fd := range opened {
		if _, still := slices.BinarySearch(listed, pid); !still {
			continue
		}
		if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("control group %s: killing process %d: %w", g.path, pid, err)
		}
	}
	return nil
}

// Freeze stops every process of the group and waits until they are stopped. If
// they cannot be stopped, it lets them go on.
func (g *Group) Freeze(ctx context.Context) error {
	if g.top {
		return errTop
	}
	err := g.freeze(ctx)
	if err != nil {
		_ = g.setFrozen(false) // the error that matters is known
		return fmt.Errorf("control group %s: %w", g.path, err)
	}
	return nil
}

// Thaw lets them go on.
func (g *Group) Thaw(ctx context.Context) error {
	if g.top {
		return errTop
	}
	if err := g.setFrozen(false); err != nil {
		return fmt.Errorf("control group %s: %w", g.path, err)
	}
	return g.await(ctx, false)
}

func (g *Group) freeze(ctx context.Context) error {
	if err := g.setFrozen(true); err != nil {
		return err
	}
	return g.await(ctx, true)
}

// await waits until the kernel says that every process is stopped, or none.
func (g *Group) await(ctx context.Context, want bool) error {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		frozen, err := g.frozen()
		if err != nil || frozen == want {
			return err
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		// With version 1, processes that were forked meanwhile can be left
		// out until the state is set again.
		if err := g.setFrozen(want); err != nil {
			return err
		}
	}
}

// Frozen reports whether every process of the group is stopped.
func (g *Group) Frozen() (bool, error) {
	frozen, err := g.frozen()
	if err != nil {
		return false, fmt.Errorf("control group %s: %w", g.path, err)
	}
	return frozen, nil
}

func (g *Group) setFrozen(frozen bool) error {
	if g.freezer == "" {
		return errors.New("control groups: the controller freezer is missing")
	}
	file, text := "freezer.state", "THAWED"
	switch {
	case g.v2 && frozen:
		file, text = "cgroup.freeze", "1"
	case g.v2:
		file, text = "cgroup.freeze", "0"
	case frozen:
		text = "FROZEN"
	}
	return write(filepath.Join(g.freezer, file), text)
}

func (g *Group) frozen() (bool, error) {
	if g.v2 {
		n, err := counter(g.freezer, "cgroup.events", "frozen")
		return n == 1, err
	}
	state, err := read(filepath.Join(g.freezer, "freezer.state"))
	// FREEZING counts as not frozen both ways: it is on the way to be.
	return strings.TrimSpace(state) == "FROZEN", err
}
