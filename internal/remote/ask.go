package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"securebench/internal/pipeline/attempt"
)

// ErrNoRun is wrapped by the error of [Keys.Ask] if no run has this hub at the address.
var ErrNoRun = errors.New("no run with this hub is at the address")

// askTime bounds the wait for an answer of a run.
const askTime = 10 * time.Second

// Ask asks the run at an address how it is.
func (k Keys) Ask(ctx context.Context, addr string, q Question) (s Status, err error) {
	c, err := k.Operator()
	if err != nil {
		return s, err
	}
	tls, err := c.Client()
	if err != nil {
		return s, err
	}
	public, err := c.Public()
	if err != nil {
		return s, err
	}
	conn, err := nats.Connect("nats://"+addr, nats.Nkey(public, c.Sign), nats.Secure(tls), nats.CustomInboxPrefix(Inbox(c.Name)), nats.NoReconnect(), nats.Timeout(askTime))
	if err != nil {
		return s, fmt.Errorf("%w %s: %w", ErrNoRun, addr, err)
	}
	defer conn.Close()
	b, err := attempt.Encode(q)
	if err != nil {
		return s, err
	}
	ctx, stop := context.WithTimeout(ctx, askTime)
	defer stop()
	m, err := conn.RequestWithContext(ctx, OperatorSubject, b)
	if err != nil {
		return s, fmt.Errorf("%w %s: %w", ErrNoRun, addr, err)
	}
	return s, attempt.Decode(m.Data, &s)
}
