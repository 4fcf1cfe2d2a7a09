// Package progress tells the operator what a run is doing: events, and
// renderers that show them on a terminal, as plain lines or as JSON.
//
// Event fields hold text that agents, candidates and packs chose. A renderer
// shows such text inside a frame that it cannot leave: controls are escaped, a
// line stays one line, and on a terminal it wraps under an indentation, so
// nothing an agent prints can look like an event.
package progress

import "fmt"

// Reporter takes events. It is safe for concurrent use and never blocks for
// longer than a write.
type Reporter interface {
	Event(Event)
}

// Mode is how events are shown.
type Mode string

// The modes. Auto is a status line and plain lines on a terminal, and plain
// lines elsewhere.
const (
	Auto  Mode = "auto"
	Plain Mode = "plain"
	JSON  Mode = "json"
	None  Mode = "none"
)

// ParseMode reads a mode as the command line gives it.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case Auto, Plain, JSON, None:
		return m, nil
	}
	return "", fmt.Errorf("unknown progress mode %q: want auto, plain, json or none", s)
}
