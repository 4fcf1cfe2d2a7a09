package egress

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"securebench/internal/gateway/ledger"
)

// refusal is why a request is not served.
type refusal struct {
	status int
	reason string // the ledger's word
	text   string // what the agent is told
	failed bool   // the request was allowed, but could not be carried out
}

// Error makes a refusal an error, for readers that hand it through a library.
func (r *refusal) Error() string { return r.text }

func malformed(format string, args ...any) *refusal {
	return &refusal{status: http.StatusBadRequest, reason: "malformed", text: fmt.Sprintf(format, args...)}
}

func tooLarge(text string) *refusal {
	return &refusal{status: http.StatusRequestHeaderFieldsTooLarge, reason: "too_large", text: text}
}

func denied(reason, text string) *refusal {
	return &refusal{status: http.StatusForbidden, reason: reason, text: text}
}

func failed(reason, text string) *refusal {
	return &refusal{status: http.StatusBadGateway, reason: reason, text: text, failed: true}
}

// refuse answers and ends the connection: after a request that was not
// understood or not read whole, the next one's beginning is unknown.
func (s *session) refuse(e *ledger.Entry, r *refusal) bool {
	if s.answer(e, r) == nil {
		s.linger(nil)
	}
	return false
}

func (s *session) answer(e *ledger.Entry, r *refusal) error {
	e.Allowed, e.Reason, e.Status = r.failed, r.reason, r.status
	body := "securebench: " + r.text + "\n"
	_, err := fmt.Fprintf(s.conn, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		r.status, http.StatusText(r.status), len(body), body)
	return err
}

// How long and for how many bytes the proxy reads on after its last answer.
const (
	lingerTime  = 2 * time.Second
	lingerBytes = 256 << 10
)

// linger reads on for a moment, so that what the agent still sends does not
// reset the connection before it has read the answer. A body that is not at its
// end is taken from the library first.
func (s *session) linger(b *body) {
	w, ok := s.conn.(closeWriter)
	if !ok || w.CloseWrite() != nil || s.conn.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	if b != nil {
		b.abandon()
	}
	io.CopyN(io.Discard, s.r, lingerBytes) //nolint:errcheck // whatever ends it, the connection is closed next
}

// closeWriter is a connection that can be closed in one direction.
type closeWriter interface{ CloseWrite() error }

// closeWrite ends one direction, or both if the connection knows no directions.
func closeWrite(c net.Conn) {
	if w, ok := c.(closeWriter); !ok || w.CloseWrite() != nil {
		c.Close()
	}
}
