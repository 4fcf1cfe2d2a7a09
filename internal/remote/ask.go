package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/nats-io/nats.go"

	"securebench/internal/attended"
	"securebench/internal/loopback"
	"securebench/internal/pipeline/attempt"
)

// ErrNoRun is wrapped by the error of [Keys.Ask] if no run has this hub at the address.
var ErrNoRun = errors.New("no run with this hub is at the address")

// askTime bounds the wait for an answer of a run, which is asked so many times with a
// pause in between.
const (
	askTime  = 10 * time.Second
	tries    = 5
	tryAgain = 100 * time.Millisecond
)

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
	b, err := attempt.Encode(q)
	if err != nil {
		return s, err
	}
	ctx, stop := context.WithTimeout(ctx, askTime)
	defer stop()
	o := []nats.Option{nats.Nkey(public, c.Sign), nats.Secure(tls), nats.CustomInboxPrefix(Inbox(c.Name)), nats.NoReconnect(), nats.Timeout(askTime)}
	var answer []byte
	for range tries { // a hub that reads a new invitation ends connections that are just being made
		if answer, err = askOnce(ctx, addr, b, o); err == nil {
			return s, attempt.Decode(answer, &s)
		}
		if attended.Pause(ctx, tryAgain) != nil {
			break
		}
	}
	return s, fmt.Errorf("%w %s: %w", ErrNoRun, addr, err)
}

// askOnce sends one question.
func askOnce(ctx context.Context, addr string, question []byte, o []nats.Option) ([]byte, error) {
	conn, err := nats.Connect("nats://"+addr, o...)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	defer conn.Close()
	m, err := conn.RequestWithContext(ctx, OperatorSubject, question)
	if err != nil {
		return nil, fmt.Errorf("asking: %w", err)
	}
	return m.Data, nil
}

// Question is what the operator asks or orders.
type Question struct {
	// Drain is the name of a credential whose workers are to leave, or that of one worker,
	// or "".
	Drain string `json:"drain,omitzero"`
}

// Status is how a run with a hub is. It can be encoded, and has no value of a task.
type Status struct {
	RunID   string         `json:"run_id"`
	Workers []WorkerStatus `json:"workers"`
	// Jobs are those that workers have, the oldest first.
	Jobs    []JobStatus `json:"jobs"`
	Queues  []Queue     `json:"queues"`
	Refused []Refusal   `json:"refused"`
	// Drained are the workers that were told to leave by this question.
	Drained []string `json:"drained,omitzero"`
	// WorkersLeftOut and JobsLeftOut count what is not listed.
	WorkersLeftOut int `json:"workers_left_out,omitzero"`
	JobsLeftOut    int `json:"jobs_left_out,omitzero"`
}

// Condition says what a worker is doing.
type Condition string

// The conditions of a worker that has not left.
const (
	Busy     Condition = "busy"
	Idle     Condition = "idle"
	Draining Condition = "draining" // takes no more jobs, and leaves when it has none
	Silent   Condition = "silent"   // has not answered for a lease
)

// WorkerStatus is how a worker is.
type WorkerStatus struct {
	Worker string    `json:"worker"` // its name and instance
	Roles  []Role    `json:"roles"`
	State  Condition `json:"state"`
	Jobs   int       `json:"jobs"`
	Oldest int64     `json:"oldest_ms"` // age of its oldest job
	Given  int       `json:"given"`     // jobs, until now
	Seen   int64     `json:"seen_ms"`   // since it was last heard of
}

// JobStatus is a job that a worker has.
type JobStatus struct {
	TaskID  string `json:"task_id"`
	Attempt int    `json:"attempt"`
	Role    Role   `json:"role"`
	Worker  string `json:"worker"`
	Age     int64  `json:"age_ms"`
	// Straggler is set if the job has taken several times as long as most.
	Straggler bool `json:"straggler"`
}

// Queue is what waits for workers with a role.
type Queue struct {
	Role    Role  `json:"role"`
	Queued  int   `json:"queued"`
	Oldest  int64 `json:"oldest_ms"`
	Ended   int   `json:"ended"`      // jobs, until now
	Typical int64 `json:"typical_ms"` // how long they took, the median of the last ones
	// Nobody says why nobody can take what is queued, "" if somebody can.
	Nobody string `json:"nobody"`
}

// Refusal is a worker that the hub did not let in, by the name of its credential.
type Refusal struct {
	Name  string `json:"name"`
	Why   string `json:"why"` // the last time
	Times int    `json:"times"`
}

// CheckLoopback returns an error unless an address is one of this machine that no other
// reaches.
func CheckLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || !loopback.IsHost(host) {
		return fmt.Errorf("metrics are for this machine only, and %q is no address of it: write 127.0.0.1:PORT", addr)
	}
	return nil
}
