package relay

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// The operator is told of a wait after some tries, and not too often.
const (
	noticeTries = 3
	noticeEvery = 5 * time.Minute
)

// notice remembers when the operator was last told that agents wait.
type notice struct {
	mu   sync.Mutex
	last time.Time
}

// tellWaiting tells the operator why agents wait: a host that does not exist is
// as silent as one that is busy. The words of errors are not passed on.
func (r *Relay) tellWaiting(tries, status int, err error) {
	missing, ok := errors.AsType[*net.DNSError](err)
	unknown := ok && missing.IsNotFound
	if r.cfg.Notice == nil || tries < noticeTries && !unknown {
		return
	}
	r.notice.mu.Lock()
	due := r.notice.last.IsZero() || time.Since(r.notice.last) >= noticeEvery
	if due {
		r.notice.last = time.Now()
	}
	r.notice.mu.Unlock()
	if !due {
		return
	}
	host := "the provider at " + r.endpoints[r.cfg.API].String()
	why := "cannot be reached"
	switch {
	case unknown:
		why = "cannot be reached: there is no host of this name"
	case err == nil:
		why = fmt.Sprintf("answers with the status %d", status)
	}
	r.cfg.Notice(fmt.Sprintf("%s %s; agents wait, each for at most %v", host, why, MaxHold))
}
