package capacity

import (
	"errors"
	"strings"
	"testing"
)

// TestWrites: room is needed for what runs at the same time, in each folder, and
// once more where both are on one disk.
func TestWrites(t *testing.T) {
	const mib = 1 << 20
	made := func(output, temp int64, shared bool) disks {
		return disks{
			free: func(p string) (int64, error) { return map[string]int64{"out": output, "tmp": temp}[p], nil },
			device: func(p string) (uint64, error) {
				if shared || p == "out" {
					return 1, nil
				}
				return 2, nil
			},
		}
	}
	w := Writes{Output: "out", Temp: "tmp", Attempts: 16, Workers: 2, Attempt: 10 * mib, Usual: 64 << 10, Spool: 5 * mib}
	for name, c := range map[string]struct {
		d         disks
		room, pre bool
	}{
		"enough":            {made(100*mib, 100*mib, false), true, true},
		"exactly":           {made(21*mib, 10*mib, false), true, true},
		"for now":           {made(20*mib, 10*mib, false), true, false},
		"a full output":     {made(20*mib-1, 100*mib, false), false, false},
		"a full temp":       {made(100*mib, 10*mib-1, false), false, false},
		"one disk":          {made(31*mib, 31*mib, true), true, true},
		"one disk, for one": {made(21*mib, 21*mib, true), false, false},
		"it cannot be measured": {disks{free: func(string) (int64, error) { return 0, errors.New("no") },
			device: func(string) (uint64, error) { return 1, nil }}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := w.room(c.d); (err == nil) != c.room {
				t.Errorf("room: %v", err)
			}
			line, err := w.preflight(c.d)
			if (err == nil) != c.pre || (line != "") != c.pre || strings.Contains(line, "\n") {
				t.Errorf("preflight: %q, %v", line, err)
			}
		})
	}
	if line, _ := w.preflight(made(100*mib, 100*mib, false)); !strings.Contains(line, "before the disk is full") {
		t.Errorf("what may not fit is not said: %q", line)
	}
	if err := w.room(made(0, 0, false)); !errors.Is(err, ErrFull) {
		t.Errorf("got %v", err)
	}
	w.Usual = mib // as much as the line names beside that
	if line, err := w.preflight(made(36*mib, 100*mib, false)); err != nil || !strings.Contains(line, "about 16 MiB to write") {
		t.Errorf("what it usually writes fits: %q, %v", line, err)
	}
	if line, err := w.preflight(made(36*mib-1, 100*mib, false)); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "36 MiB") {
		t.Errorf("what it usually writes does not fit: %q, %v", line, err)
	}
}
