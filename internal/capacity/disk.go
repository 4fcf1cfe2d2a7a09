package capacity

import (
	"errors"
	"fmt"

	"securebench/internal/sandbox/platform"
)

// ErrFull is wrapped by the error of a disk without room for what a run may write.
var ErrFull = errors.New("the disk is nearly full")

// disks measures where a run writes.
type disks struct {
	free   func(path string) (int64, error)
	device func(path string) (uint64, error) // paths of one device share its space
}

// here measures this machine's disks.
func here() disks { return disks{platform.Free, platform.Device} }

// Writes is what a run may write on this machine.
type Writes struct {
	Output, Temp string // folders
	Attempts     int    // those that are left
	Workers      int
	Attempt      int64 // the most that one attempt writes to Output
	Usual        int64 // what it writes there in most runs
	Spool        int64 // the most that one attempt has in Temp at a time
}

// Room reports whether what runs at the same time can be written. The error wraps
// [ErrFull].
func (w Writes) Room() error { return w.room(here()) }

func (w Writes) room(d disks) error { return w.roomBeside(d, 0) }

// roomBeside is room with more that is to be written to Output.
func (w Writes) roomBeside(d disks, more int64) error {
	output, temp := w.Attempt*int64(w.Workers)+more, w.Spool*int64(w.Workers)
	if w.Spool > 0 {
		same, err := d.same(w.Output, w.Temp)
		switch {
		case err != nil:
			return err
		case same:
			output, temp = output+temp, 0
		}
	}
	if err := d.has(w.Output, output); err != nil || temp == 0 {
		return err
	}
	return d.has(w.Temp, temp)
}

func (d disks) same(a, b string) (bool, error) {
	x, err := d.device(a)
	if err != nil {
		return false, err
	}
	y, err := d.device(b)
	return x == y, err
}

func (d disks) has(path string, need int64) error {
	free, err := d.free(path)
	if err == nil && free < need {
		err = fmt.Errorf("%w: %q has %s left, and the run needs room for %s: make room, or use fewer workers or lower limits",
			ErrFull, path, Bytes(free), Bytes(need))
	}
	return err
}

// Preflight checks before a run that there is room for what it usually writes, and
// for the most that runs at the same time. It returns a line about the rest.
func (w Writes) Preflight() (line string, err error) { return w.preflight(here()) }

func (w Writes) preflight(d disks) (line string, err error) {
	usual := w.Usual * int64(w.Attempts)
	if err := w.roomBeside(d, usual); err != nil {
		return "", err
	}
	free, err := d.free(w.Output)
	if err != nil {
		return "", err
	}
	most := w.Attempt * int64(w.Attempts)
	line = fmt.Sprintf("%s of disk free, about %s to write, at most %s", Bytes(free), Bytes(usual), Bytes(most))
	if most > free {
		line += " (most runs write far less; this one stops, to be resumed, before the disk is full)"
	}
	return line, nil
}
