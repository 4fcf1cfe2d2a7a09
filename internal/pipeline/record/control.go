package record

import (
	"fmt"
	"io/fs"
)

// ControlName is the socket of a run in progress, at which it takes orders.
const ControlName = RestrictedName + "/control.sock"

// IsControl reports whether a file of a run, by its name and type, is that socket. A run that
// was killed leaves it behind.
func IsControl(name string, is fs.FileMode) bool {
	return name == ControlName && is == fs.ModeSocket
}

// Steered is a change of a run while it went on.
type Steered struct {
	At  string `json:"at"`  // RFC 3339, UTC
	Act string `json:"act"` // pause, resume, drain, stop or workers
	// Workers is how many attempts are made at the same time since then, for workers.
	Workers int `json:"workers,omitzero"`
}

// MaxSteered bounds the changes of a run.
const MaxSteered = 10_000

// steered rejects changes that no run can have.
func (m Manifest) steered() error {
	if len(m.Steered) > MaxSteered {
		return fmt.Errorf("it was changed %d times while it went on", len(m.Steered))
	}
	return nil
}
