package relay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"securebench/internal/attended"
	"securebench/internal/gateway/upstream"
)

// rejected ends the attempt because the provider rejects the key or the model,
// and the run too if a request of the relay's own is rejected as well: what an
// agent sends cannot end a run.
func (a *Attempt) rejected(ctx context.Context, x *exchange, status int, code string) *refusal {
	seen := time.Now()
	r := a.relay
	r.asking <- struct{}{}
	defer func() { <-r.asking }()
	if err := a.Err(); err != nil { // by another request, for which it was asked
		return a.ended(err)
	}
	err := r.confirm(a.ownContext(ctx), x.dialect, x.Model, seen)
	switch {
	case errors.Is(err, errUnconfirmed):
		err = fmt.Errorf("the provider rejected a request with the status %d, and %w", status, err)
	case err == nil && code == upstream.NoCredit:
		err = fmt.Errorf("%w for lack of credit, though it accepts others", ErrRefused)
	case err == nil:
		err = fmt.Errorf("%w with the status %d, though the key and the model are accepted", ErrRefused, status)
	}
	return a.fail(err)
}

// ownContext returns the context of the relay's own requests, which go on when
// the agent leaves.
func (a *Attempt) ownContext(ctx context.Context) context.Context {
	if a.life != nil {
		return a.life
	}
	return context.WithoutCancel(ctx)
}

// errUnconfirmed: it is not known whether the provider accepts the configuration.
var errUnconfirmed = errors.New("could not be asked whether it accepts the key and the model")

// How long the relay asks whether the provider accepts the configuration, and
// how often.
const (
	confirmTimeout = time.Minute
	confirmTries   = 4
)

// confirm asks the provider for a few tokens in a dialect, unless one of these requests went
// through since a time. The error wraps [ErrRejected] if it is rejected, and
// [errUnconfirmed] if there is no answer to that. It is nil if it is accepted.
// The caller has r.asking, so that many requests of agents that fail at once are
// worth one.
func (r *Relay) confirm(ctx context.Context, d *dialect, model string, since time.Time) error {
	if r.rejected != nil || r.confirmed[d.api].After(since) {
		return r.rejected
	}
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	for try := range confirmTries {
		if try > 0 && attended.Pause(ctx, time.Second<<try) != nil {
			break
		}
		began := time.Now()
		status, said, err := r.ask(ctx, d, model)
		code := upstream.Code(said)
		switch {
		case err != nil || upstream.Temporary(status) && code != upstream.NoCredit:
			continue
		case upstream.Rejects(status, code):
			r.rejected = fmt.Errorf("%w: %s (status %d)%s", ErrRejected, upstream.Complaint(status, code, model), status, r.endpoints[d.api].Quote(said))
		default:
			r.confirmed[d.api] = began
		}
		return r.rejected
	}
	return errUnconfirmed
}

// ask makes a request of the relay's own. said is the body of an error.
func (r *Relay) ask(ctx context.Context, d *dialect, model string) (status int, said []byte, err error) {
	path, body := d.probe(model)
	text, err := json.Marshal(body, json.Deterministic(true))
	if err != nil {
		return 0, nil, err
	}
	header := http.Header{"Content-Type": {"application/json"}, "Accept-Encoding": {"identity"}}
	r.endpoints[d.api].Sign(header)
	response, err := r.post(ctx, r.endpoints[d.api].URL(path, ""), text, header)
	if err != nil {
		return 0, nil, err
	}
	if response.StatusCode < http.StatusBadRequest {
		return response.StatusCode, nil, response.Body.Close()
	}
	return response.StatusCode, readError(response), nil
}
