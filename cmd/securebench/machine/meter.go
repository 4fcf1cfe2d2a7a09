package machine

import (
	"fmt"
	"io"
	"os"
	"time"

	"securebench/internal/capacity"
	"securebench/internal/sandbox/imagestore"
)

// meter shows how far an addition is: on a terminal as one line that changes, else
// as one line for each layer.
type meter struct {
	out   io.Writer
	live  bool
	layer int // that was shown last
	last  time.Time
}

func newMeter(out io.Writer) *meter {
	m := &meter{out: out}
	if s, ok := out.(interface{ Columns() int }); ok {
		m.live = s.Columns() > 0 && os.Getenv("TERM") != "dumb"
	}
	return m
}

// often is how often a line on a terminal changes.
const often = 100 * time.Millisecond

func (m *meter) show(p imagestore.Progress) {
	fresh := p.Layer != m.layer
	m.layer = p.Layer
	switch {
	case !m.live && fresh:
		fmt.Fprintf(m.out, "securebench: %s\n", lineOf(p, false))
	case m.live && (fresh || time.Since(m.last) >= often):
		m.last = time.Now()
		fmt.Fprintf(m.out, "\r\x1b[Ksecurebench: %s", lineOf(p, true))
	}
}

// lineOf describes a layer; far says how much of it has been unpacked as well.
func lineOf(p imagestore.Progress, far bool) string {
	text := fmt.Sprintf("layer %d of %d", p.Layer, p.Layers)
	switch {
	case p.Shared:
		return text + ": there already"
	case far && p.Total > 0:
		return fmt.Sprintf("%s: %s of %s", text, capacity.Bytes(p.Done), capacity.Bytes(p.Total))
	case far:
		return text + ": " + capacity.Bytes(p.Done)
	case p.Total > 0:
		return text + ": " + capacity.Bytes(p.Total)
	}
	return text
}

// end removes the line from a terminal.
func (m *meter) end() {
	if m.live && m.layer > 0 {
		fmt.Fprint(m.out, "\r\x1b[K")
	}
}
