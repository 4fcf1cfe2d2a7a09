// Package progress shows the operator what a run is doing: events, and a renderer
// that shows them on a terminal, as plain lines or as JSON.
//
// Event fields can hold text chosen by agents, candidates and packs. A renderer
// escapes controls, keeps such text on one line, and on a terminal wraps it with
// an indentation, so that nothing an agent prints can look like an event.
package progress

import "fmt"

// Reporter receives events. It is safe for concurrent use and blocks no longer
// than a write.
type Reporter interface {
	// Event reports an event.
	Event(Event)
}

// Mode is how events are shown.
type Mode string

// The modes. Auto is plain lines, with a status line on a terminal.
const (
	Auto  Mode = "auto"
	Plain Mode = "plain"
	JSON  Mode = "json"
	None  Mode = "none"
)

// ParseMode parses the value of --progress.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case Auto, Plain, JSON, None:
		return m, nil
	}
	return "", fmt.Errorf("unknown progress mode %q: want auto, plain, json or none", s)
}
