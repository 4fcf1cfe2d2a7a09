package relay

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"securebench/internal/gateway/pace"
	"securebench/internal/gateway/relay/wire"
	"securebench/internal/gateway/upstream"
)

// maxError bounds what is read of a provider's error.
const maxError = 64 << 10

// send sends a request until the provider answers with something other than
// "later", and holds the agent while it waits. No byte of a response has reached
// the agent then, so it does not notice. The request is under way, for the pace, until the
// response is closed.
func (a *Attempt) send(ctx context.Context, x *exchange, req wire.Request, header http.Header) (*http.Response, *refusal) {
	p := &patience{attempt: a, x: x}
	defer func() { p.hold.end() }()
	for wait := a.place.Left(); ; {
		turn, err := p.turn(ctx, wait)
		if err != nil {
			return nil, a.giveUp(ctx, x, err)
		}
		x.Tries++
		response, err := a.relay.post(ctx, a.relay.endpoints[x.dialect.api].URL(x.target, x.query), req.Body, header)
		if err != nil {
			met, refused := a.unanswered(ctx, p, req, err)
			if refused != nil {
				turn.End()
				return nil, refused
			}
			wait = turn.Failed(met)
			continue
		}
		x.ProviderStatus, x.sent = response.StatusCode, int64(len(req.Body))
		if !upstream.Temporary(response.StatusCode) {
			turn.Answered()
			response.Body = &underWay{response.Body, turn}
			return response, nil
		}
		body := readError(response)
		met, refused := a.later(ctx, p, response, body)
		switch {
		case refused != nil:
			turn.End()
			return nil, refused
		case upstream.Code(body) == upstream.TooMuch: // which no patience helps
			turn.End()
			response.Body = io.NopCloser(bytes.NewReader(body))
			return response, nil
		}
		wait = turn.Failed(met)
	}
}

// unanswered says what it means that there is no response.
func (a *Attempt) unanswered(ctx context.Context, p *patience, req wire.Request, err error) (met pace.Failure, refused *refusal) {
	var broken *tls.CertificateVerificationError
	switch x := p.x; {
	case ctx.Err() != nil:
		x.usage.Input = wire.Guess(int64(len(req.Body))) // the provider may have begun
		return met, a.giveUp(ctx, x, ctx.Err())
	case errors.As(err, &broken):
		return met, a.fail(errors.New("the provider's certificate is not valid"))
	case p.last:
		return met, a.fail(fmt.Errorf("%w: it closes the connection, though it answers others", ErrRefused))
	}
	p.x.ProviderStatus = 0
	p.failed(ctx)
	a.relay.tellWaiting(p.x.Tries, 0, err)
	return pace.Failure{Before: p.x.Tries - 1}, nil
}

// later says what a response means with which the provider asks for patience, or fails.
func (a *Attempt) later(ctx context.Context, p *patience, response *http.Response, body []byte) (met pace.Failure, refused *refusal) {
	status := response.StatusCode
	met = pace.Failure{Overloaded: upstream.Overloaded(status), Before: p.x.Tries - 1,
		Asked: cmp.Or(upstream.RetryAfter(response.Header, MaxHold), upstream.RetryDelay(body, MaxHold))}
	switch code := upstream.Code(body); {
	case code == upstream.NoCredit:
		return met, a.rejected(ctx, p.x, status, code)
	case code == upstream.TooMuch:
		return met, nil
	case p.last:
		return met, a.fail(fmt.Errorf("%w with the status %d, again and again, though it answers others", ErrRefused, status))
	}
	if met.Overloaded {
		p.fails = 0 // a provider under load fails at whatever it is asked
	} else {
		p.failed(ctx)
	}
	a.relay.tellWaiting(p.x.Tries, status, nil)
	return met, nil
}

// underWay is the body of a response, with which a request ends.
type underWay struct {
	io.ReadCloser
	turn *pace.Request
}

// Close ends the request.
func (b *underWay) Close() error {
	b.turn.End()
	return b.ReadCloser.Close()
}

// sendSpared sends a request, and sends it once more without what the relay has added to
// it if the provider refuses that.
func (a *Attempt) sendSpared(ctx context.Context, x *exchange, req wire.Request, header http.Header) (*http.Response, *refusal) {
	if !req.Hidden {
		return a.send(ctx, x, req, header)
	}
	plain := req
	plain.Body = req.Plain()
	if a.relay.spare.Load() {
		return a.send(ctx, x, plain, header)
	}
	response, refused := a.send(ctx, x, req, header)
	if refused != nil || response.StatusCode != http.StatusBadRequest && response.StatusCode != http.StatusUnprocessableEntity {
		return response, refused
	}
	body := readError(response)
	if !bytes.Contains(body, []byte("stream_options")) {
		response.Body = io.NopCloser(bytes.NewReader(body))
		return response, nil
	}
	if response, refused = a.send(ctx, x, plain, header); refused == nil && response.StatusCode == http.StatusOK {
		a.relay.spare.Store(true)
	}
	return response, refused
}

// patience is a request's waits for the provider.
type patience struct {
	attempt *Attempt
	x       *exchange
	hold    *held // nil before the first
	began   time.Time
	fails   int  // tries in a row that failed in a way that says nothing about load
	last    bool // the next try is the last
}

// maxFails is how often a provider fails at a request before the relay asks whether it
// fails at others.
const maxFails = 4

// failed notes a failure that says nothing about load. At the fourth the relay asks: if
// the provider answers others, one more try is the last, and the request is held no
// longer.
func (p *patience) failed(ctx context.Context) {
	if p.fails++; p.fails == maxFails && p.attempt.onlyThis(ctx, p.x) {
		p.last = true
	}
}

// turn waits until the request may be sent, which is not before a time has passed.
func (p *patience) turn(ctx context.Context, wait time.Duration) (*pace.Request, error) {
	place := p.attempt.place
	for pauses := 1; wait > 0; pauses++ {
		if err := p.wait(ctx, wait); err != nil {
			return nil, err
		}
		// Another request may have failed meanwhile. But those that fail all the
		// time must not keep this one from ever being tried.
		if wait = place.Left(); pauses%3 == 0 || p.last {
			break
		}
	}
	return place.Take(ctx, func(ctx context.Context) (func(), error) {
		release, err := p.attempt.holdTurn(ctx)
		if err != nil {
			return nil, err
		}
		p.begin()
		return func() {
			release()
			p.x.Waited = time.Since(p.began).Nanoseconds()
		}, nil
	})
}

// begin notes when the first wait began.
func (p *patience) begin() {
	if p.began.IsZero() {
		p.began = time.Now()
	}
}

// wait holds the agent and waits. If the attempt has waited enough, and the
// provider fails only at this request, there is one more try.
func (p *patience) wait(ctx context.Context, d time.Duration) (err error) {
	if p.hold == nil {
		if p.hold, err = p.attempt.holdAgent(ctx); err != nil {
			return err
		}
		p.begin()
	}
	err = p.attempt.sleep(ctx, d)
	p.x.Waited = time.Since(p.began).Nanoseconds()
	if errors.Is(err, ErrWaited) && !p.last && p.attempt.onlyThis(ctx, p.x) {
		p.last, err = true, nil
	}
	return err
}

// onlyThis reports whether the provider fails at this request and not at one of
// the relay's own, so that an agent could have brought it about. Where the
// provider has too much to do, small requests pass where large ones do not.
func (a *Attempt) onlyThis(ctx context.Context, x *exchange) bool {
	if ctx.Err() != nil || upstream.Overloaded(x.ProviderStatus) {
		return false
	}
	r := a.relay
	r.asking <- struct{}{}
	defer func() { <-r.asking }()
	return r.confirm(a.ownContext(ctx), x.dialect, x.Model, time.Now()) == nil
}

// giveUp returns the refusal of a request that waits no longer.
func (a *Attempt) giveUp(ctx context.Context, x *exchange, err error) *refusal {
	switch {
	case ctx.Err() != nil:
		return refuse(agentLeft, "the agent has left")
	case errors.Is(err, ErrWaited) && x.ProviderStatus != 0:
		return a.fail(fmt.Errorf("%w; its last answer had the status %d", err, x.ProviderStatus))
	}
	return a.fail(err)
}

// post sends a request once, without following a redirect.
func (r *Relay) post(ctx context.Context, address string, body []byte, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = header.Clone() // which a transport may keep
	return r.transport.RoundTrip(req)
}

// readError reads an error of the provider's and ends the response. It returns
// nothing if that is compressed or too long.
func readError(response *http.Response) []byte {
	defer response.Body.Close()
	if response.Header.Get("Content-Encoding") != "" {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxError+1))
	if err != nil || len(body) > maxError {
		return nil
	}
	return body
}
