// Package ledger records what a gateway decided about an agent's requests: one
// line of JSON for each, bounded in number and length, and counts of all.
package ledger

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/redact"
)

// Gate names what decided.
type Gate string

// The gates.
const (
	Proxy Gate = "proxy"
	Relay Gate = "relay"
)

// The bounds of a ledger. An agent chooses how many requests it makes and how
// long their targets are.
const (
	maxLines = 10_000
	maxBytes = 4 << 20
	maxText  = 512 // of each text of an entry, before it is escaped
)

// Entry is one decision.
type Entry struct {
	Gate    Gate   `json:"gate"`
	Method  string `json:"method"`
	Target  string `json:"target"` // host and port, or a path without its query
	Allowed bool   `json:"allowed"`
	// Reason says why a request was denied or failed, in a word of the package that
	// decided.
	Reason  string `json:"reason,omitzero"`
	Address string `json:"address,omitzero"` // that was dialled
	Status  int    `json:"status,omitzero"`  // that the agent got
	// Sent and Received count the bytes that went to the other side and came from it.
	Sent     int64         `json:"sent,omitzero"`
	Received int64         `json:"received,omitzero"`
	Began    time.Time     `json:"began"`
	Took     time.Duration `json:"-"` // written as took_ns
}

// Ledger is the ledger of one attempt. It is safe for concurrent use; its zero
// value is ready.
type Ledger struct {
	mu      sync.Mutex
	text    []byte
	lines   int
	leftOut int64
	counts  map[string]int64
}

// Add adds an entry. Entries beyond the ledger's bounds are counted only.
func (l *Ledger) Add(e Entry) {
	verdict := "_denied"
	if e.Allowed {
		verdict = "_allowed"
	}
	e.Gate = Gate(short(string(e.Gate)))

	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts == nil {
		l.counts = map[string]int64{}
	}
	l.counts[string(e.Gate)+verdict]++
	if l.leftOut > 0 || l.lines >= maxLines || !l.write(e) {
		l.leftOut++ // and all later ones, so that the lines are the first requests
	}
}

// write adds an entry's line if it fits.
func (l *Ledger) write(e Entry) bool {
	e.Method, e.Target = short(e.Method), short(e.Target)
	e.Reason, e.Address = short(e.Reason), short(e.Address)
	e.Began = e.Began.UTC()
	text, err := line(struct {
		Entry
		Nanoseconds int64 `json:"took_ns"` // the library has no default form of a duration
	}{e, e.Took.Nanoseconds()})
	if err != nil || len(l.text)+len(text) > maxBytes {
		return false
	}
	l.lines++
	l.text = append(l.text, text...)
	return true
}

// Lines returns the ledger as lines of JSON, with a last line that says how
// many entries were left out, if any. Text is ASCII and escaped once.
func (l *Ledger) Lines() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := append([]byte(nil), l.text...)
	if l.leftOut == 0 {
		return out
	}
	last, err := line(struct {
		LeftOut int64 `json:"left_out"`
	}{l.leftOut})
	if err != nil {
		return out // a number can always be encoded
	}
	return append(out, last...)
}

// Counts returns how many requests were allowed and denied, by gate:
// "proxy_allowed", "proxy_denied", "relay_allowed", "relay_denied"; gates
// without requests are absent.
func (l *Ledger) Counts() map[string]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.counts)
}

// line encodes a value as one line. JSON escapes line breaks and control
// characters, so no text of an agent's can begin a line of its own.
func line(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	return append(redact.ASCII(text), '\n'), err
}

// short makes text valid UTF-8 and bounds it.
func short(s string) string {
	if len(s) > maxText {
		return strings.ToValidUTF8(s[:maxText], "\ufffd") + "..."
	}
	return strings.ToValidUTF8(s, "\ufffd")
}
